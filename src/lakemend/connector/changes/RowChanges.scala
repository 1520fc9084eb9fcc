package lakemend.changes

import scala.jdk.CollectionConverters._

import com.fasterxml.jackson.databind.JsonNode
import com.fasterxml.jackson.databind.node.{ArrayNode, ObjectNode}
import lakemend.Bridge
import lakemend.catalog.TableMeta
import lakemend.read.DataFile
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions.GenericInternalRow
import org.apache.spark.sql.connector.catalog.{ChangelogContext, ChangelogRange}
import org.apache.spark.sql.types.StructType

/** A file of changes. `isFeed`: it was written as a record of changes, and each row of it says what it is. */
final case class ChangedFile(file: DataFile, isFeed: Boolean, part: String) {
  /** What all rows of the file share: partition values, version and time. */
  def shared: InternalRow = new GenericInternalRow(file.partition.init)
}

/**
 * The row changes of some versions of a table, as the brain's `changes` describes them (docs/architecture.md). The
 * columns of changes stand last in the schema and count as partition columns, the type of change as the last of them:
 * all rows of a file share their values.
 */
class RowChanges(answer: JsonNode) {
  /** For files whose rows were all inserted or all deleted. */
  val meta: TableMeta = new TableMeta(answer)
  /** For records of changes: there the type of change is a column like any other, and stored. */
  val feedMeta: TableMeta = {
    val json = answer.deepCopy[ObjectNode]()
    val partitioning = json.get("partitioning").asInstanceOf[ArrayNode]
    partitioning.remove(partitioning.size - 1)
    new TableMeta(json)
  }
  /** The columns that tell which row is which; none if nothing does. */
  val key: Seq[String] = answer.get("key").asScala.map(_.asText).toSeq
  /** Only what differs between the beginning and the end is wanted: equal rows cancel out across versions too. */
  val across: Boolean = answer.path("across").asBoolean

  val files: IndexedSeq[ChangedFile] = {
    val types = DataFile.partitionTypes(meta)
    answer.get("files").asScala.map { node =>
      val file = DataFile.of(node, types)
      ChangedFile(file, file.partition.last.toString == RowChanges.Feed, node.get("part").asText)
    }.toIndexedSeq
  }

  def schema: StructType = meta.schema

  /** The files of one part; see brain/feed.py. */
  def of(part: String): IndexedSeq[ChangedFile] = files.filter(_.part == part)

  override def toString: String = s"changes of ${meta.name} up to version ${meta.version.getOrElse("none")}"
}

object RowChanges {
  val Type = "_change_type"
  val Version = "_commit_version"
  val Timestamp = "_commit_timestamp"

  val Plain = "plain"
  val Pairable = "pairable"
  val Mixed = "mixed"

  private val Feed = "feed"

  /** `key`: comma-separated columns, over the table's own property. */
  def load(table: ObjectNode, context: ChangelogContext, key: Option[String]): RowChanges = {
    val request = Bridge.request()
    request.set[JsonNode]("table", table)
    request.set[JsonNode]("span", span(context.range))
    request.put("deduplicate", context.deduplicationMode.value).put("updates", context.computeUpdates)
    key.foreach(request.put("key", _))
    new RowChanges(Bridge.call("feed", request))
  }

  private def span(range: ChangelogRange): ObjectNode = {
    val node = Bridge.request()
    range match {
      case r: ChangelogRange.VersionRange =>
        node.put("by_time", false).put("start", r.startingVersion)
        r.endingVersion.ifPresent(v => node.put("end", v))
      case r: ChangelogRange.TimestampRange =>
        node.put("by_time", true).put("start", r.startingTimestamp)
        r.endingTimestamp.ifPresent(t => node.put("end", t.longValue))
      case _ => return node
    }
    node.put("start_inclusive", range.startingBoundInclusive).put("end_inclusive", range.endingBoundInclusive)
  }
}
