package org.apache.spark.sql.lakemend

import lakemend.joins.KeyedSlices
import lakemend.read.LakeScan
import org.apache.spark.rdd.{CoalescedRDD, PartitionCoalescer, PartitionGroup, RDD}
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions.{Attribute, NullsFirst, SortOrder}
import org.apache.spark.sql.catalyst.optimizer.{BuildLeft, BuildRight}
import org.apache.spark.sql.catalyst.plans.physical.{KeyedPartitioning, Partitioning, UnknownPartitioning, UnspecifiedDistribution}
import org.apache.spark.sql.catalyst.rules.Rule
import org.apache.spark.sql.execution._
import org.apache.spark.sql.execution.aggregate.BaseAggregateExec
import org.apache.spark.sql.execution.datasources.v2.{BatchScanExec, GroupPartitionsExec}
import org.apache.spark.sql.execution.exchange.Exchange
import org.apache.spark.sql.execution.joins.{BroadcastHashJoinExec, ShuffledHashJoinExec, SortMergeJoinExec}
import org.apache.spark.sql.execution.window.WindowExecBase
import org.apache.spark.sql.vectorized.ColumnarBatch

/**
 * Lets a task of a stage without a shuffle take several small partition values, the same ones on every side of a join.
 *
 * After `PackUnused` the scans that are still grouped are used so: value number i of every scan meets in task i. Where all
 * scans of a stage have the same number of values, neighbouring numbers may share a task, just as adaptive execution lets
 * the partitions of a shuffle do. Only plans made of the operators named here are touched; each of them treats its
 * partitions one by one, and joins theirs pairwise.
 */
object CoalesceKeys extends Rule[SparkPlan] {
  /** A task should read this much, unless that leaves cores without one. Each task begins with sorters that fill pages of
    * memory, so that many small tasks take longer than few. */
  private val TaskBytes = 16L << 20
  private val TasksPerCore = 4
  /** To open a file takes as long as to read this much of it. */
  private val OpeningBytes = 32L << 10

  override def apply(plan: SparkPlan): SparkPlan = below(plan)

  private def below(plan: SparkPlan): SparkPlan = plan match {
    case done: CoalesceKeysExec => done
    case exchange: Exchange => exchange.mapChildren(below)
    case other => scans(other) match {
      case Some(found) if found.nonEmpty => together(other, found)
      // What lies below an operator with one child that asks for nothing has no partner beside it, and is the same for all
      // queries where it minds in which task a row lies.
      case _ if other.children.length == 1 && !SameTasks.minds(other) &&
          other.requiredChildDistribution.forall(_ == UnspecifiedDistribution) =>
        other.mapChildren(below)
      case _ => other.mapChildren(belowExchanges)
    }
  }

  /** A stage of another shape stays as it is; those that it reads from are looked at. */
  private def belowExchanges(plan: SparkPlan): SparkPlan = plan match {
    case exchange: Exchange => below(exchange)
    case other => other.mapChildren(belowExchanges)
  }

  /** The ends of the stage, each a scan as it is grouped; None where an operator is not known to allow it. */
  private def scans(plan: SparkPlan): Option[Seq[SparkPlan]] = plan match {
    case node if SameTasks.minds(node) => None
    case scan: BatchScanExec => if (isGrouped(scan)) Some(Seq(scan)) else None
    case groups: GroupPartitionsExec =>
      if (!groups.distributePartitions && isGrouped(groups) && scanBelow(groups.child).isDefined) Some(Seq(groups)) else None
    case _: ProjectExec | _: FilterExec | _: BaseAggregateExec | _: WindowExecBase => scans(plan.children.head)
    case sort: SortExec => if (sort.global) None else scans(sort.child)
    case join: BroadcastHashJoinExec => join.buildSide match {
      case BuildRight => scans(join.left)
      case BuildLeft => scans(join.right)
    }
    case _: SortMergeJoinExec | _: ShuffledHashJoinExec =>
      val sides = plan.children.map(scans)
      if (sides.forall(_.isDefined)) Some(sides.flatMap(_.get)) else None
    case _ => None
  }

  def isGrouped(plan: SparkPlan): Boolean = plan.outputPartitioning match {
    case keyed: KeyedPartitioning => keyed.isGrouped && isSortedByKeysFirst(plan.outputOrdering, keyed) &&
      scanBelow(plan).isDefined
    case _ => false
  }

  /** Values follow each other in ascending order: rows that are sorted by them first stay sorted when they come together. */
  private def isSortedByKeysFirst(order: Seq[SortOrder], keyed: KeyedPartitioning): Boolean =
    order.zip(keyed.expressions).forall { case (one, key) =>
      one.isAscending && one.nullOrdering == NullsFirst && one.child.semanticEquals(key)
    }

  private def scanBelow(plan: SparkPlan): Option[BatchScanExec] = plan match {
    case scan: BatchScanExec if scan.scan.isInstanceOf[LakeScan] && scan.keyGroupedPartitioning.isDefined => Some(scan)
    case _: ProjectExec | _: FilterExec | _: GroupPartitionsExec => scanBelow(plan.children.head)
    case _ => None
  }

  private def together(stage: SparkPlan, ends: Seq[SparkPlan]): SparkPlan = {
    val count = ends.head.outputPartitioning.numPartitions
    val cores = math.max(stage.session.sparkContext.defaultParallelism, 1)
    val bytes = Array.ofDim[Long](count)
    if (ends.exists(_.outputPartitioning.numPartitions != count) || count <= cores * TasksPerCore) stage
    else {
      ends.foreach(requireAscending)
      ends.map(sizes).foreach(_.zipWithIndex.foreach { case ((size, files), i) => bytes(i) += size + files * OpeningBytes })
      val target = math.min(TaskBytes, math.max(bytes.sum / (cores * TasksPerCore), 1L))
      val ranges = CoalesceKeys.ranges(bytes, target)
      if (ranges.length * 2 > count) stage
      else stage.transformUp { case end if ends.exists(_ eq end) => CoalesceKeysExec(end, ranges) }
    }
  }

  /** Rows of neighbours are said to come in order: so they do where values ascend, as they do in every Spark known. */
  private def requireAscending(end: SparkPlan): Unit = {
    val keyed = end.outputPartitioning.asInstanceOf[KeyedPartitioning]
    if (keyed.partitionKeys.sliding(2).exists { case Seq(one, next) => keyed.keyOrdering.gt(one, next); case _ => false })
      throw new IllegalStateException("this Spark does not read partition values in ascending order: " +
        "set spark.lakemend.planning.preserveDataGrouping to false, and report it with Spark's version")
  }

  /** Bytes and files of each partition that the plan puts out. */
  private def sizes(end: SparkPlan): Seq[(Long, Int)] = end match {
    case groups: GroupPartitionsExec =>
      val own = sizes(scanBelow(groups).get)
      groups.groupedPartitions.map { case (_, parts) => parts.map(own).foldLeft((0L, 0))((a, b) => (a._1 + b._1, a._2 + b._2)) }
    case scan: BatchScanExec =>
      val keyed = scan.outputPartitioning.asInstanceOf[KeyedPartitioning]
      scan.inputPartitions.map(_.asInstanceOf[KeyedSlices]).sortBy(_.partitionKey)(keyed.keyRowOrdering)
        .map(task => (task.slices.map(_.length).sum, task.slices.length))
  }

  /** Neighbours, as many as stay within the target. */
  def ranges(bytes: Array[Long], target: Long): Seq[Range] = {
    val ends = Seq.newBuilder[Range]
    var (start, sum) = (0, 0L)
    bytes.indices.foreach { i =>
      if (i > start && sum + bytes(i) > target) {
        ends += Range(start, i)
        start = i
        sum = 0
      }
      sum += bytes(i)
    }
    if (start < bytes.length) ends += Range(start, bytes.length)
    ends.result()
  }
}

/** Partitions of the child, neighbours together. What they are grouped by is no longer said. */
case class CoalesceKeysExec(child: SparkPlan, ranges: Seq[Range]) extends UnaryExecNode {
  override def output: Seq[Attribute] = child.output
  override def outputPartitioning: Partitioning = UnknownPartitioning(ranges.length)
  override def outputOrdering: Seq[SortOrder] = child.outputOrdering
  override def supportsColumnar: Boolean = child.supportsColumnar
  override def simpleString(maxFields: Int): String =
    s"CoalesceKeys ${ranges.map(_.length).sum} partition values in ${ranges.length} tasks"

  override protected def doExecute(): RDD[InternalRow] = coalesced(child.execute())
  override protected def doExecuteColumnar(): RDD[ColumnarBatch] = coalesced(child.executeColumnar())

  private def coalesced[T: scala.reflect.ClassTag](rows: RDD[T]): RDD[T] = {
    require(rows.getNumPartitions == ranges.map(_.length).sum, s"${rows.getNumPartitions} partitions for ${ranges.mkString(", ")}")
    new CoalescedRDD(rows, ranges.length, Some(new Neighbours(ranges.map(r => (r.start, r.end)).toArray)))
  }

  override protected def withNewChildInternal(newChild: SparkPlan): SparkPlan = copy(child = newChild)
}

class Neighbours(ranges: Array[(Int, Int)]) extends PartitionCoalescer with Serializable {
  override def coalesce(most: Int, parent: RDD[_]): Array[PartitionGroup] = ranges.map { case (start, end) =>
    val group = new PartitionGroup()
    group.partitions ++= parent.partitions.slice(start, end)
    group
  }
}
