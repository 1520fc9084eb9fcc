package lakemend.rows

import scala.jdk.CollectionConverters._

import com.fasterxml.jackson.databind.JsonNode
import com.fasterxml.jackson.databind.node.{ArrayNode, ObjectNode}
import lakemend.{Bridge, Wire}
import lakemend.catalog.TableMeta
import lakemend.write._
import org.apache.spark.sql.catalyst.{InternalRow, ProjectingInternalRow}
import org.apache.spark.sql.catalyst.expressions.{GenericInternalRow, JoinedRow}
import org.apache.spark.sql.connector.catalog.Changelog._
import org.apache.spark.sql.connector.write._
import org.apache.spark.sql.lakemend.TaskReports
import org.apache.spark.sql.types.{StringType, StructType}
import org.apache.spark.sql.util.CaseInsensitiveStringMap
import org.apache.spark.unsafe.types.UTF8String

/** What a task needs to write records of changes. `ordinals`: where the table's columns stand in a new row. */
case class FeedLayout(files: FileLayout, table: StructType, ordinals: Array[Int])

object FeedLayout {
  private val Directory = "_change_data"
  private val ChangeType = "_change_type"
  // A record lies beside the data file a row goes to, and both are open at once.
  private val RowGroupSize = 8 << 20

  /** Records lie in a directory of their own, in partitions as the table's rows, with a column more. */
  def of(job: WriteJob): FeedLayout = {
    val table = job.meta.schema
    val json = job.meta.json.deepCopy[ObjectNode]()
    Seq("schema", "physical").foreach { key =>
      val column = json.get(key).get("fields").asInstanceOf[ArrayNode].addObject()
      column.put("name", ChangeType).put("type", "string").put("nullable", true).putObject("metadata")
    }
    json.put("location", s"${job.meta.location.stripSuffix("/")}/$Directory")
    val write = json.withObject("/write")
    write.putArray("stats_columns")
    write.withObject("/writer_options").put("parquet.block.size", RowGroupSize.toString)
    val rows = job.info.schema.fieldNames
    FeedLayout(FileLayout.of(new TableMeta(json), new RowsOf(job.info, table.add(ChangeType, StringType))), table,
      // A DELETE brings no rows.
      if (rows.isEmpty) Array.empty else table.fieldNames.map(name => rows.indexWhere(_.equalsIgnoreCase(name))))
  }

  /** Relative to the table. */
  def place(file: WrittenFile): WrittenFile = file.copy(path = s"$Directory/${file.path}")
}

/** A write of rows with other columns than the statement's own. */
class RowsOf(info: LogicalWriteInfo, columns: StructType) extends LogicalWriteInfo {
  override def options: CaseInsensitiveStringMap = info.options
  override def queryId: String = info.queryId
  override def schema: StructType = columns
}

class FeedWriterFactory(rows: DeltaWriterFactory, layout: FeedLayout, token: String) extends DeltaWriterFactory {
  override def createWriter(partitionId: Int, taskId: Long): DeltaWriter[InternalRow] =
    new FeedWriter(rows.createWriter(partitionId, taskId),
      new DataFileWriter(layout.files, partitionId, MaskWriter.OpenFiles), layout, token)
}

/** One task attempt: every change is written down, and then made by `rows`. The metadata of a row is what it was before. */
class FeedWriter(rows: DeltaWriter[InternalRow], records: DataFileWriter, layout: FeedLayout, token: String)
    extends DeltaWriter[InternalRow] {
  private val record = new JoinedRow
  private lazy val after = new ProjectingInternalRow(layout.table, layout.ordinals.toIndexedSeq)
  private val inserted = kind(CHANGE_TYPE_INSERT)
  private val deleted = kind(CHANGE_TYPE_DELETE)
  private val preimage = kind(CHANGE_TYPE_UPDATE_PREIMAGE)
  private val postimage = kind(CHANGE_TYPE_UPDATE_POSTIMAGE)

  override def delete(metadata: InternalRow, id: InternalRow): Unit = {
    records.write(record(before(metadata), deleted))
    rows.delete(metadata, id)
  }

  override def update(metadata: InternalRow, id: InternalRow, row: InternalRow): Unit = {
    records.write(record(before(metadata), preimage))
    after.project(row)
    records.write(record(after, postimage))
    rows.update(metadata, id, row)
  }

  override def insert(row: InternalRow): Unit = {
    after.project(row)
    records.write(record(after, inserted))
    rows.insert(row)
  }

  /** Updates come whole. */
  override def reinsert(metadata: InternalRow, row: InternalRow): Unit =
    throw new IllegalStateException("an update came as a deletion and an insertion")

  override def commit(): WriterCommitMessage = {
    val written = records.finish().map(FeedLayout.place)
    TaskReports.report(token, written.map(_.path))
    FeedMessage.of(written, rows.commit())
  }

  override def abort(): Unit =
    try records.abort()
    finally rows.abort()

  override def close(): Unit = rows.close()

  private def before(metadata: InternalRow): InternalRow = metadata.getStruct(0, layout.table.length)

  private def kind(text: String): InternalRow = new GenericInternalRow(Array[Any](UTF8String.fromString(text)))
}

/** What a task tells the driver, as text (see FileMessage): its records, and what the writer of rows has to say. */
case class FeedMessage(records: Seq[WrittenFile], rows: WriterCommitMessage)

object FeedMessage {
  def of(records: Seq[WrittenFile], rows: WriterCommitMessage): FileMessage = {
    val node = Wire.values(Bridge.request(), "records", records.map(_.toMessage))
    new FileMessage(node.put("rows", rows.toString).toString)
  }

  def parse(message: WriterCommitMessage): FeedMessage = {
    val node: JsonNode = Bridge.mapper.readTree(message.toString)
    FeedMessage(node.get("records").asScala.map(WrittenFile.ofMessage).toSeq, new FileMessage(node.get("rows").asText))
  }
}
