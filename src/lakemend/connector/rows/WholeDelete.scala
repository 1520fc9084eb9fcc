package org.apache.spark.sql.lakemend

import lakemend.LakemendException
import lakemend.catalog.LakeTable
import org.apache.spark.sql.catalyst.expressions.Literal
import org.apache.spark.sql.catalyst.plans.logical.{DeleteFromTable, LogicalPlan, Project, SubqueryAlias}
import org.apache.spark.sql.catalyst.rules.Rule
import org.apache.spark.sql.execution.datasources.v2.DataSourceV2Relation

/**
 * A DELETE of every row names its table and nothing else. Where the table has CHAR columns Spark puts the padding of
 * what is read over it, and then finds no table to delete from.
 *
 * A view is no table, nor is a query with a name: which rows of the table below it shows is not what goes by its name.
 */
object WholeDelete extends Rule[LogicalPlan] {
  override def apply(plan: LogicalPlan): LogicalPlan = plan.resolveOperators {
    case delete @ DeleteFromTable(target, condition) if target.resolved => unnamed(target) match {
      case r: DataSourceV2Relation => lake(r).fold(delete)(table => delete.copy(table = only(r, table)))
      // A query that somebody wrote has the table's name between the two.
      case Project(_, r: DataSourceV2Relation) if lake(r).isDefined =>
        if (condition == Literal.TrueLiteral) delete.copy(table = only(r, lake(r).get)) else delete
      case query => query.collectFirst { case r: DataSourceV2Relation if lake(r).isDefined => r }.fold(delete)(r => throw refused(r))
    }
  }

  private def unnamed(plan: LogicalPlan): LogicalPlan = plan match {
    case SubqueryAlias(_, child) => unnamed(child)
    case other => other
  }

  private def lake(r: DataSourceV2Relation): Option[LakeTable] = Some(r.table).collect { case table: LakeTable => table }

  /** The table under no name, and equal to no other: Spark would put rows that it has cached in its place. */
  private def only(r: DataSourceV2Relation, table: LakeTable): DataSourceV2Relation =
    if (table.isPlain) r.copy(table = table.forRowChanges, catalog = None, identifier = None) else r

  private def refused(r: DataSourceV2Relation): LakemendException = LakemendException.invalid(
    "DELETE FROM takes a table, and what it names here is a view or a query",
    s"it reads ${r.table.name}, and perhaps not all of its rows",
    s"delete from ${r.table.name} itself, and say in WHERE which rows go; nothing was changed")
}
