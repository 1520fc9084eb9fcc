package org.apache.spark.sql.lakemend

import lakemend.catalog.LakeCatalog
import org.apache.spark.sql.SparkSession
import org.apache.spark.sql.catalyst.analysis.UnresolvedIdentifier
import org.apache.spark.sql.catalyst.plans.logical.{LogicalPlan, UnresolvedTableSpec, V2CreateTablePlan}
import org.apache.spark.sql.catalyst.rules.Rule
import org.apache.spark.sql.classic.{SparkSession => ClassicSession}

/**
 * A statement of SQL names a format only where somebody has written one, and the catalog is told. Spark's writers name the
 * session's default source as well where the program names none. It runs before Spark makes plans of which nobody can tell
 * any more whether they were written.
 */
case class NamedFormat(session: SparkSession) extends Rule[LogicalPlan] {
  override def apply(plan: LogicalPlan): LogicalPlan = plan.resolveOperators {
    case create: V2CreateTablePlan if create.origin.sqlText.nonEmpty && isOurs(create.name) => create.transformExpressions {
      case spec: UnresolvedTableSpec if spec.provider.isDefined && !spec.properties.contains(NamedFormat.Property) =>
        spec.copy(properties = spec.properties + (NamedFormat.Property -> spec.provider.get))
    }
  }

  private def isOurs(name: LogicalPlan): Boolean = name match {
    case UnresolvedIdentifier(parts, _) =>
      val catalogs = session.asInstanceOf[ClassicSession].sessionState.catalogManager
      val catalog = if (parts.length > 1 && catalogs.isCatalogRegistered(parts.head)) catalogs.catalog(parts.head) else catalogs.currentCatalog
      catalog.isInstanceOf[LakeCatalog]
    case _ => false
  }
}

object NamedFormat {
  val Property = "lakemend.format"
}
