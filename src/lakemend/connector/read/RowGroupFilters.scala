package lakemend.read

import lakemend.Wire
import lakemend.catalog.TableMeta
import org.apache.spark.sql.catalyst.CatalystTypeConverters
import org.apache.spark.sql.catalyst.util.DateTimeUtils
import org.apache.spark.sql.connector.expressions.{Expression, Literal, NamedReference}
import org.apache.spark.sql.connector.expressions.filter.{PartitionPredicate, Predicate}
import org.apache.spark.sql.lakemend.SparkBridge
import org.apache.spark.sql.sources._
import org.apache.spark.sql.types.{DateType, DecimalType, StringType, StructField, TimestampType}
import org.apache.spark.unsafe.types.UTF8String

/** Pushed predicates as filters on row groups, in the names of the data files.
  *
  * A predicate is translated whole or not at all. Columns that are not inside data files never take part, and
  * neither do columns of tables read by field id: Parquet resolves filters by name, and a name may have belonged to
  * another column when the file was written.
  *
  * Bounds of floating point numbers say nothing of NaN, which most writers leave out of them and Spark has above all
  * numbers: what a NaN satisfies is not asked of row groups. Nor is whether a number is zero, since dictionaries tell 0.0
  * from -0.0.
  *
  * Spark brings a literal into the form that a file stores, and cuts what does not fit. Files of other writers may store
  * milliseconds: a finer moment is asked only where its millisecond will do. Files from before a decimal column was widened
  * may store fewer bytes: such a column is not asked.
  */
class RowGroupFilters(meta: TableMeta) {
  def of(predicates: Seq[Predicate]): Seq[Filter] =
    if (meta.byId) Nil else predicates.filterNot(_.isInstanceOf[PartitionPredicate]).flatMap(filter(_))

  private def filter(e: Expression, negated: Boolean = false): Option[Filter] = e match {
    case p: Predicate => p.name match {
      case "AND" => both(p, negated).map { case (l, r) => And(l, r) }
      case "OR" => both(p, negated).map { case (l, r) => Or(l, r) }
      case "NOT" => filter(p.children()(0), !negated).collect { case f if !f.isInstanceOf[In] => Not(f) }
      case "IS_NULL" => column(p.children()(0)).map(IsNull)
      case "IS_NOT_NULL" => column(p.children()(0)).map(IsNotNull)
      case "IN" => in(p.children.toSeq, negated)
      case "STARTS_WITH" => text(p).map { case (c, v) => StringStartsWith(c, v) }
      case "ENDS_WITH" => text(p).map { case (c, v) => StringEndsWith(c, v) }
      case "CONTAINS" => text(p).map { case (c, v) => StringContains(c, v) }
      case name => comparison(name, p.children.toSeq, negated)
    }
    case _ => None
  }

  private def both(p: Predicate, negated: Boolean): Option[(Filter, Filter)] =
    for (l <- filter(p.children()(0), negated); r <- filter(p.children()(1), negated)) yield (l, r)

  private def in(children: Seq[Expression], negated: Boolean): Option[Filter] = {
    val values = children.tail.collect { case l: Literal[_] => l }
    if (values.isEmpty || values.length < children.length - 1 || values.exists(_.dataType != values.head.dataType)) None
    else if (!values.forall(v => isSayable(v) && isAskable("=", v, negated))) None
    else column(children.head).map(In(_, values.map(filterValue).toArray))
  }

  private def text(p: Predicate): Option[(String, String)] = p.children.toSeq match {
    case Seq(c, l: Literal[_]) if l.dataType.isInstanceOf[StringType] && l.value != null && isSayable(l) =>
      column(c).map(_ -> l.value.toString)
    case _ => None
  }

  private def comparison(name: String, children: Seq[Expression], negated: Boolean): Option[Filter] = children match {
    case Seq(c, l: Literal[_]) => compare(name, c, l, negated)
    case Seq(l: Literal[_], c) => RowGroupFilters.mirrored.get(name).flatMap(compare(_, c, l, negated))
    case _ => None
  }

  private def compare(name: String, side: Expression, literal: Literal[_], negated: Boolean): Option[Filter] =
    if (!isSayable(literal) || !isAskable(name, literal, negated)) None
    // Before a moment within a millisecond lies the beginning of that millisecond.
    else column(side).flatMap(compare(if (name == "<" && !isMillis(literal)) "<=" else name, _, filterValue(literal)))

  private def compare(name: String, column: String, value: Any): Option[Filter] = name match {
    case "<=>" => Some(EqualNullSafe(column, value))
    case _ if value == null => None
    case "=" => Some(EqualTo(column, value))
    case "<>" => Some(Not(EqualTo(column, value)))
    case "<" => Some(LessThan(column, value))
    case "<=" => Some(LessThanOrEqual(column, value))
    case ">" => Some(GreaterThan(column, value))
    case ">=" => Some(GreaterThanOrEqual(column, value))
    case _ => None
  }

  /** Filters hold Java's strings: what is not UTF-8 would become another text in them. */
  private def isSayable(l: Literal[_]): Boolean = l.value match {
    case text: UTF8String => Wire.isText(text)
    case _ => true
  }

  /** Whether no NaN satisfies the comparison, no zero tells the signs apart, and no moment is cut to one that does not satisfy it. */
  private def isAskable(name: String, l: Literal[_], negated: Boolean): Boolean = l.value match {
    case n: Float => isAskable(name, n.toDouble, negated)
    case n: Double => isAskable(name, n, negated)
    case _ => isMillis(l) || !negated && name != "<>"
  }

  private def isMillis(l: Literal[_]): Boolean = (l.dataType, l.value) match {
    case (TimestampType, micros: Long) => micros % 1000 == 0
    case _ => true
  }

  private def isAskable(name: String, n: Double, negated: Boolean): Boolean =
    !negated && !n.isNaN && n != 0.0 && RowGroupFilters.belowNaN(name)

  private def column(e: Expression): Option[String] = e match {
    case r: NamedReference =>
      val path = r.fieldNames.toSeq
      if (meta.isPartitionColumn(path.head)) None
      else if (!FilePruning.typeOf(path, meta.schema).exists(SparkBridge.isBinaryComparable)) None
      else PhysicalType.fields(path, meta.schema, meta.physical).filterNot(found => wasWidened(found.last))
        .map(found => SparkBridge.quoted(found.map(_.name)))
    case _ => None
  }

  /** What a statement widens itself has no record of it yet. */
  private def wasWidened(stored: StructField): Boolean = stored.dataType match {
    case _: DecimalType => meta.staged.isDefined || stored.metadata.contains(PhysicalType.Widened)
    case _ => false
  }

  /** Java's older classes for days and moments leave out the ten days of 1582 that one calendar has and the other has not. */
  private def filterValue(l: Literal[_]): Any = (l.dataType, l.value) match {
    case (DateType, days: Int) => DateTimeUtils.daysToLocalDate(days)
    case (TimestampType, micros: Long) => DateTimeUtils.microsToInstant(micros)
    case (dataType, value) => CatalystTypeConverters.convertToScala(value, dataType)
  }
}

object RowGroupFilters {
  private val mirrored =
    Map("=" -> "=", "<=>" -> "<=>", "<>" -> "<>", "<" -> ">", "<=" -> ">=", ">" -> "<", ">=" -> "<=")

  /** Comparisons with a number that a NaN does not satisfy. */
  private val belowNaN = Set("=", "<=>", "<", "<=")
}
