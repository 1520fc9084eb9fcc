package org.apache.spark.sql.lakemend

import lakemend.catalog.{LakeCatalog, LakeTable, TableMeta}
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.analysis.ResolvedTable
import org.apache.spark.sql.catalyst.expressions.Literal
import org.apache.spark.sql.catalyst.plans.logical.{LocalRelation, LogicalPlan, ShowCreateTable}
import org.apache.spark.sql.catalyst.rules.Rule
import org.apache.spark.sql.catalyst.util.{CharVarcharUtils, ResolveDefaultColumns}
import org.apache.spark.sql.types.StructField
import org.apache.spark.unsafe.types.UTF8String

/** SHOW CREATE TABLE as a statement that makes the same table; Spark's own knows no generated columns. */
object ShowCreate extends Rule[LogicalPlan] {
  override def apply(plan: LogicalPlan): LogicalPlan = plan.resolveOperators {
    case ShowCreateTable(ResolvedTable(catalog: LakeCatalog, ident, table: LakeTable, _), false, output) =>
      val name = SparkBridge.quoted(catalog.name +: ident.namespace.toSeq :+ ident.name)
      LocalRelation(output, Seq(InternalRow(UTF8String.fromString(statement(name, table.meta)))))
  }

  private def statement(name: String, meta: TableMeta): String = {
    val columns = meta.schema.fields.map(column).toSeq ++
      meta.constraints.map { case (label, sql) => s"CONSTRAINT ${SparkBridge.quoted(Seq(label))} CHECK ($sql)" }
    val partitioning = meta.partitioning.map(_.toSpark.describe)
    val properties = meta.properties.toSeq.filterNot(p => meta.isKept(p._1)).sorted
      .map { case (key, value) => s"${text(key)} = ${text(value)}" }
    Seq(
      Some(s"CREATE TABLE $name ${listed(columns)}"),
      Some(s"USING ${meta.format}"),
      if (partitioning.isEmpty) None else Some(s"PARTITIONED BY (${partitioning.mkString(", ")})"),
      if (meta.isManaged) None else Some(s"LOCATION ${text(meta.location)}"),
      meta.comment.map(c => s"COMMENT ${text(c)}"),
      if (properties.isEmpty) None else Some(s"TBLPROPERTIES ${listed(properties)}")).flatten.mkString("\n")
  }

  private def column(field: StructField): String = {
    val dataType = CharVarcharUtils.getRawType(field.metadata).getOrElse(field.dataType)
    val metadata = field.metadata
    def told(key: String): Option[String] = if (metadata.contains(key)) Some(metadata.getString(key)) else None
    Seq(
      // A string is compared by its bytes unless another collation is named.
      Some(s"${SparkBridge.quoted(Seq(field.name))} ${dataType.sql.replace(" COLLATE UTF8_BINARY", "")}"),
      if (field.nullable) None else Some("NOT NULL"),
      told(ResolveDefaultColumns.CURRENT_DEFAULT_COLUMN_METADATA_KEY).map(sql => s"DEFAULT $sql"),
      told("GENERATION_EXPRESSION").map(sql => s"GENERATED ALWAYS AS ($sql)"),
      field.getComment().map(c => s"COMMENT ${text(c)}")).flatten.mkString(" ")
  }

  private def listed(parts: Seq[String]): String = parts.mkString("(\n  ", ",\n  ", ")")

  private def text(value: String): String = Literal(value).sql
}
