package org.apache.spark.sql.lakemend

import scala.collection.mutable

import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.catalyst.plans.logical.{Join, LogicalPlan, Project}
import org.apache.spark.sql.catalyst.rules.Rule
import org.apache.spark.sql.execution.datasources.v2.DataSourceV2ScanRelation

/**
 * Compares partition columns first in the condition of a join, whichever order the query names its columns in.
 *
 * Spark sorts by the columns of a join as its condition has them, and rows of a grouped scan come in the order of its
 * partition columns already: what is left to sort is `SortEachValue`'s.
 */
object PartitionsFirst extends Rule[LogicalPlan] with PredicateHelper {
  override def apply(plan: LogicalPlan): LogicalPlan = plan.transformUp {
    case join @ Join(_, _, _, Some(condition), _) =>
      val places = grouped(join)
      val named = splitConjunctivePredicates(condition)
      val sorted = named.sortBy(place(_, places))
      if (sorted == named) join else join.copy(condition = sorted.reduceOption(And))
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
