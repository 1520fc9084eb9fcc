package lakemend.catalog

import scala.jdk.CollectionConverters._

import com.fasterxml.jackson.databind.JsonNode
import com.fasterxml.jackson.databind.node.ObjectNode
import lakemend.Bridge
import lakemend.joins.Transforms
import org.apache.spark.sql.connector.expressions.Transform
import org.apache.spark.sql.lakemend.{Padding, SparkBridge, TableExpressions}
import org.apache.spark.sql.types.{DataType, StructField, StructType}

/** One partition field: `name` is its name in the table's partitioning, `source` the column it is made of. */
case class PartitionField(name: String, source: Seq[String], transform: String, dataType: DataType) {
  def isIdentity: Boolean = transform == "identity"

  def toSpark: Transform = Transforms.toSpark(transform, quoted)

  private def quoted: String = source.map(part => "`" + part.replace("`", "``") + "`").mkString(".")
}

/** Which table it is, however it was named: its id, and the place where its log lies, for a copy has the same id. */
case class TableKey(id: String, place: String)

/** A table as the brain's `load` and `stage` describe it (docs/architecture.md, *table*). Driver side only. */
class TableMeta(val json: JsonNode) {
  /** How requests name this table. */
  val identity: ObjectNode = json.get("table").asInstanceOf[ObjectNode]
  val name: String = json.get("name").asText
  /** In the spelling of Hadoop's file systems; a plain path, not URI-encoded. */
  val location: String = json.get("location").asText
  val format: String = json.get("format").asText
  /** None: the table does not exist yet (a creatable path, or staged). */
  val version: Option[String] = Option(json.get("version")).filterNot(_.isNull).map(_.asText)
  val schema: StructType = TableExpressions.requireReadable(struct("schema"), name)
  /** The same shape as `schema`, with the names the data files use. */
  val physical: StructType = struct("physical")
  /** Data files are read by field id, not by name. */
  val byId: Boolean = json.path("by_id").asBoolean(false)
  val partitioning: Seq[PartitionField] = json.get("partitioning").asScala.toSeq.map { p =>
    val source = p.get("source").asScala.map(_.asText).toSeq
    val transform = p.path("transform").asText("identity")
    PartitionField(p.get("name").asText, source, transform, Transforms.resultType(transform, schema(source.head).dataType))
  }
  val properties: Map[String, String] =
    json.get("properties").properties().asScala.map(e => e.getKey -> e.getValue.asText).toMap
  val comment: Option[String] = Option(json.get("comment")).filterNot(_.isNull).map(_.asText)
  val checks: Seq[(String, String)] =
    json.path("checks").properties().asScala.map(e => e.getKey -> e.getValue.asText).toSeq
  /** CHECK constraints as they were written; `checks` has what is tested of each row. */
  lazy val constraints: Seq[(String, String)] =
    json.path("constraints").properties().asScala.map(e => e.getKey -> e.getValue.asText).toSeq
  /** Whether it lies where the catalog puts tables of its name. */
  val isManaged: Boolean = json.path("managed").asBoolean(false)
  /** Whether the format keeps a property by itself: no statement sets it. */
  def isKept(property: String): Boolean = write.path("kept_properties").elements.asScala.exists(_.asText == property)
  val tableId: String = json.path("table_id").asText("")
  /** The id as Spark is told it: another one when a name has come to mean another column (brain/frames.py). */
  val frameId: String = json.path("frame_id").asText(tableId)
  /** The same for every spelling of one table: by name, by path, through a link or another catalog. */
  val key: TableKey = TableKey(tableId, json.path("place").asText(location))
  /** How the session reads what is stored: local times, and CHAR values without their blanks, are others in another one. */
  val readAs: (String, Boolean) = (SparkBridge.timeZone, Padding.isOn)
  /** Loaded as of a version or a time that was asked for: nothing can change what is read of it. */
  val isTimeTravel: Boolean = json.path("time_travel").asBoolean(false)
  /** How data files are to be written. */
  val write: JsonNode = json.path("write")
  /** Handed back to the brain when a staged table is committed. */
  val staged: Option[JsonNode] = Option(json.get("staged")).filterNot(_.isNull)

  val identityColumns: Set[String] = partitioning.filter(_.isIdentity).map(_.source.head).toSet

  def isPartitionColumn(column: String): Boolean = identityColumns.contains(column)

  /** The columns stored inside data files, logical and physical side by side. */
  lazy val dataColumns: Seq[(StructField, StructField)] =
    schema.fields.zip(physical.fields).toSeq.filterNot { case (logical, _) => isPartitionColumn(logical.name) }

  /** A request about this table at this version, whose values are read as they were when it was loaded: a plan compares
    * with them, and the session may have changed until it is run. */
  def request(): ObjectNode = {
    val node = Bridge.readingAs(Bridge.request(), readAs._1, readAs._2)
    node.set[JsonNode]("table", identity)
    // A name is no identity: the table may have been dropped, and another created.
    if (version.isDefined && tableId.nonEmpty) node.put("table_id", tableId)
    version.fold(node.putNull("version"))(node.put("version", _))
  }

  private def struct(key: String): StructType = DataType.fromJson(json.get(key).toString).asInstanceOf[StructType]
}
