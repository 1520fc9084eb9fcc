package lakemend.rows

import scala.collection.mutable
import scala.jdk.CollectionConverters._

import com.fasterxml.jackson.databind.JsonNode
import com.fasterxml.jackson.databind.node.ObjectNode
import lakemend.{Bridge, Wire}
import lakemend.read.DataFile
import lakemend.write._
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.connector.write._
import org.apache.spark.sql.lakemend.{SparkBridge, TaskReports}
import org.apache.spark.unsafe.types.UTF8String

/** A merge-on-read statement: dead positions per file, and files of the rows that are new. */
class MaskWrite(job: WriteJob, operation: MaskRows) extends DeltaWrite with MeasuredWrite {
  override protected val batch = new MaskBatch(job, operation)

  override def description: String = s"lakemend ${job.meta.name} ${operation.command} merge-on-read"

  override def toBatch: DeltaBatchWrite = batch
}

class MaskBatch(val job: WriteJob, operation: MaskRows) extends DeltaBatchWrite with MeasuredBatch {
  private var masks: MaskFiles = _
  private lazy val scanned: Map[String, DataFile] = operation.filesRead

  override def createBatchWriterFactory(info: PhysicalWriteInfo): DeltaWriterFactory = {
    job.listen()
    val known = scanned.collect { case (path, file) if file.mask.isDefined => path -> file.mask.get }
    // A DELETE brings no rows at all, and so no columns to lay out.
    val layout = if (job.info.schema.isEmpty) None else Some(job.layout)
    masks = MaskFiles.of(job.meta, layout, known, info.numPartitions)
    new MaskWriterFactory(layout, masks, job.token)
  }

  override def commit(messages: Array[WriterCommitMessage], summary: WriteSummary): Unit = {
    val tasks = messages.toIndexedSeq.filter(_ != null).map(m => MaskMessage.parse(m))
    val files = tasks.flatMap(_.files)
    val parts = new UnitedMasks(job, masks, scanned).of(tasks.flatMap(_.dead))
    val (dying, masked) = parts.partition { case (path, part) => scanned.get(path).exists(isMostlyDead(_, part)) }
    val survivors = new Survivors(job)
    val rewritten = dying.toSeq.map { case (path, part) =>
      val file = scanned(path)
      file.withMask(part.mask(file.mask, job.meta.location))
    }
    val copies = survivors.rewrite(rewritten)
    val tally = Tally.sum(tasks.map(_.tally)).copy(copied = copies.map(_.rows).sum)
    val request = RowCommit.request(job, operation, "mask_rows", files, summary, tally)
    survivors.describe(request, rewritten, copies)
    val wire = request.putObject("masked")
    masked.foreach { case (path, part) => wire.set[JsonNode](path, part.toWire) }
    describeMaskFiles(request, tasks.flatMap(_.dead.map(_._2)) ++ parts.values)
    job.commit(request)
    committed = files ++ copies
  }

  /** More dead rows than the table allows. A file without a living row just leaves the table. */
  private def isMostlyDead(file: DataFile, part: MaskPart): Boolean =
    if (file.rows < 0) operation.maxDeadShare == 0
    else {
      val dead = file.mask.fold(0L)(_.cardinality) + part.rows
      dead < file.rows && dead > operation.maxDeadShare * file.rows
    }

  /** All that were written: the brain deletes those that the version does not refer to. */
  private def describeMaskFiles(request: ObjectNode, parts: Seq[MaskPart]): Unit =
    Wire.texts(request, "mask_files", parts.collect { case part: StoredPart => part.path }.distinct)

  /** Tasks have named their mask files to the driver (`TaskReports`). */
  override def abort(messages: Array[WriterCommitMessage]): Unit =
    job.abort(messages.toIndexedSeq.filter(_ != null).flatMap(m => MaskMessage.parse(m).files))
}

class MaskWriterFactory(layout: Option[FileLayout], masks: MaskFiles, token: String) extends DeltaWriterFactory {
  // Rows come as the target's files or the join give them, not sorted by partition.
  override def createWriter(partitionId: Int, taskId: Long): DeltaWriter[InternalRow] =
    new MaskWriter(layout.map(new DataFileWriter(_, partitionId, MaskWriter.OpenFiles)), masks.writer, token)
}

/** One task attempt. The row id is (file, position). */
class MaskWriter(files: Option[DataFileWriter], masks: TaskMasks, token: String) extends DeltaWriter[InternalRow] {
  private val dead = mutable.Map.empty[UTF8String, Positions]
  private var lastFile: UTF8String = _
  private var lastDead: Positions = _
  private var updated, deleted, inserted = 0L

  override def delete(metadata: InternalRow, id: InternalRow): Unit = {
    deleted += 1
    mask(id)
  }

  private def mask(id: InternalRow): Unit = {
    val file = id.getUTF8String(0)
    if (lastFile == null || lastFile != file) {
      lastFile = file.copy()
      lastDead = dead.getOrElseUpdate(lastFile, new Positions)
    }
    lastDead.add(id.getLong(1))
  }

  override def update(metadata: InternalRow, id: InternalRow, row: InternalRow): Unit = {
    updated += 1
    mask(id)
    files.foreach(_.write(row))
  }

  override def reinsert(metadata: InternalRow, row: InternalRow): Unit = insert(row)

  override def insert(row: InternalRow): Unit = {
    inserted += 1
    files.foreach(_.write(row))
  }

  override def commit(): WriterCommitMessage = {
    val written = files.fold(Seq.empty[WrittenFile])(_.finish())
    val parts = masks.parts(dead.toSeq.map { case (file, positions) => file.toString -> positions })
    TaskReports.report(token, written.map(_.path) ++ masks.path)
    SparkBridge.reportOutput(written.map(_.rows).sum, written.map(_.size).sum)
    MaskMessage.of(written, parts, Tally(0, updated, deleted, inserted))
  }

  override def abort(): Unit =
    try files.foreach(_.abort())
    finally masks.abort()

  override def close(): Unit = ()
}

object MaskWriter {
  val OpenFiles = 16
}

/** What a task tells the driver, as text (see FileMessage): the files it wrote, the rows it found dead, and how many it
  * was told to mask: if a row was named twice, these are more. */
case class MaskMessage(files: Seq[WrittenFile], dead: Seq[(String, MaskPart)], tally: Tally)

object MaskMessage {
  def of(files: Seq[WrittenFile], dead: Seq[(String, MaskPart)], tally: Tally = Tally()): FileMessage = {
    val node = RewriteMessage.node(files, tally)
    val masks = node.putObject("dead")
    dead.foreach { case (path, part) => masks.set[JsonNode](path, part.toMessage) }
    new FileMessage(node.toString)
  }

  def parse(message: WriterCommitMessage): MaskMessage = {
    val node: JsonNode = Bridge.mapper.readTree(message.toString)
    MaskMessage(node.get("files").asScala.map(WrittenFile.ofMessage).toSeq,
      node.get("dead").properties().asScala.map(e => e.getKey -> MaskPart.of(e.getValue)).toSeq, Tally.of(node.get("tally")))
  }
}
