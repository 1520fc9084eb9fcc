package org.apache.spark.sql.lakemend

import java.util.Locale

import scala.jdk.CollectionConverters._

import lakemend.LakemendException
import org.apache.spark.sql.util.CaseInsensitiveStringMap

/**
 * The options of a write that say what is replaced: `replaceWhere`, `replaceWhere.constraintCheck` (default true),
 * `replaceWhere.partitionsOnly` (default false), and those that say it in another way.
 */
class ReplaceOptions(table: String, all: CaseInsensitiveStringMap, written: Map[String, String] = Map.empty) {
  private val options = (all.asCaseSensitiveMap.asScala ++ written).map { case (k, v) => k.toLowerCase(Locale.ROOT) -> v }

  val where: Option[String] = options.get("replacewhere")
  val check: Boolean = flag("replaceWhere.constraintCheck", default = true)
  val partitionsOnly: Boolean = flag("replaceWhere.partitionsOnly", default = false)
  private val partitions = options.get("partitionoverwritemode")
  val dynamic: Boolean = partitions.exists(_.equalsIgnoreCase("dynamic"))
  private val newSchema = options.get("overwriteschema").exists(_.equalsIgnoreCase("true"))

  /** What is replaced must be said once. */
  def requireOne(byCondition: Boolean): Unit = {
    val said = Seq("a condition" -> byCondition, "replaceWhere" -> where.isDefined,
      "partitionOverwriteMode=dynamic" -> dynamic, "overwriteSchema" -> newSchema).collect { case (name, true) => name }
    if (said.length > 1) throw combined(said)
  }

  /** The options that only go with replaceWhere are not dropped in silence. */
  def requireNone(): Unit = if (partitionsOnly) throw ReplaceOptions.error(
    s"replaceWhere.partitionsOnly was asked for, but the write to $table has no predicate",
    "without one it takes or keeps every row", "name the rows to replace, or leave the option out")

  /** Of a write that Spark has planned as an overwrite of the partitions that occur: by the session's setting, perhaps, before
    * it looked at the options. Which rows it would take without is no longer known. */
  def refuseWithPartitions(): Unit = {
    if (where.isDefined) throw combined(Seq("replaceWhere", "a dynamic partition overwrite"))
    if (partitions.exists(_.equalsIgnoreCase("static"))) throw LakemendException.invalid(
      s"the write to $table has the option partitionOverwriteMode=static, and would overwrite single partitions",
      "spark.sql.sources.partitionOverwriteMode=dynamic, or overwritePartitions, asks for that",
      "set spark.sql.sources.partitionOverwriteMode to static, or leave the option out; nothing was changed")
  }

  private def combined(said: Seq[String]): LakemendException = ReplaceOptions.error(
    s"the write to $table combines ${said.mkString(" and ")}", "each of them says in another way what is replaced",
    "keep one of them; nothing was changed")

  private def flag(name: String, default: Boolean): Boolean = options.get(name.toLowerCase(Locale.ROOT)).fold(default) { text =>
    text.trim.toLowerCase(Locale.ROOT).toBooleanOption.getOrElse(
      throw ReplaceOptions.error(s"$name is '$text'", "it may be true or false", s"set $name to true or false"))
  }
}

object ReplaceOptions {
  def where(options: Map[String, String]): Option[String] =
    options.collectFirst { case (key, value) if key.equalsIgnoreCase("replaceWhere") => value }

  def error(problem: String, cause: String, remedy: String): LakemendException =
    LakemendException("ReplaceWhereError", "LAKEMEND_REPLACE_WHERE", problem, cause, remedy)
}
