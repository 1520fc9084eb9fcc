package org.apache.spark.sql.lakemend

import java.util.WeakHashMap

import lakemend.catalog.{LakeTable, Reads, ReadsTable, RowsRead, TableKey, TableMeta}
import lakemend.changes.ChangesPart
import lakemend.joins.PackedScan
import lakemend.rows.RowOperation
import org.apache.spark.rdd.RDD
import org.apache.spark.sql.catalyst.plans.logical.{CTERelationRef, LogicalPlan, RowLevelWrite, Statistics, V2WriteCommand, WithCTE}
import org.apache.spark.sql.catalyst.rules.Rule
import org.apache.spark.sql.classic.{DataFrame, Dataset}
import org.apache.spark.sql.connector.catalog.Table
import org.apache.spark.sql.connector.expressions.filter.Predicate
import org.apache.spark.sql.connector.read.Scan
import org.apache.spark.sql.execution.{LogicalRDD, SparkPlan}
import org.apache.spark.sql.execution.adaptive.AdaptiveSparkPlanHelper
import org.apache.spark.sql.execution.columnar.{InMemoryRelation, InMemoryTableScanExec}
import org.apache.spark.sql.execution.datasources.v2.{BatchScanExec, DataSourceV2Relation, DataSourceV2ScanRelation}

/**
 * Where the reads of a writing statement come together: the plan that is about to run holds all of its scans, in
 * subqueries too, whatever names, frames and caches they came by. Those of the table that is written are put on its
 * record. Scans that look at it through the statement's own catalog are there already.
 */
object StatementReads extends Rule[LogicalPlan] with AdaptiveSparkPlanHelper {
  override def apply(plan: LogicalPlan): LogicalPlan = {
    plan.foreach {
      case write: V2WriteCommand => LakeRelation.table(write.table).foreach { table =>
        // The write's own condition names the rows it changes; the query holds it too, as it is run.
        val unknown = readIn(write.query).filter { read =>
          read.of == table.meta.key && !(read.record eq table.reads) && !(read.record eq Reads.Unrecorded)
        }
        unknown.foreach(read => table.reads.add(read.rows))
        if (unknown.nonEmpty) operation(write).foreach(_.learn(_.copy(readsMore = true)))
      }
      case _ =>
    }
    plan
  }

  private def operation(write: V2WriteCommand): Option[RowOperation] = write match {
    case rows: RowLevelWrite => Some(rows.operation).collect { case operation: RowOperation => operation }
    case _ => None
  }

  /** What was read for rows that were kept apart before a statement uses them; gone with the rows. */
  private val checkpoints = new WeakHashMap[RDD[_], Seq[Read]]

  /** The frame's rows as they are now; a statement that uses them has read what they were made of. They are as large as
    * they turned out to be: what was expected of their plan may be the size of a whole table. */
  def checkpoint(frame: DataFrame): DataFrame = {
    val kept = frame.localCheckpoint()
    val reads = readIn(frame.queryExecution.optimizedPlan)
    kept.logicalPlan match {
      case rows: LogicalRDD =>
        checkpoints.synchronized(checkpoints.put(rows.rdd, reads))
        size(rows.rdd).fold(kept) { bytes =>
          Dataset.ofRows(kept.sparkSession, rows.copy()(kept.sparkSession, Some(Statistics(bytes)), None, true))
        }
      case other => throw new IllegalStateException(s"rows that are kept are ${other.nodeName}, and not LogicalRDD")
    }
  }

  /** Bytes of the rows that executors hold, if every partition is there. */
  private def size(rows: RDD[_]): Option[Long] = rows.sparkContext.getRDDStorageInfo
    .find(info => info.id == rows.id && info.numCachedPartitions == info.numPartitions)
    .map(info => math.max(1, info.memSize + info.diskSize))

  /** Rows that `checkpoint` kept are not needed any more; those that others kept stay. */
  def release(frame: DataFrame): Unit = frame.logicalPlan.foreach {
    case rows: LogicalRDD if checkpoints.synchronized(checkpoints.containsKey(rows.rdd)) => rows.rdd.unpersist(blocking = false)
    case _ =>
  }

  /** `record`: where it is noted already. */
  private case class Read(of: TableKey, rows: RowsRead, record: Reads)

  private def readIn(plan: LogicalPlan): Seq[Read] = plan.collectWithSubqueries {
    case r: DataSourceV2ScanRelation => read(r.scan).toSeq
    case r: DataSourceV2Relation => everything(r.table).toSeq
    case cached: InMemoryRelation => readIn(cached)
    case kept: LogicalRDD => kept.rdd match {
      case rows: KeptRows => readIn(rows.plan)
      case rows => checkpoints.synchronized(Option(checkpoints.get(rows))).getOrElse(Nil)
    }
  }.flatten

  /**
   * Cached rows are those of the version they were read at. What was answered from statistics, or found to be empty while it
   * ran, has left no scan; a query with a name that is used twice has left two. So what the scans say of a table is all that
   * was read of it only where the query names the table once.
   */
  private def readIn(cached: InMemoryRelation): Seq[Read] = {
    val scans = readIn(cached.cacheBuilder.cachedPlan)
    val named = cached.cacheBuilder.logicalPlan.collectWithSubqueries {
      case r: DataSourceV2Relation => everything(r.table).toSeq
      case earlier: InMemoryRelation => readIn(earlier)
    }.flatten
    val isPlain = cached.cacheBuilder.logicalPlan.collectWithSubqueries { case c @ (_: WithCTE | _: CTERelationRef) => c }.isEmpty
    scans ++ named.groupBy(_.of).collect {
      case (table, reads) if !isPlain || reads.length > 1 || !scans.exists(_.of == table) => reads
    }.flatten
  }

  private def readIn(plan: SparkPlan): Seq[Read] = collectWithSubqueries(plan) {
    case scan: BatchScanExec => read(scan.scan).toSeq
    case cached: InMemoryTableScanExec => readIn(cached.relation)
  }.flatten

  private def read(scan: Scan): Option[Read] = scan match {
    case packed: PackedScan => read(packed.of)
    case known: ReadsTable => read(known.table, known.predicatesRead, known.record)
    case _ => None
  }

  private def everything(table: Table): Option[Read] = table match {
    case table: LakeTable => read(table.meta, Nil, table.reads)
    case part: ChangesPart => read(part.changes.meta, Nil, new Reads)
    case _ => None
  }

  private def read(table: TableMeta, predicates: Seq[Predicate], record: Reads): Option[Read] =
    if (table.isTimeTravel) None else Some(Read(table.key, RowsRead(table.version, predicates), record))
}
