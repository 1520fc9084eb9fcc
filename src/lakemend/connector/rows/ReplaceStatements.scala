package org.apache.spark.sql.lakemend

import java.util.{List => JList}

import scala.jdk.CollectionConverters._

import lakemend.Bridge
import lakemend.catalog.LakeTable
import org.apache.spark.sql
import org.apache.spark.sql.Column
import org.apache.spark.sql.catalyst.analysis.UnresolvedRelation
import org.apache.spark.sql.catalyst.expressions.{Expression, Literal, SubqueryExpression, UserDefinedExpression}
import org.apache.spark.sql.catalyst.plans.logical._
import org.apache.spark.sql.classic.{DataFrame, Dataset, SparkSession}
import org.apache.spark.sql.connector.catalog.TableWritePrivilege
import org.apache.spark.sql.execution.LogicalRDD
import org.apache.spark.sql.execution.columnar.InMemoryRelation
import org.apache.spark.sql.execution.datasources.{HadoopFsRelation, LogicalRelation}
import org.apache.spark.sql.execution.datasources.v2.DataSourceV2Relation
import org.apache.spark.sql.util.CaseInsensitiveStringMap

/**
 * Replacements asked for in Python: each is one write of `Incoming` rows. A condition is SQL text or a Column; names and
 * options come as JSON, for every list that crosses costs as many messages as it has entries. Without `execute` the
 * statement is analysed alone.
 */
object ReplaceStatements {
  /** Rows replace those of a condition. */
  def where(spark: SparkSession, table: String, frame: DataFrame, condition: Object, options: String, evolution: Boolean,
      execute: Boolean): Unit =
    write(spark, table, Incoming(frame.logicalPlan, new ByPredicate(asked(spark, condition))), options, evolution, execute)

  /** The same for a write by path. */
  def where(table: Seq[String], frame: sql.DataFrame, condition: String, options: Map[String, String], evolution: Boolean): Unit = {
    val rows = frame.asInstanceOf[DataFrame]
    write(rows.sparkSession, table, Incoming(rows.logicalPlan, new ByPredicate(Left(condition))), options, evolution, execute = true)
  }

  /** Each frame replaces the rows of its own condition, all in one version. */
  def whereEach(spark: SparkSession, table: String, frames: JList[DataFrame], conditions: JList[Object], options: String,
      evolution: Boolean, execute: Boolean): Unit = {
    val marked = frames.asScala.zip(conditions.asScala).map { case (frame, condition) =>
      Incoming(frame.logicalPlan, new ByPredicate(asked(spark, condition)))
    }.toSeq
    write(spark, table, if (marked.length == 1) marked.head else Union(marked, byName = true), options, evolution, execute)
  }

  def using(spark: SparkSession, table: String, frame: DataFrame, columns: String, options: String, evolution: Boolean,
      execute: Boolean): Unit =
    write(spark, table, Incoming(frame.logicalPlan, new ByKeys(texts(columns))), options, evolution, execute)

  def on(spark: SparkSession, table: String, frame: DataFrame, condition: Object, options: String, evolution: Boolean,
      execute: Boolean): Unit =
    write(spark, table, Incoming(frame.logicalPlan, new ByCondition(asked(spark, condition))), options, evolution, execute)

  private def texts(json: String): Seq[String] = Bridge.mapper.readTree(json).asScala.map(_.asText).toSeq

  private def asked(spark: SparkSession, condition: Object): Either[String, Expression] = condition match {
    case column: Column => Right(spark.expression(column))
    case text => Left(text.toString)
  }

  /**
   * The frame, or one that gives the same rows every time it is read: the rows of a replacement by key are read twice, for
   * what goes and for what comes. Once they are kept, it is known whether they are few enough to be sent to every executor.
   */
  def steady(frame: DataFrame): DataFrame = if (isSteady(frame)) frame else {
    val kept = steadyRows(frame)
    val bytes = kept.count() * (kept.schema.defaultSize + 8)
    if (bytes <= frame.sparkSession.sessionState.conf.autoBroadcastJoinThreshold) kept.hint("broadcast") else kept
  }

  /** The same for rows of which a join is not all that is made: nothing is said about how to send them. */
  def steadyRows(frame: DataFrame): DataFrame =
    // A frame that has run before would give the rows of that time.
    if (isSteady(frame)) frame else StatementReads.checkpoint(Dataset.ofRows(frame.sparkSession, frame.logicalPlan))

  /**
   * The source of a merge by key, which is looked at before it is merged. One that is made of files and is few enough to be
   * broadcast is kept, so that it is computed once; tables in it stay at the version of now.
   */
  def source(frame: DataFrame): DataFrame = {
    val plan = frame.queryExecution.analyzed
    if (!isOfFiles(plan) || isAtHand(frame) || !Source.isSmall(frame.queryExecution.optimizedPlan)) pinnedRows(frame)
    else StatementReads.checkpoint(Dataset.ofRows(frame.sparkSession, frame.logicalPlan))
  }

  /** Few rows that need not be computed: one task looks through them sooner than several exchange them. */
  def isAtHand(frame: DataFrame): Boolean = {
    val plan = frame.queryExecution.optimizedPlan
    Source.isSmall(plan) && Source.isSteady(plan) && plan.collectLeaves().forall {
      case _: LogicalRDD | _: LocalRelation => true
      case _ => false
    }
  }

  private def isOfFiles(plan: LogicalPlan): Boolean = plan.collectLeaves().forall {
    case LogicalRelation(_: HadoopFsRelation, _, _, _, _) | _: LocalRelation | _: Range | _: OneRowRelation => true
    case _ => false
  } && !plan.exists(_.expressions.exists(_.exists(_.isInstanceOf[SubqueryExpression])))

  /**
   * Rows that several statements see. Spark looks tables up again whenever a frame is run, by their names and at the newest
   * version: those of this one stay at the version of now, and have no name.
   */
  private def pinnedRows(frame: DataFrame): DataFrame = if (!isSteady(frame)) steadyRows(frame) else {
    val run = Dataset.ofRows(frame.sparkSession, frame.logicalPlan).queryExecution
    val rows = run.withCachedData
    if (!readsTables(rows)) frame
    else if (rows.exists(_.isInstanceOf[InMemoryRelation])) StatementReads.checkpoint(Dataset.ofRows(frame.sparkSession, frame.logicalPlan))
    else Dataset.ofRows(frame.sparkSession, run.tableVersionsRefreshed.transformWithSubqueries {
      case r: DataSourceV2Relation if r.table.isInstanceOf[LakeTable] => r.copy(catalog = None, identifier = None)
    })
  }

  private def readsTables(plan: LogicalPlan): Boolean = plan.collectWithSubqueries {
    case r: DataSourceV2Relation if r.table.isInstanceOf[LakeTable] && r.identifier.isDefined => r
  }.nonEmpty

  /** Rows that were kept are not needed any more. */
  def release(frame: DataFrame): Unit = StatementReads.release(frame)

  /** As far as the plan tells. */
  private def isSteady(frame: DataFrame): Boolean = !frame.queryExecution.analyzed.exists {
    case _: GlobalLimit | _: LocalLimit | _: Offset | _: Sample | _: Tail | _: Deduplicate => true
    case LogicalRelation(_: HadoopFsRelation, _, _, _, _) | _: LocalRelation | _: Range | _: OneRowRelation => false
    case relation: DataSourceV2Relation => !relation.table.isInstanceOf[LakeTable]
    case leaf: LeafNode => true
    case node => node.expressions.exists(e => !e.deterministic || e.exists(isUnsteady))
  }

  /** Of rows that are ordered alike, a window or an aggregate may take another one each time. */
  private def isUnsteady(e: Expression): Boolean = e.isInstanceOf[UserDefinedExpression] || SteadyRows.isUnsteady(e)

  private def write(spark: SparkSession, table: String, rows: LogicalPlan, options: String, evolution: Boolean,
      execute: Boolean): Unit = write(spark, texts(table), rows,
    Bridge.mapper.readTree(options).properties().asScala.map(e => e.getKey -> e.getValue.asText).toMap, evolution, execute)

  private def write(spark: SparkSession, table: Seq[String], rows: LogicalPlan, options: Map[String, String], evolution: Boolean,
      execute: Boolean): Unit = {
    val target = UnresolvedRelation(table, CaseInsensitiveStringMap.empty, isStreaming = false)
      .requireWritePrivileges(Set(TableWritePrivilege.INSERT, TableWritePrivilege.DELETE))
    // Should no rule take the markers out, this condition replaces nothing.
    val plan = OverwriteByExpression.byName(target, rows, Literal.FalseLiteral, options, evolution)
    if (execute) Dataset.ofRows(spark, plan) else spark.sessionState.executePlan(plan).assertAnalyzed()
  }
}
