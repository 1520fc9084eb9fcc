package lakemend.write

import java.util.{Locale, UUID}

import scala.jdk.CollectionConverters._

import com.fasterxml.jackson.databind.JsonNode
import com.fasterxml.jackson.databind.node.{MissingNode, ObjectNode}
import lakemend.{Bridge, Options, Wire}
import lakemend.catalog.TableMeta
import org.apache.spark.sql.connector.write._
import org.apache.spark.sql.lakemend.{SparkBridge, TaskReports}
import org.slf4j.LoggerFactory

/**
 * One write to one table, on the driver: where its files go, and the one commit or abort it ends in. Plain writes and
 * row-level writes share it; each adds what is its own to `commitRequest`.
 */
class WriteJob(val meta: TableMeta, val info: LogicalWriteInfo, send: ObjectNode => Unit) {
  private val log = LoggerFactory.getLogger(getClass)
  Options.check(info.options)

  /** Names this write in the log, so that an unknown outcome can be looked up. */
  val token: String = UUID.randomUUID.toString
  // Read while the statement is planned: that is the caller's own thread.
  private val requestId: Option[String] = SparkBridge.requestId

  lazy val layout: FileLayout = FileLayout.of(meta, info)

  private lazy val reports = new TaskReports(token)

  /** To be called before tasks start: they name their files to the driver before they count as done. */
  def listen(): Unit = reports

  /** To be called when all tasks are done and somebody else commits what they wrote. */
  def handOver(): Unit = reports.end()

  def option(key: String): Option[String] = Option(info.options.get(key)).orElse(meta.properties.get(key))

  def commitRequest(operation: String, files: Seq[WrittenFile], summary: WriteSummary): ObjectNode = {
    val node = meta.request().put("operation", operation)
    node.putNull("command")
    Wire.values(node, "added", files.map(_.toWire(layout.statsColumns)))
    Seq("removed", "predicates").foreach(key => node.putArray(key))
    node.putObject("masked")
    node.putNull("read_predicates")
    if (meta.version.isEmpty && meta.staged.isEmpty) describeTable(node)
    meta.staged.foreach(node.set[JsonNode]("staged", _))
    val options = node.putObject("options")
    info.options.asScala.foreach { case (key, value) => options.put(key.toLowerCase(Locale.ROOT), value) }
    node.set[JsonNode]("summary", counts(summary, files))
    node.put("token", token).put("request", requestId.orNull)
  }

  def commit(request: ObjectNode): Unit = {
    reports.end()
    val operation = request.get("operation").asText
    log.info(s"committing $operation to ${meta.name}: ${request.get("added").size} files, token $token")
    send(request)
    report = request.path("answer").path("report")
  }

  /** What the brain says the commit did; a missing node before, and where it is sent later. */
  @volatile var report: JsonNode = MissingNode.getInstance

  /** Deletes files of finished tasks that the commit will not name. */
  def discard(files: Seq[WrittenFile]): Unit = if (files.nonEmpty) delete(files.map(_.path))

  private def delete(paths: Seq[String]): Unit =
    Bridge.call("abort", Wire.texts(meta.request().put("token", token), "files", paths))

  /**
   * Deletes the files of finished tasks; those that finished too late to be in `files` have reported them, or will be
   * refused and delete them. Spark aborts after a failed commit too: only the brain can prove that nothing landed.
   */
  def abort(files: Seq[WrittenFile]): Unit = {
    val paths = (reports.end() ++ files.map(_.path)).distinct
    // The error that led here is the one to report.
    try delete(paths)
    catch {
      case e: Exception => log.warn(s"could not clean up after the failed write $token to ${meta.name}; vacuum will", e)
    }
  }

  private def describeTable(node: ObjectNode): Unit = {
    node.set[JsonNode]("schema", Wire.dataType(layout.tableSchema))
    val partitioning = node.putArray("partitioning")
    meta.partitioning.foreach { p =>
      Wire.texts(partitioning.addObject().put("name", p.name).put("transform", p.transform), "source", p.source)
    }
  }

  /** Spark gives no summary for overwrites by condition; the rows written are known all the same. */
  private def counts(summary: WriteSummary, files: Seq[WrittenFile]): ObjectNode = {
    val values: Seq[(String, Long)] = summary match {
      case s: InsertSummary => Seq("numInsertedRows" -> s.numInsertedRows)
      case s: UpdateSummary => Seq("numUpdatedRows" -> s.numUpdatedRows, "numCopiedRows" -> s.numCopiedRows)
      case s: DeleteSummary => Seq("numDeletedRows" -> s.numDeletedRows, "numCopiedRows" -> s.numCopiedRows)
      case s: MergeSummary => Seq(
        "numTargetRowsCopied" -> s.numTargetRowsCopied,
        "numTargetRowsDeleted" -> s.numTargetRowsDeleted,
        "numTargetRowsUpdated" -> s.numTargetRowsUpdated,
        "numTargetRowsInserted" -> s.numTargetRowsInserted,
        "numTargetRowsMatchedUpdated" -> s.numTargetRowsMatchedUpdated,
        "numTargetRowsMatchedDeleted" -> s.numTargetRowsMatchedDeleted,
        "numTargetRowsNotMatchedBySourceUpdated" -> s.numTargetRowsNotMatchedBySourceUpdated,
        "numTargetRowsNotMatchedBySourceDeleted" -> s.numTargetRowsNotMatchedBySourceDeleted)
      case _ => Seq("numInsertedRows" -> files.map(_.rows).sum)
    }
    val node = Bridge.request()
    // Spark says -1 where it could not count.
    values.foreach { case (name, count) => if (count >= 0) node.put(name, count) }
    node
  }
}
