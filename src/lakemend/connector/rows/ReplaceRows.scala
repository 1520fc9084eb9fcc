package org.apache.spark.sql.lakemend

import com.fasterxml.jackson.databind.JsonNode
import lakemend.{Bridge, Wire}
import lakemend.catalog.{LakeCatalog, LakeTable, StagedLakeTable}
import lakemend.read.FilePlan
import lakemend.rows._
import org.apache.spark.sql.catalyst.analysis.{NamedRelation, ResolvedIdentifier}
import org.apache.spark.sql.catalyst.expressions.{Expression, Literal, Or, Predicate => RowTest}
import org.apache.spark.sql.catalyst.expressions.BindReferences.bindReference
import org.apache.spark.sql.catalyst.plans.logical._
import org.apache.spark.sql.catalyst.rules.Rule
import org.apache.spark.sql.classic.SparkSession
import org.apache.spark.sql.execution.datasources.v2.DataSourceV2Relation

/**
 * Plans what replaces a part of a table: `INSERT INTO … REPLACE WHERE`, `writeTo(…).overwrite(condition)`, the option
 * `replaceWhere` and the Python verbs. It runs when the statement has been analysed, and makes of it either
 *
 *  - a write that takes whole files away, where partition values or statistics decide for every file; or
 *  - a row-level write of the rows that go, or stay, and the rows that come (`ReplacePlans`).
 *
 * Incoming rows are looked at on their way: those outside of their predicate fail the commit.
 */
case class ReplaceRows(session: org.apache.spark.sql.SparkSession) extends Rule[LogicalPlan] {
  private val spark = session.asInstanceOf[SparkSession]

  override def apply(plan: LogicalPlan): LogicalPlan = plan.resolveOperators {
    case o @ OverwriteByExpression(Ours(relation, table), condition, query, options, _, _, None, _) if query.resolved =>
      val asked = new ReplaceOptions(table.name, relation.options, options)
      val everything = condition == Literal.TrueLiteral
      Incoming.parts(query) match {
        case Nil if everything && asked.where.isEmpty =>
          asked.requireNone()
          o
        case Nil =>
          asked.requireOne(byCondition = !everything)
          val predicate = asked.where.fold(ReplacePredicate.of(spark, condition, relation, table.meta))(
            sql => ReplacePredicate.parsed(spark, sql, relation, table.meta))
          replaced(o, relation, table, asked, Seq(query -> predicate))
        case parts =>
          asked.requireOne(byCondition = true)
          parts match {
            case Seq((rows, by: ByRows)) => ReplacePlans(spark).byRows(o, relation, table, rows, by)
            case _ => replaced(o, relation, table, asked, parts.map {
              case (rows, by: ByPredicate) => rows -> by.resolved(spark, relation, table.meta)
              case (_, other) => throw new IllegalStateException(s"$other stands beside others")
            })
          }
      }
    case a @ AppendData(Ours(relation, table), query, options, byName, evolution, None, analyzed) if query.resolved =>
      val asked = new ReplaceOptions(table.name, relation.options, options)
      if (asked.where.isEmpty) {
        asked.requireNone()
        a
      } else apply(OverwriteByExpression(a.table, Literal.TrueLiteral, query, options, byName, evolution, None, analyzed))
    case d @ OverwritePartitionsDynamic(Ours(relation, table), query, options, byName, evolution, None) =>
      new ReplaceOptions(table.name, relation.options, options).refuseWithPartitions()
      // INSERT OVERWRITE leaves what it selects, also where the session asks for single partitions and there are none.
      if (table.meta.partitioning.nonEmpty || byName && !InsertOverwrite.is(d)) d
      else OverwriteByExpression(d.table, Literal.TrueLiteral, query, options, byName, evolution)
    case c: CreateTableAsSelect => refuseForWholeTable(c.name, c.writeOptions); c
    case r: ReplaceTableAsSelect => refuseForWholeTable(r.name, r.writeOptions); r
  }

  private def replaced(o: OverwriteByExpression, relation: DataSourceV2Relation, table: LakeTable, asked: ReplaceOptions,
      parts: Seq[(LogicalPlan, ReplacePredicate)]): LogicalPlan = {
    val predicates = parts.map(_._2)
    val predicate = predicates match {
      case Seq(one) => one
      case several => several.head.copy(condition = several.map(_.condition).reduce[Expression](Or(_, _)))
    }
    val answer = ask(predicate, predicates, asked.partitionsOnly)
    val plans = ReplacePlans(spark)
    val (rows, watches) = parts.map { case (query, own) => plans.watched(query, own, asked.check) }.unzip
    val query = if (rows.length == 1) rows.head else Union(rows)
    def replacement(files: ReplacedFiles) =
      new Replacement("replace_where", predicate.sql, Some(predicate.wire), files, watches.flatten, asked.check)
    if (answer.get("whole_files").asBoolean) plans.byFiles(o, relation, table, query,
      replacement(if (answer.has("files")) ReplacedFiles.Named(matching(answer, predicate)) else ReplacedFiles.Inside))
    else {
      // Records stand for everything their version did: each row that goes must be seen.
      val files = if (ReplaceByRecords.isNeeded(table.meta)) ReplacedFiles.Scanned else ReplacedFiles.InsideAndScanned
      plans.byPredicate(o, relation, table, query, predicate.simple, replacement(files))
    }
  }

  /** How the files are found whose rows go; the brain refuses what cannot be replaced in one version. */
  private def ask(whole: ReplacePredicate, parts: Seq[ReplacePredicate], partitionsOnly: Boolean): JsonNode = {
    val request = whole.meta.request().put("partitions_only", partitionsOnly)
    request.set[JsonNode]("predicate", whole.wire)
    val conditions = request.putArray("parts")
    parts.foreach { part =>
      val node = conditions.addObject().put("text", part.sql)
      node.set[JsonNode]("predicate", part.wire)
      Wire.texts(node, "columns", part.columns)
    }
    Bridge.call("replace_where", request)
  }

  /** The files whose partition values satisfy the predicate, as Spark itself evaluates it. */
  private def matching(answer: JsonNode, predicate: ReplacePredicate): Seq[String] = {
    val meta = predicate.meta
    val columns = meta.partitioning.map(p => predicate.relation.output.find(_.name == p.source.head).get)
    val holds = RowTest.createInterpreted(bindReference(predicate.simple, columns))
    FilePlan.of(answer, meta).files.filter { file =>
      try holds.eval(file.partitionRow)
      catch {
        case e: Exception =>
          val values = meta.partitioning.zip(file.partition).map { case (p, v) => s"${p.name} = $v" }.mkString(", ")
          throw ReplacePredicate.invalid(predicate.sql, s"it fails for the partition $values: ${e.getMessage}", meta)
      }
    }.map(_.path)
  }

  /** CREATE or REPLACE TABLE … AS SELECT makes a whole table: the rows a replaceWhere was to keep would be gone. */
  private def refuseForWholeTable(name: LogicalPlan, options: Map[String, String]): Unit = name match {
    case ResolvedIdentifier(_: LakeCatalog, ident) => ReplaceOptions.where(options).foreach(where => throw ReplaceOptions.error(
      s"replaceWhere '$where' cannot be honoured by saveAsTable, create or replace (${ident.name})",
      "they make the whole table anew, and every row outside of the predicate would be lost",
      "use insertInto, INSERT INTO … REPLACE WHERE, writeTo(table).overwrite(condition) or table.replace_where(…); " +
        "nothing was changed"))
    case _ =>
  }

  private object Ours {
    def unapply(relation: NamedRelation): Option[(DataSourceV2Relation, LakeTable)] = LakeRelation.unapply(relation).filter {
      case (_, _: StagedLakeTable | _: ReplacedTable) => false
      case _ => true
    }
  }
}
