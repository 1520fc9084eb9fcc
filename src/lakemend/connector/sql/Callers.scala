package org.apache.spark.sql.lakemend

import java.util.{Properties, UUID}
import java.util.concurrent.ConcurrentHashMap

import lakemend.Bridge
import com.fasterxml.jackson.databind.node.ObjectNode
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions.{JsonToStructs, Literal}
import org.apache.spark.sql.catalyst.util.ArrayData
import org.apache.spark.sql.classic.SparkSession
import org.apache.spark.sql.types.{ArrayType, StructType}
import org.apache.spark.util.Utils

/** Statements and procedures that Python runs. A thread of Spark waits, and Python's thread works in its place: `session/callers.py`. */
object Callers {
  private case class Caller(session: SparkSession, properties: Properties) {
    @volatile var before: Option[(Option[SparkSession], Properties)] = None
  }

  private val waiting = new ConcurrentHashMap[String, Caller]
  // Times come with milliseconds; without a format of their own they would be read as the session's settings say.
  private val reading = Map("mode" -> "FAILFAST", "timestampFormat" -> "yyyy-MM-dd'T'HH:mm:ss.SSSXXX")

  /** The rows that Python answers with. */
  def run(session: SparkSession, request: ObjectNode, schema: StructType): Array[InternalRow] = {
    val id = UUID.randomUUID().toString
    waiting.put(id, Caller(session, Utils.cloneProperties(session.sparkContext.getLocalProperties)))
    val answer =
      try Bridge.call("run", request.put("caller", id))
      finally waiting.remove(id)
    val rows = Literal(answer.get("rows").toString)
    JsonToStructs(ArrayType(schema), reading, rows, Some("UTC")).eval().asInstanceOf[ArrayData].toArray[InternalRow](schema)
  }

  /** On the thread that Python's thread has in the JVM. */
  def enter(id: String): SparkSession = {
    val caller = waiting.get(id)
    val context = caller.session.sparkContext
    caller.before = Some((SparkSession.getActiveSession, Utils.cloneProperties(context.getLocalProperties)))
    SparkSession.setActiveSession(caller.session)
    context.setLocalProperties(caller.properties)
    caller.session
  }

  def leave(id: String): Unit = Option(waiting.get(id)).foreach { caller =>
    caller.before.foreach { case (session, properties) =>
      session.fold(SparkSession.clearActiveSession())(SparkSession.setActiveSession)
      caller.session.sparkContext.setLocalProperties(properties)
    }
  }
}
