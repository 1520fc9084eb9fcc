package org.apache.spark.sql.lakemend

import lakemend.LakemendException
import lakemend.catalog.{LakeTable, MetadataColumns, TableMeta}
import org.apache.spark.sql.catalyst.analysis.EliminateSubqueryAliases
import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.catalyst.plans.LeftAnti
import org.apache.spark.sql.catalyst.plans.logical._
import org.apache.spark.sql.catalyst.rules.Rule
import org.apache.spark.sql.catalyst.util.MetadataColumnHelper
import org.apache.spark.sql.connector.write.RowLevelOperationTable
import org.apache.spark.sql.execution.datasources.v2.DataSourceV2Relation
import org.apache.spark.sql.types.DataType

/** `_file` or `_pos` of the row that a statement looks at, until there is a scan that says it. */
case class Place(column: String, dataType: DataType) extends LeafExpression with Unevaluable {
  override def nullable: Boolean = false
}

/**
 * Metadata columns in the expressions of an UPDATE, DELETE or MERGE. Named there, they become columns of the table to
 * Spark, which it writes with the others. So places are kept for them until the statement is planned: its scan reads
 * where rows lie in any case. `_partition` is made of the partition columns.
 */
class Places(table: LogicalPlan, source: Option[LogicalPlan] = None) {
  private val meta: Option[TableMeta] = LakeRelation.table(EliminateSubqueryAliases(table)).map(_.meta)

  def kept(assignments: Seq[Assignment]): Seq[Assignment] = assignments.map(a => a.copy(value = kept(a.value)))

  def kept(action: MergeAction): MergeAction = action match {
    case u: UpdateAction => u.copy(condition = u.condition.map(kept), assignments = kept(u.assignments))
    case i: InsertAction => i.copy(condition = i.condition.map(kept), assignments = kept(i.assignments))
    case d: DeleteAction => d.copy(condition = d.condition.map(kept))
    case other => other
  }

  def kept(e: Expression): Expression = meta.fold(e)(meta => e.transformUp {
    case a: Attribute if isTargets(a) => place(meta, a)
    case s: SubqueryExpression if s.plan.exists(_.expressions.exists(_.exists(isAsked))) =>
      Places.inside(s) { case OuterReference(a: Attribute) if isTargets(a) => place(meta, a) }
  })

  private def isAsked(e: Expression): Boolean = e match {
    case OuterReference(a: Attribute) => isTargets(a)
    case _ => false
  }

  private def isTargets(a: Attribute): Boolean = a.isMetadataCol &&
    !source.exists(s => s.outputSet.contains(a) || s.metadataOutput.exists(_.exprId == a.exprId))

  private def place(meta: TableMeta, a: Attribute): Expression = a.name match {
    case MetadataColumns.File | MetadataColumns.Position => Place(a.name, a.dataType)
    case MetadataColumns.Partition => CreateNamedStruct(meta.partitioning.flatMap(p =>
      Seq(Literal(p.name), table.output.find(_.name == p.source.head).get)))
    case other => throw LakemendException.invalid(s"$other cannot be used in a statement that changes rows of ${meta.name}",
      "it is the whole row, as it is recorded in the change data feed", "name the columns themselves")
  }
}

object Places {
  /** A subquery with other expressions for some of its outer references. */
  def inside(s: SubqueryExpression)(other: PartialFunction[Expression, Expression]): SubqueryExpression = {
    val plan = s.plan.transformAllExpressions(other.andThen(_.transform { case a: Attribute => OuterReference(a) }))
    val asked = plan.flatMap(_.expressions).flatMap(_.collect { case OuterReference(a: Attribute) => a })
    val known = s.getOuterAttrs.filter(e => e.references.forall(a => asked.exists(_.exprId == a.exprId)))
    s.withNewPlan(plan).withNewOuterAttrs((known ++ asked.filterNot(a => known.exists(_.semanticEquals(a)))).distinct)
  }

  def isIn(e: Expression): Boolean = e.exists {
    case _: Place => true
    case s: SubqueryExpression => s.plan.exists(_.expressions.exists(isIn))
    case _ => false
  }
}

/** Puts the columns of a statement's scan into the places that were kept for them. */
object FoundPlaces extends Rule[LogicalPlan] {
  override def apply(plan: LogicalPlan): LogicalPlan = plan.resolveOperatorsUp {
    case statement @ (_: UpdateTable | _: DeleteFromTable | _: MergeIntoTable) => statement
    case write: ReplaceData if Places.isIn(write.condition) || write.groupFilterCondition.exists(Places.isIn) =>
      val found = filled(targets(write.query)) _
      write.copy(condition = found(write.condition), groupFilterCondition = write.groupFilterCondition.map(found))
    case write: WriteDelta if Places.isIn(write.condition) || write.groupFilterCondition.exists(Places.isIn) =>
      val found = filled(targets(write.query)) _
      write.copy(condition = found(write.condition), groupFilterCondition = write.groupFilterCondition.map(found))
    // A MERGE that only inserts reads its target as any query does.
    case join @ Join(_, target, LeftAnti, Some(condition), _) if Places.isIn(condition) && targets(target).isEmpty =>
      val shown = target.transform { case r: DataSourceV2Relation if r.table.isInstanceOf[LakeTable] => r.withMetadataColumns() }
      join.copy(right = shown, condition = Some(filled(shown.output)(condition)))
    case node if node.children.nonEmpty && node.expressions.exists(Places.isIn) =>
      val known = AttributeSet(targets(node))
      val there = node.children.flatMap(_.output).filter(known.contains)
      node.mapExpressions(filled(there))
  }

  private def targets(plan: LogicalPlan): Seq[Attribute] = plan.collect {
    case r @ DataSourceV2Relation(_: RowLevelOperationTable, _, _, _, _, _) => r.output
  }.flatten

  private def filled(columns: Seq[Attribute])(e: Expression): Expression = {
    def column(place: Place): Attribute = columns.find(_.name == place.column).getOrElse(
      throw new IllegalStateException(s"no ${place.column} among ${columns.map(_.name).mkString(", ")}"))
    e.transformUp {
      case p: Place => column(p)
      case s: SubqueryExpression if s.plan.exists(_.expressions.exists(Places.isIn)) =>
        Places.inside(s) { case p: Place => column(p) }
    }
  }
}
