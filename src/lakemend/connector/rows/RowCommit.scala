package lakemend.rows

import com.fasterxml.jackson.databind.JsonNode
import com.fasterxml.jackson.databind.node.ObjectNode
import lakemend.Wire
import lakemend.write.{WriteJob, WrittenFile}
import org.apache.spark.sql.connector.write._

/** The commit request of a row operation: what was read, what goes and what comes. */
object RowCommit {
  def request(job: WriteJob, operation: RowOperation, wire: String, files: Seq[WrittenFile], summary: WriteSummary,
      tally: Tally): ObjectNode = {
    val request = job.commitRequest(wire, files, summary)
    request.set[JsonNode]("tally", tally.toNode)
    request.put("command", operation.command.name)
    // Where Spark found that nothing can match, it scans nothing; otherwise the table adds what was read.
    if (operation.scan.isEmpty) request.putArray("read_predicates").add(Wire.never)
    request.put("reads_more", operation.known.readsMore)
    operation.known.assigned.foreach(Wire.texts(request, "assigned", _))
    val scanned = operation.scan.map(_.plan)
    request.put("files_scanned", scanned.fold(0)(_.files.length))
    request.put("files_skipped", scanned.fold(0L)(plan => plan.totalFiles - plan.files.length))
  }
}
