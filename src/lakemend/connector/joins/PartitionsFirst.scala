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
  private type Keys = Seq[Expression]

  override def apply(plan: LogicalPlan): LogicalPlan = {
    val orders = mutable.Map.empty[Keys, Set[Keys]].withDefaultValue(Set.empty)
    plan.foreach {
      case join: Join => keys(join).zip(keys(sorted(join))).foreach { case (old, now) => orders(old) += now }
      case _ =>
    }
    if (orders.forall { case (old, now) => now == Set(old) }) plan
    else reordered(plan, orders.collect { case (old, now) if now.size == 1 => old -> now.head }.toMap)
  }

  /** Keys that two joins would order differently stay as they are: a filter does not tell which of the two it asks. */
  private def reordered(plan: LogicalPlan, orders: Map[Keys, Keys]): LogicalPlan = plan.transformUp {
    case join: Join if keys(join).forall(orders.contains) => sorted(join)
  }.transformAllExpressions {
    case filter: DynamicPruningSubquery =>
      val old = filter.buildKeys.map(_.canonicalized)
      val now = orders.getOrElse(old, old)
      filter.copy(buildQuery = reordered(filter.buildQuery, orders), buildKeys = now.map(key => filter.buildKeys(old.indexOf(key))),
        broadcastKeyIndices = filter.broadcastKeyIndices.map(i => now.indexOf(old(i))))(filter.broadcastValueProjection)
  }

  private def sorted(join: Join): Join = join.condition.fold(join) { condition =>
    val places = grouped(join)
    val named = splitConjunctivePredicates(condition)
    val sorted = named.sortBy(place(_, places))
    if (sorted == named) join else join.copy(condition = sorted.reduceOption(And))
  }

  /** Those of either side, in the order in which they are hashed. */
  private def keys(join: Join): Seq[Keys] = join match {
    case ExtractEquiJoinKeys(_, left, right, _, _, _, _, _) => Seq(left, right).map(_.map(_.canonicalized))
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
