package lakemend.catalog

import com.fasterxml.jackson.databind.JsonNode
import com.fasterxml.jackson.databind.node.ObjectNode
import lakemend.Bridge
import org.apache.spark.sql.connector.catalog.StagedTable
import org.apache.spark.sql.connector.metric.CustomTaskMetric
import org.apache.spark.sql.lakemend.{SparkBridge, Spellings}

/**
 * A table that CREATE or REPLACE … [AS SELECT] is about to make. Its rows are written below the final location, and
 * one commit makes table and rows visible together; until then readers see what was there before.
 */
class StagedLakeTable(mode: String, meta: TableMeta) extends LakeTable(meta) with StagedTable {
  private var written: Option[ObjectNode] = None

  override protected def send(commit: ObjectNode): Unit = written = Some(commit)

  override def commitStagedChanges(): Unit = {
    val commit = written.getOrElse(meta.request().put("operation", "append").put("token", java.util.UUID.randomUUID.toString))
    commit.put("command", command)
    meta.staged.foreach(commit.set[JsonNode]("staged", _))
    if (!commit.has("request")) commit.put("request", SparkBridge.requestId.orNull)
    try Bridge.call("commit", commit)
    catch {
      case e: Throwable =>
        // What became of the commit is what counts, not whether its files could be looked after.
        try discard(commit) catch { case other: Exception => e.addSuppressed(other) }
        throw e
    }
    Spellings.changed(meta.key.place)
  }

  override def reportDriverMetrics: Array[CustomTaskMetric] = Array.empty

  override def abortStagedChanges(): Unit = written.foreach(discard)

  /** The brain deletes the files only where the log proves that this commit did not land. */
  private def discard(commit: ObjectNode): Unit = if (commit.has("added")) {
    val request = meta.request()
    request.set[JsonNode]("token", commit.get("token"))
    val files = request.putArray("files")
    commit.get("added").forEach(file => files.add(file.get("path").asText))
    Bridge.call("abort", request)
    written = None
  }

  private def command: String = {
    val verb = mode match {
      case "create" => "CREATE TABLE"
      case "replace" => "REPLACE TABLE"
      case _ => "CREATE OR REPLACE TABLE"
    }
    if (written.isDefined) s"$verb AS SELECT" else verb
  }
}
