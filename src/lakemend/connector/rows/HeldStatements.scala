package org.apache.spark.sql.lakemend

import lakemend.catalog.MetadataColumns
import org.apache.spark.sql.catalyst.analysis.UnresolvedAttribute
import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.catalyst.plans.logical._
import org.apache.spark.sql.catalyst.rules.Rule
import org.apache.spark.sql.types.{BooleanType, DataType, NullType}

/**
 * Statements that change rows wait here until their table is known: Spark would plan them as soon as it is, and it plans
 * none on a table whose generated columns it fills by itself, takes `*` for every column and DEFAULT of a generated column
 * for NULL, and the metadata columns that a condition names for columns to write. `GeneratedColumns` lets them go.
 */
object HoldRowChanges extends Rule[LogicalPlan] {
  override def apply(plan: LogicalPlan): LogicalPlan = plan.resolveOperators {
    case u: UpdateTable if !u.condition.exists(_.isInstanceOf[Held]) =>
      u.copy(assignments = held(u.assignments), condition = Some(Held(u.condition.getOrElse(Literal.TrueLiteral))))
    case d: DeleteFromTable if !d.condition.isInstanceOf[Held] && namesPlace(d.condition) => d.copy(condition = Held(d.condition))
    case m: MergeIntoTable if !m.mergeCondition.isInstanceOf[Held] => m.copy(
      sourceTable = HeldSource(m.sourceTable), mergeCondition = Held(m.mergeCondition),
      matchedActions = m.matchedActions.map(held), notMatchedActions = m.notMatchedActions.map(held),
      notMatchedBySourceActions = m.notMatchedBySourceActions.map(held))
  }

  private def held(action: MergeAction): MergeAction = action match {
    case u: UpdateAction => u.copy(assignments = held(u.assignments))
    case i: InsertAction => i.copy(assignments = held(i.assignments))
    case other => other
  }

  private def held(assignments: Seq[Assignment]): Seq[Assignment] = assignments.map {
    case a @ Assignment(_, UnresolvedAttribute(Seq(word))) if word.equalsIgnoreCase("DEFAULT") => a.copy(value = HeldDefault(word))
    case other => other
  }

  private def namesPlace(condition: Expression): Boolean = condition.exists {
    case UnresolvedAttribute(parts) => parts.exists(p => MetadataColumns.Names.exists(_.equalsIgnoreCase(p)))
    case s: SubqueryExpression => s.plan.exists(_.expressions.exists(namesPlace))
    case _ => false
  }
}

/** A condition that is not resolved yet, whatever it says. */
case class Held(child: Expression) extends UnaryExpression with Unevaluable {
  override lazy val resolved: Boolean = false
  override def dataType: DataType = BooleanType

  override protected def withNewChildInternal(newChild: Expression): Expression = copy(child = newChild)
}

/** The source of a MERGE: Spark says what `*` stands for as soon as it knows source and target. */
case class HeldSource(child: LogicalPlan) extends UnaryNode {
  override lazy val resolved: Boolean = false
  override def output: Seq[Attribute] = child.output
  override def metadataOutput: Seq[Attribute] = child.metadataOutput

  override protected def withNewChildInternal(newChild: LogicalPlan): LogicalPlan = copy(child = newChild)
}

/** DEFAULT as the value of a column that may turn out to be a generated one. */
case class HeldDefault(word: String) extends LeafExpression with Unevaluable {
  override lazy val resolved: Boolean = false
  override def nullable: Boolean = true
  override def dataType: DataType = NullType

  def released: Expression = UnresolvedAttribute(Seq(word))
}
