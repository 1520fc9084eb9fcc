package lakemend.read

import com.fasterxml.jackson.databind.JsonNode
import lakemend.Wire
import lakemend.catalog.TableMeta
import org.apache.spark.sql.catalyst.util.TypeUtils
import org.apache.spark.sql.connector.expressions.{Expression, Expressions, Literal, NamedReference}
import org.apache.spark.sql.connector.expressions.filter.{AlwaysFalse, Predicate}
import org.apache.spark.sql.lakemend.SparkBridge
import org.apache.spark.sql.types._

/** The keys that the other side of a join has for one column, known at run time: files between whose bounds none of
  * them lies hold no match. */
class KeyFilter(val column: String, dataType: DataType, keys: Array[Any]) {
  private val ordering: Ordering[Any] = TypeUtils.getInterpretedOrdering(dataType)
  private val sorted: Array[Any] = keys.distinct.sorted(ordering)

  /** `bounds` are [min, max, nulls, exact] as the brain tells them; where they are unknown the file may match. */
  def mayMatch(bounds: JsonNode): Boolean = {
    val Seq(low, high) = Seq(0, 1).map(i => bounds.path(i))
    if (sorted.isEmpty) false
    else if (missing(low) || missing(high)) true
    else {
      val first = firstFrom(Wire.internal(low, dataType))
      first < sorted.length && ordering.lteq(sorted(first), Wire.internal(high, dataType))
    }
  }

  /** For partition values: the value itself. */
  def mayMatch(value: Any): Boolean = value != null && {
    val first = firstFrom(value)
    first < sorted.length && ordering.equiv(sorted(first), value)
  }

  /** The rows that have one of the keys: few are named, of many the first and the last. */
  def range: Seq[Predicate] =
    if (sorted.isEmpty) Seq(new AlwaysFalse)
    else if (sorted.length <= KeyFilter.Few) Seq(comparison("IN", sorted.toSeq))
    else Seq(comparison(">=", Seq(sorted.head)), comparison("<=", Seq(sorted.last)))

  private def comparison(name: String, keys: Seq[Any]): Predicate = new Predicate(name,
    (Expressions.column(SparkBridge.quoted(Seq(column))) +: keys.map(SparkBridge.literal(_, dataType))).toArray[Expression])

  private def missing(node: JsonNode): Boolean = node.isMissingNode || node.isNull

  /** The index of the first key that is not below the value. */
  private def firstFrom(value: Any): Int = {
    var from = 0
    var until = sorted.length
    while (from < until) {
      val middle = (from + until) >>> 1
      if (ordering.lt(sorted(middle), value)) from = middle + 1 else until = middle
    }
    from
  }

  override def toString: String = s"${sorted.length} keys of $column"
}

object KeyFilter {
  private val Few = 100

  /** None: the predicate is not a list of values for one of the table's own columns. */
  def of(predicate: Predicate, meta: TableMeta): Option[KeyFilter] = predicate.children.toSeq match {
    case (column: NamedReference) +: values if predicate.name == "IN" && column.fieldNames.length == 1 =>
      meta.schema.fields.find(f => f.name == column.fieldNames.head && applies(f.dataType)).flatMap { field =>
        val literals = values.collect { case l: Literal[_] if l.dataType == field.dataType => l.value: Any }
        if (literals.length != values.length) None
        else Some(new KeyFilter(field.name, field.dataType, literals.filter(_ != null).toArray))
      }
    case _ => None
  }

  /** Types whose bounds in the log are those of Spark's order. */
  def applies(dataType: DataType): Boolean = dataType match {
    case ByteType | ShortType | IntegerType | LongType | DateType | TimestampType | TimestampNTZType | _: DecimalType => true
    case s: StringType => SparkBridge.isBinaryComparable(s)
    case _ => false
  }
}
