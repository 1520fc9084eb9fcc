package lakemend.catalog

import scala.jdk.CollectionConverters._

import com.fasterxml.jackson.databind.JsonNode
import com.fasterxml.jackson.databind.node.{ArrayNode, ObjectNode}
import lakemend.{Bridge, LakemendException, Wire}
import org.apache.spark.sql.SparkSession
import org.apache.spark.sql.connector.catalog.{ColumnDefaultValue, TableCatalog, TableChange, TableInfo}
import org.apache.spark.sql.connector.catalog.TableChange._
import org.apache.spark.sql.connector.catalog.constraints.{Check, Constraint}
import org.apache.spark.sql.connector.expressions.{NamedReference, Transform}
import org.apache.spark.sql.internal.SQLConf
import org.apache.spark.sql.lakemend.{NamedFormat, TableExpressions}

/** ALTER TABLE as the brain takes it (docs/architecture.md, *alter changes*). */
object TableChanges {
  def toWire(changes: Seq[TableChange]): ArrayNode = {
    val all = Bridge.mapper.createArrayNode()
    changes.foreach(c => all.add(one(c)))
    all
  }

  private def one(change: TableChange): ObjectNode = change match {
    case c: SetProperty if c.property == TableCatalog.PROP_COMMENT => kind("set_comment").put("comment", c.value)
    case c: RemoveProperty if c.property == TableCatalog.PROP_COMMENT => kind("set_comment").putNull("comment")
    case c: SetProperty if c.property == TableCatalog.PROP_LOCATION => throw LakemendException.invalid(
      s"ALTER TABLE cannot move a table to ${c.value}", "the rows lie where they are, and its log speaks of them",
      "copy the rows with CREATE TABLE … AS SELECT; or, to give the table that lies there this name, drop the name and " +
        "CREATE TABLE … LOCATION")
    case c: SetProperty => kind("set_property").put("key", c.property).put("value", c.value)
    case c: RemoveProperty => kind("remove_property").put("key", c.property)
    case c: AddColumn =>
      val node = at("add_column", c.fieldNames).put("nullable", c.isNullable).put("comment", c.comment)
      node.set[JsonNode]("type", Wire.dataType(c.dataType))
      position(node, c.position)
      Option(c.defaultValue).foreach { d =>
        node.put("default", d.getSql)
        // What rows written before the column existed read as.
        node.put("exists_default", existing(d))
      }
      node
    case c: RenameColumn => at("rename_column", c.fieldNames).put("to", c.newName)
    case c: DeleteColumn => at("drop_column", c.fieldNames).put("if_exists", c.ifExists.booleanValue)
    case c: UpdateColumnType =>
      val node = at("update_type", c.fieldNames)
      node.set[JsonNode]("type", Wire.dataType(c.newDataType))
      node
    case c: UpdateColumnNullability => at("update_nullability", c.fieldNames).put("nullable", c.nullable)
    case c: UpdateColumnComment => at("update_comment", c.fieldNames).put("comment", c.newComment)
    case c: UpdateColumnPosition => position(at("update_position", c.fieldNames), c.position)
    case c: UpdateColumnDefaultValue =>
      val sql = Option(c.newCurrentDefault).map(_.getSql).getOrElse(c.newDefaultValue)
      Option(sql).filter(_.nonEmpty).foreach(TableExpressions.requireAllowed(TableExpressions.Default,
        s"the column ${c.fieldNames.mkString(".")}", _, Some(Nil)))
      at("update_default", c.fieldNames).put("default", Option(sql).filter(_.nonEmpty).orNull)
    case c: AddConstraint => TableRequests.check(c.constraint) match {
      // The version whose rows Spark has found to satisfy it.
      case (name, sql) => kind("add_check").put("name", name).put("sql", sql).put("version", c.validatedTableVersion)
    }
    case c: DropConstraint => kind("drop_check").put("name", c.name).put("if_exists", c.ifExists)
    case other => throw LakemendException.invalid(s"ALTER TABLE cannot do this: $other",
      "the table format has no such change", "see docs/tables.md for what ALTER TABLE can do")
  }

  private def kind(name: String): ObjectNode = Bridge.request().put("kind", name)

  private def at(name: String, path: Array[String]): ObjectNode = Wire.texts(kind(name), "path", path)

  private def position(node: ObjectNode, position: ColumnPosition): ObjectNode = position match {
    case null => node
    case after: After => node.putObject("position").put("after", after.column); node
    case _ => node.put("position", "first")
  }

  private def existing(default: ColumnDefaultValue): String =
    Option(default.getValue).map(v => org.apache.spark.sql.lakemend.SparkBridge.literalSql(v)).orNull
}

/** CREATE and REPLACE TABLE as the brain's `stage` takes them. */
object TableRequests {
  private val notProperties = Set(TableCatalog.PROP_PROVIDER, TableCatalog.PROP_LOCATION, TableCatalog.PROP_COMMENT,
    TableCatalog.PROP_OWNER, TableCatalog.PROP_EXTERNAL, TableCatalog.PROP_IS_MANAGED_LOCATION, TableCatalog.PROP_TABLE_TYPE,
    NamedFormat.Property, "path")

  /** Settings of a session that are properties of the tables it makes, as users of delta-spark have them. */
  private val Defaults = "spark.databricks.delta.properties.defaults."

  def stage(mode: String, info: TableInfo): ObjectNode = {
    val asked = info.properties.asScala
    val schema = Columns.toSchema(info.columns)
    TableExpressions.requireAllowed(schema)
    val node = Bridge.request().put("mode", mode)
    node.set[JsonNode]("schema", Bridge.mapper.readTree(schema.json))
    node.set[JsonNode]("partitioning", partitioning(info.partitions))
    val format = asked.get(NamedFormat.Property)
      .orElse(asked.get(TableCatalog.PROP_PROVIDER).filterNot(_.equalsIgnoreCase(SQLConf.get.defaultDataSourceName)))
    format.foreach(node.put("format", _))
    asked.get(TableCatalog.PROP_LOCATION).foreach(node.put("location", _))
    asked.get(TableCatalog.PROP_COMMENT).foreach(node.put("comment", _))
    val properties = node.putObject("properties")
    asked.foreach { case (k, v) =>
      if (!notProperties(k) && !k.startsWith(TableCatalog.OPTION_PREFIX)) properties.put(k, v)
    }
    val defaults = node.putObject("defaults")
    SparkSession.active.conf.getAll.foreach { case (k, v) =>
      if (k.startsWith(Defaults)) defaults.put(k.stripPrefix(Defaults), v)
    }
    val checks = node.putObject("checks")
    info.constraints.map(check).foreach { case (name, sql) => checks.put(name, sql) }
    node
  }

  def partitioning(transforms: Seq[Transform]): ArrayNode = {
    val all = Bridge.mapper.createArrayNode()
    transforms.foreach { t =>
      val node = all.addObject()
      val arguments = t.arguments.collect { case l: org.apache.spark.sql.connector.expressions.Literal[_] => l.value }
      node.put("transform", if (arguments.isEmpty) t.name else s"${t.name}[${arguments.mkString(",")}]")
      Wire.texts(node, "source", t.references.headOption.toSeq.flatMap((r: NamedReference) => r.fieldNames.toSeq))
    }
    all
  }

  def check(constraint: Constraint): (String, String) = constraint match {
    case c: Check =>
      TableExpressions.requireAllowed(TableExpressions.Check, s"the constraint ${c.name}", c.predicateSql, None)
      c.name -> c.predicateSql
    case other => throw LakemendException.invalid(s"the constraint ${other.toDDL} cannot be kept",
      "only CHECK constraints are enforced on write", "leave it out, or state it as a CHECK")
  }
}
