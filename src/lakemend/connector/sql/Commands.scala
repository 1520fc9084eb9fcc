package org.apache.spark.sql.lakemend

import scala.annotation.tailrec

import com.fasterxml.jackson.databind.JsonNode
import com.fasterxml.jackson.databind.node.ObjectNode
import lakemend.{Bridge, LakemendException, Wire}
import org.apache.spark.sql.{Row, SparkSession}
import org.apache.spark.sql.catalyst.CatalystTypeConverters
import org.apache.spark.sql.catalyst.expressions.Attribute
import org.apache.spark.sql.catalyst.parser.{HybridParameterContext, NamedParameterContext, ParameterContext, ParseException, PositionalParameterContext}
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan
import org.apache.spark.sql.catalyst.types.DataTypeUtils
import org.apache.spark.sql.classic.{SparkSession => ClassicSession}
import org.apache.spark.sql.execution.ExplainMode
import org.apache.spark.sql.execution.command.{ExplainCommand, LeafRunnableCommand}
import org.apache.spark.sql.internal.VariableSubstitution
import org.apache.spark.sql.types.{DataType, StructType}

/** OPTIMIZE, VACUUM and what else Spark has no grammar for. Here a text is only recognised; Python reads it and does the work. */
object Commands {
  private val first = Set("OPTIMIZE", "VACUUM", "RESTORE", "DESC", "DESCRIBE", "EXPLAIN", "CONVERT", "REORG", "GENERATE", "CREATE", "REPLACE")
  private val also = "(?i)\\b(OPTIMIZE|VACUUM|RESTORE|HISTORY|DETAIL|CONVERT|REORG|GENERATE|CLONE)\\b".r.unanchored

  /** The plan of a text that may be one of ours, else Spark's. */
  def plan(session: SparkSession, text: String, parameters: Option[ParameterContext])(spark: => LogicalPlan): LogicalPlan =
    if (!first(firstWord(text, 0)) || !also.matches(text) || !Bridge.isConnected) spark
    else {
      val answer = Bridge.call("command", request(session.asInstanceOf[ClassicSession], text, parameters))
      if (answer.has("otherwise"))
        try spark catch { case _: ParseException => throw LakemendException.of(answer.get("otherwise")) }
      else if (!answer.has("command")) spark
      else {
        val schema = DataType.fromJson(answer.get("schema").toString).asInstanceOf[StructType]
        val command = LakeCommand(text, answer.get("command"), DataTypeUtils.toAttributes(schema))
        Option(answer.get("explain")).fold[LogicalPlan](command)(mode => ExplainCommand(command, ExplainMode.fromString(mode.asText)))
      }
    }

  /** In capitals; comments before it are skipped, also those within others. */
  @tailrec private def firstWord(text: String, from: Int): String = {
    val at = text.indexWhere(c => !c.isWhitespace, from)
    if (at < 0) ""
    else if (text.startsWith("--", at)) firstWord(text, at + text.substring(at).takeWhile(_ != '\n').length)
    else if (text.startsWith("/*", at)) firstWord(text, afterComment(text, at + 2, 1))
    else text.substring(at).takeWhile(_.isLetter).toUpperCase
  }

  @tailrec private def afterComment(text: String, at: Int, depth: Int): Int =
    if (depth == 0 || at >= text.length) at
    else if (text.startsWith("*/", at)) afterComment(text, at + 2, depth - 1)
    else if (text.startsWith("/*", at)) afterComment(text, at + 2, depth + 1)
    else afterComment(text, at + 1, depth)

  private def request(session: ClassicSession, text: String, parameters: Option[ParameterContext]): ObjectNode = {
    val request = Bridge.request().put("text", new VariableSubstitution().substitute(text))
    context(session, request)
    val catalogs = request.putObject("catalogs")
    session.sessionState.conf.getAllConfs.foreach { case (key, value) =>
      val name = key.stripPrefix("spark.sql.catalog.")
      if (name != key && !name.contains(".")) catalogs.put(name, value)
    }
    parameters.foreach {
      case NamedParameterContext(values) => values.foreach { case (name, value) => named(request).put(name, value.sql) }
      case PositionalParameterContext(values) => values.foreach(value => positional(request).add(value.sql))
      case HybridParameterContext(values, names) => values.zip(names).foreach {
        case (value, "") => positional(request).add(value.sql)
        case (value, name) => named(request).put(name, value.sql)
      }
    }
    request
  }

  private def named(request: ObjectNode): ObjectNode = request.withObjectProperty("named")

  private def positional(request: ObjectNode) = request.withArrayProperty("positional")

  /** What a name without a catalog is taken to mean. */
  def context(session: ClassicSession, request: ObjectNode): Unit = {
    val catalogs = session.sessionState.catalogManager
    Wire.texts(request.put("catalog", catalogs.currentCatalog.name), "namespace", catalogs.currentNamespace)
  }
}

/** Spark runs a command once, when it is made; a frame of its rows does not run it again. */
case class LakeCommand(text: String, command: JsonNode, override val output: Seq[Attribute]) extends LeafRunnableCommand {
  override def run(session: SparkSession): Seq[Row] = {
    val schema = DataTypeUtils.fromAttributes(output)
    val request = Bridge.request()
    request.set[JsonNode]("command", command)
    val external = CatalystTypeConverters.createToScalaConverter(schema)
    Callers.run(session.asInstanceOf[ClassicSession], request, schema).toSeq.map(external(_).asInstanceOf[Row])
  }

  override def simpleString(maxFields: Int): String = s"LakeCommand $text"
}
