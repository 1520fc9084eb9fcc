package lakemend.sql

import org.apache.spark.sql.catalyst.analysis.CTESubstitution
import org.apache.spark.sql.catalyst.expressions.SubqueryExpression
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
    case UnresolvedWith(merge: MergeIntoTable, queries, recursive) =>
      val source = CTESubstitution(UnresolvedWith(merge.sourceTable, queries, recursive))
      // A subquery of a value may name them, too. It is left to Spark, which has to see each name once.
      merge.copy(sourceTable = source).transformExpressions {
        case subquery: SubqueryExpression => subquery.withNewPlan(UnresolvedWith(subquery.plan, queries, recursive))
      }
    case merge: MergeIntoTable if merge.sourceTable.containsPattern(UNRESOLVED_WITH) =>
      merge.copy(sourceTable = CTESubstitution(merge.sourceTable))
  }
}
