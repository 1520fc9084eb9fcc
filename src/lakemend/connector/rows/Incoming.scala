package org.apache.spark.sql.lakemend

import lakemend.catalog.TableMeta
import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.catalyst.plans.logical._
import org.apache.spark.sql.classic.SparkSession
import org.apache.spark.sql.execution.datasources.v2.DataSourceV2Relation

/**
 * Rows on their way into a table, with what they replace there. The Python verbs put it below the write, Spark casts and
 * orders the columns above it, and `ReplaceRows` takes it out again: no plan is executed with it.
 */
case class Incoming(child: LogicalPlan, by: ReplacedBy) extends UnaryNode {
  override def output: Seq[Attribute] = child.output
  override protected def withNewChildInternal(newChild: LogicalPlan): Incoming = copy(child = newChild)
}

object Incoming {
  /** Each frame as the table takes it, with what it replaces. */
  def parts(query: LogicalPlan): Seq[(LogicalPlan, ReplacedBy)] = query.collect { case i: Incoming => i } match {
    case Seq() => Nil
    case Seq(one) => Seq(unmarked(query) -> one.by)
    case several =>
      val union = query.collectFirst { case u: Union if u.collect { case i: Incoming => i }.length == several.length => u }.get
      union.children.map { child =>
        val by = child.collectFirst { case i: Incoming => i.by }.get
        val renamed = Project(child.output.zip(union.output).map { case (own, common) =>
          Alias(own, common.name)(exprId = common.exprId)
        }, unmarked(child))
        query.transform { case u: Union if u eq union => renamed } -> by
      }
  }

  private def unmarked(plan: LogicalPlan): LogicalPlan = plan.transform { case Incoming(child, _) => child }
}

/** What a frame replaces. Not an expression: its names are not those of the frame. */
sealed trait ReplacedBy

/** The rows that satisfy a condition over the table's columns, given as text or as an expression. */
class ByPredicate(condition: Either[String, Expression]) extends ReplacedBy {
  def resolved(spark: SparkSession, relation: DataSourceV2Relation, meta: TableMeta): ReplacePredicate =
    condition.fold(ReplacePredicate.parsed(spark, _, relation, meta), ReplacePredicate.of(spark, _, relation, meta))
}

/** The rows that match one of the frame's. */
sealed abstract class ByRows(val operation: String) extends ReplacedBy {
  def text: String
  /** Of a row of the table and a row of `keys`. */
  def condition(spark: SparkSession, relation: DataSourceV2Relation, keys: LogicalPlan, meta: TableMeta): Expression
}

/** Rows that equal one of the frame's in these columns; NULL equals nothing, as in SQL. */
class ByKeys(columns: Seq[String]) extends ByRows("replace_using") {
  override def text: String = columns.map(c => SparkBridge.quoted(Seq(c))).mkString(", ")

  override def condition(spark: SparkSession, relation: DataSourceV2Relation, keys: LogicalPlan, meta: TableMeta): Expression = {
    val same = spark.sessionState.conf.resolver
    columns.map { name =>
      val at = relation.output.indexWhere(a => same(a.name, name))
      if (at < 0) throw ReplacePredicate.invalid(text, s"there is no column $name; " +
        s"the columns are ${relation.output.map(_.name).mkString(", ")}", meta)
      val (own, incoming) = (relation.output(at), keys.output(at))
      if (!RowOrdering.isOrderable(own.dataType)) throw ReplacePredicate.invalid(text,
        s"values of column $name (${own.dataType.sql}) cannot be compared", meta)
      EqualTo(own, incoming): Expression
    }.reduce(And(_, _))
  }
}

/** Rows for which a condition holds together with one of the frame's: `t` is the table, `s` the frame. */
class ByCondition(asked: Either[String, Expression]) extends ByRows("replace_on") {
  override def text: String = asked.fold(identity, ReplacePredicate.text)

  override def condition(spark: SparkSession, relation: DataSourceV2Relation, keys: LogicalPlan, meta: TableMeta): Expression =
    ReplacePredicate.joined(spark, asked, relation, keys, text, meta)
}
