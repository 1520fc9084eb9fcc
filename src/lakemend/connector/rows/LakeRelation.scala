package org.apache.spark.sql.lakemend

import lakemend.catalog.LakeTable
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan
import org.apache.spark.sql.connector.write.RowLevelOperationTable
import org.apache.spark.sql.execution.datasources.v2.DataSourceV2Relation

/** A relation of one of our tables, as a query reads it or a statement writes it or changes its rows. */
object LakeRelation {
  def unapply(plan: LogicalPlan): Option[(DataSourceV2Relation, LakeTable)] = plan match {
    case r: DataSourceV2Relation => r.table match {
      case table: LakeTable => Some((r, table))
      case RowLevelOperationTable(table: LakeTable, _) => Some((r, table))
      case _ => None
    }
    case _ => None
  }

  def table(plan: LogicalPlan): Option[LakeTable] = unapply(plan).map(_._2)
}
