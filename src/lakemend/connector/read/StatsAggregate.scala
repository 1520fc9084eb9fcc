package lakemend.read

import java.util.OptionalLong

import scala.collection.mutable

import lakemend.Wire
import lakemend.catalog.{Reads, ReadsTable, TableMeta}
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions.GenericInternalRow
import org.apache.spark.sql.catalyst.util.TypeUtils
import org.apache.spark.sql.connector.expressions.{Expression, NamedReference}
import org.apache.spark.sql.connector.expressions.aggregate.{AggregateFunc, Aggregation, Count => CountColumn, CountStar, Max, Min}
import org.apache.spark.sql.connector.expressions.filter.Predicate
import org.apache.spark.sql.connector.read.{LocalScan, Statistics, SupportsReportStatistics}
import org.apache.spark.sql.lakemend.SparkBridge
import org.apache.spark.sql.types._

/** count, min and max without reading a data file: the brain totals each combination of partition values, and they are
  * put together here. */
object StatsAggregate {
  def answer(request: ScanRequest, aggregation: Aggregation, record: Reads): Option[LocalScan] = {
    val compiler = new Compiler(request.meta)
    val functions = aggregation.aggregateExpressions.toSeq.map(compiler.function)
    val keys = aggregation.groupByExpressions.toSeq.map(compiler.key)
    if (functions.contains(None) || keys.contains(None)) None
    else for (totals <- request.totals(compiler.columns.toSeq)) yield {
      val groups = keys.flatten.map(request.meta.partitioning).map(p => StructField(p.name, p.dataType))
      val results = functions.flatten.zip(aggregation.aggregateExpressions).map { case (f, e) => StructField(e.toString, f.dataType) }
      val version = request.meta.version.getOrElse("none")
      new AnsweredScan(request, record, StructType(groups ++ results), together(totals, functions.flatten, keys.flatten),
        s"lakemend ${request.meta.name} version $version, ${aggregation.aggregateExpressions.mkString(", ")} " +
          s"from statistics of ${totals.map(_.files).sum} files")
    }
  }

  private def together(totals: Seq[Totals], functions: Seq[Function], keys: Seq[Int]): Array[InternalRow] = {
    val groups = mutable.LinkedHashMap[Seq[Any], Array[Any]]()
    if (keys.isEmpty) groups(Nil) = functions.map(_.zero).toArray
    totals.foreach { part =>
      val state = groups.getOrElseUpdate(keys.map(part.partition(_)), functions.map(_.zero).toArray)
      functions.indices.foreach(i => state(i) = functions(i).add(state(i), functions(i).of(part)))
    }
    groups.map { case (key, state) => new GenericInternalRow(key.toArray ++ state): InternalRow }.toArray
  }

  /** An aggregate function: its value for rows of the same partition values, and how values are put together. */
  private abstract class Function(val dataType: DataType, val zero: Any, val of: Totals => Any) {
    def add(one: Any, other: Any): Any
  }

  private class Count(of: Totals => Long) extends Function(LongType, 0L, of) {
    override def add(one: Any, other: Any): Any = one.asInstanceOf[Long] + other.asInstanceOf[Long]
  }

  private class Bound(dataType: DataType, largest: Boolean, of: Totals => Any) extends Function(dataType, null, of) {
    private val ordering = TypeUtils.getInterpretedOrdering(dataType)
    override def add(one: Any, other: Any): Any =
      if (one == null) other
      else if (other == null || (ordering.compare(other, one) > 0) != largest) one
      else other
  }

  private class Compiler(meta: TableMeta) {
    /** The data columns to ask for; `Totals.columns` follows it. */
    val columns: mutable.ArrayBuffer[TotalsColumn] = mutable.ArrayBuffer()

    /** The index of the partition field a group is made of. */
    def key(e: Expression): Option[Int] =
      topLevel(e).flatMap(partition).filter(i => isGroupable(meta.partitioning(i).dataType))

    def function(f: AggregateFunc): Option[Function] = f match {
      case _: CountStar => Some(new Count(_.rows))
      case c: CountColumn if !c.isDistinct => topLevel(c.column).flatMap { name =>
        partition(name).map(i => new Count(t => if (t.partition(i) == null) 0L else t.rows)).orElse(
          dataType(name).filter(isLeaf).map { _ =>
            val at = index(TotalsColumn(name, bounds = false))
            new Count(_.columns.path(at).path(0).asLong)
          })
      }
      case m: Min => bound(m.column, largest = false)
      case m: Max => bound(m.column, largest = true)
      case _ => None
    }

    private def bound(e: Expression, largest: Boolean): Option[Function] = topLevel(e).flatMap { name =>
      partition(name).map(i => new Bound(meta.partitioning(i).dataType, largest, _.partition(i))).orElse(
        dataType(name).filter(hasExactBounds).map { t =>
          val at = index(TotalsColumn(name, bounds = true))
          new Bound(t, largest, totals => Wire.internal(totals.columns.path(at).get(if (largest) 2 else 1), t))
        })
    }

    private def topLevel(e: Expression): Option[String] = e match {
      case r: NamedReference if r.fieldNames.length == 1 => Some(r.fieldNames.head)
      case _ => None
    }

    private def partition(name: String): Option[Int] =
      Some(meta.partitioning.indexWhere(p => p.isIdentity && p.source == Seq(name))).filter(_ >= 0)

    private def dataType(name: String): Option[DataType] = meta.schema.fields.find(_.name == name).map(_.dataType)

    private def index(column: TotalsColumn): Int = {
      if (!columns.contains(column)) columns += column
      columns.indexOf(column)
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
