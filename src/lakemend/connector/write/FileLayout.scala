package lakemend.write

import scala.jdk.CollectionConverters._

import lakemend.LakemendException
import lakemend.catalog.TableMeta
import org.apache.hadoop.fs.Path
import org.apache.spark.sql.SparkSession
import org.apache.spark.sql.connector.write.LogicalWriteInfo
import org.apache.spark.sql.internal.SQLConf
import org.apache.spark.sql.lakemend.SparkBridge
import org.apache.spark.sql.types._

/** A partition column: where it stands in a row, its name in the table and its name in directories. */
case class PartitionColumn(ordinal: Int, name: String, physicalName: String, dataType: DataType, nullable: Boolean)

/**
 * Everything a task needs to turn rows into data files: made on the driver from the table, sent to the executors.
 *
 * @param rowColumns   the columns of the rows as they arrive, by the table's names and with its nullability
 * @param dataOrdinals which of them are stored in the files, in the order of `fileSchema`
 * @param fileSchema   what the files hold: physical names, all nullable, field ids where the table has them
 * @param maxRows      rows that a file may hold; 0: any number
 * @param localSlots   tasks that run at once in the driver's own process (local mode); 0 elsewhere
 * @param fileTag      the end of file names; it tells the files of a write that makes its table from all others
 */
case class FileLayout(
    location: String,
    tableSchema: StructType,
    rowColumns: StructType,
    dataOrdinals: Array[Int],
    fileSchema: StructType,
    partitionColumns: Seq[PartitionColumn],
    statsColumns: Seq[StatsColumn],
    targetFileSize: Long,
    maxRows: Long,
    localSlots: Int,
    fileTag: String,
    conf: SharedConf) {

  def path(relative: String): Path = new Path(s"${location.stripSuffix("/")}/$relative")

  /** Settings of single columns, `parquet.bloom.filter.enabled#a.b` being that of a.b: (key, column, value). */
  @transient lazy val columnSettings: Seq[(String, String, String)] = conf.value.asScala.toSeq
    .filter(entry => entry.getKey.startsWith("parquet.") && entry.getKey.contains('#'))
    .map { entry =>
      val Array(key, column) = entry.getKey.split("#", 2)
      (key, column, entry.getValue)
    }

  /** Rows are passed on as they are, without a projection. */
  def isIdentity: Boolean =
    dataOrdinals.length == rowColumns.length && dataOrdinals.indices.forall(i => dataOrdinals(i) == i)

  /**
   * Open files of a task whose rows are sorted by partition: one, unless values that sort as equal are different
   * partitions (0.0 and -0.0, strings under a collation), which then arrive interleaved.
   */
  def sortedOpenFiles: Int = if (partitionColumns.exists(c => FileLayout.equalButDifferent(c.dataType))) 16 else 1
}

object FileLayout {
  private val DefaultTargetFileSize = 128L << 20

  def of(meta: TableMeta, info: LogicalWriteInfo): FileLayout = {
    // A path that holds no table yet takes its schema from the first rows, as saving a DataFrame always did.
    val unborn = meta.schema.isEmpty
    val table = if (unborn) SparkBridge.nullable(info.schema) else meta.schema
    val physical = if (unborn) table else meta.physical
    val ordinals = table.fields.map(field => ordinal(meta, info.schema, field))
    if (info.schema.length > table.length) {
      val extra = info.schema.fieldNames.indices.filterNot(ordinals.contains).map(info.schema.fieldNames(_))
      throw LakemendException.mismatch(s"${meta.name} has no column ${extra.mkString(", ")}",
        s"its columns are ${table.fieldNames.mkString(", ")}", "drop the extra columns, or add them to the table first")
    }
    // A column that can only be NULL has no type in Parquet; readers fill it in.
    val stored = table.fields.indices
      .filter(i => !meta.isPartitionColumn(table(i).name) && table(i).dataType != NullType)
    val partitions = meta.partitioning.map { p =>
      val i = table.fieldIndex(p.source.head)
      PartitionColumn(ordinals(i), table(i).name, physical(i).name, table(i).dataType, table(i).nullable)
    }
    if (stored.isEmpty) throw LakemendException.invalid(s"${meta.name} has no column to store in data files",
      "every column is a partition column or of type VOID", "add a column, or partition by fewer")
    val fileSchema = SparkBridge.nullable(StructType(stored.map(i => stripped(physical(i)))))
    val rows = new Array[StructField](table.length)
    ordinals.indices.foreach(i => rows(ordinals(i)) = table(i))
    FileLayout(meta.location, table, StructType(rows), stored.map(ordinals(_)).toArray, fileSchema, partitions,
      StatsColumn.of(fileSchema, meta.write.path("stats_columns")), targetFileSize(meta), maxRows(info), localSlots, fileTag(meta),
      ParquetSettings.hadoopConf(meta, info, fileSchema))
  }

  /** Where Spark has put the table's column in the rows; it has already cast and reordered them to fit. */
  private def ordinal(meta: TableMeta, rows: StructType, field: StructField): Int = {
    val exact = rows.fieldNames.indexOf(field.name)
    val found = if (exact >= 0) exact else rows.fieldNames.indexWhere(_.equalsIgnoreCase(field.name))
    if (found < 0) throw LakemendException.mismatch(s"the rows written to ${meta.name} have no column ${field.name}",
      s"they have ${rows.fieldNames.mkString(", ")}", "add the column to the rows, as NULL if need be")
    if (!SparkBridge.sameTypes(single(rows(found).dataType), single(field.dataType)))
      throw LakemendException.mismatch(s"column ${field.name} of ${meta.name} is ${field.dataType.sql}",
        s"the rows written have ${rows(found).dataType.sql}", "cast the column to the table's type")
    found
  }

  private def single(dataType: DataType): StructType = new StructType().add("value", dataType)

  def targetFileSize(meta: TableMeta): Long = {
    val size = meta.write.path("target_file_size").asLong(DefaultTargetFileSize)
    if (size > 0) size else DefaultTargetFileSize
  }

  /** What is left of a write that dies before it has made its table is known by this (brain/tables.py). */
  private def fileTag(meta: TableMeta): String =
    if (meta.version.isEmpty && meta.staged.forall(_.path("kind").asText == "create")) "first" else "c000"

  /** As Spark's own file sources have it: the option, else the session's setting; 0 or less means any number. */
  private def maxRows(info: LogicalWriteInfo): Long =
    Option(info.options.get("maxRecordsPerFile")).fold(SQLConf.get.maxRecordsPerFile)(_.trim.toLong).max(0)

  private def localSlots: Int = {
    val context = SparkSession.active.sparkContext
    if (context.isLocal) context.defaultParallelism else 0
  }

  /** Only the field ids of the metadata belong in a data file. */
  private def stripped(field: StructField): StructField =
    field.copy(dataType = stripped(field.dataType), metadata = FieldIds.only(field.metadata))

  private def stripped(dataType: DataType): DataType = dataType match {
    case s: StructType => StructType(s.fields.map(f => stripped(f)))
    case a: ArrayType => a.copy(elementType = stripped(a.elementType))
    case m: MapType => m.copy(keyType = stripped(m.keyType), valueType = stripped(m.valueType))
    case other => other
  }

  private def equalButDifferent(dataType: DataType): Boolean = dataType match {
    case FloatType | DoubleType => true
    case s: StringType => !SparkBridge.isBinaryComparable(s)
    case _ => false
  }
}
