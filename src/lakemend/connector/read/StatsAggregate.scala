package lakemend.read

import java.util.OptionalLong

import scala.collection.mutable

import com.fasterxml.jackson.databind.JsonNode
import lakemend.Wire
import lakemend.catalog.{Reads, ReadsTable, TableMeta}
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions.GenericInternalRow
import org.apache.spark.sql.catalyst.util.TypeUtils
import org.apache.spark.sql.connector.expressions.{Expression, NamedReference}
import org.apache.spark.sql.connector.expressions.aggregate._
import org.apache.spark.sql.connector.expressions.filter.Predicate
import org.apache.spark.sql.connector.read.{LocalScan, Statistics, SupportsReportStatistics}
import org.apache.spark.sql.lakemend.SparkBridge
import org.apache.spark.sql.types._

/** count, min and max answered from row counts, partition values and exact statistics, without reading a data file.
  *
  * One file that cannot tell exactly makes the whole answer None. Statistics of data columns count masked rows too, so
  * a masked file tells its row count and its partition values only.
  */
object StatsAggregate {
  def answer(request: ScanRequest, aggregation: Aggregation, record: Reads): Option[LocalScan] = {
    val compiler = new Compiler(request.meta)
    val functions = aggregation.aggregateExpressions.toSeq.map(compiler.function)
    val keys = aggregation.groupByExpressions.toSeq.map(compiler.key)
    if (functions.contains(None) || keys.contains(None)) None
    else {
      val plan = request.plan(compiler.statsColumns.toSeq.map(Seq(_)))
      for (rows <- aggregate(plan, functions.flatten, keys.flatten)) yield {
        val groups = keys.flatten.map(request.meta.partitioning).map(p => StructField(p.name, p.dataType))
        val results = functions.flatten.zip(aggregation.aggregateExpressions).map { case (f, e) =>
          StructField(e.toString, f.dataType)
        }
        val schema = StructType(groups ++ results)
        val version = request.meta.version.getOrElse("none")
        new AnsweredScan(request, record, schema, rows, s"lakemend ${request.meta.name} version $version, " +
          s"${aggregation.aggregateExpressions.mkString(", ")} from statistics of ${plan.files.length} files")
      }
    }
  }

  private def aggregate(plan: FilePlan, functions: Seq[Function], keys: Seq[Int]): Option[Array[InternalRow]] = {
    val groups = mutable.LinkedHashMap[Seq[Any], Array[Any]]()
    if (keys.isEmpty) groups(Nil) = functions.map(_.zero).toArray
    plan.files.zip(plan.stats).foreach { case (file, stats) =>
      if (file.rows < 0) return None
      if (file.liveRows > 0) {
        val state = groups.getOrElseUpdate(keys.map(file.partition), functions.map(_.zero).toArray)
        functions.indices.foreach { i =>
          state(i) = functions(i).add(state(i), file, stats).getOrElse(return None)
        }
      }
    }
    Some(groups.map { case (key, state) => new GenericInternalRow(key.toArray ++ state): InternalRow }.toArray)
  }

  /** An aggregate function over files; `add` gives None where a file cannot tell exactly. */
  private trait Function {
    def dataType: DataType
    def zero: Any
    def add(state: Any, file: DataFile, stats: JsonNode): Option[Any]
  }

  private object CountRows extends Function {
    override def dataType: DataType = LongType
    override def zero: Any = 0L
    override def add(state: Any, file: DataFile, stats: JsonNode): Option[Any] =
      Some(state.asInstanceOf[Long] + file.liveRows)
  }

  private class CountPartition(index: Int) extends Function {
    override def dataType: DataType = LongType
    override def zero: Any = 0L
    override def add(state: Any, file: DataFile, stats: JsonNode): Option[Any] =
      Some(state.asInstanceOf[Long] + (if (file.partition(index) == null) 0L else file.liveRows))
  }

  private class CountColumn(stat: Int) extends Function {
    override def dataType: DataType = LongType
    override def zero: Any = 0L
    override def add(state: Any, file: DataFile, stats: JsonNode): Option[Any] =
      ColumnFacts.of(file, stats, stat).map(facts => state.asInstanceOf[Long] + file.rows - facts.nulls)
  }

  private abstract class Bound(override val dataType: DataType, largest: Boolean) extends Function {
    private val ordering = TypeUtils.getInterpretedOrdering(dataType)
    override def zero: Any = null
    protected def better(state: Any, value: Any): Any =
      if (state == null) value
      else if (value == null) state
      else if ((ordering.compare(value, state) > 0) == largest) value else state
  }

  private class PartitionBound(index: Int, dataType: DataType, largest: Boolean) extends Bound(dataType, largest) {
    override def add(state: Any, file: DataFile, stats: JsonNode): Option[Any] =
      Some(better(state, file.partition(index)))
  }

  private class ColumnBound(stat: Int, dataType: DataType, largest: Boolean) extends Bound(dataType, largest) {
    override def add(state: Any, file: DataFile, stats: JsonNode): Option[Any] =
      ColumnFacts.of(file, stats, stat).flatMap { facts =>
        val node = if (largest) facts.max else facts.min
        if (facts.nulls == file.rows) Some(state)
        else if (node == null || node.isNull) None
        else Some(better(state, Wire.internal(node, dataType)))
      }
  }

  /** The exact statistics of one data column of an unmasked file. */
  private case class ColumnFacts(min: JsonNode, max: JsonNode, nulls: Long)

  private object ColumnFacts {
    def of(file: DataFile, stats: JsonNode, index: Int): Option[ColumnFacts] = {
      val column = stats.path(index)
      // A column of nulls alone has no bounds that could be exact; its null count says everything.
      val onlyNulls = column.path(2).isNumber && column.get(2).asLong == file.rows
      val exact = file.mask.isEmpty && column.path(2).isNumber && (onlyNulls || column.path(3).asBoolean(false))
      if (exact) Some(ColumnFacts(column.get(0), column.get(1), column.get(2).asLong)) else None
    }
  }

  private class Compiler(meta: TableMeta) {
    val statsColumns: mutable.ArrayBuffer[String] = mutable.ArrayBuffer()

    /** The index of the partition field a group is made of. */
    def key(e: Expression): Option[Int] =
      topLevel(e).flatMap(partition).filter(i => isGroupable(meta.partitioning(i).dataType))

    def function(f: AggregateFunc): Option[Function] = f match {
      case _: CountStar => Some(CountRows)
      case c: Count if !c.isDistinct => topLevel(c.column).flatMap { name =>
        partition(name).map(new CountPartition(_)).orElse(
          dataType(name).filter(isLeaf).map(_ => new CountColumn(stat(name))))
      }
      case m: Min => bound(m.column, largest = false)
      case m: Max => bound(m.column, largest = true)
      case _ => None
    }

    private def bound(e: Expression, largest: Boolean): Option[Function] = topLevel(e).flatMap { name =>
      partition(name).map(i => new PartitionBound(i, meta.partitioning(i).dataType, largest)).orElse(
        dataType(name).filter(hasExactBounds).map(t => new ColumnBound(stat(name), t, largest)))
    }

    private def topLevel(e: Expression): Option[String] = e match {
      case r: NamedReference if r.fieldNames.length == 1 => Some(r.fieldNames.head)
      case _ => None
    }

    private def partition(name: String): Option[Int] =
      Some(meta.partitioning.indexWhere(p => p.isIdentity && p.source == Seq(name))).filter(_ >= 0)

    private def dataType(name: String): Option[DataType] = meta.schema.fields.find(_.name == name).map(_.dataType)

    private def stat(name: String): Int = {
      if (!statsColumns.contains(name)) statsColumns += name
      statsColumns.indexOf(name)
    }

    private def isLeaf(t: DataType): Boolean = t match {
      case _: StructType | _: ArrayType | _: MapType | VariantType => false
      case _ => true
    }

    // Text may be cut, timestamps rounded and floating point numbers may hide NaN in statistics.
    private def hasExactBounds(t: DataType): Boolean = t match {
      case ByteType | ShortType | IntegerType | LongType | DateType | _: DecimalType => true
      case _ => false
    }

    // Values that are equal must be the same bytes: not so for 0.0 and -0.0, or under a collation.
    private def isGroupable(t: DataType): Boolean = t match {
      case FloatType | DoubleType | BinaryType => false
      case other => SparkBridge.isBinaryComparable(other)
    }
  }
}

/** Rows that are known already. */
class AnsweredScan(request: ScanRequest, override val record: Reads, schema: StructType, answer: Array[InternalRow], text: String)
    extends LocalScan with SupportsReportStatistics with ReadsTable {
  override def table: TableMeta = request.meta
  override def predicatesRead: Seq[Predicate] = request.predicates
  override def readSchema: StructType = schema
  override def rows: Array[InternalRow] = answer
  override def description: String = text
  override def estimateStatistics: Statistics = new Statistics {
    override def sizeInBytes: OptionalLong = OptionalLong.of(answer.length.toLong * schema.defaultSize)
    override def numRows: OptionalLong = OptionalLong.of(answer.length)
  }
}
