package lakemend.rows

import scala.collection.mutable
import scala.jdk.CollectionConverters._

import com.fasterxml.jackson.databind.JsonNode
import lakemend.Bridge
import lakemend.write._
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.connector.metric.{CustomMetric, CustomTaskMetric}
import org.apache.spark.sql.connector.write._
import org.apache.spark.sql.lakemend.{SparkBridge, TaskReports}
import org.apache.spark.unsafe.types.UTF8String

/** A merge-on-read statement: dead positions per file, and files of the rows that are new. */
class MaskWrite(job: WriteJob, operation: MaskRows) extends DeltaWrite {
  private val batch = new MaskBatch(job, operation)

  override def description: String = s"lakemend ${job.meta.name} ${operation.command} merge-on-read"

  override def toBatch: DeltaBatchWrite = batch

  override def supportedCustomMetrics: Array[CustomMetric] = WriteMetrics.all

  override def reportDriverMetrics: Array[CustomTaskMetric] = batch.metrics
}

class MaskBatch(job: WriteJob, operation: MaskRows) extends DeltaBatchWrite {
  private var committed: Seq[WrittenFile] = Nil

  override def createBatchWriterFactory(info: PhysicalWriteInfo): DeltaWriterFactory = {
    job.listen()
    // A DELETE brings no rows at all, and so no columns to lay out.
    new MaskWriterFactory(if (job.info.schema.isEmpty) None else Some(job.layout), job.token)
  }

  override def commit(messages: Array[WriterCommitMessage]): Unit = commit(messages, null)

  override def commit(messages: Array[WriterCommitMessage], summary: WriteSummary): Unit = {
    val parts = messages.toIndexedSeq.filter(_ != null).map(m => MaskMessage.parse(m))
    val files = parts.flatMap(_.files)
    val request = RowCommit.request(job, operation, "delta", files, summary)
    val masked = request.putObject("masked")
    Positions.united(parts.map(_.dead)).foreach { case (path, positions) => masked.put(path, positions.toBase64) }
    job.commit(request)
    committed = files
  }

  override def abort(messages: Array[WriterCommitMessage]): Unit =
    job.abort(messages.toIndexedSeq.filter(_ != null).flatMap(m => MaskMessage.parse(m).files))

  def metrics: Array[CustomTaskMetric] = WriteMetrics.of(job, committed)
}

class MaskWriterFactory(layout: Option[FileLayout], token: String) extends DeltaWriterFactory {
  // Rows come as the target's files or the join give them, not sorted by partition.
  override def createWriter(partitionId: Int, taskId: Long): DeltaWriter[InternalRow] =
    new MaskWriter(layout.map(new DataFileWriter(_, partitionId, MaskWriter.OpenFiles)), token)
}

/** One task attempt. The row id is (file, position). */
class MaskWriter(files: Option[DataFileWriter], token: String) extends DeltaWriter[InternalRow] {
  private val dead = mutable.Map.empty[UTF8String, Positions]
  private var lastFile: UTF8String = _
  private var lastDead: Positions = _

  override def delete(metadata: InternalRow, id: InternalRow): Unit = {
    val file = id.getUTF8String(0)
    if (lastFile == null || lastFile != file) {
      lastFile = file.copy()
      lastDead = dead.getOrElseUpdate(lastFile, new Positions)
    }
    lastDead.add(id.getLong(1))
  }

  override def update(metadata: InternalRow, id: InternalRow, row: InternalRow): Unit = {
    delete(metadata, id)
    files.foreach(_.write(row))
  }

  override def reinsert(metadata: InternalRow, row: InternalRow): Unit = insert(row)

  override def insert(row: InternalRow): Unit = files.foreach(_.write(row))

  override def commit(): WriterCommitMessage = {
    val written = files.fold(Seq.empty[WrittenFile])(_.finish())
    TaskReports.report(token, written.map(_.path))
    SparkBridge.reportOutput(written.map(_.rows).sum, written.map(_.size).sum)
    MaskMessage.of(written, dead.map { case (file, positions) => file.toString -> positions }.toMap)
  }

  override def abort(): Unit = files.foreach(_.abort())

  override def close(): Unit = ()
}

object MaskWriter {
  val OpenFiles = 16
}

/** What a task tells the driver, as text (see FileMessage). */
case class MaskMessage(files: Seq[WrittenFile], dead: Map[String, Positions])

object MaskMessage {
  def of(files: Seq[WrittenFile], dead: Map[String, Positions]): FileMessage = {
    val node = Bridge.request()
    val written = node.putArray("files")
    files.foreach(file => written.add(file.toMessage))
    val masks = node.putObject("dead")
    dead.foreach { case (path, positions) => masks.put(path, positions.toBase64) }
    new FileMessage(node.toString)
  }

  def parse(message: WriterCommitMessage): MaskMessage = {
    val node: JsonNode = Bridge.mapper.readTree(message.toString)
    MaskMessage(node.get("files").asScala.map(WrittenFile.ofMessage).toSeq,
      node.get("dead").properties().asScala.map(e => e.getKey -> Positions.ofBase64(e.getValue.asText)).toMap)
  }
}
