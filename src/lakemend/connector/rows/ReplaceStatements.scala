package org.apache.spark.sql.lakemend

import java.util.{List => JList, Map => JMap}

import scala.jdk.CollectionConverters._

import lakemend.catalog.LakeTable
import org.apache.spark.sql.Column
import org.apache.spark.sql.catalyst.analysis.UnresolvedRelation
import org.apache.spark.sql.catalyst.expressions.{Expression, Literal, UserDefinedExpression}
import org.apache.spark.sql.catalyst.plans.logical._
import org.apache.spark.sql.classic.{DataFrame, Dataset, SparkSession}
import org.apache.spark.sql.connector.catalog.TableWritePrivilege
import org.apache.spark.sql.execution.datasources.{HadoopFsRelation, LogicalRelation}
import org.apache.spark.sql.execution.datasources.v2.DataSourceV2Relation
import org.apache.spark.sql.util.CaseInsensitiveStringMap

/** Replacements asked for in Python: each is one write of `Incoming` rows. A condition is SQL text or a Column. */
object ReplaceStatements {
  /** Each frame replaces the rows of its own condition, all in one version. */
  def where(spark: SparkSession, table: JList[String], frames: JList[DataFrame], conditions: JList[Object],
      options: JMap[String, String], evolution: Boolean, execute: Boolean): Unit = {
    val marked = frames.asScala.zip(conditions.asScala).map { case (frame, condition) =>
      Incoming(frame.logicalPlan, new ByPredicate(asked(spark, condition)))
    }.toSeq
    write(spark, table, if (marked.length == 1) marked.head else Union(marked, byName = true), options, evolution, execute)
  }

  def using(spark: SparkSession, table: JList[String], frame: DataFrame, columns: JList[String],
      options: JMap[String, String], evolution: Boolean, execute: Boolean): Unit =
    write(spark, table, Incoming(frame.logicalPlan, new ByKeys(columns.asScala.toSeq)), options, evolution, execute)

  def on(spark: SparkSession, table: JList[String], frame: DataFrame, condition: Object,
      options: JMap[String, String], evolution: Boolean, execute: Boolean): Unit =
    write(spark, table, Incoming(frame.logicalPlan, new ByCondition(asked(spark, condition))), options, evolution, execute)

  private def asked(spark: SparkSession, condition: Object): Either[String, Expression] = condition match {
    case column: Column => Right(spark.expression(column))
    case text => Left(text.toString)
  }

  /** Whether the frame gives the same rows every time it is read, as far as its plan tells. */
  def isStable(frame: DataFrame): Boolean = !frame.queryExecution.analyzed.exists {
    case _: GlobalLimit | _: LocalLimit | _: Offset | _: Sample | _: Tail | _: Deduplicate => true
    case LogicalRelation(_: HadoopFsRelation, _, _, _, _) | _: LocalRelation | _: Range | _: OneRowRelation => false
    case relation: DataSourceV2Relation => !relation.table.isInstanceOf[LakeTable]
    case leaf: LeafNode => true
    case node => node.expressions.exists(e => !e.deterministic || e.exists(_.isInstanceOf[UserDefinedExpression]))
  }

  private def write(spark: SparkSession, table: JList[String], rows: LogicalPlan, options: JMap[String, String],
      evolution: Boolean, execute: Boolean): Unit = {
    val target = UnresolvedRelation(table.asScala.toSeq, CaseInsensitiveStringMap.empty, isStreaming = false)
      .requireWritePrivileges(Set(TableWritePrivilege.INSERT, TableWritePrivilege.DELETE))
    // Should no rule take the markers out, this condition replaces nothing.
    val plan = OverwriteByExpression.byName(target, rows, Literal.FalseLiteral, options.asScala.toMap, evolution)
    if (execute) Dataset.ofRows(spark, plan) else spark.sessionState.executePlan(plan).assertAnalyzed()
  }
}
