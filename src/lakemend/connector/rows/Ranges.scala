package org.apache.spark.sql.lakemend

import org.apache.spark.sql.{Column, Row}
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions.{Expression, RowOrdering, UnaryExpression}
import org.apache.spark.sql.catalyst.expressions.codegen.{CodegenContext, CodeGenerator, ExprCode}
import org.apache.spark.sql.catalyst.expressions.codegen.Block._
import org.apache.spark.sql.catalyst.plans.logical.LocalRelation
import org.apache.spark.sql.catalyst.types.DataTypeUtils
import org.apache.spark.sql.catalyst.util.TypeUtils
import org.apache.spark.sql.classic.{Dataset, ExpressionUtils, SparkSession}
import org.apache.spark.sql.types._

/** Numbers for ranges of values, by a sample of them; for `lakemend.maintenance.optimize`. */
object Ranges {
  def areOrderable(dataType: String): Boolean = RowOrdering.isOrderable(DataType.fromJson(dataType))

  /** The rows of a frame, held by the driver. */
  def local(frame: Dataset[Row]): Dataset[Row] = {
    val rows = frame.queryExecution.executedPlan.executeCollect().map(_.copy())
    Dataset.ofRows(frame.sparkSession, LocalRelation(DataTypeUtils.toAttributes(frame.schema), rows.toIndexedSeq))
  }

  /** The number of the range that a column's value lies in, below `count`; ranges hold about as many rows of the sample's column. */
  def number(spark: SparkSession, column: Column, sample: Dataset[Row], ordinal: Int, count: Int): Column = {
    val rows = sample.queryExecution.analyzed.collectFirst { case local: LocalRelation => local.data }.get
    val dataType = sample.schema(ordinal).dataType
    val ordering = TypeUtils.getInterpretedOrdering(dataType)
    val sorted = rows.iterator.filterNot(_.isNullAt(ordinal)).map(_.get(ordinal, dataType)).toArray.sorted(ordering)
    ExpressionUtils.column(RangeNumber(spark.expression(column), bounds(sorted, count - 2, ordering), dataType, count))
  }

  /** At most `most` values at equal distances, the smallest of all left out, each once. */
  private def bounds(sorted: Array[Any], most: Int, ordering: Ordering[Any]): IndexedSeq[Any] =
    if (sorted.isEmpty) IndexedSeq.empty
    else (1 to most).map(i => sorted((i.toLong * sorted.length / (most + 1)).toInt))
      .foldLeft(List(sorted.head))((found, next) => if (ordering.equiv(found.head, next)) found else next :: found)
      .reverse.tail.toIndexedSeq
}

/** How many bounds are not above a value, spread over the numbers below `count`; the last one is that of NULL. */
case class RangeNumber(child: Expression, bounds: IndexedSeq[Any], boundType: DataType, count: Int) extends UnaryExpression {
  override def dataType: DataType = IntegerType
  override def nullable: Boolean = false

  @transient private lazy val ordering = TypeUtils.getInterpretedOrdering(boundType)
  @transient private lazy val values: Array[Any] = bounds.toArray
  @transient private lazy val longs: Array[Long] = bounds.map(_.asInstanceOf[Number].longValue).toArray
  private val slots = bounds.length + 2

  private def isIntegral: Boolean = boundType match {
    case ByteType | ShortType | IntegerType | LongType | DateType | TimestampType | TimestampNTZType => true
    case _ => false
  }

  private def spread(slot: Int): Int = (slot.toLong * count / slots).toInt

  def ofNull: Int = spread(slots - 1)

  def of(value: Any): Int = {
    var (low, high) = (0, values.length)
    while (low < high) {
      val middle = (low + high) >>> 1
      if (ordering.lteq(values(middle), value)) low = middle + 1 else high = middle
    }
    spread(low)
  }

  def ofLong(value: Long): Int = {
    var low = 0
    var high = longs.length
    while (low < high) {
      val middle = (low + high) >>> 1
      if (longs(middle) <= value) low = middle + 1 else high = middle
    }
    spread(low)
  }

  override def eval(input: InternalRow): Any = {
    val value = child.eval(input)
    if (value == null) ofNull else of(value)
  }

  override protected def doGenCode(ctx: CodegenContext, ev: ExprCode): ExprCode = {
    val ranges = ctx.addReferenceObj("ranges", this, classOf[RangeNumber].getName)
    val value = child.genCode(ctx)
    val call = if (isIntegral) s"$ranges.ofLong((long) ${value.value})" else s"$ranges.of(${boxed(value)})"
    ev.copy(code = code"${value.code}\nint ${ev.value} = ${value.isNull} ? $ofNull : $call;",
      isNull = org.apache.spark.sql.catalyst.expressions.codegen.FalseLiteral)
  }

  private def boxed(value: ExprCode): String = s"((Object) ${value.value})"

  override protected def withNewChildInternal(newChild: Expression): RangeNumber = copy(child = newChild)
}
