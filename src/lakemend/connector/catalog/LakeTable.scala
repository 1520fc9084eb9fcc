package lakemend.catalog

import java.util.{EnumSet, Map => JMap, Set => JSet, UUID}
import java.util.concurrent.ConcurrentLinkedQueue

import scala.jdk.CollectionConverters._

import com.fasterxml.jackson.databind.JsonNode
import com.fasterxml.jackson.databind.node.ObjectNode
import lakemend.{Bridge, Wire}
import lakemend.changes.PathChanges
import lakemend.read.LakeScanBuilder
import lakemend.rows.{FeedRows, RowOperation}
import lakemend.write.LakeWriteBuilder
import org.apache.spark.sql.connector.catalog._
import org.apache.spark.sql.connector.catalog.TableCapability._
import org.apache.spark.sql.connector.catalog.constraints.Constraint
import org.apache.spark.sql.connector.expressions.Transform
import org.apache.spark.sql.connector.expressions.filter.Predicate
import org.apache.spark.sql.connector.read.ScanBuilder
import org.apache.spark.sql.connector.write.{LogicalWriteInfo, RowLevelOperationBuilder, RowLevelOperationInfo, WriteBuilder}
import org.apache.spark.sql.lakemend.{EvolvedTypes, SparkBridge, Spellings}
import org.apache.spark.sql.types.{DataType, DataTypes, StructType}
import org.apache.spark.sql.util.CaseInsensitiveStringMap

/** One version of a table, as Spark sees it. Reads and writes are pinned to that version; `reads` is the statement's. */
class LakeTable(val meta: TableMeta, val reads: Reads = new Reads)
    extends Table with SupportsRead with SupportsWrite with SupportsMetadataColumns with SupportsSchemaEvolution
    with SupportsRowLevelOperations with SupportsDeleteV2 {
  override def name: String = meta.name
  override def id: String = meta.frameId
  override def version: String = meta.version.orNull
  override def columns: Array[Column] = Columns.fromSchema(meta.schema)
  override def partitioning: Array[Transform] = meta.partitioning.map(_.toSpark).toArray

  override def properties: JMap[String, String] = {
    val reserved = Map(TableCatalog.PROP_PROVIDER -> meta.format, TableCatalog.PROP_LOCATION -> meta.location) ++
      meta.comment.map(TableCatalog.PROP_COMMENT -> _)
    (meta.properties ++ reserved).asJava
  }

  override def capabilities: JSet[TableCapability] =
    EnumSet.of(BATCH_READ, BATCH_WRITE, TRUNCATE, OVERWRITE_BY_FILTER, OVERWRITE_DYNAMIC, AUTOMATIC_SCHEMA_EVOLUTION,
      GENERATE_COLUMN_VALUES_ON_WRITE)

  /** The same for UPDATE and MERGE, which Spark plans only where it has no generated columns to fill: see `GeneratedColumns`. */
  def forRowChanges: LakeTable = {
    val shown = EnumSet.copyOf(capabilities)
    shown.remove(GENERATE_COLUMN_VALUES_ON_WRITE)
    new LakeTable(meta, reads) {
      override def capabilities: JSet[TableCapability] = shown
    }
  }

  /** The brain decides which changes the format can make; it refuses the others by name. */
  override def supportsColumnChange(change: TableChange.ColumnChange): Boolean = change match {
    case c: TableChange.UpdateColumnType => !EvolvedTypes.fit(meta.schema, c)
    case _ => true
  }

  override def constraints: Array[Constraint] = meta.checks.map { case (name, sql) =>
    Constraint.check(name).predicateSql(sql).enforced(true).build().asInstanceOf[Constraint]
  }.toArray

  override def metadataColumns: Array[MetadataColumn] = MetadataColumns.all(meta)

  override def newScanBuilder(options: CaseInsensitiveStringMap): ScanBuilder = {
    if (PathChanges.areAsked(options)) PathChanges.refuse(name)
    new LakeScanBuilder(meta, options, reads = reads)
  }

  override def newWriteBuilder(info: LogicalWriteInfo): WriteBuilder = new LakeWriteBuilder(meta, info, send)

  override def newRowLevelOperationBuilder(info: RowLevelOperationInfo): RowLevelOperationBuilder =
    () => RowOperation.of(meta, info, reads, send)

  /** Whether the predicates hold for all rows of some files and for none of the others: then no row needs to be read. */
  override def canDeleteWhere(predicates: Array[Predicate]): Boolean = {
    val request = meta.request()
    request.set[JsonNode]("predicates", Wire.predicates(predicates))
    Bridge.call("deletable", request).path("deletable").asBoolean
  }

  override def deleteWhere(predicates: Array[Predicate]): Unit = {
    val request = meta.request().put("operation", "delete_where").put("command", "DELETE")
    request.set[JsonNode]("predicates", Wire.predicates(predicates))
    request.set[JsonNode]("read_predicates", Wire.predicates(predicates))
    Bridge.call("commit", request.put("token", UUID.randomUUID.toString).put("request", SparkBridge.requestId.orNull))
    Spellings.changed(meta.key.place)
  }

  /** What a finished write does with its commit request: here it is sent to the brain at once, and answered in place. */
  protected def send(commit: ObjectNode): Unit = {
    Iterator.continually(atEnd.poll()).takeWhile(_ != null).foreach(_.apply())
    commit.set[JsonNode]("answer", Bridge.call("commit", reads.describe(commit)))
    Spellings.changed(meta.key.place)
  }

  private val atEnd = new ConcurrentLinkedQueue[() => Unit]()

  /** What is to be let go of when the rows of a write have come. */
  def onEnd(release: () => Unit): Unit = atEnd.add(release)

  /**
   * Equal are two that Spark loaded apart and that hold the same rows: so it finds what it has cached of one for the other.
   * A table that a statement is about to make or to change equals no other, nor does one at an older version that was asked
   * for: what is read of that can not be in conflict, so it is no read of the table as it is.
   */
  override def equals(other: Any): Boolean = other match {
    case that: LakeTable => (this eq that) || isPlain && that.isPlain && meta.key == that.meta.key &&
      meta.version == that.meta.version && meta.isTimeTravel == that.meta.isTimeTravel && meta.schema == that.meta.schema &&
      meta.readAs == that.meta.readAs
    case _ => false
  }

  override def hashCode: Int = if (isPlain) (meta.key, meta.version).hashCode else System.identityHashCode(this)

  /** A version of a table, and nothing besides. */
  def isPlain: Boolean = getClass == classOf[LakeTable] && meta.version.isDefined && meta.tableId.nonEmpty && meta.staged.isEmpty

  override def toString: String = s"lakemend ${meta.name}${meta.version.fold("")(v => s" version $v")}"
}

/** `_file`, `_pos` and `_partition`: where a row lies. */
object MetadataColumns {
  val File = "_file"
  val Position = "_pos"
  val Partition = "_partition"
  /** The whole row, for row changes that leave a record of it. */
  val Before = "_before"
  val Names: Seq[String] = Seq(File, Position, Partition, Before)

  def all(meta: TableMeta): Array[MetadataColumn] = {
    val place = Array(column(File, DataTypes.StringType, "the data file the row lies in"),
      column(Position, DataTypes.LongType, "the row's position in its data file, from 0"))
    val partition = if (meta.partitioning.isEmpty) Nil
      else Seq(column(Partition, partitionType(meta), "the row's partition values", canBeNull = true))
    val before = if (!FeedRows.isKept(meta)) Nil
      else Seq(column(Before, SparkBridge.nullable(meta.schema), "the row before the statement changes it", canBeNull = true))
    place ++ partition ++ before
  }

  def partitionType(meta: TableMeta): StructType =
    meta.partitioning.foldLeft(new StructType())((s, p) => s.add(p.name, p.dataType, nullable = true))

  private def column(label: String, dataTypeOf: DataType, text: String, canBeNull: Boolean = false): MetadataColumn =
    new MetadataColumn {
      override def name: String = label
      override def dataType: DataType = dataTypeOf
      override def comment: String = text
      override def isNullable: Boolean = canBeNull
    }
}

/** Spark's columns from a schema whose field metadata holds defaults and generation expressions. */
object Columns {
  def fromSchema(schema: StructType): Array[Column] = org.apache.spark.sql.lakemend.SparkBridge.columns(schema)

  def toSchema(columns: Array[Column]): StructType = org.apache.spark.sql.lakemend.SparkBridge.schema(columns)
}
