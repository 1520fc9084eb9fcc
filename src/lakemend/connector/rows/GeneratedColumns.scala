package org.apache.spark.sql.lakemend

import lakemend.catalog.{LakeTable, StatementCatalog, TableMeta}
import org.apache.spark.sql.catalyst.analysis.{EliminateSubqueryAliases, UnresolvedAttribute}
import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.catalyst.plans.logical._
import org.apache.spark.sql.catalyst.plans.logical.MergeRows.{Instruction, Keep, Split}
import org.apache.spark.sql.catalyst.rules.Rule
import org.apache.spark.sql.classic.SparkSession
import org.apache.spark.sql.execution.datasources.v2.DataSourceV2Relation
import org.apache.spark.sql.types.{DataType, StructField}

/**
 * Generated columns follow the columns they are made of, in every row that UPDATE and MERGE write, unless the statement
 * sets them itself. A place is kept for each until Spark has brought the other columns' values into their types; then the
 * generation expression over these values takes it. The table's checks prove every row, as they do in other writes.
 */
case class GeneratedColumns(session: org.apache.spark.sql.SparkSession) extends Rule[LogicalPlan] {
  private def spark = session.asInstanceOf[SparkSession]

  override def apply(plan: LogicalPlan): LogicalPlan = plan.resolveOperators {
    case u @ UpdateTable(table, assignments, Some(Held(_))) if table.resolved && assignments.exists(isDefault) =>
      u.copy(assignments = settled(table, assignments))
    case u @ UpdateTable(table, assignments, Some(Held(condition)))
        if table.resolved && condition.resolved && assignments.forall(_.resolved) =>
      val places = new Places(table)
      val free = u.copy(condition = Some(places.kept(condition)).filterNot(_ == Literal.TrueLiteral), assignments = places.kept(assignments))
      target(table).fold[LogicalPlan](free)(t => free.copy(table = t.opened, assignments = t.followed(free.assignments)))
    case d @ DeleteFromTable(table, Held(condition)) if table.resolved && condition.resolved =>
      d.copy(condition = new Places(table).kept(condition))
    case m @ MergeIntoTable(table, HeldSource(source), _, _, _, _, _) if table.resolved && source.resolved =>
      val stars = if (m.withSchemaEvolution) None else target(table)
      def known(action: MergeAction): MergeAction = settled(table, stars.fold(action)(_.listed(action, source.output)))
      changed(m.copy(sourceTable = source), known)
    case m @ MergeIntoTable(table, source, Held(condition), _, _, _, _)
        if table.resolved && source.resolved && condition.resolved && actions(m).forall(isKnown(_, m.withSchemaEvolution)) =>
      val places = new Places(table, Some(source))
      val free = changed(m.copy(mergeCondition = places.kept(condition)), places.kept(_: MergeAction))
      target(table).fold[LogicalPlan](free)(t => changed(free.copy(targetTable = t.opened), t.followed(_: MergeAction)))
    case p @ Project(columns, _) if columns.exists(isOpen) =>
      val row = columns.map { case Alias(value, name) => name -> value; case other => other.name -> other }
      p.copy(projectList = columns.map(c => filled(c, row).asInstanceOf[NamedExpression]))
    case e: Expand if e.projections.exists(_.exists(isOpen)) =>
      e.copy(projections = e.projections.map(filled(_, e.output)))
    case m: MergeRows if m.outputs.exists(_.exists(isOpen)) => m.copy(
      matchedInstructions = m.matchedInstructions.map(filled(_, m.output)),
      notMatchedInstructions = m.notMatchedInstructions.map(filled(_, m.output)),
      notMatchedBySourceInstructions = m.notMatchedBySourceInstructions.map(filled(_, m.output)))
  }

  private def changed(m: MergeIntoTable, action: MergeAction => MergeAction): MergeIntoTable = m.copy(
    matchedActions = m.matchedActions.map(action), notMatchedActions = m.notMatchedActions.map(action),
    notMatchedBySourceActions = m.notMatchedBySourceActions.map(action))

  private def isDefault(a: Assignment): Boolean = a.value.isInstanceOf[HeldDefault]

  private def settled(table: LogicalPlan, action: MergeAction): MergeAction = action match {
    case u: UpdateAction => u.copy(assignments = settled(table, u.assignments))
    case i: InsertAction => i.copy(assignments = settled(table, i.assignments))
    case other => other
  }

  /** The DEFAULT of a generated column is what it is made of, so it is as if it were not named; others are Spark's. */
  private def settled(table: LogicalPlan, assignments: Seq[Assignment]): Seq[Assignment] = {
    lazy val made = target(table).fold(Seq.empty[String])(_.generated)
    assignments.flatMap {
      case a @ Assignment(key, default: HeldDefault) =>
        val name = key match {
          case u: UnresolvedAttribute => u.nameParts.last
          case named: NamedExpression => named.name
          case _ => ""
        }
        if (made.exists(spark.sessionState.conf.resolver(_, name))) None else Some(a.copy(value = default.released))
      case other => Some(other)
    }
  }

  private def actions(m: MergeIntoTable): Seq[MergeAction] = m.matchedActions ++ m.notMatchedActions ++ m.notMatchedBySourceActions

  /** Whether it is known which columns an action sets; those that schema evolution is about to add have no attribute yet. */
  private def isKnown(action: MergeAction, evolution: Boolean): Boolean = {
    def known(all: Seq[Assignment]) = all.forall(a => a.key.resolved || evolution && a.value.resolved)
    action match {
      case _: UpdateStarAction | _: InsertStarAction => false
      case u: UpdateAction => known(u.assignments)
      case i: InsertAction => known(i.assignments)
      case _ => true
    }
  }

  private def target(plan: LogicalPlan): Option[Target] = EliminateSubqueryAliases(plan) match {
    case LakeRelation(r, table) if table.meta.schema.exists(GeneratedColumns.text(_).isDefined) => Some(new Target(plan, r, table))
    case _ => None
  }

  private class Target(plan: LogicalPlan, relation: DataSourceV2Relation, table: LakeTable) {
    private val meta = table.meta
    TableExpressions.requireAllowed(spark, meta)

    /** The table without Spark's own way to fill generated columns. */
    def opened: LogicalPlan = {
      (relation.catalog, relation.identifier) match {
        case (Some(catalog: StatementCatalog), Some(ident)) => catalog.changesRows(ident)
        case _ =>
      }
      plan.transform { case r: DataSourceV2Relation => r.copy(table = table.forRowChanges) }
    }

    def generated: Seq[String] = meta.schema.toSeq.filter(GeneratedColumns.text(_).isDefined).map(_.name)

    /** What `*` stands for where the source lacks generated columns and nothing else. */
    def listed(action: MergeAction, source: Seq[Attribute]): MergeAction = {
      def same(one: String)(other: Attribute) = spark.sessionState.conf.resolver(one, other.name)
      val values = relation.output.map(column => column -> source.filter(same(column.name)))
      val (there, missing) = values.partition(_._2.nonEmpty)
      lazy val assignments = there.map { case (column, value) => Assignment(column, value.head) }
      if (missing.isEmpty || there.exists(_._2.length > 1) || !missing.forall(m => generated.contains(m._1.name))) action
      else action match {
        case UpdateStarAction(condition) => UpdateAction(condition, assignments, fromStar = true)
        case InsertStarAction(condition) => InsertAction(condition, assignments)
        case other => other
      }
    }

    def followed(action: MergeAction): MergeAction = action match {
      case u: UpdateAction => u.copy(assignments = followed(u.assignments))
      case i: InsertAction => i.copy(assignments = followed(i.assignments))
      case other => other
    }

    def followed(assignments: Seq[Assignment]): Seq[Assignment] = {
      val set = AttributeSet(assignments.flatMap(_.key.references))
      assignments ++ places.collect { case (column, place) if !set.contains(column) => Assignment(column, place) }
    }

    private lazy val places: Seq[(AttributeReference, Follows)] = for {
      field <- meta.schema.toSeq
      sql <- GeneratedColumns.text(field)
      value = GeneratedColumns.value(spark, meta, field, sql)
      // One made of others that are made: the checks have the last word.
      if !value.references.exists(a => GeneratedColumns.text(meta.schema(a.name)).isDefined)
      column <- relation.output.find(_.name == field.name)
    } yield column -> Follows(field.name, field.dataType)(value)
  }

  private def isOpen(e: Expression): Boolean = e.exists(_.isInstanceOf[Follows])

  private def filled(instruction: Instruction, names: Seq[Attribute]): Instruction = instruction match {
    case k: Keep => k.copy(output = filled(k.output, names))
    case s: Split => s.copy(output = filled(s.output, names), otherOutput = filled(s.otherOutput, names))
    case other => other
  }

  private def filled(values: Seq[Expression], names: Seq[Attribute]): Seq[Expression] =
    if (!values.exists(isOpen)) values else values.map(filled(_, names.map(_.name).zip(values)))

  /** Columns of the table come first in a row, before what says where the row lies. */
  private def filled(e: Expression, row: Seq[(String, Expression)]): Expression = e.transformUp {
    case f: Follows => f.value.transformUp { case a: AttributeReference =>
      row.collectFirst { case (name, value) if name == a.name => value }.getOrElse(
        throw new IllegalStateException(s"no ${a.name} among ${row.map(_._1).mkString(", ")}"))
    }
  }
}

object GeneratedColumns {
  def text(field: StructField): Option[String] =
    if (field.metadata.contains("GENERATION_EXPRESSION")) Some(field.metadata.getString("GENERATION_EXPRESSION")) else None

  /** The generation expression over attributes that have the names of the table's columns. */
  private def value(spark: SparkSession, meta: TableMeta, field: StructField, sql: String): Expression = {
    val columns = meta.schema.map(f => AttributeReference(f.name, f.dataType)())
    val made = Cast(spark.sessionState.sqlParser.parseExpression(sql), field.dataType)
    spark.sessionState.executePlan(Project(Seq(Alias(made, field.name)()), LocalRelation(columns))).analyzed match {
      // Spark names an attribute as it is written, in whatever case.
      case Project(Seq(Alias(value, _)), _) => value.transform {
        case a: AttributeReference => columns.find(_.exprId == a.exprId).getOrElse(a)
      }
      case other => throw new IllegalStateException(s"no column in $other")
    }
  }
}

/** The place of a generated column's value. */
case class Follows(name: String, dataType: DataType)(val value: Expression) extends LeafExpression with Unevaluable {
  override def nullable: Boolean = true

  override protected def otherCopyArgs: Seq[AnyRef] = value :: Nil
}
