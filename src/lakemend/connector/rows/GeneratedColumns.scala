package org.apache.spark.sql.lakemend

import lakemend.catalog.{LakeTable, StatementCatalog, TableMeta}
import org.apache.spark.sql.catalyst.analysis.EliminateSubqueryAliases
import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.catalyst.plans.logical._
import org.apache.spark.sql.catalyst.plans.logical.MergeRows.{Instruction, Keep, Split}
import org.apache.spark.sql.catalyst.rules.Rule
import org.apache.spark.sql.classic.SparkSession
import org.apache.spark.sql.execution.datasources.v2.DataSourceV2Relation
import org.apache.spark.sql.types.{BooleanType, DataType, StructField}

/**
 * UPDATE and MERGE wait here until their table is known: Spark would plan them as soon as it is, and it plans none on a
 * table whose generated columns it fills by itself. `GeneratedColumns` lets them go.
 */
object HoldRowChanges extends Rule[LogicalPlan] {
  override def apply(plan: LogicalPlan): LogicalPlan = plan.resolveOperators {
    case u: UpdateTable if !u.condition.exists(_.isInstanceOf[Held]) =>
      u.copy(condition = Some(Held(u.condition.getOrElse(Literal.TrueLiteral))))
    case m: MergeIntoTable if !m.mergeCondition.isInstanceOf[Held] => m.copy(mergeCondition = Held(m.mergeCondition))
  }
}

/** A condition that is not resolved yet, whatever it says. */
case class Held(child: Expression) extends UnaryExpression with Unevaluable {
  override lazy val resolved: Boolean = false
  override def dataType: DataType = BooleanType

  override protected def withNewChildInternal(newChild: Expression): Expression = copy(child = newChild)
}

/**
 * Generated columns follow the columns they are made of, in every row that UPDATE and MERGE write, unless the statement
 * sets them itself. A place is kept for each until Spark has brought the other columns' values into their types; then the
 * generation expression over these values takes it. The table's checks prove every row, as they do in other writes.
 */
case class GeneratedColumns(session: org.apache.spark.sql.SparkSession) extends Rule[LogicalPlan] {
  private def spark = session.asInstanceOf[SparkSession]

  override def apply(plan: LogicalPlan): LogicalPlan = plan.resolveOperators {
    case u @ UpdateTable(table, assignments, Some(Held(condition))) if table.resolved =>
      val free = u.copy(condition = Some(condition).filterNot(_ == Literal.TrueLiteral))
      target(table).fold[LogicalPlan](free)(t => free.copy(table = t.opened, assignments = t.followed(assignments)))
    case m @ MergeIntoTable(table, source, Held(condition), _, _, _, _)
        if table.resolved && source.resolved && condition.resolved && actions(m).forall(isKnown(_, m.withSchemaEvolution)) =>
      val free = m.copy(mergeCondition = condition)
      target(table).fold[LogicalPlan](free)(t => free.copy(
        targetTable = t.opened,
        matchedActions = m.matchedActions.map(t.followed),
        notMatchedActions = m.notMatchedActions.map(t.followed),
        notMatchedBySourceActions = m.notMatchedBySourceActions.map(t.followed)))
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
    case r: DataSourceV2Relation => r.table match {
      case table: LakeTable if table.meta.schema.exists(GeneratedColumns.text(_).isDefined) => Some(new Target(plan, r, table))
      case _ => None
    }
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
      case Project(Seq(Alias(value, _)), _) => value
      case other => throw new IllegalStateException(s"no column in $other")
    }
  }
}

/** The place of a generated column's value. */
case class Follows(name: String, dataType: DataType)(val value: Expression) extends LeafExpression with Unevaluable {
  override def nullable: Boolean = true

  override protected def otherCopyArgs: Seq[AnyRef] = value :: Nil
}
