package org.apache.spark.sql.lakemend

import java.util.{Map => JMap}

import scala.jdk.CollectionConverters._

import lakemend.LakemendException
import lakemend.catalog.{LakeCatalog, LakeTable, PathTables}
import org.apache.spark.sql.catalyst.analysis.{ResolvedIdentifier, UnresolvedRelation}
import org.apache.spark.sql.catalyst.expressions.Literal
import org.apache.spark.sql.catalyst.plans.logical._
import org.apache.spark.sql.catalyst.rules.Rule
import org.apache.spark.sql.connector.catalog.{Identifier, SupportsV1OverwriteWithSaveAsTable, TableWritePrivilege}
import org.apache.spark.sql.connector.expressions.Transform
import org.apache.spark.sql.internal.SQLConf
import org.apache.spark.sql.util.CaseInsensitiveStringMap

/**
 * `df.write.mode("overwrite").saveAsTable(name)` on a table that is there replaces its rows, as `save(path)` does: its columns,
 * partitioning, constraints and properties stay. Spark plans it like CREATE OR REPLACE TABLE; that is what it remains with
 * the option `overwriteSchema`, and where there is no table yet.
 */
object SaveAsTable extends Rule[LogicalPlan] {
  override def apply(plan: LogicalPlan): LogicalPlan = plan.resolveOperators {
    case r @ ReplaceTableAsSelect(ResolvedIdentifier(catalog: LakeCatalog, ident), partitioning, query, spec, written, true, false)
        if query.resolved && (isSaveAsTable(written) || namesNoFormat(r)) =>
      val options = written.filterNot(_._1.equalsIgnoreCase(SupportsV1OverwriteWithSaveAsTable.OPTION_NAME))
      val asked = new CaseInsensitiveStringMap(options.asJava)
      val whole = asked.getBoolean("overwriteSchema", false) || asked.containsKey("replaceWhere")
      if (whole || !catalog.tableExists(ident) || spec.location.exists(!liesAt(catalog, ident, _))) r.copy(writeOptions = options)
      else {
        requirePartitioning(catalog, ident, partitioning)
        val table = UnresolvedRelation(catalog.name +: ident.namespace.toSeq :+ ident.name, CaseInsensitiveStringMap.empty, false)
          .requireWritePrivileges(Set(TableWritePrivilege.INSERT, TableWritePrivilege.DELETE))
        val evolution = asked.getBoolean("mergeSchema", false)
        if ("dynamic".equalsIgnoreCase(asked.get("partitionOverwriteMode")))
          OverwritePartitionsDynamic.byName(table, query, options, evolution)
        else OverwriteByExpression.byName(table, query, Literal.TrueLiteral, options, evolution)
      }
  }

  private def isSaveAsTable(options: Map[String, String]): Boolean =
    options.exists { case (key, value) => key.equalsIgnoreCase(SupportsV1OverwriteWithSaveAsTable.OPTION_NAME) && value == "true" }

  /** Without a format Spark's writer names the session's default one, which says nothing of itself; no statement of SQL does. */
  private def namesNoFormat(r: ReplaceTableAsSelect): Boolean =
    !r.tableSpec.properties.contains(NamedFormat.Property) && r.tableSpec.provider.exists(_.equalsIgnoreCase(SQLConf.get.defaultDataSourceName))

  /** Spark passes the option `path` as the table's location; the brain refuses to move a table. */
  private def liesAt(catalog: LakeCatalog, ident: Identifier, location: String): Boolean = PathTables.exists(location) &&
    PathTables.load(new CaseInsensitiveStringMap(JMap.of("path", location))).key ==
      catalog.loadTable(ident).asInstanceOf[LakeTable].meta.key

  private def requirePartitioning(catalog: LakeCatalog, ident: Identifier, asked: Seq[Transform]): Unit = if (asked.nonEmpty) {
    val actual = catalog.loadTable(ident).asInstanceOf[LakeTable].partitioning.toSeq.map(_.describe)
    val wanted = asked.map(_.describe)
    if (actual.map(_.toLowerCase) != wanted.map(_.toLowerCase)) throw LakemendException.mismatch(
      s"partitionBy does not fit the table ${ident.name}",
      s"partitionBy says (${wanted.mkString(", ")}), the table is partitioned by (${actual.mkString(", ")})",
      "leave partitionBy out, or replace the table with mode(\"overwrite\").option(\"overwriteSchema\", true)")
  }
}
