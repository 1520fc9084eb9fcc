package org.apache.spark.sql.lakemend

import lakemend.read.LakeScan
import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.catalyst.plans.{ExistenceJoin, InnerLike, JoinType, LeftAnti, LeftOuter, LeftSemi, RightOuter}
import org.apache.spark.sql.catalyst.plans.logical._
import org.apache.spark.sql.execution.datasources.v2.DataSourceV2ScanRelation

/**
 * The way of a filter on one column from the top of a plan down to the scans that the column is read by.
 *
 * It passes an operator only where the operator makes the same rows of the rows that are left: never a limit, a window or
 * an aggregate over rows with other values of the column, the side of an outer join that nulls stand in for, or anything
 * that is not deterministic. An operator that is not named here ends the way.
 */
object KeyDescent {
  /** The plan with each scan at the end of a way as `place` has it; None: there is none, or `place` wants none of them. */
  def apply(plan: LogicalPlan, key: Attribute)(
      place: (Attribute, DataSourceV2ScanRelation) => Option[LogicalPlan]): Option[LogicalPlan] = {
    def below(child: LogicalPlan, name: Attribute): Option[LogicalPlan] =
      if (child.outputSet.contains(name)) KeyDescent(child, name)(place) else None
    def through(node: UnaryNode, name: Attribute): Option[LogicalPlan] =
      below(node.child, name).map(child => node.withNewChildren(Seq(child)))

    plan match {
      case scan: DataSourceV2ScanRelation => place(key, scan)
      case project: Project if project.projectList.forall(c => c.deterministic || isNumberOfTarget(c, project.child)) =>
        source(key, project.projectList).flatMap(through(project, _))
      case filter: Filter if filter.condition.deterministic => through(filter, key)
      case groups: Aggregate if groups.expressions.forall(_.deterministic) =>
        source(key, groups.aggregateExpressions).filter(name => groups.groupingExpressions.exists(_.semanticEquals(name)))
          .flatMap(through(groups, _))
      case window: Window if window.expressions.forall(_.deterministic) && window.partitionSpec.exists(_.semanticEquals(key)) =>
        through(window, key)
      case first: WindowGroupLimit
          if first.expressions.forall(_.deterministic) && first.partitionSpec.exists(_.semanticEquals(key)) =>
        through(first, key)
      case sort: Sort if sort.expressions.forall(_.deterministic) => through(sort, key)
      case generate: Generate if generate.expressions.forall(_.deterministic) => through(generate, key)
      case spread: RepartitionOperation if spread.expressions.forall(_.deterministic) => through(spread, key)
      case union: Union => inUnion(union, key, below)
      case join: Join if join.condition.forall(_.deterministic) => inJoin(join, key, below)
      case _ => None
    }
  }

  /** Each part is a plan of its own: the filter may reach some and not others. */
  private def inUnion(
      union: Union, key: Attribute, below: (LogicalPlan, Attribute) => Option[LogicalPlan]): Option[LogicalPlan] = {
    val at = union.output.indexWhere(_.exprId == key.exprId)
    val parts = union.children.map(part => if (at < 0) None else below(part, part.output(at)))
    if (parts.forall(_.isEmpty)) None
    else Some(union.withNewChildren(parts.zip(union.children).map { case (placed, part) => placed.getOrElse(part) }))
  }

  private def inJoin(
      join: Join, key: Attribute, below: (LogicalPlan, Attribute) => Option[LogicalPlan]): Option[LogicalPlan] =
    if (join.left.outputSet.contains(key) && keepsLeft(join.joinType)) below(join.left, key).map(left => join.copy(left = left))
    else if (join.right.outputSet.contains(key) && keepsRight(join.joinType))
      below(join.right, key).map(right => join.copy(right = right))
    else None

  /** Whether what becomes of a row of the side depends on no other row of the side. */
  private def keepsLeft(kind: JoinType): Boolean = kind match {
    case _: InnerLike | LeftOuter | LeftSemi | LeftAnti | _: ExistenceJoin => true
    case _ => false
  }

  private def keepsRight(kind: JoinType): Boolean = kind match {
    case _: InnerLike | RightOuter => true
    case _ => false
  }

  /** The column below that the key is, if it is one unchanged. */
  private def source(key: Attribute, columns: Seq[NamedExpression]): Option[Attribute] = columns.collectFirst {
    case column: Attribute if column.exprId == key.exprId => column
    case named @ Alias(column: Attribute, _) if named.exprId == key.exprId => column
  }

  /** Rows of a MERGE's target are numbered to be told apart, and any numbers will do. */
  private def isNumberOfTarget(column: NamedExpression, child: LogicalPlan): Boolean = isRowNumber(column) && child.collectLeaves().forall {
    case relation: DataSourceV2ScanRelation => relation.scan match {
      case scan: LakeScan => scan.isRowChange
      case _ => false
    }
    case _ => false
  }

  def isRowNumber(column: Expression): Boolean = column match {
    case Alias(MonotonicallyIncreasingID(), RowId) => true
    case _ => false
  }

  private val RowId = "__row_id"
}
