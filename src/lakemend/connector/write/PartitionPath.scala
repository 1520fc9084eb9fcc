package lakemend.write

import java.nio.charset.StandardCharsets.UTF_8

import com.fasterxml.jackson.databind.node.{ArrayNode, JsonNodeFactory}
import lakemend.{LakemendException, Wire}
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.catalog.ExternalCatalogUtils
import org.apache.spark.sql.catalyst.expressions.{BoundReference, Cast, Expression, Hex}
import org.apache.spark.sql.types.{BinaryType, StringType}
import org.apache.spark.unsafe.types.UTF8String

/**
 * The directory of a partition, Hive-style, and its values for the brain. Readers take the values from the table's
 * metadata; directories are for people, so times in them are in UTC.
 */
class PartitionPath(columns: Seq[PartitionColumn]) {
  private val texts: Seq[Expression] = columns.zipWithIndex.map { case (c, i) =>
    val value = BoundReference(i, c.dataType, nullable = true)
    c.dataType match {
      case _: StringType => value
      case BinaryType => Hex(value)
      case _ => Cast(value, StringType, Some("UTC"))
    }
  }

  /** Relative to the table, with a slash at its end; empty for an unpartitioned table. */
  def directory(key: InternalRow): String = columns.zip(texts).map { case (column, text) =>
    val value = text.eval(key) match {
      case bytes: UTF8String if !Wire.isText(bytes) => throw LakemendException.invalid(
        s"the value of partition column ${column.physicalName} is not UTF-8: it would be stored as $bytes",
        "partition values are text in the table's log", "correct the value, or partition by another column")
      case other => Option(other).map(_.toString).orNull
    }
    if (!column.nullable && (value == null || value.isEmpty)) throw NullCheck.violation(column.name)
    // Hive's escaping lets NUL through, which no file system takes.
    val part = ExternalCatalogUtils.getPartitionPathString(column.physicalName, value).replace("\u0000", "%00")
    if (part.getBytes(UTF_8).length > PartitionPath.MaxBytes) throw LakemendException.invalid(
      s"the value of partition column ${column.physicalName} is too long for a directory: ${value.take(60)}…",
      s"escaped, it takes ${part.getBytes(UTF_8).length} bytes; file systems allow ${PartitionPath.MaxBytes}",
      "shorten the value, or partition by another column")
    part + "/"
  }.mkString

  /** Without the column in the files, an empty value cannot be told from null: it is null, as its directory says. */
  def values(key: InternalRow): ArrayNode = {
    val array = JsonNodeFactory.instance.arrayNode()
    columns.zipWithIndex.foreach { case (c, i) =>
      val value = Wire.value(key.get(i, c.dataType), c.dataType)
      if (value.isTextual && value.asText.isEmpty) array.addNull() else array.add(value)
    }
    array
  }
}

object PartitionPath {
  private val MaxBytes = 255
}
