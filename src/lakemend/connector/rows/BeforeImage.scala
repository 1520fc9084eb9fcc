package org.apache.spark.sql.lakemend

import lakemend.catalog.{LakeTable, MetadataColumns, PathTable}
import org.apache.spark.sql.SparkSession
import org.apache.spark.sql.catalyst.expressions.{Alias, CreateNamedStruct, Literal}
import org.apache.spark.sql.catalyst.plans.logical.{LogicalPlan, Project}
import org.apache.spark.sql.catalyst.rules.Rule
import org.apache.spark.sql.connector.write.RowLevelOperationTable
import org.apache.spark.sql.execution.datasources.v2.DataSourceV2Relation

/** The metadata column `_before` is the row itself: no scan reads it, it is made of the columns that are read. */
case class BeforeImage(spark: SparkSession) extends Rule[LogicalPlan] {
  override def apply(plan: LogicalPlan): LogicalPlan = plan.transformDown {
    case r: DataSourceV2Relation if r.output.exists(_.name == MetadataColumns.Before) => tableOf(r) match {
      case Some(table) if isMade(table) =>
        val (before, others) = r.output.partition(a => a.name == MetadataColumns.Before)
        val row = CreateNamedStruct(table.meta.schema.fieldNames.toSeq.flatMap(name =>
          Seq(Literal(name), others.find(_.name == name).get)))
        val made = before.map(a => Alias(row, a.name)(a.exprId, a.qualifier, Some(a.metadata)))
        Project(others ++ made, r.copy(output = others))
      case _ => r
    }
  }

  /** Only tables with a feed have the column, and one of the table's own by that name hides it. */
  private def isMade(table: LakeTable): Boolean = table.metadataColumns.exists(_.name == MetadataColumns.Before) &&
    !table.meta.schema.fieldNames.exists(_.equalsIgnoreCase(MetadataColumns.Before))

  private def tableOf(r: DataSourceV2Relation): Option[LakeTable] = r.table match {
    case table: LakeTable => Some(table)
    case path: PathTable => Some(path.opened)
    case RowLevelOperationTable(table: LakeTable, _) => Some(table)
    case _ => None
  }
}
