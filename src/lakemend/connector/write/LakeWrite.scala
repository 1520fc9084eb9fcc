package lakemend.write

import com.fasterxml.jackson.databind.JsonNode
import lakemend.{LakemendException, Wire}
import org.apache.spark.sql.connector.distributions.{Distribution, Distributions}
import org.apache.spark.sql.connector.expressions.{Expressions, NamedReference, SortDirection, SortOrder}
import org.apache.spark.sql.connector.metric.{CustomMetric, CustomTaskMetric}
import org.apache.spark.sql.connector.write._

/**
 * How rows are to arrive at the tasks. Unpartitioned tables take them as they come. Rows of partitioned tables are
 * clustered by partition, as a rebalance and not as a strict distribution: adaptive execution may then split a
 * partition that is too large for one task; and they are sorted by partition, so that a task has one file open at a
 * time.
 *
 * Options or table properties: `write.distribution-mode` (hash, none), `write.advisory-partition-size` (bytes of
 * shuffle data per task), `write.fanout-files` (n: do not sort, keep up to n files open).
 */
class LakeWrite(job: WriteJob, mode: WriteMode) extends Write with RequiresDistributionAndOrdering {
  private val partitionColumns: Array[NamedReference] = job.meta.partitioning.map(_.toSpark.references.head).toArray
  private val clustered: Boolean = job.option("write.distribution-mode").map(_.toLowerCase) match {
    case None | Some("hash") => partitionColumns.nonEmpty
    case Some("none") => false
    case Some(other) => throw LakemendException.invalid(s"write.distribution-mode is '$other'",
      "it may be hash or none", "hash clusters rows by partition before the write, none leaves them where they are")
  }
  private val fanout: Option[Int] = number("write.fanout-files", 1, LakeWrite.MaxOpenFiles).map(_.toInt)
  private val advisorySize: Option[Long] = number("write.advisory-partition-size", 1, Long.MaxValue)
  private val batch = new LakeBatchWrite(job, mode, fanout.getOrElse(job.layout.sortedOpenFiles))

  override def description: String = s"lakemend ${job.meta.name} ${mode.operation}"

  override def requiredDistribution: Distribution =
    if (clustered) Distributions.clustered(partitionColumns.toArray) else Distributions.unspecified()

  override def distributionStrictlyRequired: Boolean = false

  /** About one file of the target size per task, within what a task can sort. */
  override def advisoryPartitionSizeInBytes: Long =
    if (!clustered) 0 else advisorySize.getOrElse(job.layout.targetFileSize.max(16L << 20).min(128L << 20))

  override def requiredOrdering: Array[SortOrder] =
    if (fanout.isDefined) Array.empty else partitionColumns.map(c => Expressions.sort(c, SortDirection.ASCENDING))

  override def toBatch: BatchWrite = batch

  override def supportedCustomMetrics: Array[CustomMetric] = WriteMetrics.all

  override def reportDriverMetrics: Array[CustomTaskMetric] = batch.metrics

  private def number(key: String, least: Long, most: Long): Option[Long] = job.option(key).map { text =>
    text.trim.toLongOption.filter(n => n >= least && n <= most).getOrElse(
      throw LakemendException.invalid(s"$key is '$text'", s"it must be a whole number from $least to $most",
        s"set $key to such a number"))
  }
}

object LakeWrite {
  /** Each open file holds a row group in memory. */
  val MaxOpenFiles = 256
}

/** The driver's side of the tasks: hands out writers, and turns what they report into the one commit. */
class LakeBatchWrite(job: WriteJob, mode: WriteMode, openFiles: Int) extends BatchWrite {
  private var committed: Seq[WrittenFile] = Nil

  override def createBatchWriterFactory(info: PhysicalWriteInfo): DataWriterFactory = {
    job.listen()
    new LakeWriterFactory(job.layout, openFiles, job.token)
  }

  override def commit(messages: Array[WriterCommitMessage]): Unit = commit(messages, null)

  override def commit(messages: Array[WriterCommitMessage], summary: WriteSummary): Unit = {
    val files = FileMessage.files(messages)
    val request = job.commitRequest(mode.operation, files, summary)
    mode match {
      case WriteMode.Overwrite(predicates) => request.set[JsonNode]("predicates", Wire.predicates(predicates))
      case _ =>
    }
    job.commit(request)
    committed = files
  }

  override def abort(messages: Array[WriterCommitMessage]): Unit = job.abort(FileMessage.files(messages))

  def metrics: Array[CustomTaskMetric] = WriteMetrics.of(committed)

  override def toString: String = s"${mode.operation} to ${job.meta.name}, token ${job.token}"
}
