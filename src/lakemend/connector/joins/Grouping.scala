package lakemend.joins

import lakemend.Bridge
import lakemend.catalog.{PartitionField, TableMeta}
import lakemend.read.{DataFile, FilePlan, FileSlice, SlicePartition}
import org.apache.spark.sql.SparkSession
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions.GenericInternalRow
import org.apache.spark.sql.connector.expressions.{Expressions, SortDirection, SortOrder}
import org.apache.spark.sql.connector.read.{HasPartitionKey, InputPartition}
import org.apache.spark.sql.connector.read.partitioning.{KeyGroupedPartitioning, Partitioning, UnknownPartitioning}
import org.apache.spark.sql.internal.SQLConf
import org.apache.spark.sql.lakemend.SparkBridge
import org.apache.spark.sql.types._

/** The files of one partition value, read by one task. */
final class KeyedSlices(slices: Array[FileSlice], key: InternalRow) extends SlicePartition(slices) with HasPartitionKey {
  override def partitionKey: InternalRow = key
}

/** Partition columns by whose values the rows of a scan are told apart; `places` are theirs in a file's partition. */
class Grouping(fields: Seq[PartitionField], places: Array[Int]) {
  def partitioning(keys: Int): Partitioning = new KeyGroupedPartitioning(fields.map(_.toSpark).toArray, keys)

  def describe(files: Seq[DataFile]): String =
    s"${fields.map(_.name).mkString("[", ", ", "]")}, ${files.map(key).distinct.length} values"

  def key(file: DataFile): Seq[Any] = places.toSeq.map(place => file.partition(place))

  /** One partition per key of all files, with those that are read. A scan may stand in several plans, and be filtered
    * before the last of them is made: its keys are the same in each, or rows of other keys would meet. */
  def tasks(all: Seq[DataFile], read: Seq[DataFile]): Array[InputPartition] = {
    val together = read.groupBy(key)
    all.map(key).distinct.map { values =>
      val slices = together.getOrElse(values, Nil).sortBy(_.path).map(file => new FileSlice(file, 0, file.size))
      new KeyedSlices(slices.toArray, new GenericInternalRow(values.toArray)): InputPartition
    }.toArray
  }

  /** The order of each task's rows, where every value lies in one file: by the value, which is the same for all of them,
    * and then as all files are sorted. Of several sorted files, rows would come one file after the other. */
  def ordering(files: Seq[DataFile], read: StructType): Seq[SortOrder] = {
    val shared = files.map(_.sorted).reduceOption((a, b) => a.zip(b).takeWhile(p => p._1 == p._2).map(_._1)).getOrElse(Nil)
      .takeWhile(read.fieldNames.contains(_))
    if (shared.isEmpty || files.map(key).distinct.length < files.length) Nil
    else if (!fields.forall(_.isIdentity)) Nil
    else (fields.map(_.source.head) ++ shared)
      .map(name => Expressions.sort(Expressions.column(SparkBridge.quoted(Seq(name))), SortDirection.ASCENDING))
  }
}

/**
 * Whether a scan tells Spark that its rows are grouped by partition value, so that joins and aggregates on these columns
 * need no shuffle.
 *
 * Every value is then one task, for Spark does not take them apart again. `auto` asks the statistics whether that is a
 * good way to read the table: enough values for all cores, none that holds up the others, and not so many small ones that
 * starting their tasks takes longer than a shuffle.
 */
object Grouping {
  val Setting = "spark.lakemend.planning.preserveDataGrouping"
  val Property = "lakemend.planning.preserveDataGrouping"
  val Option_ = "preserveDataGrouping"
  private val Databricks = "spark.databricks.delta.planning.preserveDataGrouping"

  /** What was said about it by the read, the session and the table; None: this scan is grouped by nothing. */
  type Asked = Option[Map[String, String]]

  def asked(meta: TableMeta, option: String => Option[String]): Asked = Some(Seq(
    Option_ -> option(Option_),
    Setting -> Option(SQLConf.get.getConfString(Setting, null)),
    Databricks -> Option(SQLConf.get.getConfString(Databricks, null)),
    Property -> meta.properties.get(Property)).collect { case (key, Some(text)) => key -> text }.toMap)

  /** By which columns the scan could be grouped, whatever its statistics say; none: it is not to be. */
  def of(meta: TableMeta, read: StructType): Option[Grouping] = {
    val usable = meta.partitioning.zipWithIndex.filter { case (field, _) =>
      read.fieldNames.contains(field.source.head) && isComparable(field.dataType)
    }
    if (usable.isEmpty) None else Some(new Grouping(usable.map(_._1), usable.map(_._2).toArray))
  }

  def unknown: Partitioning = new UnknownPartitioning(0)

  /** Whether the brain has these files read value by value, on as many cores as there are. */
  def isWanted(asked: Map[String, String], sizes: Seq[Long], meta: TableMeta): Boolean = {
    val request = Bridge.request().put("name", meta.name).put("cores", SparkSession.active.sparkContext.defaultParallelism)
    val settings = request.putObject("asked")
    asked.foreach { case (key, text) => settings.put(key, text) }
    val bytes = request.putArray("sizes")
    sizes.foreach(bytes.add)
    Bridge.call("grouping", request).get("grouped").asBoolean
  }

  /** The bytes of each value. */
  def sizes(plan: FilePlan, grouping: Grouping): Seq[Long] =
    plan.files.groupMapReduce(grouping.key)(_.size)(_ + _).values.toSeq

  /** Equal values are equal bytes: not so for -0.0 and 0.0, for NaNs, and for strings whose collation ignores something. */
  private def isComparable(dataType: DataType): Boolean = dataType match {
    case BooleanType | ByteType | ShortType | IntegerType | LongType | DateType | TimestampType | TimestampNTZType => true
    case _: DecimalType => true
    case text: StringType => SparkBridge.isBinaryComparable(text)
    case _ => false
  }
}
