package org.apache.spark.sql.lakemend

import java.util.{Collections, Iterator => JIterator}

import scala.jdk.CollectionConverters._

import com.fasterxml.jackson.databind.JsonNode
import com.fasterxml.jackson.databind.node.ObjectNode
import lakemend.{Bridge, Wire}
import org.apache.spark.sql.SparkSession
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions.{Literal, StructsToJson}
import org.apache.spark.sql.classic.{SparkSession => ClassicSession}
import org.apache.spark.sql.connector.catalog.Identifier
import org.apache.spark.sql.connector.catalog.procedures.{BoundProcedure, ProcedureParameter, UnboundProcedure}
import org.apache.spark.sql.connector.read.{LocalScan, Scan}
import org.apache.spark.sql.types.{DataType, StructField, StructType}

/** The one procedure there is: which there are, with which parameters and columns, and what they do, Python says. */
class LakeProcedure(catalog: String, ident: Identifier) extends UnboundProcedure {
  private val told = Bridge.call("procedure", request())

  override def name: String = told.get("name").asText

  override def description: String = told.get("description").asText

  override def bind(inputType: StructType): BoundProcedure = {
    val node = request()
    val given = node.putArray("given")
    inputType.foreach { field =>
      val argument = given.addObject()
      if (field.metadata.contains(ProcedureParameter.BY_NAME_METADATA_KEY)) argument.put("name", field.name)
      argument.set[JsonNode]("type", Bridge.mapper.readTree(field.dataType.json))
    }
    new BoundLakeProcedure(catalog, Bridge.call("procedure", node))
  }

  private def request(): ObjectNode =
    Wire.texts(Bridge.request().put("catalog", catalog).put("name", ident.name), "namespace", ident.namespace)
}

object LakeProcedure {
  def list(namespace: Array[String]): Array[Identifier] = {
    val answer = Bridge.call("procedures", Wire.texts(Bridge.request(), "namespace", namespace))
    val place = answer.get("namespace").asScala.map(_.asText).toArray
    answer.get("procedures").asScala.map(p => Identifier.of(place, p.asText)).toArray
  }
}

private class BoundLakeProcedure(catalog: String, told: JsonNode) extends BoundProcedure {
  private val schema = DataType.fromJson(told.get("schema").toString).asInstanceOf[StructType]

  override def name: String = told.get("name").asText

  override def description: String = told.get("description").asText

  override def isDeterministic: Boolean = false

  override val parameters: Array[ProcedureParameter] = told.get("parameters").asScala.map { p =>
    val dataType = DataType.fromJson(p.get("type").toString)
    val parameter = ProcedureParameter.in(p.get("name").asText, dataType).comment(p.get("comment").asText)
    if (p.path("optional").asBoolean) parameter.defaultValue(s"CAST(NULL AS ${dataType.sql})").build() else parameter.build()
  }.toArray

  override def call(input: InternalRow): JIterator[Scan] = {
    val session = SparkSession.active.asInstanceOf[ClassicSession]
    val request = Bridge.request().put("procedure", name).put("of", catalog)
    Commands.context(session, request)
    request.set[JsonNode]("arguments", Bridge.mapper.readTree(json(input)))
    val found = Callers.run(session, request, schema)
    Collections.singleton[Scan](new LocalScan {
      override def readSchema: StructType = schema
      override def rows: Array[InternalRow] = found
    }).iterator
  }

  private def json(input: InternalRow): String = {
    val row = Literal(input, StructType(parameters.map(p => StructField(p.name, p.dataType))))
    val writing = Map("timestampFormat" -> "yyyy-MM-dd'T'HH:mm:ss.SSSSSSXXX")
    StructsToJson(writing, row, Some("UTC")).replacement.eval().toString
  }
}
