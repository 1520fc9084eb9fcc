package org.apache.spark.sql.lakemend

import java.util.Locale

import lakemend.LakemendException
import lakemend.catalog.{LakeCatalog, TableMeta}
import org.apache.spark.sql.SparkSession
import org.apache.spark.sql.catalyst.FunctionIdentifier
import org.apache.spark.sql.catalyst.analysis.{FunctionRegistry, ResolvedIdentifier, UnresolvedAttribute, UnresolvedExtractValue, UnresolvedFunction}
import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.catalyst.parser.ParseException
import org.apache.spark.sql.catalyst.plans.logical._
import org.apache.spark.sql.catalyst.rules.Rule
import org.apache.spark.sql.types.{ArrayType, DataType, MapType, StructField, StructType}

/**
 * What the expressions that a table brings along may say: CHECKs, generated columns, defaults. Who can write a table's log has
 * them run in the sessions of all who write to the table, so they are made of built-in functions that see nothing but their
 * arguments. Functions are allowed by group: what a later Spark adds elsewhere is refused until it is listed here.
 */
object TableExpressions {
  final class Kind private[TableExpressions] (val name: String, private[TableExpressions] val alsoAllowed: Set[String])

  // What changes with time is no constant property of a row, but a CHECK may compare with it, and a default is made for one moment.
  private val time = Set("now", "curdate", "current_date", "current_time", "current_timestamp", "localtime", "localtimestamp")
  private val chance = Set("rand", "randn", "random", "uniform", "randstr", "shuffle", "uuid")
  private val session = Set("current_user", "session_user", "user", "current_catalog", "current_database", "current_schema", "version")

  val Check = new Kind("CHECK", time)
  val Generated = new Kind("generation expression", Set.empty)
  val Default = new Kind("default", time ++ session)
  /** What rows written before the column existed read as; Spark evaluates it for readers, too. */
  val Existing = new Kind("default for older rows", Set.empty)

  private val groups = Set("array_funcs", "bitwise_funcs", "collection_funcs", "conditional_funcs", "conversion_funcs", "csv_funcs",
    "datetime_funcs", "hash_funcs", "json_funcs", "lambda_funcs", "map_funcs", "math_funcs", "predicate_funcs", "sketch_funcs",
    "st_funcs", "string_funcs", "struct_funcs", "url_funcs", "variant_funcs", "vector_funcs")
  // Of groups that hold others as well: reflection, the place of a row, schemas in files.
  private val single = Set("aes_decrypt", "try_aes_decrypt", "bitmap_bit_position", "bitmap_bucket_number", "bitmap_count", "hmac",
    "typeof", "xpath", "xpath_boolean", "xpath_double", "xpath_float", "xpath_int", "xpath_long", "xpath_number", "xpath_short",
    "xpath_string")

  /** What in the expression is not allowed, by name. `columns`: those it may name, if they are known. */
  def complaint(spark: SparkSession, kind: Kind, sql: String, columns: Option[Seq[String]]): Option[String] =
    try {
      val known = columns.map(_.map(lower).toSet)
      val parsed = state(spark).sqlParser.parseExpression(sql)
      val found = new scala.collection.mutable.ArrayBuffer[String]
      parsed.foreach(node => refused(spark, kind, node, known).foreach(found += _))
      found.headOption
    } catch { case _: ParseException => None } // Spark says it better when it comes to it

  private def refused(spark: SparkSession, kind: Kind, node: Expression, columns: Option[Set[String]]): Option[String] = node match {
    case f: UnresolvedFunction => function(spark, kind, f.nameParts)
    case _: PlanExpression[_] => Some("a subquery")
    case a: UnresolvedAttribute if columns.forall(_.contains(lower(a.nameParts.head))) => None
    // Without parentheses some functions look like columns.
    case a: UnresolvedAttribute if a.nameParts.length == 1 && isBuiltin(a.nameParts.head) => function(spark, kind, a.nameParts)
    case a: UnresolvedAttribute => Some(s"${a.name}, which is no column of the table")
    case _: UnresolvedExtractValue => None
    case e if e.getClass.getName.startsWith("org.apache.spark.sql.catalyst.analysis.") => Some(e.getClass.getSimpleName)
    case _: WindowExpression => Some("a window")
    case e @ (_: UserDefinedExpression | _: Nondeterministic) => Some(e.prettyName)
    case e: CurrentUser => function(spark, kind, Seq(e.prettyName))
    case _ => None
  }

  private def function(spark: SparkSession, kind: Kind, parts: Seq[String]): Option[String] = {
    val name = lower(parts.last)
    val place = parts.init.map(lower)
    val shown = s"the function ${parts.mkString(".")}"
    if (place.nonEmpty && place != Seq("builtin") && place != Seq("system", "builtin")) Some(shown)
    else FunctionRegistry.builtin.lookupFunction(FunctionIdentifier(name)) match {
      case Some(info) if !isAllowed(kind, name, info) => Some(shown)
      case Some(info) if place.isEmpty && isHidden(spark, name, info) =>
        Some(s"$shown, which in this session is not the built-in one")
      case Some(_) => None
      case None => Some(shown)
    }
  }

  private def isAllowed(kind: Kind, name: String, info: ExpressionInfo): Boolean =
    kind.alsoAllowed(name) || (single(name) || groups(info.getGroup)) && !time(name) && !chance(name)

  private def isBuiltin(name: String): Boolean = FunctionRegistry.builtin.functionExists(FunctionIdentifier(lower(name)))

  private def isHidden(spark: SparkSession, name: String, builtin: ExpressionInfo): Boolean =
    state(spark).catalog.lookupBuiltinOrTempFunction(name).forall(_.getClassName != builtin.getClassName)

  private def state(spark: SparkSession) = spark.asInstanceOf[org.apache.spark.sql.classic.SparkSession].sessionState

  private def lower(name: String): String = name.toLowerCase(Locale.ROOT)

  // ---- of a table that is there

  /** Before rows are written to the table. */
  def requireAllowed(spark: SparkSession, meta: TableMeta): Unit = {
    val columns = Some(meta.schema.fieldNames.toSeq)
    val generated = meta.schema.fields.flatMap(f => text(f, "GENERATION_EXPRESSION").map(sql => (Generated, s"the column ${f.name}", sql)))
    val checks = meta.checks.map { case (name, sql) => (Check, s"the constraint $name", sql) }
    val defaults = meta.schema.fields.flatMap(f => text(f, "CURRENT_DEFAULT").map(sql => (Default, s"the column ${f.name}", sql)))
    (generated ++ checks ++ defaults).foreach { case (kind, owner, sql) =>
      complaint(spark, kind, sql, columns).foreach(what => throw unsupported(s"${meta.name} cannot be written", kind, owner, sql, what))
    }
  }

  /** Before the schema reaches Spark. */
  def requireReadable(schema: StructType, table: String): StructType = {
    def visit(dataType: DataType): Unit = dataType match {
      case s: StructType => s.fields.foreach { f =>
        text(f, "EXISTS_DEFAULT").foreach { sql =>
          complaint(SparkSession.active, Existing, sql, Some(Nil)).foreach(what =>
            throw unsupported(s"$table cannot be read", Existing, s"the column ${f.name}", sql, what))
        }
        visit(f.dataType)
      }
      case a: ArrayType => visit(a.elementType)
      case m: MapType => visit(m.keyType); visit(m.valueType)
      case _ =>
    }
    visit(schema)
    schema
  }

  // ---- of a statement that brings them

  /** Before a table gets it. */
  def requireAllowed(kind: Kind, owner: String, sql: String, columns: Option[Seq[String]]): Unit =
    complaint(SparkSession.active, kind, sql, columns).foreach(what => throw LakemendException.invalid(
      s"the ${kind.name} of $owner cannot be kept", s"it uses $what: $sql", remedy))

  def requireAllowed(columns: StructType): Unit = columns.fields.foreach { f =>
    text(f, "GENERATION_EXPRESSION").foreach(requireAllowed(Generated, s"the column ${f.name}", _, Some(columns.fieldNames.toSeq)))
    text(f, "CURRENT_DEFAULT").foreach(requireAllowed(Default, s"the column ${f.name}", _, Some(Nil)))
  }

  private def text(field: StructField, key: String): Option[String] =
    if (field.metadata.contains(key)) Some(field.metadata.getString(key)) else None

  private def unsupported(problem: String, kind: Kind, owner: String, sql: String, what: String): LakemendException =
    LakemendException("UnsupportedFeatureError", "LAKEMEND_UNSUPPORTED_FEATURE", problem,
      s"the ${kind.name} of $owner uses $what: $sql", remedy)

  private val remedy = "only columns and built-in functions that depend on nothing but their arguments are allowed there; see docs/security.md"
}

/** Refuses CHECKs that may not be run, before Spark looks at them and, in ALTER TABLE, at the rows with them. */
object AllowedChecks extends Rule[LogicalPlan] {
  override def apply(plan: LogicalPlan): LogicalPlan = {
    plan.foreach {
      case add: AddCheckConstraint => add.child.collectFirst { case LakeRelation(_, table) => table }.foreach(table =>
        require(Seq(add.checkConstraint), Some(table.meta.schema.fieldNames.toSeq)))
      case create: V2CreateTablePlan => (create.name, create.children ++ create.expressions) match {
        case (ResolvedIdentifier(_: LakeCatalog, _), parts) =>
          parts.foreach { case spec: UnresolvedTableSpec => require(spec.constraints, None); case _ => }
        case _ =>
      }
      case _ =>
    }
    plan
  }

  private def require(constraints: Seq[TableConstraint], columns: Option[Seq[String]]): Unit = constraints.foreach {
    case check: CheckConstraint =>
      TableExpressions.requireAllowed(TableExpressions.Check, s"the constraint ${check.userProvidedName}", check.condition, columns)
    case _ =>
  }
}

/** Refuses statements that write rows to a table whose expressions may not be run. */
case class AllowedExpressions(spark: SparkSession) extends Rule[LogicalPlan] {
  override def apply(plan: LogicalPlan): LogicalPlan = {
    plan.foreach {
      case write: V2WriteCommand => LakeRelation.table(write.table).foreach(t => TableExpressions.requireAllowed(spark, t.meta))
      case _ =>
    }
    plan
  }
}
