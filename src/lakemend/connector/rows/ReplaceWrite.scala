package lakemend.rows

import lakemend.write._
import org.apache.spark.sql.connector.distributions.{Distribution, Distributions}
import org.apache.spark.sql.connector.expressions.{Expressions, SortDirection, SortOrder}
import org.apache.spark.sql.connector.write._

/** The new files of a copy-on-write replacement: rows that stay, copied, and rows that come. */
class ReplaceWrite(job: WriteJob, replacement: Replacement, operation: RewriteFiles)
    extends MeasuredWrite with RequiresDistributionAndOrdering {
  override protected val batch = new ReplaceBatch(job, replacement, operation)

  override def description: String = s"lakemend ${job.meta.name} ${replacement.operation} copy-on-write"

  /** Rows that come are clustered by partition before they get here; rows that stay come file by file. */
  override def requiredDistribution: Distribution = Distributions.unspecified()

  override def requiredOrdering: Array[SortOrder] =
    job.meta.partitioning.map(p => Expressions.sort(p.toSpark.references.head, SortDirection.ASCENDING)).toArray

  override def toBatch: BatchWrite = batch
}

class ReplaceBatch(val job: WriteJob, replacement: Replacement, protected val operation: RewriteFiles) extends RewritingBatch {
  override def commit(messages: Array[WriterCommitMessage], summary: WriteSummary): Unit = {
    val tasks = RewriteMessage.all(messages)
    val tally = Tally.sum(tasks.map(_.tally))
    // Files were read that hold no row that goes: they stay as they are.
    val idle = tally.deleted == 0 && tasks.forall(_.isPure)
    val kept = if (idle) tasks.filter(_.tally.copied == 0) else tasks
    val files = kept.flatMap(_.files)
    val request = RowCommit.request(job, operation, "rewrite_files", files, summary, if (idle) Tally(inserted = tally.inserted) else tally)
    if (!idle) describeRemoved(request)
    if (idle) job.discard(tasks.filter(_.tally.copied > 0).flatMap(_.files))
    job.commit(request)
    committed = files
  }

  override def toString: String = s"${replacement.operation} to ${job.meta.name}, token ${job.token}"
}
