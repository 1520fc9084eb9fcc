package org.apache.spark.sql.lakemend

import scala.collection.mutable

import lakemend.read.{KeyFilter, LakeScan}
import org.apache.spark.sql.SparkSession
import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.catalyst.optimizer.JoinSelectionHelper
import org.apache.spark.sql.catalyst.planning.ExtractEquiJoinKeys
import org.apache.spark.sql.catalyst.plans.{ExistenceJoin, Inner, LeftOuter, LeftSemi}
import org.apache.spark.sql.catalyst.plans.logical._
import org.apache.spark.sql.catalyst.rules.Rule
import org.apache.spark.sql.execution.datasources.v2.DataSourceV2ScanRelation

/**
 * Lets the side of a join that is broadcast say which files of the other side can hold its keys.
 *
 * Spark does so for partition columns where the broadcast side has a selective filter. Files of a lake table have bounds
 * for most columns, and the keys of a broadcast are at hand: looking them up costs nothing worth speaking of, and files
 * that hold none of them are not read. Where the join is not a broadcast in the end, Spark drops the filter.
 *
 * The filter belongs to the side of the join, and goes down to scans as far as `KeyDescent` lets it.
 */
case class JoinPruning(spark: SparkSession) extends Rule[LogicalPlan] with JoinSelectionHelper {
  // Spark plans such filters where its own pruning is on, and nowhere else.
  override def apply(plan: LogicalPlan): LogicalPlan = if (conf.dynamicPartitionPruningEnabled) pruned(plan) else plan

  private def pruned(plan: LogicalPlan): LogicalPlan = {
    val asked = new Asked(plan)
    val sources = plan.collect { case merge: MergeRows => merge.isSourceRowPresent.references }
    plan.transformUp { case join: Join =>
      pruned(join, asked, ofMerge = sources.exists(present => present.nonEmpty && present.subsetOf(join.right.outputSet)))
    }
  }

  private def pruned(join: Join, asked: Asked, ofMerge: Boolean): LogicalPlan = join match {
    case ExtractEquiJoinKeys(kind, leftKeys, rightKeys, _, _, left, right, hint) =>
      val rightGoes = hintToBroadcastRight(hint) || canBroadcastBySize(right, conf) && !hintToBroadcastLeft(hint)
      val leftGoes = hintToBroadcastLeft(hint) || canBroadcastBySize(left, conf) && !hintToBroadcastRight(hint)
      val rightIsSmaller = hintToBroadcastRight(hint) || !leftGoes || right.stats.sizeInBytes <= left.stats.sizeInBytes
      def of(side: LogicalPlan, keys: Seq[Expression], other: LogicalPlan, otherKeys: Seq[Expression])(
          test: LakeScan => Boolean): LogicalPlan =
        if (SteadyRows.of(other)) pruned(side, keys, other, otherKeys, asked, test) else side
      if (rightGoes && rightIsSmaller) kind match {
        case Inner | LeftSemi => join.copy(left = of(left, leftKeys, right, rightKeys)(dropsRows))
        // Files in which nothing matches stay as they are.
        case LeftOuter if ofMerge => join.copy(left = of(left, leftKeys, right, rightKeys)(_.keepsUnmatchedFiles))
        case _: ExistenceJoin => join.copy(left = of(left, leftKeys, right, rightKeys)(_.keepsUnmatchedFiles))
        case _ => join
      }
      else if (leftGoes && kind == Inner) join.copy(right = of(right, rightKeys, left, leftKeys)(dropsRows))
      else join
    case _ => join
  }

  /** A rewriting statement may read its files twice, for rows that change and for rows that stay, and both must come from
    * the same files; and a row that a join drops may be one to delete. */
  private def dropsRows(scan: LakeScan): Boolean = !scan.rewrites || scan.keepsUnmatchedFiles

  private def pruned(
      side: LogicalPlan, keys: Seq[Expression], other: LogicalPlan, otherKeys: Seq[Expression], asked: Asked,
      test: LakeScan => Boolean): LogicalPlan =
    keys.indices.foldLeft(side) { (tree, i) =>
      keys(i) match {
        case key: Attribute => KeyDescent(tree, key) { (column, scan) =>
          if (!isPrunable(scan, column, test) || isPruned(tree, column) || asked.contains(scan)) None
          else Some(Filter(DynamicPruningSubquery(column, other, otherKeys, Seq(i), onlyInBroadcast = true)(None), scan))
        }.fold(tree) { placed =>
          asked.add(other)
          placed
        }
        case _ => tree
      }
    }

  /** The optimizer comes by until nothing changes. */
  private def isPruned(plan: LogicalPlan, column: Attribute): Boolean = plan.exists(_.expressions.exists(_.exists {
    case known: DynamicPruningSubquery => known.pruningKey.semanticEquals(column)
    case _ => false
  }))

  private def isPrunable(relation: DataSourceV2ScanRelation, column: Attribute, test: LakeScan => Boolean): Boolean =
    relation.scan match {
      case scan: LakeScan => KeyFilter.applies(column.dataType) && scan.canSkipFiles && test(scan)
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
