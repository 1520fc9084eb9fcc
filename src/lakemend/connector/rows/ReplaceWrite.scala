package lakemend.rows

import scala.jdk.CollectionConverters._

import com.fasterxml.jackson.databind.JsonNode
import lakemend.Bridge
import lakemend.write._
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.connector.distributions.{Distribution, Distributions}
import org.apache.spark.sql.connector.expressions.{Expressions, SortDirection, SortOrder}
import org.apache.spark.sql.connector.metric.{CustomMetric, CustomTaskMetric}
import org.apache.spark.sql.connector.write._
import org.apache.spark.sql.lakemend.{SparkBridge, TaskReports}

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
    new CopyCountingWriterFactory(job.layout, job.layout.sortedOpenFiles, job.token)
  }

  override def commit(messages: Array[WriterCommitMessage]): Unit = commit(messages, null)

  override def commit(messages: Array[WriterCommitMessage], summary: WriteSummary): Unit = {
    val tasks = CopyMessage.all(messages)
    val read = operation.scan.toSeq.flatMap(_.plan.files)
    val copied = tasks.map(_.copied).sum
    // Every row of the files that were read has been copied: they hold none that goes, and stay as they are.
    val idle = read.nonEmpty && read.forall(_.liveRows >= 0) && read.map(_.liveRows).sum == copied && tasks.forall(_.isPure)
    val kept = if (idle) tasks.filter(_.copied == 0) else tasks
    val files = kept.flatMap(_.files)
    val request = RowCommit.request(job, operation, "rewrite", files, summary)
    val removed = request.putArray("removed")
    if (!idle) read.foreach(file => removed.add(file.path))
    val counts = request.putObject("summary").put("numCopiedRows", if (idle) 0L else copied)
    counts.put("numInsertedRows", files.map(_.rows).sum - (if (idle) 0L else copied))
    if (idle) job.discard(tasks.filter(_.copied > 0).flatMap(_.files))
    job.commit(request)
    committed = files
  }

  override def abort(messages: Array[WriterCommitMessage]): Unit = job.abort(CopyMessage.all(messages).flatMap(_.files))

  def metrics: Array[CustomTaskMetric] = WriteMetrics.of(job, committed)

  override def toString: String = s"${replacement.operation} to ${job.meta.name}, token ${job.token}"
}

class CopyCountingWriterFactory(layout: FileLayout, openFiles: Int, token: String) extends DataWriterFactory {
  override def createWriter(partitionId: Int, taskId: Long): DataWriter[InternalRow] =
    new CopyCountingWriter(new DataFileWriter(layout, partitionId, openFiles), token)
}

/** One task attempt. A row that stays comes with its place in the table, a row that comes has none. */
class CopyCountingWriter(files: DataFileWriter, token: String) extends DataWriter[InternalRow] {
  private var copied = 0L

  override def write(place: InternalRow, row: InternalRow): Unit = {
    copied += 1
    files.write(row)
  }

  override def write(row: InternalRow): Unit = files.write(row)

  override def commit(): WriterCommitMessage = {
    val written = files.finish()
    TaskReports.report(token, written.map(_.path))
    SparkBridge.reportOutput(written.map(_.rows).sum, written.map(_.size).sum)
    CopyMessage.of(written, copied)
  }

  override def abort(): Unit = files.abort()

  override def close(): Unit = ()
}

/** What a task tells the driver, as text (see FileMessage). */
case class CopyMessage(files: Seq[WrittenFile], copied: Long) {
  /** Whether its files hold copies alone or none. */
  def isPure: Boolean = copied == 0 || copied == files.map(_.rows).sum
}

object CopyMessage {
  def of(files: Seq[WrittenFile], copied: Long): FileMessage = {
    val node = Bridge.request().put("copied", copied)
    val written = node.putArray("files")
    files.foreach(file => written.add(file.toMessage))
    new FileMessage(node.toString)
  }

  def all(messages: Array[WriterCommitMessage]): Seq[CopyMessage] = messages.toIndexedSeq.filter(_ != null).map { message =>
    val node: JsonNode = Bridge.mapper.readTree(message.toString)
    CopyMessage(node.get("files").asScala.map(WrittenFile.ofMessage).toSeq, node.get("copied").asLong)
  }
}
