package lakemend.rows

import lakemend.write._
import org.apache.spark.sql.connector.distributions.{Distribution, Distributions}
import org.apache.spark.sql.connector.expressions.SortOrder
import org.apache.spark.sql.connector.metric.{CustomMetric, CustomTaskMetric}
import org.apache.spark.sql.connector.write._

/**
 * The new files of a copy-on-write statement. Rows come in the order of the scan, file by file, so they are not shuffled
 * again: sorted by partition within a task, each task has one file open at a time.
 */
class RewriteWrite(job: WriteJob, operation: RewriteFiles) extends Write with RequiresDistributionAndOrdering {
  private val clustering = new Clustering(job.meta, job.option)
  private val batch = new RewriteBatch(job, operation, clustering)

  override def description: String = s"lakemend ${job.meta.name} ${operation.command} copy-on-write"

  override def requiredDistribution: Distribution = Distributions.unspecified()

  override def requiredOrdering: Array[SortOrder] = clustering.sortOrder

  override def toBatch: BatchWrite = batch

  override def supportedCustomMetrics: Array[CustomMetric] = WriteMetrics.all

  override def reportDriverMetrics: Array[CustomTaskMetric] = batch.metrics
}

class RewriteBatch(job: WriteJob, operation: RewriteFiles, clustering: Clustering) extends BatchWrite {
  private var committed: Seq[WrittenFile] = Nil

  override def createBatchWriterFactory(info: PhysicalWriteInfo): DataWriterFactory = {
    job.listen()
    new RewriteWriterFactory(job.layout, job.layout.sortedOpenFiles, job.token)
  }

  override def commit(messages: Array[WriterCommitMessage]): Unit = commit(messages, null)

  override def commit(messages: Array[WriterCommitMessage], summary: WriteSummary): Unit = {
    val tasks = RewriteMessage.all(messages)
    val files = tasks.flatMap(_.files)
    val tally = Tally.sum(tasks.map(_.tally))
    if (tally.changesNothing) {
      // Files were read in which nothing matched; their copies are of no use.
      job.abort(files)
      job.commit(RowCommit.request(job, operation, "rewrite_files", Nil, summary, Tally()))
    } else {
      val request = RowCommit.request(job, operation, "rewrite_files", files, summary, tally)
      clustering.describe(request)
      val removed = request.putArray("removed")
      operation.scan.foreach(_.plan.files.foreach(file => removed.add(file.path)))
      job.commit(request)
      committed = files
    }
  }

  override def abort(messages: Array[WriterCommitMessage]): Unit = job.abort(RewriteMessage.all(messages).flatMap(_.files))

  def metrics: Array[CustomTaskMetric] = WriteMetrics.of(job, committed)
}
