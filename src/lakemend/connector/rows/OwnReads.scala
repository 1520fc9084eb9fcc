package lakemend.rows

import lakemend.catalog.{LakeCatalog, LakeTable, StatementCatalog, TableKey}
import lakemend.changes.ChangesPart
import org.apache.spark.sql.SparkSession
import org.apache.spark.sql.catalyst.expressions.{Alias, AttributeReference, AttributeSet, Expression, If, NamedExpression}
import org.apache.spark.sql.catalyst.plans.logical.{Filter, LogicalPlan, Project, RowLevelWrite}
import org.apache.spark.sql.connector.write.RowLevelOperation.Command
import org.apache.spark.sql.execution.datasources.v2.DataSourceV2Relation

/**
 * Tells a row operation what its commit has to say of the statement: whether it reads the table for more than the rows it
 * changes (in a subquery, say, or as the source of a MERGE), for rows that were only read matter when another writer takes
 * them away; and which columns an UPDATE sets, for by the others its new rows are told from what other writers look at.
 */
case class OwnReads(spark: SparkSession) extends (LogicalPlan => Unit) {
  override def apply(plan: LogicalPlan): Unit = plan.foreach {
    case write: RowLevelWrite => write.operation match {
      case operation: RowOperation =>
        val sets = if (operation.command == Command.UPDATE) assigned(write.query, AttributeSet(write.table.output)) else None
        operation.learn(_.copy(readsMore = reads(plan, operation.key), assigned = sets, isPinned = isPinned(operation, write.originalTable)))
      case _ =>
    }
    case _ =>
  }

  /** Spark gives every statement that it runs a catalog of its own; one that is explained or checked has none. */
  private def isPinned(operation: RowOperation, target: LogicalPlan): Boolean = target match {
    // Of rows that are replaced those that come were made before; `saveAsTable` has found the table by itself.
    case _ if operation.isInstanceOf[Replaces] => true
    case r: DataSourceV2Relation => r.catalog.forall(c => !c.isInstanceOf[LakeCatalog] || c.isInstanceOf[StatementCatalog])
    case _ => true
  }

  // The target itself stands in the plan as the operation's own table.
  private def reads(plan: LogicalPlan, key: TableKey): Boolean =
    plan.collectWithSubqueries { case r: DataSourceV2Relation => r.table }.collect {
      case table: LakeTable => table.meta
      case part: ChangesPart => part.changes.meta
    }.exists(meta => meta.key == key && !meta.isTimeTravel)

  /** Columns that are not surely what they were; None where the plan is not of the kind known here. */
  private def assigned(query: LogicalPlan, target: AttributeSet): Option[Seq[String]] = query match {
    case Project(columns, _) => Some(columns.filterNot(isKept(_, target)).map(_.name))
    case Filter(_, child) => assigned(child, target)
    case _ => None
  }

  private def isKept(column: NamedExpression, target: AttributeSet): Boolean = column match {
    case Alias(value, name) => isColumn(value, name, target)
    case other => isColumn(other, other.name, target)
  }

  private def isColumn(value: Expression, name: String, target: AttributeSet): Boolean = value match {
    case attribute: AttributeReference => attribute.name == name && target.contains(attribute)
    case If(_, one, other) => isColumn(one, name, target) && isColumn(other, name, target)
    case _ => false
  }
}
