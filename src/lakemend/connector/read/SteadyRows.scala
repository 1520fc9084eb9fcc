package org.apache.spark.sql.lakemend

import lakemend.catalog.{LakeTable, ReadsTable}
import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.catalyst.expressions.aggregate._
import org.apache.spark.sql.catalyst.plans.logical._
import org.apache.spark.sql.execution.LogicalRDD
import org.apache.spark.sql.execution.columnar.InMemoryRelation
import org.apache.spark.sql.execution.datasources.{HadoopFsRelation, LogicalRelation}
import org.apache.spark.sql.execution.datasources.v2.{DataSourceV2Relation, DataSourceV2ScanRelation, FileScan, FileTable}

/**
 * Whether a plan gives the same rows each time it is evaluated, in whatever order its own input comes.
 *
 * The keys of a broadcast are those of the join's own broadcast as a rule, but nothing forces Spark to evaluate it once:
 * keys of another evaluation would rule out files that the join needs.
 */
object SteadyRows {
  def of(plan: LogicalPlan): Boolean = isKnown(plan) && plan.children.forall(of) &&
    plan.expressions.forall(e => e.deterministic && !e.exists(isUnsteady))

  private def isKnown(plan: LogicalPlan): Boolean = plan match {
    case _: Project | _: Filter | _: Join | _: Union | _: Aggregate | _: Window | _: Sort | _: Generate | _: Expand |
        _: RepartitionOperation => true
    case leaf: LeafNode => isSteady(leaf)
    case _ => false
  }

  /** Rows that are at hand, or in files that were listed: what others say when they are asked again is not known. */
  private def isSteady(leaf: LeafNode): Boolean = leaf match {
    case _: LocalRelation | _: OneRowRelation | _: Range | _: CommandResult | _: InMemoryRelation => true
    case LogicalRelation(_: HadoopFsRelation, _, _, _, _) => true
    case r: DataSourceV2ScanRelation => r.scan.isInstanceOf[ReadsTable] || r.scan.isInstanceOf[FileScan]
    case r: DataSourceV2Relation => r.table.isInstanceOf[LakeTable] || r.table.isInstanceOf[FileTable]
    case rows: LogicalRDD => Source.isKept(rows)
    case _ => false
  }

  /** Whether what it says may depend on the order in which rows come; its own children are not looked at. */
  def isUnsteady(e: Expression): Boolean = e match {
    case WindowExpression(_: RankLike, _) => false
    case WindowExpression(AggregateExpression(_, _, _, _, _), spec) => !isOfPeers(spec.frameSpecification)
    case _: WindowExpression => true
    case _: Count | _: Sum | _: Min | _: Max | _: Average | _: RankLike => false
    case _: AggregateFunction => true
    case subquery: SubqueryExpression => !of(subquery.plan)
    case _ => false
  }

  /** Whether rows that are ordered alike see the same frame. */
  private def isOfPeers(frame: WindowFrame): Boolean = frame match {
    case SpecifiedWindowFrame(RangeFrame, _, _) => true
    case SpecifiedWindowFrame(_, UnboundedPreceding, UnboundedFollowing) => true
    case _ => false
  }
}
