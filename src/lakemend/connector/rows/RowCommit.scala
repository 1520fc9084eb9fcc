package lakemend.rows

import com.fasterxml.jackson.databind.node.ObjectNode
import lakemend.Wire
import lakemend.write.{WriteJob, WrittenFile}
import org.apache.spark.sql.connector.write._

/** The commit request of a row operation: what was read, what goes and what comes. */
object RowCommit {
  def request(job: WriteJob, operation: RowOperation, wire: String, files: Seq[WrittenFile], summary: WriteSummary): ObjectNode = {
    val request = job.commitRequest(wire, files, summary)
    request.put("command", operation.command.name)
    // Where Spark found that nothing can match, it scans nothing; otherwise the table adds what was read.
    if (operation.scan.isEmpty) request.putArray("read_predicates").add(Wire.never)
    request.put("reads_more", operation.readsMore)
    operation.assigned.foreach { names =>
      val columns = request.putArray("assigned")
      names.foreach(columns.add)
    }
    val scanned = operation.scan.map(_.plan)
    request.put("files_scanned", scanned.fold(0)(_.files.length))
    request.put("files_skipped", scanned.fold(0L)(plan => plan.totalFiles - plan.files.length))
  }

  /** Whether the statement changed a row, as far as Spark counted. */
  def changedNothing(summary: WriteSummary): Boolean = summary match {
    case s: UpdateSummary => s.numUpdatedRows == 0
    case s: DeleteSummary => s.numDeletedRows == 0
    case s: MergeSummary =>
      s.numTargetRowsUpdated == 0 && s.numTargetRowsDeleted == 0 && s.numTargetRowsInserted == 0
    case _ => false
  }
}
