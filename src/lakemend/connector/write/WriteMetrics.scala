package lakemend.write

import org.apache.spark.sql.connector.metric.{CustomMetric, CustomSumMetric, CustomTaskMetric}

/** Spark's UI makes these by name, hence a class each with no arguments. */
class FilesAdded extends CustomSumMetric {
  override def name: String = "filesAdded"
  override def description: String = "files added"
}

class RowsAdded extends CustomSumMetric {
  override def name: String = "rowsAdded"
  override def description: String = "rows added"
}

class BytesAdded extends CustomSumMetric {
  override def name: String = "bytesAdded"
  override def description: String = "bytes added"
}

class FilesRemoved extends CustomSumMetric {
  override def name: String = "filesRemoved"
  override def description: String = "files removed"
}

class RowsRemoved extends CustomSumMetric {
  override def name: String = "rowsRemoved"
  override def description: String = "rows removed"
}

class BytesRemoved extends CustomSumMetric {
  override def name: String = "bytesRemoved"
  override def description: String = "bytes removed"
}

/**
 * The figures of a write. A file's size is known when it is closed, and what leaves the table when the commit has landed:
 * the driver reports them then. Rows that were only copied count neither as added nor as removed.
 */
object WriteMetrics {
  def all: Array[CustomMetric] =
    Array(new FilesAdded, new RowsAdded, new BytesAdded, new FilesRemoved, new RowsRemoved, new BytesRemoved)

  def of(job: WriteJob, files: Seq[WrittenFile]): Array[CustomTaskMetric] = {
    def told(name: String): Long = job.report.path(name).asLong(0)
    Array(value("filesAdded", files.size), value("rowsAdded", files.map(_.rows).sum - told("copied")),
      value("bytesAdded", files.map(_.size).sum), value("filesRemoved", told("files_removed")),
      value("rowsRemoved", told("deleted") + told("updated")), value("bytesRemoved", told("bytes_removed")))
  }

  private def value(label: String, figure: Long): CustomTaskMetric = new CustomTaskMetric {
    override def name: String = label
    override def value: Long = figure
  }
}
