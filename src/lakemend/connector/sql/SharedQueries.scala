package lakemend.sql

import org.apache.spark.sql.catalyst.analysis.CTESubstitution
import org.apache.spark.sql.catalyst.expressions.{Expression, SubqueryExpression}
import org.apache.spark.sql.catalyst.plans.logical.{LogicalPlan, MergeIntoTable, SingleStatement, UnresolvedWith}
import org.apache.spark.sql.catalyst.rules.Rule
import org.apache.spark.sql.catalyst.trees.TreePattern.UNRESOLVED_WITH

/**
 * A query that WITH names in a MERGE is evaluated once, as in a SELECT. Spark puts its text in place of each mention where
 * a statement is a command, so that `rand()` or a LIMIT gives other rows each time: keys are lost, or come in twice. Here
 * the source of the MERGE becomes a query of its own first.
 */
object SharedQueries extends Rule[LogicalPlan] {
  override def apply(plan: LogicalPlan): LogicalPlan = plan.transformDown {
    case statement: SingleStatement => SingleStatement(apply(statement.parsedPlan))
    case whole @ UnresolvedWith(merge: MergeIntoTable, queries, recursive) =>
      val source = UnresolvedWith(merge.sourceTable, queries, recursive)
      val shared = merge.copy(sourceTable = CTESubstitution(source))
      // A subquery of the conditions may name them, too.
      if (conditions(merge).exists(_.exists(_.isInstanceOf[SubqueryExpression]))) whole.copy(child = shared) else shared
    case merge: MergeIntoTable if merge.sourceTable.containsPattern(UNRESOLVED_WITH) =>
      merge.copy(sourceTable = CTESubstitution(merge.sourceTable))
  }

  private def conditions(merge: MergeIntoTable): Seq[Expression] =
    merge.mergeCondition +: (merge.matchedActions ++ merge.notMatchedActions ++ merge.notMatchedBySourceActions)
}
