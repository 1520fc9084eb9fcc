package lakemend.rows

import scala.collection.mutable
import scala.jdk.CollectionConverters._

import com.fasterxml.jackson.databind.JsonNode
import lakemend.{Bridge, Wire}
import lakemend.read.DataFile
import lakemend.write.WriteJob
import org.apache.spark.sql.SparkSession
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.connector.write.{DataWriter, DataWriterFactory, WriterCommitMessage}
import org.apache.spark.sql.lakemend.{TaskReports, WriteTasks}

/**
 * One mask part per file, where several tasks have found dead rows of the same file: large files are read by several
 * tasks, and a join sends the rows of a file everywhere. Few positions are united on the driver; parts in files are
 * united by tasks, which write mask files again.
 */
class UnitedMasks(job: WriteJob, masks: MaskFiles, files: Map[String, DataFile]) {
  def of(parts: Seq[(String, MaskPart)]): Map[String, MaskPart] = {
    val grouped = parts.groupMap(_._1)(_._2)
    val (single, several) = grouped.partition(_._2.length == 1)
    val (stored, inline) = several.partition(_._2.exists(_.isInstanceOf[StoredPart]))
    single.map { case (file, found) => file -> found.head } ++
      inline.map { case (file, found) => file -> united(found) } ++
      (if (stored.isEmpty) Nil else byTasks(stored))
  }

  private def united(parts: Seq[MaskPart]): MaskPart = {
    val all = new Positions
    parts.collect { case part: InlinePart => all.unite(part.positions) }
    InlinePart.of(all)
  }

  private def byTasks(parts: Map[String, Seq[MaskPart]]): Map[String, MaskPart] = {
    val spark = SparkSession.active
    val bytes = parts.valuesIterator.flatten.collect { case p: StoredPart => p.length.toLong }.sum
    val tasks = (bytes / UnitedMasks.BytesPerTask + 1).min(parts.size).min(spark.sparkContext.defaultParallelism.max(1))
    val messages = WriteTasks.run(spark, parts.toSeq.map { case (file, found) => message(file, found) }, tasks.toInt,
      new UniteWriterFactory(masks, job.meta.location, job.token))
    messages.flatMap(m => MaskMessage.parse(m).dead).toMap
  }

  private def message(file: String, parts: Seq[MaskPart]): String = {
    val node = Bridge.request().put("file", file).put("known", files.get(file).flatMap(_.mask).fold(0L)(_.cardinality))
    Wire.values(node, "parts", parts.map(_.toMessage)).toString
  }
}

object UnitedMasks {
  private val BytesPerTask = 8L << 20
}

class UniteWriterFactory(masks: MaskFiles, location: String, token: String) extends DataWriterFactory {
  override def createWriter(partitionId: Int, taskId: Long): DataWriter[InternalRow] =
    new UniteWriter(masks, location, token)
}

/** One task attempt; a row is the text of a file and its parts. */
class UniteWriter(masks: MaskFiles, location: String, token: String) extends DataWriter[InternalRow] {
  private val files = mutable.ArrayBuffer.empty[MaskedRows]
  private val written = masks.writer

  override def write(row: InternalRow): Unit = {
    val node: JsonNode = Bridge.mapper.readTree(row.getUTF8String(0).toString)
    val file = node.get("file").asText
    val all = new Positions
    // Parts in files hold the rows that were dead before; parts in messages need not.
    node.get("parts").asScala.map(MaskPart.of).foreach { part =>
      all.unite(part.mask(None, location).positions(masks.hadoop, s"data file $file"))
    }
    files += MaskedRows(file, all.count - node.get("known").asLong, all)
  }

  override def commit(): WriterCommitMessage = {
    val parts = written.write(masks.requiredForm, files.toSeq)
    TaskReports.report(token, written.path.toSeq)
    MaskMessage.of(Nil, parts)
  }

  override def abort(): Unit = written.abort()

  override def close(): Unit = ()
}
