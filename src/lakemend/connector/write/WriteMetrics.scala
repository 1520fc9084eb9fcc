package lakemend.write

import lakemend.Figure
import org.apache.spark.sql.connector.metric.{CustomMetric, CustomTaskMetric}
import org.apache.spark.sql.connector.write.{BatchWrite, Write, WriterCommitMessage}

class FilesAdded extends Figure("filesAdded", "files added")
class RowsAdded extends Figure("rowsAdded", "rows added")
class BytesAdded extends Figure("bytesAdded", "bytes added")
class FilesRemoved extends Figure("filesRemoved", "files removed")
class RowsRemoved extends Figure("rowsRemoved", "rows removed")
class BytesRemoved extends Figure("bytesRemoved", "bytes removed")

/** A write that Spark's UI shows the figures of. */
trait MeasuredWrite extends Write {
  protected def batch: MeasuredBatch

  override def supportedCustomMetrics: Array[CustomMetric] =
    Array(new FilesAdded, new RowsAdded, new BytesAdded, new FilesRemoved, new RowsRemoved, new BytesRemoved)

  override def reportDriverMetrics: Array[CustomTaskMetric] = batch.figures
}

/**
 * The driver's side of its tasks. A file's size is known when it is closed, and what leaves the table when the commit has
 * landed: the driver reports them then. Rows that were only copied count neither as added nor as removed.
 */
trait MeasuredBatch extends BatchWrite {
  def job: WriteJob

  /** The files of the commit, once it has landed. */
  protected var committed: Seq[WrittenFile] = Nil

  override def commit(messages: Array[WriterCommitMessage]): Unit = commit(messages, null)

  def figures: Array[CustomTaskMetric] = {
    def told(name: String): Long = job.report.path(name).asLong(0)
    Array(new FilesAdded().is(committed.size), new RowsAdded().is(committed.map(_.rows).sum - told("copied")),
      new BytesAdded().is(committed.map(_.size).sum), new FilesRemoved().is(told("files_removed")),
      new RowsRemoved().is(told("deleted") + told("updated")), new BytesRemoved().is(told("bytes_removed")))
  }
}
