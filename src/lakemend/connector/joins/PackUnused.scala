package org.apache.spark.sql.lakemend

import lakemend.joins.PackedScan
import lakemend.read.LakeScan
import org.apache.spark.sql.catalyst.plans.physical.{BroadcastDistribution, UnspecifiedDistribution}
import org.apache.spark.sql.catalyst.rules.Rule
import org.apache.spark.sql.execution.{ColumnarRule, FilterExec, ProjectExec, SortExec, SparkPlan}
import org.apache.spark.sql.execution.aggregate.BaseAggregateExec
import org.apache.spark.sql.execution.datasources.v2.{BatchScanExec, GroupPartitionsExec}
import org.apache.spark.sql.execution.exchange.Exchange
import org.apache.spark.sql.execution.joins.BaseJoinExec

/**
 * Reads a table as it comes where nothing needs it value by value.
 *
 * A scan that reports its grouping has a task for every partition value. That is wasted, and slow for many small values or
 * few large ones, unless something between the scan and the next exchange asks for rows that are clustered. A scan that is
 * also sorted is left alone where its order could matter: a sort that it makes needless has left no trace.
 *
 * It runs over the plan after Spark has placed its exchanges: for adaptive execution as a rule that prepares stages, so
 * that a plan is never seen with a grouping it loses later; for other plans as the last rule there is.
 */
object PackUnused extends Rule[SparkPlan] {
  override def apply(plan: SparkPlan): SparkPlan = below(plan, used = false, inOrder = true)

  /** `used`: something above, in the same stage, relies on how the rows of this plan are grouped; `inOrder`: or may rely on
    * how they are sorted. */
  private def below(plan: SparkPlan, used: Boolean, inOrder: Boolean): SparkPlan = plan match {
    case scan: BatchScanExec => scan.scan match {
      case lake: LakeScan if !used && scan.keyGroupedPartitioning.isDefined && !(inOrder && scan.ordering.exists(_.nonEmpty)) =>
        val packed = scan.copy(scan = new PackedScan(lake), ordering = None, keyGroupedPartitioning = None)
        packed.copyTagsFrom(scan)
        packed
      case _ => scan
    }
    case exchange: Exchange => exchange.mapChildren(below(_, used = false, inOrder = false))
    case other =>
      val (asks, orders) = (other.requiredChildDistribution, other.requiredChildOrdering)
      val children = other.children.zipWithIndex.map { case (child, i) =>
        val clustered = !asks.lift(i).forall {
          case UnspecifiedDistribution | _: BroadcastDistribution => true
          case _ => false
        }
        below(child, used || clustered || other.isInstanceOf[GroupPartitionsExec],
          inOrder || heedsOrder(other) || orders.lift(i).exists(_.nonEmpty))
      }
      if (children.zip(other.children).forall { case (a, b) => a eq b }) other else other.withNewChildren(children)
  }

  /** Whether the order of rows may show in what is made of them, although none is asked for: functions of Python see one row
    * after the other, and others number them. */
  private def heedsOrder(plan: SparkPlan): Boolean = plan match {
    case project: ProjectExec => !project.projectList.forall(_.deterministic)
    case filter: FilterExec => !filter.condition.deterministic
    case groups: BaseAggregateExec => groups.aggregateExpressions.exists(e => SteadyRows.isUnsteady(e.aggregateFunction))
    case _: SortExec | _: BaseJoinExec => false
    case _ => true
  }
}

/**
 * What scans that report their grouping are made into: packed where nothing uses it, else few tasks for small values.
 *
 * It runs over stages as they are about to be run, and over plans that are not adaptive, whose last rule it is. No earlier:
 * Spark prepares what a runtime filter reads a second time, and would place exchanges over rows whose grouping it no longer
 * knows.
 */
object GroupedTasks extends ColumnarRule {
  override def preColumnarTransitions: Rule[SparkPlan] = stage => SortEachValue(CoalesceKeys(PackUnused(OwnFilters(stage))))
}
