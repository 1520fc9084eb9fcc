package lakemend.rows

import lakemend.LakemendException
import lakemend.catalog.LakeTable
import org.apache.spark.sql.catalyst.plans.logical.{LogicalPlan, Union, V2WriteCommand}
import org.apache.spark.sql.execution.datasources.v2.DataSourceV2Relation

/**
 * A statement writes to a table once. `FROM … INSERT INTO t … INSERT INTO t …` is a commit for each INSERT: where a later one
 * fails, an earlier one has landed, and to run the statement again would double its rows.
 */
object OneWrite extends (LogicalPlan => Unit) {
  override def apply(plan: LogicalPlan): Unit = plan.foreach {
    case union: Union =>
      val tables = union.children.collect { case write: V2WriteCommand => write.table }
        .collect { case r: DataSourceV2Relation => r.table }.collect { case table: LakeTable => table }
      tables.groupBy(_.meta.key).values.find(_.length > 1).foreach(found => throw refused(found.head.name, found.length))
    case _ =>
  }

  private def refused(table: String, times: Int): LakemendException = LakemendException.invalid(
    s"one statement writes to $table $times times", "each INSERT of it would be a version of its own, and some could land without the others",
    "put the rows together with UNION ALL in one INSERT, or run them as statements of their own; nothing was changed")
}
