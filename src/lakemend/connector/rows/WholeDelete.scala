package org.apache.spark.sql.lakemend

import lakemend.catalog.LakeTable
import org.apache.spark.sql.catalyst.expressions.Literal
import org.apache.spark.sql.catalyst.plans.logical.{DeleteFromTable, LogicalPlan, Project}
import org.apache.spark.sql.catalyst.rules.Rule
import org.apache.spark.sql.execution.datasources.v2.DataSourceV2Relation

/** A DELETE of every row names its table and nothing else. Where the table has CHAR columns Spark puts the padding of
  * what is read over it, and then finds no table to delete from. */
object WholeDelete extends Rule[LogicalPlan] {
  override def apply(plan: LogicalPlan): LogicalPlan = plan.resolveOperators {
    case delete @ DeleteFromTable(table, Literal.TrueLiteral) if table.exists(_.isInstanceOf[Project]) =>
      table.collectFirst { case r: DataSourceV2Relation if r.table.isInstanceOf[LakeTable] => r }
        .fold(delete)(relation => delete.copy(table = relation))
  }
}
