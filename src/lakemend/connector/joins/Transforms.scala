package lakemend.joins

import java.math.BigInteger
import java.time.LocalDate
import java.util.Locale

import com.google.common.hash.Hashing
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.connector.catalog.Identifier
import org.apache.spark.sql.connector.catalog.functions._
import org.apache.spark.sql.connector.expressions.{Expressions, Transform}
import org.apache.spark.sql.types._

/**
 * What rows are partitioned by beside values of columns: the transforms of Iceberg's specification, as functions that Spark
 * compares and evaluates when it lines up two sides of a join. Catalogs offer them under these names, alone or in `system`.
 */
object Transforms {
  private val functions: Map[String, UnboundFunction] =
    Seq(Bucket, Truncate, new Calendar("years"), new Calendar("months"), new Calendar("days"), new Calendar("hours"))
      .map(f => f.name -> f).toMap

  def names: Seq[String] = functions.keys.toSeq.sorted

  def isPlace(namespace: Array[String]): Boolean = namespace.isEmpty || namespace.sameElements(Array("system"))

  def find(function: Identifier): Option[UnboundFunction] =
    if (isPlace(function.namespace)) functions.get(function.name.toLowerCase(Locale.ROOT)) else None

  private val Sized = """(bucket|truncate)\[(\d+)\]""".r

  /** The transform of a partition field, `column` quoted as in SQL. */
  def toSpark(transform: String, column: String): Transform = transform match {
    case "identity" => Expressions.identity(column)
    case Sized("bucket", count) => Expressions.bucket(count.toInt, column)
    case Sized(_, width) => Expressions.apply("truncate", Expressions.literal(width.toInt), Expressions.column(column))
    case "year" | "years" => Expressions.years(column)
    case "month" | "months" => Expressions.months(column)
    case "day" | "days" => Expressions.days(column)
    case "hour" | "hours" => Expressions.hours(column)
    case other => throw new UnsupportedOperationException(s"partition transform $other")
  }

  /** The type of its values. */
  def resultType(transform: String, source: DataType): DataType = transform match {
    case Sized("bucket", _) | "year" | "years" | "month" | "months" | "hour" | "hours" => IntegerType
    case "day" | "days" => DateType
    case _ => source
  }

  private[joins] def refuse(function: String, types: StructType, wanted: String): Nothing =
    throw new UnsupportedOperationException(s"$function${types.fields.map(_.dataType.sql).mkString("(", ", ", ")")}: it takes $wanted")
}

/** bucket(count, value): the value's hash modulo the count. */
object Bucket extends UnboundFunction {
  override def name: String = "bucket"
  override def description: String = "bucket(count, value): Iceberg's hash of the value, modulo the count"

  override def bind(types: StructType): BoundFunction = types.fields.map(_.dataType) match {
    case Array(IntegerType | ShortType | ByteType, value) if isHashable(value) => new BoundBucket(value)
    case _ => Transforms.refuse(name, types, "an INT and a number, decimal, date, time, string or binary value")
  }

  private def isHashable(dataType: DataType): Boolean = dataType match {
    case ByteType | ShortType | IntegerType | LongType | DateType | TimestampType | TimestampNTZType | BinaryType => true
    case _: DecimalType | _: StringType => true
    case _ => false
  }

  def hash(row: InternalRow, at: Int, dataType: DataType): Int = dataType match {
    case ByteType => ofLong(row.getByte(at))
    case ShortType => ofLong(row.getShort(at))
    case IntegerType | DateType => ofLong(row.getInt(at))
    case LongType | TimestampType | TimestampNTZType => ofLong(row.getLong(at))
    case d: DecimalType => ofBytes(row.getDecimal(at, d.precision, d.scale).toJavaBigDecimal.unscaledValue.toByteArray)
    case BinaryType => ofBytes(row.getBinary(at))
    case _ => ofBytes(row.getUTF8String(at).getBytes)
  }

  private def ofLong(value: Long): Int = Hashing.murmur3_32_fixed().hashLong(value).asInt

  private def ofBytes(value: Array[Byte]): Int = Hashing.murmur3_32_fixed().hashBytes(value).asInt
}

class BoundBucket(value: DataType) extends ScalarFunction[Integer] with ReducibleFunction[Integer, Integer] {
  override def name: String = "bucket"
  override def inputTypes: Array[DataType] = Array(IntegerType, value)
  override def resultType: DataType = IntegerType
  override def canonicalName: String = s"lakemend.bucket(${value.catalogString})"

  override def produceResult(row: InternalRow): Integer =
    if (row.isNullAt(0) || row.isNullAt(1)) null else (Bucket.hash(row, 1, value) & Int.MaxValue) % row.getInt(0)

  /** Of 12 and 8 buckets, four on either side hold the same values. */
  override def reducer(count: Int, other: ReducibleFunction[_, _], otherCount: Int): Reducer[Integer, Integer] = other match {
    case that: BoundBucket if that.canonicalName == canonicalName =>
      val common = BigInteger.valueOf(count).gcd(BigInteger.valueOf(otherCount)).intValue
      if (common > 1 && common != count) new FewerBuckets(common) else null
    case _ => null
  }
}

class FewerBuckets(val count: Int) extends Reducer[Integer, Integer] {
  override def reduce(bucket: Integer): Integer = if (bucket == null) null else bucket % count
  override def resultType: DataType = IntegerType
  override def displayName: String = s"bucket modulo $count"
  override def equals(other: Any): Boolean = other match {
    case that: FewerBuckets => count == that.count
    case _ => false
  }
  override def hashCode: Int = count
}

/** truncate(width, value): the next multiple of the width below a number, or the beginning of a text. */
object Truncate extends UnboundFunction {
  override def name: String = "truncate"
  override def description: String = "truncate(width, value): the largest multiple of the width up to a number, or the first characters"

  override def bind(types: StructType): BoundFunction = types.fields.map(_.dataType) match {
    case Array(IntegerType | ShortType | ByteType, value) => value match {
      case ByteType | ShortType | IntegerType | LongType | BinaryType => new BoundTruncate(value)
      case _: DecimalType | _: StringType => new BoundTruncate(value)
      case _ => Transforms.refuse(name, types, "an INT and a whole number, decimal, string or binary value")
    }
    case _ => Transforms.refuse(name, types, "an INT and a value")
  }
}

class BoundTruncate(value: DataType) extends ScalarFunction[Any] {
  override def name: String = "truncate"
  override def inputTypes: Array[DataType] = Array(IntegerType, value)
  override def resultType: DataType = value
  override def canonicalName: String = s"lakemend.truncate(${value.catalogString})"

  override def produceResult(row: InternalRow): Any = if (row.isNullAt(0) || row.isNullAt(1)) null else {
    val width = row.getInt(0)
    value match {
      case ByteType => below(row.getByte(1), width).toByte
      case ShortType => below(row.getShort(1), width).toShort
      case IntegerType => below(row.getInt(1), width).toInt
      case LongType => below(row.getLong(1), width)
      case d: DecimalType =>
        val exact = row.getDecimal(1, d.precision, d.scale).toJavaBigDecimal
        val wide = BigInteger.valueOf(width)
        Decimal(new java.math.BigDecimal(exact.unscaledValue.subtract(exact.unscaledValue.mod(wide)), d.scale), d.precision, d.scale)
      case BinaryType => row.getBinary(1).take(width)
      case _ => row.getUTF8String(1).substring(0, width)
    }
  }

  private def below(number: Long, width: Int): Long = number - Math.floorMod(number, width.toLong)
}

/** years, months, days and hours since the epoch; of timestamps in UTC. */
class Calendar(unit: String) extends UnboundFunction {
  override def name: String = unit
  override def description: String = s"$unit(date or timestamp): $unit since the epoch"

  override def bind(types: StructType): BoundFunction = types.fields.map(_.dataType) match {
    case Array(DateType) if unit != "hours" => new BoundCalendar(unit, DateType)
    case Array(time @ (TimestampType | TimestampNTZType)) => new BoundCalendar(unit, time)
    case _ => Transforms.refuse(name, types, if (unit == "hours") "a timestamp" else "a date or timestamp")
  }
}

class BoundCalendar(unit: String, value: DataType) extends ScalarFunction[Integer] {
  override def name: String = unit
  override def inputTypes: Array[DataType] = Array(value)
  override def resultType: DataType = if (unit == "days") DateType else IntegerType
  override def canonicalName: String = s"lakemend.$unit(${value.catalogString})"

  override def produceResult(row: InternalRow): Integer = if (row.isNullAt(0)) null else value match {
    case DateType => since(LocalDate.ofEpochDay(row.getInt(0)), 0)
    case _ =>
      val micros = row.getLong(0)
      val hours = Math.floorDiv(micros, 3600L * 1000 * 1000)
      since(LocalDate.ofEpochDay(Math.floorDiv(hours, 24L)), hours)
  }

  private def since(day: LocalDate, hours: Long): Int = unit match {
    case "years" => day.getYear - 1970
    case "months" => (day.getYear - 1970) * 12 + day.getMonthValue - 1
    case "days" => day.toEpochDay.toInt
    case _ => hours.toInt
  }
}
