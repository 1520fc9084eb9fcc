package org.apache.spark.sql.lakemend

import java.util.Locale

import lakemend.LakemendException
import lakemend.catalog.LakeCatalog
import org.apache.spark.sql.catalyst.analysis.ResolvedIdentifier
import org.apache.spark.sql.catalyst.plans.logical._
import org.apache.spark.sql.catalyst.rules.Rule

/**
 * Options of a write that name table properties (`delta.…`, `write.…`) are properties of the table that it makes, through
 * `saveAsTable` and `writeTo` as through `save(path)`. A table that is there keeps its own.
 */
object NewTableOptions extends Rule[LogicalPlan] {
  override def apply(plan: LogicalPlan): LogicalPlan = plan.resolveOperators {
    case c @ CreateTableAsSelect(ResolvedIdentifier(_: LakeCatalog, _), _, _, spec, options, _, _) if adds(spec, options) =>
      c.copy(tableSpec = extended(spec, options))
    case r @ ReplaceTableAsSelect(ResolvedIdentifier(_: LakeCatalog, _), _, _, spec, options, _, _) if adds(spec, options) =>
      r.copy(tableSpec = extended(spec, options))
  }

  private def adds(spec: TableSpecBase, options: Map[String, String]): Boolean =
    properties(options).exists { case (key, value) => !spec.properties.exists(p => isSame(p._1, key) && p._2 == value) }

  private def extended(spec: TableSpecBase, options: Map[String, String]): TableSpecBase = {
    val asked = properties(options)
    for ((key, value) <- asked; (other, told) <- spec.properties if isSame(key, other) && told != value)
      throw LakemendException.invalid(s"the property $other of the new table is given twice",
        s"as a property it is '$told', as an option '$value'", "keep one of them; nothing was changed")
    val all = spec.properties ++ asked.filterNot { case (key, _) => spec.properties.keys.exists(isSame(_, key)) }
    spec match {
      case u: UnresolvedTableSpec => u.copy(properties = all)
      case t: TableSpec => t.copy(properties = all)
    }
  }

  private def properties(options: Map[String, String]): Map[String, String] = options.filter { case (key, _) =>
    val name = key.toLowerCase(Locale.ROOT)
    name.startsWith("delta.") || name.startsWith("write.")
  }

  private def isSame(one: String, other: String): Boolean = one.equalsIgnoreCase(other)
}
