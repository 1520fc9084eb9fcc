package org.apache.spark.sql.lakemend

import lakemend.LakemendException
import lakemend.catalog.LakeTable
import lakemend.rows.RowOperation
import org.apache.spark.network.util.JavaUtils
import org.apache.spark.{Dependency, OneToOneDependency, Partition, SparkContext, TaskContext}
import org.apache.spark.rdd.RDD
import org.apache.spark.sql.SparkSession
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.catalyst.expressions.objects.InvokeLike
import org.apache.spark.sql.catalyst.plans.logical._
import org.apache.spark.sql.catalyst.rules.Rule
import org.apache.spark.sql.classic.{Dataset, SparkSession => ClassicSession}
import org.apache.spark.sql.execution.LogicalRDD
import org.apache.spark.sql.execution.datasources.v2.{DataSourceV2Relation, DataSourceV2ScanRelation}
import org.apache.spark.sql.internal.SQLConf

/** A MERGE's source as a plan that may be evaluated several times, and gives the same rows each time. */
object Source {
  private val Threshold = "spark.lakemend.merge.broadcastThreshold"
  private val Default = "32m"

  /** One that is small enough to be sent to every executor. */
  def small(spark: SparkSession, source: LogicalPlan, onEnd: (() => Unit) => Unit): Option[LogicalPlan] =
    if (isSmall(source)) Some(steady(spark, source, onEnd)) else None

  def isSmall(source: LogicalPlan): Boolean = source.stats.sizeInBytes <= limit

  /** One whose second evaluation could differ is kept until the statement ends. */
  def steady(spark: SparkSession, source: LogicalPlan, onEnd: (() => Unit) => Unit): LogicalPlan =
    if (isSteady(source)) source else kept(spark, source, onEnd)

  /** Bytes; below 0: no source is small enough. */
  private def limit: Long = {
    val text = SQLConf.get.getConfString(Threshold, Default).trim
    if (text.startsWith("-")) -1
    else try JavaUtils.byteStringAsBytes(text) catch {
      case _: NumberFormatException => throw LakemendException.invalid(s"$Threshold is '$text'", "it must be a size such as 32m",
        "set it to the largest source to broadcast, or to -1 for none")
    }
  }

  private def kept(spark: SparkSession, source: LogicalPlan, onEnd: (() => Unit) => Unit): LogicalPlan =
    LogicalRDD(source.output, rows(spark, source, onEnd))(spark.asInstanceOf[ClassicSession], Some(source.stats), None)

  /** The rows of a plan, to be computed once. */
  def rows(spark: SparkSession, source: LogicalPlan, onEnd: (() => Unit) => Unit): KeptRows = {
    val session = spark.asInstanceOf[ClassicSession]
    val rows = new KeptRows(spark.sparkContext, source, () => Dataset.ofRows(session, source).queryExecution.toRdd.map(_.copy()))
    onEnd(() => rows.release())
    rows
  }

  /** Reading it again is known to give the same rows: files in a directory may change, and a function say other things. */
  def isSteady(plan: LogicalPlan): Boolean = plan.expressions.forall(isSteady) && plan.children.forall(isSteady) &&
    (plan match {
      case _: Project | _: Filter | _: SubqueryAlias | _: View => true
      case _: LocalRelation | _: OneRowRelation | _: Range => true
      case rows: LogicalRDD => isKept(rows)
      case r: DataSourceV2Relation => r.table.isInstanceOf[LakeTable]
      case r: DataSourceV2ScanRelation => r.relation.table.isInstanceOf[LakeTable]
      case _ => false
    })

  /** Its rows lie with the executors, and are never computed again. */
  def isKept(rows: LogicalRDD): Boolean = rows.rdd.isInstanceOf[KeptRows] || rows.rdd.isCheckpointed

  private def isSteady(e: Expression): Boolean = e.deterministic && !e.exists {
    case _: UserDefinedExpression | _: ApplyFunctionExpression | _: InvokeLike | _: CallMethodViaReflection => true
    case _: SubqueryExpression => true
    case _ => false
  }
}

/**
 * Rows that are computed when they are first asked for, and then kept. An EXPLAIN computes nothing. They are computed
 * once: where some are lost with an executor, the statement fails, for a second computation could give others.
 */
class KeptRows(context: SparkContext, @transient val plan: LogicalPlan, @transient source: () => RDD[InternalRow])
    extends RDD[InternalRow](context, Nil) {
  @transient @volatile private var computed: Option[RDD[InternalRow]] = None

  private def kept: RDD[InternalRow] = synchronized {
    computed.getOrElse {
      val rows = source().localCheckpoint()
      // A job of its own: while others read, none is computed any more.
      rows.sparkContext.runJob(rows, (all: Iterator[InternalRow]) => all.foreach(_ => ()))
      computed = Some(rows)
      rows
    }
  }

  def release(): Unit = synchronized(computed.foreach(_.unpersist(blocking = false)))

  override protected def getPartitions: Array[Partition] = kept.partitions

  override protected def getDependencies: Seq[Dependency[_]] = Seq(new OneToOneDependency(kept))

  override def compute(split: Partition, task: TaskContext): Iterator[InternalRow] =
    firstParent[InternalRow].iterator(split, task)
}

/**
 * Spark evaluates the source of a MERGE a second time to learn which files have matches, and refuses one that draws
 * random numbers or makes identifiers. `MergePlan` asks with the rows it keeps, so Spark need not.
 */
case class UnsteadySource(spark: SparkSession) extends Rule[LogicalPlan] {
  override def apply(plan: LogicalPlan): LogicalPlan = plan.resolveOperators {
    case write: WriteDelta if write.operation.isInstanceOf[RowOperation] && write.groupFilterCondition.exists(isUnsteady) =>
      write.copy(groupFilterCondition = None)
    case write: ReplaceData if write.operation.isInstanceOf[RowOperation] && write.groupFilterCondition.exists(isUnsteady) =>
      write.copy(groupFilterCondition = None)
  }

  private def isUnsteady(condition: Expression): Boolean = condition.exists {
    case subquery: SubqueryExpression => subquery.plan.exists(_.expressions.exists(!_.deterministic))
    case other => !other.deterministic
  }
}
