package lakemend.rows

import com.fasterxml.jackson.databind.node.ObjectNode
import lakemend.Wire
import lakemend.catalog.{MetadataColumns, Reads, TableMeta}
import lakemend.write.{WriteJob, WrittenFile}
import org.apache.spark.sql.connector.distributions.{Distribution, Distributions}
import org.apache.spark.sql.connector.expressions.{Expressions, NamedReference, SortOrder}
import org.apache.spark.sql.connector.metric.{CustomMetric, CustomTaskMetric}
import org.apache.spark.sql.connector.write._

/**
 * A row change on a table with a change data feed: rows are found by their place, and what happens to each is written
 * down. For that a row comes with what it was before. With `rewrites` the files the rows lie in are written again without
 * them, else the rows are masked.
 */
class FeedRows(meta: TableMeta, info: RowLevelOperationInfo, reads: Reads, send: ObjectNode => Unit, rewrites: Boolean,
    protected val commit: FeedCommit = new FeedCommit)
    extends MaskRows(meta, info, reads, request => send(commit.describe(request))) {
  override def requiredMetadataAttributes: Array[NamedReference] = Array(Expressions.column(MetadataColumns.Before))

  override def newWriteBuilder(info: LogicalWriteInfo): DeltaWriteBuilder = {
    val write = job(info)
    new DeltaWriteBuilder {
      override def build(): DeltaWrite = new FeedWrite(write, new MaskWrite(write, FeedRows.this), FeedRows.this)
    }
  }

  override def maxDeadShare: Double = if (rewrites) 0 else super.maxDeadShare

  /** What the tasks have done, for the commit request. */
  def done(messages: Seq[FeedMessage]): Unit = commit.records = messages.flatMap(_.records)
}

object FeedRows {
  def isKept(meta: TableMeta): Boolean = meta.write.path("feed").asBoolean(false)
}

/** What a table with a feed adds to the commit request of a statement that masks rows. */
class FeedCommit {
  @volatile var records: Seq[WrittenFile] = Nil

  def describe(request: ObjectNode): ObjectNode = Wire.values(request, "feed", records.map(_.toWire(Nil)))
}

/** A write with a record of changes beside it; `write` knows nothing of that. */
class FeedWrite(job: WriteJob, write: DeltaWrite, operation: FeedRows)
    extends DeltaWrite with RequiresDistributionAndOrdering {
  private val required = write match {
    case r: RequiresDistributionAndOrdering => Some(r)
    case _ => None
  }

  override def description: String = s"${write.description} with its change data feed"
  override def requiredDistribution: Distribution = required.fold[Distribution](Distributions.unspecified())(_.requiredDistribution)
  override def distributionStrictlyRequired: Boolean = required.forall(_.distributionStrictlyRequired)
  override def requiredNumPartitions: Int = required.fold(0)(_.requiredNumPartitions)
  override def advisoryPartitionSizeInBytes: Long = required.fold(0L)(_.advisoryPartitionSizeInBytes)
  override def requiredOrdering: Array[SortOrder] = required.fold(Array.empty[SortOrder])(_.requiredOrdering)
  override def supportedCustomMetrics: Array[CustomMetric] = write.supportedCustomMetrics
  override def reportDriverMetrics: Array[CustomTaskMetric] = write.reportDriverMetrics
  override def toBatch: DeltaBatchWrite = new FeedBatch(job, write.toBatch, operation)
}

class FeedBatch(job: WriteJob, batch: DeltaBatchWrite, operation: FeedRows) extends DeltaBatchWrite {
  override def createBatchWriterFactory(info: PhysicalWriteInfo): DeltaWriterFactory =
    new FeedWriterFactory(batch.createBatchWriterFactory(info), FeedLayout.of(job), job.token)

  override def useCommitCoordinator: Boolean = batch.useCommitCoordinator

  override def onDataWriterCommit(message: WriterCommitMessage): Unit = batch.onDataWriterCommit(FeedMessage.parse(message).rows)

  override def commit(messages: Array[WriterCommitMessage]): Unit = commit(messages, null)

  override def commit(messages: Array[WriterCommitMessage], summary: WriteSummary): Unit = {
    operation.done(messages.toIndexedSeq.filter(_ != null).map(FeedMessage.parse))
    batch.commit(rows(messages), summary)
  }

  /** Each task has named its files to the driver (`TaskReports`), where an abort finds them. */
  override def abort(messages: Array[WriterCommitMessage]): Unit = batch.abort(rows(messages))

  private def rows(messages: Array[WriterCommitMessage]): Array[WriterCommitMessage] =
    messages.map(message => if (message == null) null else FeedMessage.parse(message).rows)
}
