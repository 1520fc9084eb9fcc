package org.apache.spark.sql.lakemend

import lakemend.read.LakeScan
import org.apache.spark.sql.catalyst.expressions.{DynamicPruningSubquery, Expression, PlanExpression}
import org.apache.spark.sql.catalyst.expressions.aggregate.{AggregateExpression, AggregateFunction}
import org.apache.spark.sql.catalyst.optimizer.{BuildLeft, BuildRight, BuildSide, JoinSelectionHelper}
import org.apache.spark.sql.catalyst.planning.ExtractEquiJoinKeys
import org.apache.spark.sql.catalyst.plans.logical._
import org.apache.spark.sql.catalyst.rules.Rule
import org.apache.spark.sql.execution.{SampleExec, SparkPlan, UnaryExecNode}
import org.apache.spark.sql.execution.datasources.v2.DataSourceV2ScanRelation

/**
 * Rows lie in the same tasks in every query wherever it shows in which task they lie: what `rand`, a sample and
 * `monotonically_increasing_id` say of a row depends on its task and on the rows before it there. The parts of a
 * `randomSplit` are queries of their own, and have all rows between them, each once, only if they agree on that.
 *
 * How a grouped scan is read depends on what is made of its rows. So a scan is not grouped where its rows stay in their
 * tasks up to such an operator, and nothing between asks for them by value.
 */
object SameTasks extends Rule[LogicalPlan] with JoinSelectionHelper {
  // A filter asks for the keys of one side of a join by a plan of its own: it has to stay the plan of that side.
  override def apply(plan: LogicalPlan): LogicalPlan = plan.transform {
    case node if minds(node) => node.mapChildren(ungrouped)
  }.transformAllExpressions {
    case filter: DynamicPruningSubquery => filter.copy(buildQuery = apply(filter.buildQuery))(filter.broadcastValueProjection)
  }

  private def minds(node: LogicalPlan): Boolean = node match {
    case _: Sample => true
    case _: UnaryNode => node.expressions.exists(_.exists(isOfTask))
    case _ => false
  }

  /** The same of a plan that is about to be run. */
  def minds(plan: SparkPlan): Boolean = plan match {
    case _: SampleExec => true
    case node: UnaryExecNode => node.expressions.exists(e => !KeyDescent.isRowNumber(e) && e.exists(isOfTask))
    case _ => false
  }

  private def isOfTask(e: Expression): Boolean = e match {
    // What comes first, or in which order: it is never the same, wherever rows lie.
    case _: AggregateFunction | _: AggregateExpression => false
    // A subquery says the same to every row.
    case _: PlanExpression[_] | _: Immovable | _: Witness | _: SecondTime => false
    case other => !other.deterministic && other.children.forall(_.deterministic)
  }

  /** As far as rows stay in their tasks. */
  private def ungrouped(plan: LogicalPlan): LogicalPlan = plan match {
    case relation: DataSourceV2ScanRelation => relation.scan match {
      // Rows of a target may be numbered in any way.
      case scan: LakeScan if !scan.isRowChange && relation.keyGroupedPartitioning.isDefined =>
        relation.copy(scan = scan.ungrouped, keyGroupedPartitioning = None, ordering = None)
      case _ => relation
    }
    // One side is sent to the tasks of the other.
    case join: Join => built(join) match {
      case Some(BuildLeft) => join.withNewChildren(Seq(join.left, ungrouped(join.right)))
      case Some(BuildRight) => join.withNewChildren(Seq(ungrouped(join.left), join.right))
      case None if ExtractEquiJoinKeys.unapply(join).isEmpty => join.mapChildren(ungrouped)
      case None => join
    }
    case sort: Sort if sort.global => sort
    case spread: RepartitionOperation if spread.shuffle => spread
    // They ask for rows by value in every query, or have them moved.
    case _: Aggregate | _: Window | _: RebalancePartitions | _: GlobalLimit => plan
    case _: UnaryNode | _: Union => plan.mapChildren(ungrouped)
    case _ => plan
  }

  private def built(join: Join): Option[BuildSide] = ExtractEquiJoinKeys.unapply(join).flatMap(_ =>
    getBroadcastBuildSide(join, hintOnly = true, conf).orElse(getBroadcastBuildSide(join, hintOnly = false, conf)))
}
