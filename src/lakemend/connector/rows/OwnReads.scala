package lakemend.rows

import lakemend.catalog.LakeTable
import org.apache.spark.sql.SparkSession
import org.apache.spark.sql.catalyst.plans.logical.{LogicalPlan, RowLevelWrite}
import org.apache.spark.sql.execution.datasources.v2.DataSourceV2Relation

/**
 * Tells a row operation whether its statement reads the table for more than the rows it changes: in a subquery, say, or as
 * the source of a MERGE. Rows that were only read matter when another writer takes them away.
 */
case class OwnReads(spark: SparkSession) extends (LogicalPlan => Unit) {
  override def apply(plan: LogicalPlan): Unit = plan.foreach {
    case write: RowLevelWrite => write.operation match {
      case operation: RowOperation => operation.readsMore = reads(plan, operation.location)
      case _ =>
    }
    case _ =>
  }

  // The target itself stands in the plan as the operation's own table.
  private def reads(plan: LogicalPlan, location: String): Boolean =
    plan.collectWithSubqueries { case r: DataSourceV2Relation => r.table }.exists {
      case table: LakeTable => table.meta.location == location
      case _ => false
    }
}
