package org.apache.spark.sql.lakemend

import lakemend.joins.PackedScan
import lakemend.read.LakeScan
import lakemend.rows.RowOperation
import org.apache.spark.sql.SparkSession
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions.{Expression, UnaryExpression}
import org.apache.spark.sql.catalyst.expressions.codegen.{CodegenContext, ExprCode}
import org.apache.spark.sql.catalyst.plans.logical._
import org.apache.spark.sql.catalyst.rules.Rule
import org.apache.spark.sql.execution.{PartialReducerPartitionSpec, SparkPlan}
import org.apache.spark.sql.execution.adaptive.{AQEShuffleReadExec, QueryStageExec}
import org.apache.spark.sql.execution.datasources.v2.BatchScanExec
import org.apache.spark.sql.execution.exchange.ReusedExchangeExec
import org.apache.spark.sql.execution.joins.{ShuffledHashJoinExec, SortMergeJoinExec}
import org.apache.spark.sql.types.DataType

/**
 * The target of a MERGE is never sent to several tasks: neither broadcast nor replicated, whatever a hint at the source
 * asks for. Spark itself says so only where it counts matches.
 */
case class WholeTarget(spark: SparkSession) extends Rule[LogicalPlan] {
  private val Whole = JoinHint(Some(HintInfo(Some(NO_BROADCAST_AND_REPLICATION))), None)

  override def apply(plan: LogicalPlan): LogicalPlan = plan.resolveOperators {
    case write: RowLevelWrite if write.operation.isInstanceOf[RowOperation] && write.query.resolved =>
      val query = write.query.resolveOperators { case merge: MergeRows => merge.copy(child = whole(merge.child)) }
      if (query fastEquals write.query) write else write.withNewQuery(query)
  }

  /** Spark numbers the target's rows where it counts matches, and what is below is none of the MERGE's. */
  private def whole(joined: LogicalPlan): LogicalPlan = joined match {
    case join: Join if join.hint == JoinHint.NONE => join.copy(hint = Whole)
    case join: Join if join.hint.leftHint.flatMap(_.strategy).contains(NO_BROADCAST_AND_REPLICATION) => join
    case other => throw new IllegalStateException(
      s"this Spark plans a MERGE in another way, and rows could be changed twice: ${other.simpleString(200)} is not the join " +
        "of its target; report it with Spark's version. Nothing was changed")
  }
}

/** Where Spark has split a skewed partition of a MERGE's source while the statement runs, the rows of the target that go
  * with it would come to every part: it is joined as one. A skewed target may be split. */
object WholeTarget extends Rule[SparkPlan] {
  override def apply(plan: SparkPlan): SparkPlan = plan.transformUp {
    case join: SortMergeJoinExec if join.isSkewJoin && isSplit(join.right) && isTarget(join.left) =>
      join.copy(left = whole(join.left), right = whole(join.right), isSkewJoin = false)
    case join: ShuffledHashJoinExec if join.isSkewJoin && isSplit(join.right) && isTarget(join.left) =>
      join.copy(left = whole(join.left), right = whole(join.right), isSkewJoin = false)
  }

  private def isSplit(side: SparkPlan): Boolean = side.exists {
    case read: AQEShuffleReadExec => read.partitionSpecs.exists(_.isInstanceOf[PartialReducerPartitionSpec])
    case _ => false
  }

  private def whole(side: SparkPlan): SparkPlan = side.transformUp { case read: AQEShuffleReadExec => read.child }

  private def isTarget(plan: SparkPlan): Boolean = plan match {
    case stage: QueryStageExec => isTarget(stage.plan)
    case reused: ReusedExchangeExec => isTarget(reused.child)
    case scan: BatchScanExec => scan.scan match {
      case lake: LakeScan => lake.isRowChange
      case packed: PackedScan => packed.of.isRowChange
      case _ => false
    }
    case other => other.children.exists(isTarget)
  }
}

/** Marks the MERGE whose join has been planned: the optimizer comes by several times. */
case class Settled(child: Expression) extends UnaryExpression {
  override def dataType: DataType = child.dataType
  override def nullable: Boolean = child.nullable
  override def foldable: Boolean = false
  override def eval(row: InternalRow): Any = child.eval(row)
  override protected def doGenCode(ctx: CodegenContext, ev: ExprCode): ExprCode = child.genCode(ctx)
  override protected def withNewChildInternal(newChild: Expression): Expression = copy(child = newChild)
}
