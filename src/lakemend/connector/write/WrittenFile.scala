package lakemend.write

import scala.jdk.CollectionConverters._

import com.fasterxml.jackson.databind.JsonNode
import com.fasterxml.jackson.databind.node.{ArrayNode, JsonNodeFactory, ObjectNode}
import lakemend.Bridge
import org.apache.spark.sql.connector.write.WriterCommitMessage

/**
 * A finished data file. `path` is relative to the table and plain; `partition` holds wire values; `stats` holds
 * [min, max, nulls] for each of the layout's statistics columns.
 */
case class WrittenFile(path: String, size: Long, rows: Long, modified: Long, partition: ArrayNode, stats: ArrayNode) {
  /** As the commit request lists it: statistics under their column's physical path. */
  def toWire(columns: Seq[StatsColumn]): ObjectNode = {
    val node = Bridge.request().put("path", path).put("size", size).put("rows", rows).put("modified", modified)
    node.set[JsonNode]("partition", partition)
    val named = node.putArray("stats")
    columns.zip(stats.asScala).foreach { case (column, bounds) =>
      val entry = named.addArray()
      column.path.foreach(entry.addArray().add)
      bounds.forEach(value => entry.add(value))
    }
    node
  }

  /** Positional, without column names: a message for thousands of files stays small. */
  def toMessage: ArrayNode = JsonNodeFactory.instance.arrayNode()
    .add(path).add(size).add(rows).add(modified).add(partition).add(stats)
}

object WrittenFile {
  def ofMessage(node: JsonNode): WrittenFile = WrittenFile(node.get(0).asText, node.get(1).asLong, node.get(2).asLong,
    node.get(3).asLong, node.get(4).asInstanceOf[ArrayNode], node.get(5).asInstanceOf[ArrayNode])
}

/** What a task tells the driver, as text: the class may have been loaded twice, by two class loaders. */
class FileMessage(json: String) extends WriterCommitMessage {
  override def toString: String = json
}

object FileMessage {
  def of(files: Seq[WrittenFile]): FileMessage = {
    val array = JsonNodeFactory.instance.arrayNode()
    files.foreach(file => array.add(file.toMessage))
    new FileMessage(array.toString)
  }

  /** Tasks that did not finish have left null. */
  def files(messages: Array[WriterCommitMessage]): Seq[WrittenFile] = messages.toIndexedSeq.filter(_ != null)
    .flatMap(message => Bridge.mapper.readTree(message.toString).asScala.map(WrittenFile.ofMessage))
}
