package lakemend.sql

import org.apache.spark.sql.SparkSession
import org.apache.spark.sql.catalyst.{FunctionIdentifier, TableIdentifier}
import org.apache.spark.sql.catalyst.expressions.Expression
import org.apache.spark.sql.catalyst.parser.{ParameterContext, ParserInterface, SqlStatementSplitResult, TemporalIdentifier}
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan
import org.apache.spark.sql.lakemend.Commands
import org.apache.spark.sql.types.{DataType, StructType}

/** Spark's parser, and what Lakemend makes of a statement before Spark looks at its parts. */
class LakeParser(session: SparkSession, spark: ParserInterface) extends ParserInterface {
  override def parsePlan(text: String): LogicalPlan =
    Commands.plan(session, text, None)(SharedQueries(spark.parsePlan(text)))

  override def parsePlanWithParameters(text: String, parameters: ParameterContext): LogicalPlan =
    Commands.plan(session, text, Some(parameters))(SharedQueries(spark.parsePlanWithParameters(text, parameters)))

  override def parseExpression(text: String): Expression = spark.parseExpression(text)
  override def parseTableIdentifier(text: String): TableIdentifier = spark.parseTableIdentifier(text)
  override def parseFunctionIdentifier(text: String): FunctionIdentifier = spark.parseFunctionIdentifier(text)
  override def parseMultipartIdentifier(text: String): Seq[String] = spark.parseMultipartIdentifier(text)
  override def parseTemporalTableIdentifier(text: String): TemporalIdentifier = spark.parseTemporalTableIdentifier(text)
  override def parseQuery(text: String): LogicalPlan = spark.parseQuery(text)
  override def parseRoutineParam(text: String): StructType = spark.parseRoutineParam(text)
  override def parseTableSchema(text: String): StructType = spark.parseTableSchema(text)
  override def parseDataType(text: String): DataType = spark.parseDataType(text)
  override def splitStatements(text: String): SqlStatementSplitResult = spark.splitStatements(text)
}
