package lakemend.read

import lakemend.catalog.{MetadataColumns, TableMeta}
import lakemend.write.SharedConf
import org.apache.spark.sql.SparkSession
import org.apache.spark.sql.catalyst.expressions.GenericInternalRow
import org.apache.spark.sql.execution.datasources.FileFormat
import org.apache.spark.sql.execution.datasources.parquet.ParquetFileFormat
import org.apache.spark.sql.internal.SQLConf
import org.apache.spark.sql.lakemend.SparkBridge
import org.apache.spark.sql.sources.Filter
import org.apache.spark.sql.types._
import org.apache.spark.unsafe.types.UTF8String

/** A value that is the same for all rows of a file. */
sealed trait Constant extends Serializable {
  def of(file: DataFile): Any
}

final case class PartitionValue(index: Int) extends Constant {
  override def of(file: DataFile): Any = file.partition(index)
}

case object FilePath extends Constant {
  override def of(file: DataFile): Any = UTF8String.fromString(file.path)
}

final case class PartitionValues(indices: Array[Int]) extends Constant {
  override def of(file: DataFile): Any = new GenericInternalRow(indices.map(file.partition))
}

/** How rows come out of the Parquet reader: data columns, then the position if it is read, then the constants.
  * `order` gives, for each requested column, where it lies there; the position lies behind all of them (at `width`)
  * if it is not read but found. */
final case class RowLayout(order: Array[Int], width: Int, position: Int, constants: Array[Constant]) {
  /** Positions are found from the row groups that are read, not read as a column. */
  def findsPositions: Boolean = position == width

  def asksPosition: Boolean = order.contains(position)

  val isIdentity: Boolean = order.length == width && order.indices.forall(i => order(i) == i)
}

/** The requested columns (logical, possibly pruned inside) as the Parquet reader is to read them. With
  * `findsPositions` they can be read in batches only. */
class ReadColumns(meta: TableMeta, requested: StructType, withMasks: Boolean, findsPositions: Boolean = false) {
  private val table = meta.schema.fieldNames.zipWithIndex.toMap

  private sealed trait Source
  private case class Stored(field: StructField) extends Source
  private case class Same(field: StructField, value: Constant) extends Source
  private case object Position extends Source

  private val sources: Array[Source] = requested.fields.map { f =>
    table.get(f.name) match {
      case Some(_) if meta.isPartitionColumn(f.name) =>
        Same(f, PartitionValue(meta.partitioning.indexWhere(p => p.isIdentity && p.source == Seq(f.name))))
      case Some(i) => Stored(PhysicalType.field(f, meta.schema(i), meta.physical(i), meta.byId))
      case None => f.name match {
        case MetadataColumns.File => Same(f, FilePath)
        case MetadataColumns.Partition => Same(f, PartitionValues(partitionFields(f.dataType)))
        case MetadataColumns.Position => Position
        case other => throw new IllegalArgumentException(s"table ${meta.name} has no column $other")
      }
    }
  }

  /** Spark may ask for a part of `_partition` only. */
  private def partitionFields(requested: DataType): Array[Int] =
    requested.asInstanceOf[StructType].fieldNames.map(name => meta.partitioning.indexWhere(_.name == name))

  private val stored = sources.collect { case Stored(field) => field }
  private val same = sources.collect { case s: Same => s }
  private val readsPosition = !findsPositions && (withMasks || sources.contains(Position))

  /** What is read from the files, by their names (or aliases of field ids). */
  val data: StructType = {
    val columns = StructType(stored)
    if (!readsPosition) columns
    else columns.add(ParquetFileFormat.ROW_INDEX_TEMPORARY_COLUMN_NAME, LongType, nullable = true)
  }

  val constants: StructType = StructType(same.map(_.field))

  val layout: RowLayout = {
    var (storedSeen, sameSeen) = (0, 0)
    val width = data.length + constants.length
    val position = if (readsPosition) stored.length else if (findsPositions) width else -1
    val order = sources.map {
      case _: Stored => storedSeen += 1; storedSeen - 1
      case _: Same => sameSeen += 1; data.length + sameSeen - 1
      case Position => position
    }
    RowLayout(order, width, position, same.map(_.value))
  }

  /** Whether they are read in batches. */
  lazy val isColumnar: Boolean = {
    val schema = StructType(data.fields ++ constants.fields)
    new ParquetFileFormat().supportBatch(SparkSession.active, schema) && SparkBridge.generatesCode(schema)
  }

  /** What reads them of the files; of row groups, only those that the filters do not rule out. */
  def factory(files: Seq[DataFile], columnar: Boolean, filters: Seq[Filter]): SliceReaderFactory = {
    val spark = SparkSession.active
    val conf = SparkBridge.hadoopConf(spark)
    if (meta.byId) conf.setBoolean(SQLConf.PARQUET_FIELD_ID_READ_ENABLED.key, true)
    val parquet = new ParquetFileFormat().buildReaderWithPartitionValues(
      spark, data, constants, data, filters, Map(FileFormat.OPTION_RETURNING_BATCH -> columnar.toString), conf)
    val masksAreStored = files.exists(_.mask.exists(_.isStored))
    val shared = if (masksAreStored) Some(SharedConf.of(spark.sparkContext, SparkBridge.hadoopConf(spark))) else None
    new SliceReaderFactory(parquet, layout, requested, shared, meta.name, meta.byId, columnar)
  }
}

object ReadColumns {
  /** In batches positions are found, if this Spark lets them be; a reader of rows gives them as a column. */
  def of(meta: TableMeta, requested: StructType, withMasks: Boolean): ReadColumns = {
    val batches = new ReadColumns(meta, requested, withMasks, findsPositions = RowGroups.areHeard)
    if (batches.isColumnar) batches else new ReadColumns(meta, requested, withMasks)
  }
}

/** Logical types with the names that data files use. */
object PhysicalType {
  private val FieldId = "parquet.field.id"
  private val ExistsDefault = "EXISTS_DEFAULT"
  /** On a stored field: some files may hold a narrower type. */
  val Widened = "widened"

  def field(requested: StructField, logical: StructField, physical: StructField, byId: Boolean): StructField = {
    val metadata = new MetadataBuilder
    if (logical.metadata.contains(ExistsDefault))
      metadata.putString(ExistsDefault, logical.metadata.getString(ExistsDefault))
    if (byId && physical.metadata.contains(FieldId)) metadata.putLong(FieldId, physical.metadata.getLong(FieldId))
    StructField(name(physical, byId), nested(requested.dataType, logical.dataType, physical.dataType, byId),
      requested.nullable, metadata.build())
  }

  /** A column as data files have it, below the structs that hold it; None if the table has no such column. */
  def fields(logical: Seq[String], schema: StructType, physical: StructType): Option[Seq[StructField]] =
    schema.fieldNames.indexOf(logical.head) match {
      case -1 => None
      case i if logical.length == 1 => Some(Seq(physical(i)))
      case i => (schema(i).dataType, physical(i).dataType) match {
        case (inner: StructType, below: StructType) => fields(logical.tail, inner, below).map(physical(i) +: _)
        case _ => None
      }
    }

  /** A name may have belonged to another column before; an alias made of the id has not. */
  private def name(physical: StructField, byId: Boolean): String =
    if (byId && physical.metadata.contains(FieldId)) s"_f${physical.metadata.getLong(FieldId)}" else physical.name

  private def nested(requested: DataType, logical: DataType, physical: DataType, byId: Boolean): DataType =
    (requested, logical, physical) match {
      case (r: StructType, l: StructType, p: StructType) =>
        StructType(r.fields.map { f => val i = l.fieldIndex(f.name); field(f, l(i), p(i), byId) })
      case (ArrayType(r, nulls), ArrayType(l, _), ArrayType(p, _)) => ArrayType(nested(r, l, p, byId), nulls)
      case (MapType(rk, rv, nulls), MapType(lk, lv, _), MapType(pk, pv, _)) =>
        MapType(nested(rk, lk, pk, byId), nested(rv, lv, pv, byId), nulls)
      case _ => requested
    }
}
