package org.apache.spark.sql.lakemend

import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.catalyst.plans.logical.{Join, LogicalPlan}
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

  private def place(condition: Expression, places: AttributeMap[Int]): Int = condition match {
    case EqualTo(a: Attribute, b: Attribute) => math.min(places.getOrElse(a, Int.MaxValue), places.getOrElse(b, Int.MaxValue))
    case _ => Int.MaxValue
  }

  /** Where in its scan's grouping a column is. */
  private def grouped(join: Join): AttributeMap[Int] = AttributeMap(join.collectLeaves().collect {
    case scan: DataSourceV2ScanRelation => scan.keyGroupedPartitioning.toSeq.flatten.zipWithIndex.collect {
      case (column: Attribute, i) => column -> i
    }
  }.flatten)
}
