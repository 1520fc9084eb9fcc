package lakemend.read

import org.apache.spark.sql.connector.metric.{CustomMetric, CustomSumMetric, CustomTaskMetric}

/** What Spark's UI shows beside a scan. Spark makes the metrics by name, so each is a class of its own. */
object ScanMetrics {
  def supported: Array[CustomMetric] = Array(new FilesRead, new FilesSkipped, new BytesPlanned)

  def of(plan: FilePlan): Array[CustomTaskMetric] = Array(
    value("filesRead", plan.files.length),
    value("filesSkipped", plan.totalFiles - plan.files.length),
    value("bytesPlanned", plan.bytes))

  private def value(label: String, amount: Long): CustomTaskMetric = new CustomTaskMetric {
    override def name: String = label
    override def value: Long = amount
  }
}

class FilesRead extends CustomSumMetric {
  override def name: String = "filesRead"
  override def description: String = "number of files read"
}

class FilesSkipped extends CustomSumMetric {
  override def name: String = "filesSkipped"
  override def description: String = "number of files skipped"
}

class BytesPlanned extends CustomSumMetric {
  override def name: String = "bytesPlanned"
  override def description: String = "bytes of files read"
}
