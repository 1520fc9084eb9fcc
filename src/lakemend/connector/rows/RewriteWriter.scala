package lakemend.rows

import scala.jdk.CollectionConverters._

import com.fasterxml.jackson.databind.JsonNode
import com.fasterxml.jackson.databind.node.ObjectNode
import lakemend.{Bridge, Wire}
import lakemend.write._
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.connector.write.{DataWriter, DataWriterFactory, WriterCommitMessage}
import org.apache.spark.sql.lakemend.{Fate, SparkBridge, TaskReports}

class RewriteWriterFactory(layout: FileLayout, openFiles: Int, token: String) extends DataWriterFactory {
  override def createWriter(partitionId: Int, taskId: Long): DataWriter[InternalRow] =
    new RewriteWriter(new DataFileWriter(layout, partitionId, openFiles), token)
}

/** One task attempt of a copy-on-write statement. Every row of the target comes, with its place and its fate (`Fates`); a
  * row that is new has no place. */
class RewriteWriter(files: DataFileWriter, token: String) extends DataWriter[InternalRow] {
  private val places = new Places(token)
  private var copied, updated, deleted, inserted, sum = 0L

  override def write(place: InternalRow, row: InternalRow): Unit = {
    val marked = place.getLong(1)
    sum += places.number(place.getUTF8String(0), Fate.position(marked))
    if (Fate.isDeleted(marked)) deleted += 1
    else {
      if (Fate.isUpdated(marked)) updated += 1 else copied += 1
      files.write(row)
    }
  }

  override def write(row: InternalRow): Unit = {
    inserted += 1
    files.write(row)
  }

  override def commit(): WriterCommitMessage = {
    val written = files.finish()
    TaskReports.report(token, written.map(_.path))
    SparkBridge.reportOutput(written.map(_.rows).sum, written.map(_.size).sum)
    RewriteMessage.of(written, Tally(copied, updated, deleted, inserted, Some(sum)))
  }

  override def abort(): Unit = files.abort()

  override def close(): Unit = ()
}

/** What a task tells the driver, as text (see FileMessage). */
case class RewriteMessage(files: Seq[WrittenFile], tally: Tally) {
  /** Whether its files hold copies alone or none. */
  def isPure: Boolean = tally.copied == 0 || tally.copied == files.map(_.rows).sum
}

object RewriteMessage {
  def of(files: Seq[WrittenFile], tally: Tally): FileMessage = new FileMessage(node(files, tally).toString)

  private[rows] def node(files: Seq[WrittenFile], tally: Tally): ObjectNode = {
    val node = Wire.values(Bridge.request(), "files", files.map(_.toMessage))
    node.set[JsonNode]("tally", tally.toNode)
    node
  }

  /** Tasks that did not finish have left null. */
  def all(messages: Array[WriterCommitMessage]): Seq[RewriteMessage] = messages.toIndexedSeq.filter(_ != null).map { message =>
    val node: JsonNode = Bridge.mapper.readTree(message.toString)
    RewriteMessage(node.get("files").asScala.map(WrittenFile.ofMessage).toSeq, Tally.of(node.get("tally")))
  }
}
