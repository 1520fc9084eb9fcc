package org.apache.spark.sql.lakemend

import lakemend.catalog.LakeTable
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions.{CheckInvariant, Expression, UnaryExpression}
import org.apache.spark.sql.catalyst.expressions.codegen.{CodegenContext, ExprCode}
import org.apache.spark.sql.catalyst.plans.logical.{Filter, LogicalPlan, V2WriteCommand}
import org.apache.spark.sql.catalyst.rules.Rule
import org.apache.spark.sql.connector.write.RowLevelOperationTable
import org.apache.spark.sql.execution.datasources.v2.DataSourceV2Relation
import org.apache.spark.sql.types.{BooleanType, DataType}

/**
 * Constraints are checked on the rows that are written, and on no others. Spark checks them in a filter over the query,
 * and moves it as it would any filter: below a join or an aggregate, or to a subquery's side of an equality, where it
 * meets rows that never reach the table.
 */
object ChecksLast extends Rule[LogicalPlan] {
  override def apply(plan: LogicalPlan): LogicalPlan = plan.resolveOperators {
    case write: V2WriteCommand if isLake(write.table) => write.query match {
      case Filter(condition, child) if isCheck(condition) => write.withNewQuery(Filter(Immovable(condition), child))
      case _ => write
    }
  }

  private def isCheck(condition: Expression): Boolean =
    !condition.isInstanceOf[Immovable] && condition.exists(_.isInstanceOf[CheckInvariant])

  private def isLake(table: LogicalPlan): Boolean = table match {
    case r: DataSourceV2Relation => r.table match {
      case RowLevelOperationTable(_: LakeTable, _) | _: LakeTable => true
      case _ => false
    }
    case _ => false
  }
}

/** A condition that stays where it stands. */
case class Immovable(child: Expression) extends UnaryExpression {
  override def dataType: DataType = BooleanType
  override def nullable: Boolean = child.nullable
  override def foldable: Boolean = false
  // The optimizer moves, copies and merges conditions only where they are deterministic.
  override lazy val deterministic: Boolean = false

  override def eval(row: InternalRow): Any = child.eval(row)

  override protected def doGenCode(ctx: CodegenContext, ev: ExprCode): ExprCode = child.genCode(ctx)

  override protected def withNewChildInternal(newChild: Expression): Expression = copy(child = newChild)
}
