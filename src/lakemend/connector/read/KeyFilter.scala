package lakemend.read

import lakemend.catalog.TableMeta
import org.apache.spark.sql.catalyst.util.TypeUtils
import org.apache.spark.sql.connector.expressions.{Expression, Expressions, Literal, NamedReference}
import org.apache.spark.sql.connector.expressions.filter.{AlwaysFalse, Predicate}
import org.apache.spark.sql.lakemend.SparkBridge
import org.apache.spark.sql.types._

/** The keys that the other side of a join has for one column, known at run time. */
class KeyFilter(column: String, dataType: DataType, keys: Array[Any]) {
  private val sorted: Array[Any] = keys.distinct.sorted(TypeUtils.getInterpretedOrdering(dataType): Ordering[Any])

  /** The rows that have one of the keys. */
  def predicate: Predicate = if (sorted.isEmpty) new AlwaysFalse else comparison("IN", sorted.toSeq)

  /** The same for a commit: few are named, of many the first and the last. */
  def range: Seq[Predicate] =
    if (sorted.length <= KeyFilter.Few) Seq(predicate)
    else Seq(comparison(">=", Seq(sorted.head)), comparison("<=", Seq(sorted.last)))

  private def comparison(name: String, keys: Seq[Any]): Predicate = new Predicate(name,
    (Expressions.column(SparkBridge.quoted(Seq(column))) +: keys.map(SparkBridge.literal(_, dataType))).toArray[Expression])

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
