package lakemend.read

import java.lang.reflect.Field

import scala.util.Try

import org.apache.spark.sql.execution.vectorized.{ConstantColumnVector, OnHeapColumnVector, WritableColumnVector}
import org.apache.spark.sql.types._
import org.apache.spark.sql.vectorized.{ColumnVector, ColumnarBatch}

/** Drops the dead rows of a batch: in each of the reader's vectors the live rows move together, to the front.
  *
  * The reader fills its vectors anew for the next batch, so that they may be changed in between; whoever reads the
  * batch sees Spark's own vectors, as fast as without a mask. `dead` are row numbers of the batch, ascending and not
  * empty; `count` is its number of rows.
  */
final class LiveRows(dead: Array[Int], count: Int) {
  // Rows before the first dead one stay where they are.
  private val start = dead(0)

  def length: Int = count - dead.length

  def keepIn(column: ColumnVector): Unit = column match {
    case _: ConstantColumnVector =>
    case vector: WritableColumnVector => keepIn(vector)
    case other => throw new IllegalStateException(s"rows of a ${other.getClass.getName} cannot be dropped")
  }

  private def keepIn(vector: WritableColumnVector): Unit = if (!vector.isAllNull) {
    // Values that are still numbers of a dictionary's entries are nowhere else.
    if (vector.hasDictionary) move(vector.getDictionaryIds, Values.Ints)
    else Values.of(vector.dataType) match {
      case Values.Children => (0 until vector.getNumChildren).foreach(i => keepIn(vector.getChild(i)))
      case values => move(vector, values)
    }
    // The vector's own count of nulls may be too high afterwards: it has to know only whether there are any.
    if (vector.hasNull) move(vector, Values.Nulls)
  }

  private def move(vector: WritableColumnVector, values: Values): Unit = vector match {
    case onHeap: OnHeapColumnVector if values.isOpen => values.arraysOf(onHeap).foreach(moveIn)
    case _ => eachRun(values.mover(vector, start, count - start))
  }

  private def moveIn(array: AnyRef): Unit =
    eachRun((to, from, length) => System.arraycopy(array, from, array, to, length))

  private def eachRun(move: Move): Unit = {
    var to = start
    var i = 0
    while (i < dead.length) {
      val from = dead(i) + 1
      val length = (if (i + 1 < dead.length) dead(i + 1) else count) - from
      if (length > 0) {
        move(to, from, length)
        to += length
      }
      i += 1
    }
  }
}

object LiveRows {
  /** The kinds of values that move in one go. */
  def fast: String = Values.open.mkString(",")
}

/** Moves `length` rows down. */
private trait Move {
  def apply(to: Int, from: Int, length: Int): Unit
}

/** How a vector keeps its values: in which private arrays, if it is on the heap; and how they are moved without these.
  * `sample` is a type whose values are kept so, `fill` gives row i one of its own. */
private sealed abstract class Values(sample: DataType, fill: (WritableColumnVector, Int) => Unit, names: String*) {
  private val fields: Option[Seq[Field]] = Try(names.map { name =>
    val field = classOf[OnHeapColumnVector].getDeclaredField(name)
    field.setAccessible(true)
    field
  }).toOption

  /** Whether this Spark keeps them where they are expected, each row's at its number: a vector whose arrays are moved shows it. */
  lazy val isOpen: Boolean = fields.isDefined && Try {
    val vector = new OnHeapColumnVector(3, sample)
    def shown: Seq[String] = (0 until 3).map { i =>
      if (vector.isNullAt(i)) "NULL" else String.valueOf(new ColumnarBatch(Array(vector), 3).getRow(i).get(0, sample))
    }
    (0 until 3).foreach(fill(vector, _))
    val before = shown
    arraysOf(vector).foreach(array => System.arraycopy(array, 1, array, 0, 2))
    before.distinct.length > 1 && shown == before.tail :+ before.last
  }.getOrElse(false)

  def arraysOf(vector: OnHeapColumnVector): Seq[AnyRef] = fields.get.map(_.get(vector))

  /** Moves rows from the `length` rows at `start`. */
  def mover(vector: WritableColumnVector, start: Int, length: Int): Move
}

private object Values {
  /** Those whose arrays are moved in one go. */
  def open: Seq[Values] = Seq(Nulls, Bytes, Shorts, Ints, Longs, Floats, Doubles, Places).filter(_.isOpen)

  case object Children extends Values(NullType, (_, _) => ()) {
    override def mover(vector: WritableColumnVector, start: Int, length: Int): Move =
      throw new IllegalStateException(s"a vector of ${vector.dataType.sql} has no values of its own")
  }

  case object Nulls extends Values(IntegerType, (v, i) => { v.putInt(i, 7); if (i == 1) v.putNull(i) }, "nulls") {
    override def mover(v: WritableColumnVector, start: Int, length: Int): Move = eachRow { (to, from) =>
      if (v.isNullAt(from)) v.putNull(to) else v.putNotNull(to)
    }
  }

  case object Bytes extends Values(ByteType, (v, i) => v.putByte(i, i.toByte), "byteData") {
    override def mover(v: WritableColumnVector, start: Int, length: Int): Move = {
      val values = v.getBytes(start, length)
      (to, from, n) => v.putBytes(to, n, values, from - start)
    }
  }

  case object Shorts extends Values(ShortType, (v, i) => v.putShort(i, i.toShort), "shortData") {
    override def mover(v: WritableColumnVector, start: Int, length: Int): Move = {
      val values = v.getShorts(start, length)
      (to, from, n) => v.putShorts(to, n, values, from - start)
    }
  }

  case object Ints extends Values(IntegerType, (v, i) => v.putInt(i, i), "intData") {
    override def mover(v: WritableColumnVector, start: Int, length: Int): Move = {
      val values = v.getInts(start, length)
      (to, from, n) => v.putInts(to, n, values, from - start)
    }
  }

  case object Longs extends Values(LongType, (v, i) => v.putLong(i, i), "longData") {
    override def mover(v: WritableColumnVector, start: Int, length: Int): Move = {
      val values = v.getLongs(start, length)
      (to, from, n) => v.putLongs(to, n, values, from - start)
    }
  }

  case object Floats extends Values(FloatType, (v, i) => v.putFloat(i, i.toFloat), "floatData") {
    override def mover(v: WritableColumnVector, start: Int, length: Int): Move = {
      val values = v.getFloats(start, length)
      (to, from, n) => v.putFloats(to, n, values, from - start)
    }
  }

  case object Doubles extends Values(DoubleType, (v, i) => v.putDouble(i, i), "doubleData") {
    override def mover(v: WritableColumnVector, start: Int, length: Int): Move = {
      val values = v.getDoubles(start, length)
      (to, from, n) => v.putDoubles(to, n, values, from - start)
    }
  }

  /** Text, arrays and maps: what their offsets point to stays where it is. */
  case object Places extends Values(StringType, (v, i) => v.putByteArray(i, ("x" * (i + 1)).getBytes), "arrayOffsets", "arrayLengths") {
    override def mover(v: WritableColumnVector, start: Int, length: Int): Move = eachRow { (to, from) =>
      v.putArray(to, v.getArrayOffset(from), v.getArrayLength(from))
    }
  }

  def of(dataType: DataType): Values = dataType match {
    case BooleanType | ByteType => Bytes
    case ShortType => Shorts
    case IntegerType | DateType | _: YearMonthIntervalType => Ints
    case LongType | TimestampType | TimestampNTZType | _: DayTimeIntervalType | _: TimeType => Longs
    case FloatType => Floats
    case DoubleType => Doubles
    case d: DecimalType if d.precision <= Decimal.MAX_INT_DIGITS => Ints
    case d: DecimalType if d.precision <= Decimal.MAX_LONG_DIGITS => Longs
    case _: DecimalType | _: StringType | BinaryType | _: ArrayType | _: MapType => Places
    case _: GeometryType | _: GeographyType => Places
    // These have a child per field, with a value per row.
    case _: StructType | CalendarIntervalType | VariantType => Children
    case other => throw new IllegalStateException(s"rows of type ${other.sql} cannot be dropped")
  }

  private def eachRow(move: (Int, Int) => Unit): Move = (to, from, length) => {
    var i = 0
    while (i < length) {
      move(to + i, from + i)
      i += 1
    }
  }
}
