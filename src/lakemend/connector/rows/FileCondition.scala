package org.apache.spark.sql.lakemend

import lakemend.rows.{RewriteFiles, RowOperation}
import org.apache.spark.sql.SparkSession
import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.catalyst.plans.logical._
import org.apache.spark.sql.catalyst.rules.Rule
import org.apache.spark.sql.classic.{SparkSession => ClassicSession}
import org.apache.spark.sql.connector.write.RowLevelOperation.Command
import org.apache.spark.sql.execution.LogicalRDD

/**
 * A copy-on-write UPDATE or DELETE asks its condition twice: first which files have rows to change, then which rows these
 * are. Files that the first answer leaves out are not looked at again, so both must be the same answer. The rows of a
 * subquery that could give others the second time are kept. Where they cannot be, no file is left out: each row of the
 * table asks for its own; the optimizer has made a join of it for one of the two questions; or a value for each row is
 * asked for, and kept rows do not tell what it is for rows that have none (a count of 0).
 */
case class SteadyCondition(spark: SparkSession) extends Rule[LogicalPlan] {
  override def apply(plan: LogicalPlan): LogicalPlan = plan.transformDown {
    case write: ReplaceData => write.operation match {
      case files: RewriteFiles if files.command != Command.MERGE => steady(write, files)
      case _ => write
    }
  }

  private def steady(write: ReplaceData, operation: RowOperation): ReplaceData = {
    // By its id it is the same subquery wherever it stands, whatever the optimizer has made of its plan there.
    val first = moving(write.groupFilterCondition.toSeq)
    val ids = first.map(_.exprId).toSet
    lazy val second = moving(write.query.flatMap(_.expressions)).filter(s => ids(s.exprId))
    lazy val all = first ++ second
    if (ids.isEmpty) write
    else if (ids != second.map(_.exprId).toSet || all.exists(isForEachRow) || !isSame(all)) write.copy(groupFilterCondition = None)
    else {
      val rows = all.map(s => s.exprId -> s.plan).toMap.map { case (id, plan) => id -> Source.rows(spark, plan, operation.onEnd) }
      def kept(e: Expression): Expression = e.transform {
        case s: SubqueryExpression if rows.contains(s.exprId) =>
          s.withNewPlan(LogicalRDD(s.plan.output, rows(s.exprId))(spark.asInstanceOf[ClassicSession], Some(s.plan.stats), None))
      }
      write.copy(groupFilterCondition = write.groupFilterCondition.map(kept), query = write.query.transform {
        case node => node.transformExpressions { case s: SubqueryExpression => kept(s) }
      })
    }
  }

  private def moving(conditions: Seq[Expression]): Seq[SubqueryExpression] =
    conditions.flatMap(_.collect { case s: SubqueryExpression if !Source.isSteady(s.plan) => s })

  private def isForEachRow(subquery: SubqueryExpression): Boolean = SubExprUtils.hasOuterReferences(subquery.plan) ||
    subquery.plan.exists(_.isInstanceOf[DomainJoin]) || subquery.isInstanceOf[ScalarSubquery] && subquery.isCorrelated

  /** Rows of one place serve for the other. */
  private def isSame(subqueries: Seq[SubqueryExpression]): Boolean =
    subqueries.groupBy(_.exprId).values.forall(_.map(_.plan.output.map(_.dataType)).distinct.length == 1)
}
