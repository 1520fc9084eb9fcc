package org.apache.spark.sql.lakemend

import scala.util.Try

import com.fasterxml.jackson.databind.node.ObjectNode
import lakemend.{Bridge, LakemendException, Wire}
import lakemend.catalog.TableMeta
import lakemend.read.FilePruning
import org.apache.spark.sql.AnalysisException
import org.apache.spark.sql.catalyst.analysis.UnresolvedAttribute
import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.catalyst.expressions.aggregate.AggregateExpression
import org.apache.spark.sql.catalyst.optimizer._
import org.apache.spark.sql.catalyst.parser.ParseException
import org.apache.spark.sql.catalyst.plans.Inner
import org.apache.spark.sql.catalyst.plans.logical.{Filter, Join, JoinHint, LocalRelation, LogicalPlan, Project, SubqueryAlias}
import org.apache.spark.sql.catalyst.rules.Rule
import org.apache.spark.sql.catalyst.util.QuotingUtils
import org.apache.spark.sql.classic.SparkSession
import org.apache.spark.sql.execution.datasources.ApplyCharTypePadding
import org.apache.spark.sql.execution.datasources.v2.{DataSourceV2Relation, DataSourceV2Strategy}
import org.apache.spark.sql.internal.SQLConf
import org.apache.spark.sql.types.{BooleanType, DataType, NullType, StringType}

/**
 * What a replaceWhere replaces: a condition over the table's own columns, resolved and typed by Spark and then made as
 * simple as Spark's optimizer would make it, so that every door selects the same rows.
 */
case class ReplacePredicate(condition: Expression, relation: DataSourceV2Relation, meta: TableMeta) {
  /** As people would write it: without the casts Spark has put in. */
  lazy val sql: String = ReplacePredicate.text(condition)

  /** The top-level columns it names, in the table's spelling. */
  def columns: Seq[String] = condition.references.toSeq.map(_.name).distinct

  /** What the brain is told: parts that have no wire form are unknown for every row. */
  lazy val wire: ObjectNode = ReplacePredicate.wire(simple, meta)

  /** Means the same for every row as `condition`. */
  lazy val simple: Expression = ReplacePredicate.simplified(condition, relation)

  /** Of rows that lie as the table's columns do: true where the condition is not. */
  def brokenBy(rows: Seq[Attribute]): Expression = {
    val column = AttributeMap(relation.output.zip(rows))
    Not(EqualNullSafe(simple.transform { case a: Attribute => column.getOrElse(a, a) }, Literal.TrueLiteral))
  }
}

object ReplacePredicate {
  /** A condition as text, resolved against the table. */
  def parsed(spark: SparkSession, sql: String, relation: DataSourceV2Relation, meta: TableMeta): ReplacePredicate = {
    val expression =
      try spark.sessionState.sqlParser.parseExpression(sql)
      catch { case e: ParseException => throw invalid(sql, s"it cannot be parsed: ${firstLine(e)}", meta) }
    of(spark, resolved(spark, expression, relation, Some(sql), meta), relation, meta)
  }

  /** A condition that the analyzer has been through with the statement; whatever it left unresolved is an error. */
  def of(spark: SparkSession, condition: Expression, relation: DataSourceV2Relation, meta: TableMeta): ReplacePredicate = {
    refuseUnsupported(condition, meta)
    val whole = if (condition.resolved) condition else resolved(spark, condition, relation, None, meta)
    refuseUnsupported(whole, meta)
    if (whole.dataType != BooleanType) throw invalid(text(whole), s"it is of type ${whole.dataType.sql} and not a condition", meta)
    whole.references.find(a => !relation.outputSet.contains(a)).foreach(a =>
      throw invalid(text(whole), s"there is no column ${a.name}; the columns are ${known(relation)}", meta))
    refuseMismatch(whole, meta)
    // In the table's own spelling, and of this moment.
    val own = AttributeMap(relation.output.map(a => a -> a))
    val spelled = whole.transform { case a: Attribute => own.getOrElse(a, a) }
    val now = ComputeCurrentTime(Filter(spelled, LocalRelation(relation.output))).expressions.headOption.getOrElse(spelled)
    ReplacePredicate(padded(now, relation, meta), relation, meta)
  }

  /** CHAR columns hold their values filled up with blanks, and so do those of incoming rows: what they are compared with is
    * filled up too. The analyzer does so to the conditions of statements, and not to one that is analysed by itself. */
  private def padded(condition: Expression, relation: DataSourceV2Relation, meta: TableMeta, incoming: Seq[Attribute] = Nil): Expression = {
    val columns = relation.output ++ incoming
    val declared = AttributeMap(columns.map(a =>
      a -> meta.schema.fields.find(_.name == a.name).fold(a)(field => a.withMetadata(field.metadata))))
    val told = condition.transform { case a: AttributeReference => declared.getOrElse(a, a) }
    val plan = ApplyCharTypePadding(Filter(told, LocalRelation((columns ++ condition.references).distinct)))
    val own = AttributeMap(columns.map(a => a -> a))
    plan.expressions.headOption.getOrElse(told).transform { case a: AttributeReference => own.getOrElse(a, a) }
  }

  private def resolved(spark: SparkSession, condition: Expression, relation: DataSourceV2Relation, sql: Option[String],
      meta: TableMeta): Expression = {
    def shown = sql.getOrElse(text(condition))
    val filter =
      try spark.sessionState.analyzer.execute(Filter(condition, relation))
      catch { case e: AnalysisException => throw invalid(shown, firstLine(e), meta) }
    // Where it names the table's metadata columns, Spark puts a projection around it.
    val found = own(filter.collectFirst { case Filter(c, _) => c }.getOrElse(condition), filter, relation)
    refuseUnsupported(found, meta)
    if (!found.resolved) {
      found.collectFirst { case a: UnresolvedAttribute => a }.foreach(a =>
        throw invalid(shown, s"there is no column ${a.name}; the columns are ${known(relation)}", meta))
      found.collectFirst { case e if e.childrenResolved && e.checkInputDataTypes().isFailure => e }
        .foreach(refuseTypes(_, shown, meta))
      try spark.sessionState.analyzer.checkAnalysis(filter)
      catch { case e: AnalysisException => throw invalid(shown, firstLine(e), meta) }
      throw invalid(shown, "Spark cannot resolve it", meta)
    }
    found
  }

  /** By the table's own columns, where the analyzer has put CHAR values that are filled up in their place: `padded` and
    * `PaddedTarget` do so for all of a replacement. */
  private def own(condition: Expression, plan: LogicalPlan, relation: DataSourceV2Relation): Expression = {
    val filled = AttributeMap(plan.collect { case Project(columns, r: DataSourceV2Relation) if r.outputSet == relation.outputSet =>
      columns.collect { case a: Alias if a.references.size == 1 => a.toAttribute -> a.references.head }
    }.flatten)
    condition.transform { case a: AttributeReference => filled.getOrElse(a, a) }
  }

  /** A condition over a row of the table, `t`, and an incoming row, `s`. */
  def joined(spark: SparkSession, asked: Either[String, Expression], relation: DataSourceV2Relation, keys: LogicalPlan,
      shown: String, meta: TableMeta): Expression = {
    val condition = asked.fold(sql =>
      try spark.sessionState.sqlParser.parseExpression(sql)
      catch { case e: ParseException => throw invalid(sql, s"it cannot be parsed: ${firstLine(e)}", meta) }, identity)
    val join = Join(SubqueryAlias("t", relation), SubqueryAlias("s", keys), Inner, Some(condition), JoinHint.NONE)
    try {
      val plan = spark.sessionState.analyzer.execute(join)
      val found = own(plan.collectFirst { case Join(_, _, Inner, Some(c), _) => c }.getOrElse(condition), plan, relation)
      refuseUnsupported(found, meta)
      spark.sessionState.analyzer.checkAnalysis(plan)
      if (found.dataType != BooleanType) throw invalid(shown, s"it is of type ${found.dataType.sql} and not a condition", meta)
      padded(found, relation, meta, keys.output)
    } catch { case e: AnalysisException => throw invalid(shown, firstLine(e), meta) }
  }

  // ---- what is refused

  private def refuseUnsupported(condition: Expression, meta: TableMeta): Unit = condition.foreach {
    case _: SubqueryExpression =>
      throw unsupported("subquery", condition, "its rows may change between planning and reading", meta)
    case a: AggregateExpression =>
      throw unsupported(a.aggregateFunction.prettyName, condition, "an aggregate is not known row by row", meta)
    case w: WindowExpression =>
      throw unsupported(s"${w.windowFunction.prettyName} OVER", condition, "a window is not known row by row", meta)
    case g: Generator => throw unsupported(g.prettyName, condition, "it makes several rows of one", meta)
    case u: PythonUDF => throw unsupported(u.name, condition, "Python functions are not evaluated beside the files", meta)
    case e if e.resolved && !e.deterministic && e.children.forall(_.deterministic) =>
      throw unsupported(e.prettyName, condition, "it is not deterministic: rows could be judged twice and differently", meta)
    case _ =>
  }

  /** Comparisons whose two sides Spark finds no common type for. */
  private def refuseTypes(e: Expression, shown: String, meta: TableMeta): Unit = {
    val column = e.children.find(c => c.references.nonEmpty)
    val other = e.children.find(c => c.references.isEmpty)
    (column, other) match {
      case (Some(c), Some(o)) => throw mismatch(shown, c.references.head.name, c.dataType, o.dataType.sql, meta)
      case _ => throw invalid(shown, firstMessage(e), meta)
    }
  }

  /** A literal that does not become the column's type: an error under ANSI, silently NULL or no match without. */
  private def refuseMismatch(condition: Expression, meta: TableMeta): Unit = condition.foreach {
    case comparison @ (_: BinaryComparison | _: In | _: RuntimeReplaceable) if comparison.references.nonEmpty =>
      val column = comparison.references.head
      // Without ANSI, Spark rather makes text of the column.
      val asText = comparison.children.exists {
        case c @ Cast(a: Attribute, _: StringType, _, _) => isImplicit(c) && !a.dataType.isInstanceOf[StringType]
        case _ => false
      }
      comparison.foreach {
        case c: Cast if c.foldable && value(c.child).isDefined && value(c).isEmpty =>
          throw mismatch(text(condition), column.name, column.dataType, c.child.sql, meta)
        case l: Literal if asText && l.dataType.isInstanceOf[StringType] && l.value != null && value(asTypeOf(column, l)).isEmpty =>
          throw mismatch(text(condition), column.name, column.dataType, l.sql, meta)
        case _ =>
      }
    case _ =>
  }

  /** None: it is NULL, or fails. */
  private def value(e: Expression): Option[Any] = Try(e.eval()).toOption.filter(_ != null)

  private def asTypeOf(column: Attribute, literal: Literal): Expression =
    Cast(literal, column.dataType, Some(SQLConf.get.sessionLocalTimeZone), EvalMode.LEGACY)

  private def isImplicit(c: Cast): Boolean = c.getTagValue(Cast.USER_SPECIFIED_CAST).isEmpty

  def invalid(predicate: String, reason: String, meta: TableMeta): LakemendException = LakemendException("InvalidPredicateError",
    "LAKEMEND_INVALID_PREDICATE", s"rows of ${meta.name} cannot be replaced where $predicate", reason,
    "write a condition over the table's columns, as after WHERE; nothing was changed",
    _.put("predicate", predicate).put("reason", reason))

  private def unsupported(operator: String, condition: Expression, reason: String, meta: TableMeta): LakemendException =
    LakemendException("UnsupportedOperatorError", "LAKEMEND_UNSUPPORTED_OPERATOR",
      s"$operator cannot be used to say which rows of ${meta.name} are replaced", reason,
      "compute the value first and pass it as a literal; nothing was changed",
      _.put("operator", operator).put("predicate", text(condition)))

  private def mismatch(predicate: String, column: String, expected: DataType, actual: String, meta: TableMeta): LakemendException =
    LakemendException("TypeMismatchError", "LAKEMEND_TYPE_MISMATCH", s"column $column of ${meta.name} cannot be compared with $actual",
      s"the column is ${expected.sql}, and $actual does not become one (in $predicate)",
      s"write the value as ${expected.sql}; nothing was changed",
      _.put("predicate", predicate).put("column", column).put("expected", expected.simpleString).put("actual", actual))

  /** The text of a Spark error without its condition, state and excerpt of the query. */
  private def firstLine(e: AnalysisException): String = {
    val line = e.getSimpleMessage.linesIterator.map(_.trim).find(_.nonEmpty).getOrElse(e.getClass.getSimpleName)
    line.replaceFirst("^\\[[A-Z0-9_.]+\\] ", "").replaceFirst(" ?SQLSTATE: \\w+.*$", "")
  }

  private def firstMessage(e: Expression): String = s"${text(e)} compares values that cannot be compared"

  private def known(relation: DataSourceV2Relation): String = {
    val names = relation.output.map(_.name)
    names.take(20).mkString(", ") + (if (names.length > 20) ", …" else "")
  }

  // ---- forms

  private val rules: Seq[Rule[LogicalPlan]] = Seq(ConstantFolding, NullPropagation,
    LikeSimplification, SimplifyCasts, UnwrapCastInBinaryComparison, OptimizeIn, BooleanSimplification)

  /** Spark's own rules on the condition alone, until nothing changes. */
  def simplified(condition: Expression, relation: DataSourceV2Relation): Expression = {
    var plan: LogicalPlan = ReplaceExpressions(Filter(condition, LocalRelation(relation.output)))
      .transformExpressionsUp { case shared: With => inlined(shared) }
    var before = plan
    var rounds = 0
    do {
      before = plan
      plan = rules.foldLeft(plan)((p, rule) => rule(p))
      rounds += 1
    } while (!plan.fastEquals(before) && rounds < 10)
    plan match {
      case Filter(simple, _) => simple
      case _ => condition
    }
  }

  /** Expressions are deterministic here: what Spark would compute once may as well be written twice. */
  private def inlined(shared: With): Expression = {
    val named = shared.defs.map(d => d.id -> d.child).toMap
    shared.child.transform { case r: CommonExpressionRef if named.contains(r.id) => named(r.id) }
  }

  def wire(e: Expression, meta: TableMeta): ObjectNode = e match {
    case And(left, right) => Wire.operation("AND", wire(left, meta), wire(right, meta))
    case Or(left, right) => Wire.operation("OR", wire(left, meta), wire(right, meta))
    case Not(child) => Wire.operation("NOT", wire(child, meta))
    case Literal.TrueLiteral => Wire.operation("ALWAYS_TRUE")
    case Literal.FalseLiteral => Wire.operation("ALWAYS_FALSE")
    case Literal(null, _) => Bridge.request().putNull("lit").put("type", "boolean")
    // Statistics are of values as they are stored.
    case other if other.references.exists(a => Padding.of(a, meta).isDefined) => Wire.operation("UNKNOWN")
    case other => DataSourceV2Strategy.translateFilterV2(other).filter(FilePruning.isForBrain(_, meta.schema))
      .map(Wire.predicate(_)).getOrElse(Wire.operation("UNKNOWN"))
  }

  def text(e: Expression): String = shown(e).sql

  private def shown(e: Expression): Expression = e match {
    case c: Cast if isImplicit(c) => shown(c.child)
    case a: Attribute => Shown(QuotingUtils.quoteIfNeeded(a.name))
    case b: Between => Shown(s"(${text(b.input)} BETWEEN ${text(b.lower)} AND ${text(b.upper)})")
    case other => other.mapChildren(shown)
  }

  /** A part of a condition that is text already. */
  private case class Shown(override val sql: String) extends LeafExpression with Unevaluable {
    override def nullable: Boolean = true
    override def dataType: DataType = NullType
  }
}
