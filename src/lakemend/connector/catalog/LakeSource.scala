package lakemend.catalog

import java.util.{EnumSet, Map => JMap, Set => JSet}

import scala.jdk.CollectionConverters._

import com.fasterxml.jackson.databind.JsonNode
import lakemend.{Bridge, LakemendException, Options}
import lakemend.changes.PathChanges
import lakemend.rows.Watch
import org.apache.spark.sql.{functions, CreateTableWriter, DataFrame, DataFrameWriterV2, Row, SaveMode, SQLContext}
import org.apache.spark.sql.catalyst.analysis.TableAlreadyExistsException
import org.apache.spark.sql.connector.catalog._
import org.apache.spark.sql.connector.expressions.Transform
import org.apache.spark.sql.connector.read.ScanBuilder
import org.apache.spark.sql.lakemend.{Complaints, ReplaceOptions, ReplaceStatements, SparkBridge, Spellings}
import org.apache.spark.sql.sources.{BaseRelation, CreatableRelationProvider, DataSourceRegister}
import org.apache.spark.sql.types.{DataType, StructType}
import org.apache.spark.sql.util.CaseInsensitiveStringMap

/**
 * `spark.read/write.format("lakemend")` on a path. Reads are the V2 table; a write, in every save mode, becomes the
 * V2 statement on `lake.delta.`path`` that says the same, so there is one way to write.
 */
class LakeSource extends SupportsV1OverwriteWithSaveAsTable with CreatableRelationProvider with DataSourceRegister {
  override def shortName(): String = "lakemend"

  override def supportsExternalMetadata: Boolean = true

  override def inferSchema(options: CaseInsensitiveStringMap): StructType =
    if (PathChanges.areAsked(options)) new PathChanges(options).changes.schema else PathTables.load(options).schema

  override def inferPartitioning(options: CaseInsensitiveStringMap): Array[Transform] =
    PathTables.load(options).partitioning.map(_.toSpark).toArray

  override def getTable(schema: StructType, partitioning: Array[Transform], options: JMap[String, String]): Table = {
    val asked = new CaseInsensitiveStringMap(options)
    if (PathChanges.areAsked(asked)) new PathChanges(asked) else new PathTable(schema, asked)
  }

  /** The format says which types it keeps, and refuses the others by name. */
  override def supportsDataType(dataType: DataType): Boolean = true

  override def createRelation(context: SQLContext, mode: SaveMode, options: Map[String, String], data: DataFrame): BaseRelation = {
    PathWrite(mode, new CaseInsensitiveStringMap(options.asJava), data).run()
    new BaseRelation {
      override def sqlContext: SQLContext = context
      override def schema: StructType = data.schema
    }
  }
}

/** The same under the name `delta`, so that existing code runs unchanged, unless delta-spark itself is present. */
class DeltaSource extends LakeSource {
  override def shortName(): String = if (DeltaSource.deltaSparkPresent) "lakemend-delta" else "delta"
}

object DeltaSource {
  lazy val deltaSparkPresent: Boolean =
    getClass.getClassLoader.getResource("org/apache/spark/sql/delta/sources/DeltaDataSource.class") != null
}

object PathTables {
  /** The catalog that knows tables by their path alone; every Lakemend session has it. */
  val Catalog = "lakemend"

  /** As part of a name in SQL, a path is known by its slash or its scheme. */
  def path(options: CaseInsensitiveStringMap): String = {
    val path = asked(options)
    if (path.contains("/") || path.contains(":")) path else s"./$path"
  }

  private def asked(options: CaseInsensitiveStringMap): String = Option(options.get("path")).getOrElse(
    throw LakemendException.invalid("no path was given", "format(\"lakemend\") reads and writes a table by its path",
      "call load(path) or save(path); for a table of the catalog write its whole name, such as lake.default.t, or make the " +
        "catalog the default one by lakemend.session(default=True)"))

  def load(options: CaseInsensitiveStringMap): TableMeta = {
    Options.check(options)
    val (place, version) = asOf(options)
    val request = Bridge.request()
    request.set[JsonNode]("table", Bridge.request().put("path", place))
    version.foreach(request.put("version", _))
    Option(options.get("timestampAsOf")).foreach(t => request.put("timestamp", SparkBridge.micros(t)))
    val meta = new TableMeta(Bridge.call("load", request))
    Spellings.note(meta.key.place, Seq(Catalog, place))
    meta
  }

  private val Versioned = "(?s)(.+)@v([0-9]+)".r

  /** The path and the version to read: `path@v3` means version 3 unless a table lies at just that path. */
  private def asOf(options: CaseInsensitiveStringMap): (String, Option[String]) = {
    val asked = Option(options.get("versionAsOf"))
    path(options) match {
      case whole @ Versioned(place, version) if !exists(whole) =>
        if (asked.isDefined || options.containsKey("timestampAsOf")) throw LakemendException.invalid(
          s"$whole names a version, and so does an option", "@v3 behind a path means versionAsOf 3", "keep one of them")
        (place, Some(version))
      case whole => (whole, asked)
    }
  }

  def exists(path: String): Boolean = {
    val request = Bridge.request().put("action", "table_exists")
    request.set[JsonNode]("table", Bridge.request().put("path", path))
    Bridge.call("catalog", request).path("exists").asBoolean
  }
}

/** A table opened by path for `spark.read` and `df.write`; Spark asks a write only for its capabilities. */
class PathTable(asked: StructType, options: CaseInsensitiveStringMap)
    extends Table with SupportsRead with SupportsMetadataColumns {
  /** Loaded when first asked: a write asks for the capabilities alone. */
  lazy val opened: LakeTable = {
    val loaded = new LakeTable(PathTables.load(options))
    if (!SparkBridge.sameTypes(asked, loaded.meta.schema))
      throw LakemendException.mismatch(s"the schema given does not fit the table at ${loaded.meta.location}",
        s"given ${asked.simpleString}, the table has ${loaded.meta.schema.simpleString}", "leave .schema(…) out: the table knows its own")
    loaded
  }

  def isTimeTravel: Boolean = opened.meta.isTimeTravel

  def path: String = PathTables.path(options)

  override def name: String = s"lakemend.`${options.get("path")}`"
  override def schema: StructType = opened.schema
  override def columns: Array[Column] = opened.columns
  override def partitioning: Array[Transform] = opened.partitioning
  override def properties: JMap[String, String] = opened.properties
  override def version: String = opened.version
  override def metadataColumns: Array[MetadataColumn] = opened.metadataColumns
  override def capabilities: JSet[TableCapability] = EnumSet.of(TableCapability.BATCH_READ, TableCapability.V1_BATCH_WRITE)
  override def newScanBuilder(options: CaseInsensitiveStringMap): ScanBuilder =
    opened.newScanBuilder(options)
}

/** One `df.write.format("lakemend").save(path)`. */
case class PathWrite(mode: SaveMode, options: CaseInsensitiveStringMap, data: DataFrame) {
  private val path = PathTables.path(options)
  private val table = s"${PathTables.Catalog}.`${quote(path)}`"
  private val asked = new ReplaceOptions(path, options)
  private val partitionColumns: Seq[String] = Option(options.get("__partition_columns")).toSeq
    .flatMap(json => Bridge.mapper.readTree(json).asScala.map(c => column(c.asText)))

  def run(): Unit = {
    Options.check(options)
    save()
  }

  private def save(): Unit = mode match {
    case SaveMode.ErrorIfExists => create()
    case SaveMode.Ignore => if (!exists) create()
    case SaveMode.Append => if (exists) append() else try create() catch { case _: TableAlreadyExistsException => append() }
    case SaveMode.Overwrite => if (exists) overwrite() else create()
  }

  private def exists: Boolean = PathTables.exists(path)

  private def create(): Unit = {
    requireRowsInside()
    creating(writer).create()
  }

  private def append(): Unit = {
    checkPartitioning()
    asked.where.fold(evolving.append())(replace)
  }

  private def overwrite(): Unit = {
    asked.requireOne(byCondition = false)
    if (options.getBoolean("overwriteSchema", false)) creating(writer).replace()
    else {
      checkPartitioning()
      if (asked.dynamic) evolving.overwritePartitions()
      else asked.where.fold(evolving.overwrite(functions.lit(true)))(replace)
    }
  }

  /** The rows take the place of those that the condition names. */
  private def replace(where: String): Unit = {
    asked.requireOne(byCondition = false)
    ReplaceStatements.where(Seq(PathTables.Catalog, path), data, where, passed, evolves)
  }

  /** A new table has no rows to replace, but those that come must be the ones that were announced. */
  private def requireRowsInside(): Unit = asked.where.filter(_ => asked.check).foreach { predicate =>
    val outside = data.where(functions.expr(s"($predicate) IS NOT TRUE"))
    val count = outside.count()
    if (count > 0) throw Watch.error(path, predicate, count, outside.limit(Complaints.Sample).toJSON.collect().toSeq)
  }

  private def evolves: Boolean = options.getBoolean("mergeSchema", false)

  private def evolving: DataFrameWriterV2[Row] = if (evolves) writer.withSchemaEvolution() else writer

  private def writer: DataFrameWriterV2[Row] = data.writeTo(table).options(passed)

  private def passed: Map[String, String] = options.asCaseSensitiveMap.asScala
    .filterNot { case (k, _) => k == "path" || k.equalsIgnoreCase("replaceWhere") || k.startsWith("__") }.toMap

  private def creating(writer: DataFrameWriterV2[Row]): CreateTableWriter[Row] = {
    val plain = writer.using("delta")
    partitionColumns.find(c => c.contains(".") && !data.columns.exists(_.equalsIgnoreCase(c))).foreach(c =>
      throw LakemendException.invalid(s"the table cannot be partitioned by $c", "partition columns are top-level columns",
        "add a top-level column with its value and partition by that"))
    // Spark turns such a column back into text, quoted if it has a dot and bare otherwise, and parses that again.
    val columns = partitionColumns.map(c => functions.col(quoted(if (c.contains(".")) c else quoted(c))))
    if (columns.isEmpty) plain else plain.partitionedBy(columns.head, columns.tail: _*)
  }

  private def checkPartitioning(): Unit = if (partitionColumns.nonEmpty) {
    val actual = PathTables.load(new CaseInsensitiveStringMap(JMap.of("path", path))).partitioning.map(_.source.mkString("."))
    if (actual.map(_.toLowerCase) != partitionColumns.map(_.toLowerCase))
      throw LakemendException.mismatch(s"partitionBy does not fit the table at $path",
        s"partitionBy says (${partitionColumns.mkString(", ")}), the table is partitioned by (${actual.mkString(", ")})",
        "leave partitionBy out, or replace the table with mode(\"overwrite\").option(\"overwriteSchema\", true)")
  }

  /** Spark wants odd names in partitionBy quoted and passes them on as they are written. */
  private def column(text: String): String =
    if (text.length > 2 && text.startsWith("`") && text.endsWith("`") && !data.columns.contains(text))
      text.substring(1, text.length - 1).replace("``", "`")
    else text

  private def quoted(name: String): String = s"`${quote(name)}`"

  private def quote(name: String): String = name.replace("`", "``")
}
