package org.apache.spark.sql.lakemend

import lakemend.catalog.{LakeCatalog, LakeTable, StatementCatalog}
import org.apache.spark.sql.catalyst.analysis.ResolvedTable
import org.apache.spark.sql.catalyst.plans.logical.{AlterTableCommand, LogicalPlan}
import org.apache.spark.sql.catalyst.rules.Rule

/** ALTER TABLE changes the table that it was analyzed with. Spark hands on the name alone: the catalog keeps the rest. */
object AlterSameTable extends Rule[LogicalPlan] {
  override def apply(plan: LogicalPlan): LogicalPlan = plan.resolveOperators {
    case alter: AlterTableCommand => alter.table match {
      case r @ ResolvedTable(catalog: LakeCatalog, _, table: LakeTable, _)
          if catalog.pinnedId.isEmpty && !catalog.isInstanceOf[StatementCatalog] =>
        alter.withNewChildren(Seq(r.copy(catalog = catalog.altering(table.meta.tableId))))
      case _ => alter
    }
  }
}
