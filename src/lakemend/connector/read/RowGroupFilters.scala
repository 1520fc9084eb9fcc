package lakemend.read

import lakemend.catalog.TableMeta
import org.apache.spark.sql.catalyst.CatalystTypeConverters
import org.apache.spark.sql.connector.expressions.{Expression, Literal, NamedReference}
import org.apache.spark.sql.connector.expressions.filter.{PartitionPredicate, Predicate}
import org.apache.spark.sql.lakemend.SparkBridge
import org.apache.spark.sql.sources._
import org.apache.spark.sql.types.StringType

/** Pushed predicates as filters on row groups, in the names of the data files.
  *
  * A predicate is translated whole or not at all. Columns that are not inside data files never take part, and
  * neither do columns of tables read by field id: Parquet resolves filters by name, and a name may have belonged to
  * another column when the file was written.
  */
class RowGroupFilters(meta: TableMeta) {
  def of(predicates: Seq[Predicate]): Seq[Filter] =
    if (meta.byId) Nil else predicates.filterNot(_.isInstanceOf[PartitionPredicate]).flatMap(filter)

  private def filter(e: Expression): Option[Filter] = e match {
    case p: Predicate => p.name match {
      case "AND" => both(p).map { case (l, r) => And(l, r) }
      case "OR" => both(p).map { case (l, r) => Or(l, r) }
      case "NOT" => filter(p.children()(0)).collect { case f if !f.isInstanceOf[In] => Not(f) }
      case "IS_NULL" => column(p.children()(0)).map(IsNull)
      case "IS_NOT_NULL" => column(p.children()(0)).map(IsNotNull)
      case "IN" => in(p.children.toSeq)
      case "STARTS_WITH" => text(p).map { case (c, v) => StringStartsWith(c, v) }
      case "ENDS_WITH" => text(p).map { case (c, v) => StringEndsWith(c, v) }
      case "CONTAINS" => text(p).map { case (c, v) => StringContains(c, v) }
      case name => comparison(name, p.children.toSeq)
    }
    case _ => None
  }

  private def both(p: Predicate): Option[(Filter, Filter)] =
    for (l <- filter(p.children()(0)); r <- filter(p.children()(1))) yield (l, r)

  private def in(children: Seq[Expression]): Option[Filter] = {
    val values = children.tail.collect { case l: Literal[_] => l }
    if (values.isEmpty || values.length < children.length - 1 || values.exists(_.dataType != values.head.dataType)) None
    else column(children.head).map(In(_, values.map(scalaValue).toArray))
  }

  private def text(p: Predicate): Option[(String, String)] = p.children.toSeq match {
    case Seq(c, l: Literal[_]) if l.dataType.isInstanceOf[StringType] && l.value != null =>
      column(c).map(_ -> l.value.toString)
    case _ => None
  }

  private def comparison(name: String, children: Seq[Expression]): Option[Filter] = children match {
    case Seq(c, l: Literal[_]) => column(c).flatMap(compare(name, _, scalaValue(l)))
    case Seq(l: Literal[_], c) =>
      for (m <- RowGroupFilters.mirrored.get(name); k <- column(c); f <- compare(m, k, scalaValue(l))) yield f
    case _ => None
  }

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

  private def column(e: Expression): Option[String] = e match {
    case r: NamedReference =>
      val path = r.fieldNames.toSeq
      if (meta.isPartitionColumn(path.head)) None
      else if (!FilePruning.typeOf(path, meta.schema).exists(SparkBridge.isBinaryComparable)) None
      else PhysicalType.path(path, meta.schema, meta.physical).map(SparkBridge.quoted)
    case _ => None
  }

  private def scalaValue(l: Literal[_]): Any = CatalystTypeConverters.convertToScala(l.value, l.dataType)
}

object RowGroupFilters {
  private val mirrored =
    Map("=" -> "=", "<=>" -> "<=>", "<>" -> "<>", "<" -> ">", "<=" -> ">=", ">" -> "<", ">=" -> "<=")
}
