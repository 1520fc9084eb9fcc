package org.apache.spark.sql.lakemend

import scala.collection.mutable

import lakemend.read.{KeyFilter, LakeScan}
import org.apache.spark.sql.SparkSession
import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.catalyst.optimizer.JoinSelectionHelper
import org.apache.spark.sql.catalyst.planning.ExtractEquiJoinKeys
import org.apache.spark.sql.catalyst.plans.{Inner, JoinType, LeftAnti, LeftOuter, LeftSemi}
import org.apache.spark.sql.catalyst.plans.logical._
import org.apache.spark.sql.catalyst.rules.Rule
import org.apache.spark.sql.execution.datasources.v2.DataSourceV2ScanRelation

/**
 * Lets the side of a join that is broadcast say which files of the other side can hold its keys.
 *
 * Spark does so for partition columns where the broadcast side has a selective filter. Files of a lake table have bounds
 * for most columns, and the keys of a broadcast are at hand: looking them up costs nothing worth speaking of, and files
 * that hold none of them are not read. Where the join is not a broadcast in the end, Spark drops the filter.
 */
case class JoinPruning(spark: SparkSession) extends Rule[LogicalPlan] with PredicateHelper with JoinSelectionHelper {
  // Spark plans such filters where its own pruning is on, and nowhere else.
  override def apply(plan: LogicalPlan): LogicalPlan = if (conf.dynamicPartitionPruningEnabled) pruned(plan) else plan

  private def pruned(plan: LogicalPlan): LogicalPlan = {
    val asked = new Asked(plan)
    plan.transformUp { case join: Join => pruned(join, asked) }
  }

  private def pruned(join: Join, asked: Asked): LogicalPlan = join match {
    case ExtractEquiJoinKeys(kind, leftKeys, rightKeys, _, _, left, right, hint) =>
      val rightGoes = hintToBroadcastRight(hint) || canBroadcastBySize(right, conf) && !hintToBroadcastLeft(hint)
      val leftGoes = hintToBroadcastLeft(hint) || canBroadcastBySize(left, conf) && !hintToBroadcastRight(hint)
      val rightIsSmaller = hintToBroadcastRight(hint) || !leftGoes || right.stats.sizeInBytes <= left.stats.sizeInBytes
      if (rightGoes && rightIsSmaller) join.withNewChildren(Seq(pruned(left, leftKeys, right, rightKeys, kind, asked), right))
      else if (leftGoes && kind == Inner) join.withNewChildren(Seq(left, pruned(right, rightKeys, left, leftKeys, kind, asked)))
      else join
    case _ => join
  }

  /** The plan with a filter over each scan that a key comes from unchanged. */
  private def pruned(
      plan: LogicalPlan, keys: Seq[Expression], other: LogicalPlan, otherKeys: Seq[Expression], kind: JoinType,
      asked: Asked): LogicalPlan =
    keys.indices.foldLeft(plan) { (tree, i) =>
      findExpressionAndTrackLineageDown(keys(i), plan) match {
        case Some((column: AttributeReference, found: DataSourceV2ScanRelation))
            if isPrunable(found, column, kind) && !isPruned(plan, column) && !asked.contains(found) =>
          asked.add(other)
          val keysOfOther = DynamicPruningSubquery(column, other, otherKeys, Seq(i), onlyInBroadcast = true)(None)
          tree.transformUp {
            case scan: DataSourceV2ScanRelation if scan eq found => Filter(keysOfOther, scan)
          }
        case _ => tree
      }
    }

  /** The optimizer comes by until nothing changes. */
  private def isPruned(plan: LogicalPlan, column: AttributeReference): Boolean = plan.exists(_.expressions.exists(_.exists {
    case known: DynamicPruningSubquery => known.pruningKey.semanticEquals(column)
    case _ => false
  }))

  private def isPrunable(relation: DataSourceV2ScanRelation, column: AttributeReference, kind: JoinType): Boolean =
    relation.scan match {
      case scan: LakeScan => KeyFilter.applies(column.dataType) && scan.canSkipFiles && (kind match {
        // A rewriting statement may read its files twice, for rows that change and for rows that stay, and both must
        // come from the same files; and a row that such a join drops may be one to delete.
        case Inner | LeftSemi => !scan.rewrites || scan.keepsUnmatchedFiles
        // Files of a rewriting statement in which nothing matches stay as they are.
        case LeftOuter | LeftAnti => scan.keepsUnmatchedFiles
        case _ => false
      })
      case _ => false
    }

  /**
   * Scans below the broadcasts that filters, Spark's among them, ask for keys. A broadcast is found by its plan: with
   * another filter in it, it would no longer be the one that is asked, and both filters be dropped.
   */
  private class Asked(plan: LogicalPlan) {
    private val scans = mutable.Set.empty[DataSourceV2ScanRelation]
    plan.foreach(_.expressions.foreach(_.foreach {
      case known: DynamicPruningSubquery => add(known.buildQuery)
      case _ =>
    }))

    def add(build: LogicalPlan): Unit = build.foreach {
      case scan: DataSourceV2ScanRelation => scans += scan
      case _ =>
    }

    def contains(scan: DataSourceV2ScanRelation): Boolean = scans.contains(scan)
  }
}
