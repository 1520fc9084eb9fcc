package lakemend.rows

import lakemend.write._
import org.apache.spark.sql.connector.distributions.{Distribution, Distributions}
import org.apache.spark.sql.connector.expressions.{Expressions, SortDirection, SortOrder}
import org.apache.spark.sql.connector.metric.{CustomMetric, CustomTaskMetric}
import org.apache.spark.sql.connector.write._

/** The new files of a copy-on-write replacement: rows that stay, copied, and rows that come. */
class ReplaceWrite(job: WriteJob, replacement: Replacement, operation: RewriteFiles)
    extends Write with RequiresDistributionAndOrdering {
  private val batch = new ReplaceBatch(job, replacement, operation)

  override def description: String = s"lakemend ${job.meta.name} ${replacement.operation} copy-on-write"

  /** Rows that come are clustered by partition before they get here; rows that stay come file by file. */
  override def requiredDistribution: Distribution = Distributions.unspecified()

  override def requiredOrdering: Array[SortOrder] =
    job.meta.partitioning.map(p => Expressions.sort(p.toSpark.references.head, SortDirection.ASCENDING)).toArray

  override def toBatch: BatchWrite = batch

  override def supportedCustomMetrics: Array[CustomMetric] = WriteMetrics.all

  override def reportDriverMetrics: Array[CustomTaskMetric] = batch.metrics
}

class ReplaceBatch(job: WriteJob, replacement: Replacement, operation: RewriteFiles) extends BatchWrite {
  private var committed: Seq[WrittenFile] = Nil

  override def createBatchWriterFactory(info: PhysicalWriteInfo): DataWriterFactory = {
    job.listen()
    new RewriteWriterFactory(job.layout, job.layout.sortedOpenFiles, job.token)
  }

  override def commit(messages: Array[WriterCommitMessage]): Unit = commit(messages, null)

  override def commit(messages: Array[WriterCommitMessage], summary: WriteSummary): Unit = {
    val tasks = RewriteMessage.all(messages)
    val tally = Tally.sum(tasks.map(_.tally))
    // Files were read that hold no row that goes: they stay as they are.
    val idle = tally.deleted == 0 && tasks.forall(_.isPure)
    val kept = if (idle) tasks.filter(_.tally.copied == 0) else tasks
    val files = kept.flatMap(_.files)
    val request = RowCommit.request(job, operation, "rewrite_files", files, summary, if (idle) Tally(inserted = tally.inserted) else tally)
    val removed = request.putArray("removed")
    if (!idle) operation.scan.foreach(_.plan.files.foreach(file => removed.add(file.path)))
    if (idle) job.discard(tasks.filter(_.tally.copied > 0).flatMap(_.files))
    job.commit(request)
    committed = files
  }

  override def abort(messages: Array[WriterCommitMessage]): Unit = job.abort(RewriteMessage.all(messages).flatMap(_.files))

  def metrics: Array[CustomTaskMetric] = WriteMetrics.of(job, committed)

  override def toString: String = s"${replacement.operation} to ${job.meta.name}, token ${job.token}"
}
