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

/** The figures of a write. A file's size is known when it is closed: the driver reports them after the commit. */
object WriteMetrics {
  def all: Array[CustomMetric] = Array(new FilesAdded, new RowsAdded, new BytesAdded)

  def of(files: Seq[WrittenFile]): Array[CustomTaskMetric] = Array(value("filesAdded", files.size),
    value("rowsAdded", files.map(_.rows).sum), value("bytesAdded", files.map(_.size).sum))

  private def value(label: String, figure: Long): CustomTaskMetric = new CustomTaskMetric {
    override def name: String = label
    override def value: Long = figure
  }
}
