package org.apache.spark.sql.lakemend

import scala.collection.mutable

import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.catalyst.planning.ExtractEquiJoinKeys
import org.apache.spark.sql.catalyst.plans.logical.{Join, LogicalPlan, Project}
import org.apache.spark.sql.catalyst.rules.Rule
import org.apache.spark.sql.execution.datasources.v2.DataSourceV2ScanRelation

/**
 * Compares partition columns first in the condition of a join, whichever order the query names its columns in.
 *
 * Spark sorts by the columns of a join as its condition has them, and rows of a grouped scan come in the order of its
 * partition columns already: what is left to sort is `SortEachValue`'s.
 *
 * A filter that asks the join's broadcast for its keys names them in the order of the join. It follows the join: with
 * another order the broadcast would be another one, made for the filter alone out of rows that are read again.
 */
object PartitionsFirst extends Rule[LogicalPlan] with PredicateHelper {
  override def apply(plan: LogicalPlan): LogicalPlan = {
    val moved = mutable.Map.empty[Seq[Expression], Seq[Expression]]
    val sorted = plan.transformUp {
      case join @ Join(_, _, _, Some(condition), _) =>
        val places = grouped(join)
        val named = splitConjunctivePredicates(condition)
        val sorted = named.sortBy(place(_, places))
        if (sorted == named) join
        else {
          val after = join.copy(condition = sorted.reduceOption(And))
          keys(join).zip(keys(after)).foreach { case (old, now) => if (old != now) moved(old) = now }
          after
        }
    }
    if (moved.isEmpty) sorted else sorted.transformAllExpressionsWithSubqueries {
      case filter: DynamicPruningSubquery if moved.contains(filter.buildKeys) =>
        val now = moved(filter.buildKeys)
        filter.copy(buildKeys = now, broadcastKeyIndices = filter.broadcastKeyIndices.map(i => now.indexOf(filter.buildKeys(i))))(
          filter.broadcastValueProjection)
    }
  }

  /** Those of either side, in the order in which they are hashed. */
  private def keys(join: Join): Seq[Seq[Expression]] = join match {
    case ExtractEquiJoinKeys(_, left, right, _, _, _, _, _) => Seq(left, right)
    case _ => Nil
  }

  private def place(condition: Expression, places: Map[ExprId, Int]): Int = condition match {
    case EqualTo(a: Attribute, b: Attribute) =>
      math.min(places.getOrElse(a.exprId, Int.MaxValue), places.getOrElse(b.exprId, Int.MaxValue))
    case _ => Int.MaxValue
  }

  /** Where in its scan's grouping a column is, whatever it is called. */
  private def grouped(join: Join): Map[ExprId, Int] = {
    val places = mutable.Map.empty[ExprId, Int]
    join.foreachUp {
      case scan: DataSourceV2ScanRelation => scan.keyGroupedPartitioning.toSeq.flatten.zipWithIndex.foreach {
        case (column: Attribute, i) => places(column.exprId) = i
        case _ =>
      }
      case Project(columns, _) => columns.foreach {
        case named @ Alias(column: Attribute, _) => places.get(column.exprId).foreach(places(named.exprId) = _)
        case _ =>
      }
      case _ =>
    }
    places.toMap
  }
}
