package org.apache.spark.sql.lakemend

import lakemend.catalog.StatementCatalog
import org.apache.spark.sql.catalyst.plans.logical.{LogicalPlan, V2WriteCommand}
import org.apache.spark.sql.catalyst.rules.Rule
import org.apache.spark.sql.connector.catalog.Table
import org.apache.spark.sql.connector.write.RowLevelOperationTable
import org.apache.spark.sql.execution.datasources.v2.DataSourceV2Relation

/**
 * A statement that adds columns to its target may read it, too, and reads it without them. Before it runs, Spark looks up
 * each table by its name again and refuses one that has changed. What a statement reads is pinned, so it needs no name.
 */
object ReadsBeforeEvolution extends Rule[LogicalPlan] {
  override def apply(plan: LogicalPlan): LogicalPlan = plan.resolveOperators {
    // Conditions of a row change read the source as well.
    case write: V2WriteCommand if write.query.resolved && readsOlder(write) => write.transformWithSubqueries {
      case r: DataSourceV2Relation if isOlder(r) => r.copy(catalog = None, identifier = None)
    }
  }

  private def readsOlder(query: LogicalPlan): Boolean =
    query.collectWithSubqueries { case r: DataSourceV2Relation if isOlder(r) => r }.nonEmpty

  private def isOlder(r: DataSourceV2Relation): Boolean = !isTarget(r.table) && ((r.catalog, r.identifier) match {
    case (Some(catalog: StatementCatalog), Some(ident)) => catalog.hasEvolved(ident)
    case _ => false
  })

  private def isTarget(table: Table): Boolean = table.isInstanceOf[RowLevelOperationTable]
}
