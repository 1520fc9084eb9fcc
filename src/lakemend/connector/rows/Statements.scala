package org.apache.spark.sql.lakemend

import java.util.{List => JList}

import scala.jdk.CollectionConverters._

import org.apache.spark.sql.Column
import org.apache.spark.sql.catalyst.analysis.{UnresolvedAttribute, UnresolvedRelation}
import org.apache.spark.sql.catalyst.parser.CatalystSqlParser
import org.apache.spark.sql.catalyst.plans.logical.{Assignment, DeleteFromTable, LogicalPlan, UpdateTable}
import org.apache.spark.sql.catalyst.expressions.Literal
import org.apache.spark.sql.classic.{Dataset, SparkSession}
import org.apache.spark.sql.connector.catalog.TableWritePrivilege
import org.apache.spark.sql.execution.CommandExecutionMode
import org.apache.spark.sql.util.CaseInsensitiveStringMap

/** UPDATE and DELETE with columns instead of SQL text: the same plans the parser makes of the statements. */
object Statements {
  def update(spark: SparkSession, table: JList[String], columns: JList[String], values: JList[Column], condition: Column): Unit =
    Dataset.ofRows(spark, updating(spark, table, columns, values, condition))

  /** Whether the UPDATE could run, and the statement below: they are analyzed, and that is all. */
  def checkUpdate(spark: SparkSession, table: JList[String], columns: JList[String], values: JList[Column], condition: Column): Unit =
    check(spark, updating(spark, table, columns, values, condition))

  def check(spark: SparkSession, statement: String): Unit = check(spark, spark.sessionState.sqlParser.parsePlan(statement))

  private def check(spark: SparkSession, plan: LogicalPlan): Unit =
    spark.sessionState.executePlan(plan, CommandExecutionMode.SKIP).assertAnalyzed()

  private def updating(
      spark: SparkSession, table: JList[String], columns: JList[String], values: JList[Column], condition: Column): LogicalPlan = {
    val assignments = columns.asScala.zip(values.asScala).map { case (name, value) =>
      Assignment(UnresolvedAttribute(CatalystSqlParser.parseMultipartIdentifier(name)), spark.expression(value))
    }
    val where = Option(condition).map(spark.expression)
    UpdateTable(relation(table, TableWritePrivilege.UPDATE), assignments.toSeq, where)
  }

  def delete(spark: SparkSession, table: JList[String], condition: Column): Unit = {
    val where = Option(condition).map(spark.expression).getOrElse(Literal.TrueLiteral)
    Dataset.ofRows(spark, DeleteFromTable(relation(table, TableWritePrivilege.DELETE), where))
  }

  private def relation(table: JList[String], privilege: TableWritePrivilege): UnresolvedRelation =
    UnresolvedRelation(table.asScala.toSeq, CaseInsensitiveStringMap.empty, isStreaming = false)
      .requireWritePrivileges(Set(privilege))
}
