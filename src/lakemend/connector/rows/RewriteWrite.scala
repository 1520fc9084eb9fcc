package lakemend.rows

import com.fasterxml.jackson.databind.node.ObjectNode
import lakemend.Wire
import lakemend.write._
import org.apache.spark.sql.connector.distributions.{Distribution, Distributions}
import org.apache.spark.sql.connector.expressions.SortOrder
import org.apache.spark.sql.connector.write._

/**
 * The new files of a copy-on-write statement. Rows come in the order of the scan, file by file, so they are not shuffled
 * again: sorted by partition within a task, each task has one file open at a time.
 */
class RewriteWrite(job: WriteJob, operation: RewriteFiles) extends MeasuredWrite with RequiresDistributionAndOrdering {
  private val clustering = new Clustering(job.meta, job.option)
  override protected val batch = new RewriteBatch(job, operation, clustering)

  override def description: String = s"lakemend ${job.meta.name} ${operation.command} copy-on-write"

  override def requiredDistribution: Distribution = Distributions.unspecified()

  override def requiredOrdering: Array[SortOrder] = clustering.sortOrder

  override def toBatch: BatchWrite = batch
}

/** The driver's side of tasks that write files again. */
abstract class RewritingBatch extends MeasuredBatch {
  protected def operation: RewriteFiles

  override def createBatchWriterFactory(info: PhysicalWriteInfo): DataWriterFactory = {
    job.listen()
    new RewriteWriterFactory(job.layout, job.layout.sortedOpenFiles, job.token)
  }

  override def abort(messages: Array[WriterCommitMessage]): Unit = job.abort(RewriteMessage.all(messages).flatMap(_.files))

  /** Every file that was read goes. */
  protected def describeRemoved(request: ObjectNode): Unit =
    Wire.texts(request, "removed", operation.scan.toSeq.flatMap(_.plan.files).map(_.path))
}

class RewriteBatch(val job: WriteJob, protected val operation: RewriteFiles, clustering: Clustering) extends RewritingBatch {
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
      describeRemoved(request)
      job.commit(request)
      committed = files
    }
  }
}
