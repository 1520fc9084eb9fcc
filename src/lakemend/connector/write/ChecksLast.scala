package org.apache.spark.sql.lakemend

import lakemend.catalog.MetadataColumns
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions.{Attribute, CheckInvariant, EqualTo, Expression, LessThan, Literal, Or, UnaryExpression}
import org.apache.spark.sql.catalyst.expressions.codegen.{CodegenContext, ExprCode}
import org.apache.spark.sql.catalyst.expressions.objects.AssertNotNull
import org.apache.spark.sql.catalyst.util._
import org.apache.spark.sql.catalyst.util.RowDeltaUtils.{DELETE_OPERATION, OPERATION_COLUMN}
import org.apache.spark.sql.catalyst.plans.logical.{Filter, LogicalPlan, RowLevelWrite, V2WriteCommand}
import org.apache.spark.sql.catalyst.rules.Rule
import org.apache.spark.sql.types.{BooleanType, DataType}

/**
 * Constraints are checked on the rows that are written, and on no others. Spark checks them in a filter over the query,
 * and moves it as it would any filter: below a join or an aggregate, or to a subquery's side of an equality, where it
 * meets rows that never reach the table.
 *
 * What Spark says when a row breaks one names no table. Here it is told the name, by which people, and the Python side,
 * know whose constraint it was.
 */
object ChecksLast extends Rule[LogicalPlan] {
  private val Of = " of the table "

  override def apply(plan: LogicalPlan): LogicalPlan = plan.resolveOperators {
    case write: V2WriteCommand => LakeRelation.table(write.table).fold[LogicalPlan](write) { table =>
      named(write.query, table.name) match {
        case Filter(condition, child) if isCheck(condition) =>
          val stored = condition.transformUp { case a: Attribute if EmptyIsNull.mayBeEmpty(a, table.meta) => NullIfEmpty(a) }
          val judged = if (write.isInstanceOf[RowLevelWrite]) unlessItGoes(stored, child) else stored
          write.withNewQuery(Filter(Immovable(judged), child))
        case query if query fastEquals write.query => write
        case query => write.withNewQuery(query)
      }
    }
  }

  private def named(query: LogicalPlan, table: String): LogicalPlan = query.resolveOperators { case node =>
    node.transformExpressions {
      case check: CheckInvariant if !check.constraintName.contains(Of) =>
        check.copy(constraintName = check.constraintName + Of + table)
      case check: AssertNotNull if !check.walkedTypePath.exists(_.startsWith(Of)) =>
        check.copy(walkedTypePath = check.walkedTypePath :+ Of + table)
    }
  }

  /** Rows that go come by as well: in a copy-on-write statement with a mark at their place (see `Fates`), in one that
    * masks rows with nulls for all their columns. */
  private def unlessItGoes(condition: Expression, rows: LogicalPlan): Expression = {
    val marked = rows.output.find(a => a.name == MetadataColumns.Position && a.isMetadataCol).map(LessThan(_, Literal(0L)))
    val deleted = rows.output.find(_.name == OPERATION_COLUMN).map(EqualTo(_, Literal(DELETE_OPERATION)))
    (marked ++ deleted).foldLeft(condition)((judged, goes) => Or(goes, judged))
  }

  private def isCheck(condition: Expression): Boolean =
    !condition.isInstanceOf[Immovable] && condition.exists(_.isInstanceOf[CheckInvariant])
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
