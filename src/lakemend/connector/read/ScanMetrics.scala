package lakemend.read

import lakemend.Figure
import org.apache.spark.sql.connector.metric.{CustomMetric, CustomTaskMetric}

/** The figures of a scan. */
object ScanMetrics {
  def supported: Array[CustomMetric] = Array(new FilesRead, new FilesSkipped, new BytesPlanned)

  def of(plan: FilePlan): Array[CustomTaskMetric] = Array(new FilesRead().is(plan.files.length),
    new FilesSkipped().is(plan.totalFiles - plan.files.length), new BytesPlanned().is(plan.bytes))
}

class FilesRead extends Figure("filesRead", "number of files read")
class FilesSkipped extends Figure("filesSkipped", "number of files skipped")
class BytesPlanned extends Figure("bytesPlanned", "bytes of files read")
