package lakemend.read

import java.util.Base64

import com.fasterxml.jackson.databind.JsonNode
import lakemend.Wire
import lakemend.catalog.TableMeta
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions.GenericInternalRow
import org.apache.spark.sql.types.DataType

/** One data file of a plan, as it travels to executors. `rows` counts masked rows too and is -1 if unknown;
  * `partition` holds catalyst values in the order of the table's partitioning; rows are in the order of the columns
  * `sorted`, as far as that is known. */
final class DataFile(
    val path: String,
    val size: Long,
    val rows: Long,
    val modified: Long,
    val partition: Array[Any],
    val mask: Option[MaskSource],
    @transient val sorted: Seq[String] = Nil) extends Serializable {

  /** Rows a scan returns, -1 if unknown. */
  def liveRows: Long = if (rows < 0) -1 else rows - mask.fold(0L)(_.cardinality)

  def withMask(dead: MaskSource): DataFile = new DataFile(path, size, rows, modified, partition, Some(dead), sorted)

  def partitionRow: InternalRow = new GenericInternalRow(partition)
}

object DataFile {
  def of(node: JsonNode, partitionTypes: Array[DataType], sorted: Seq[String] = Nil): DataFile = {
    val rows = if (node.path("rows").isNumber) node.get("rows").asLong else -1L
    new DataFile(node.get("path").asText, node.get("size").asLong, rows,
      node.path("modified").asLong(0), partition(node, partitionTypes), mask(node.path("mask"), rows), sorted)
  }

  def partition(node: JsonNode, types: Array[DataType]): Array[Any] =
    Array.tabulate[Any](types.length)(i => Wire.internal(node.path("partition").get(i), types(i)))

  def partitionTypes(meta: TableMeta): Array[DataType] = meta.partitioning.map(_.dataType).toArray

  private def mask(node: JsonNode, rows: Long): Option[MaskSource] =
    if (!node.isObject) None
    else {
      val cardinality = node.get("cardinality").asLong
      Some(
        if (node.hasNonNull("inline")) InlineMask(cardinality, Base64.getDecoder.decode(node.get("inline").asText), rows)
        else StoredMask(cardinality, node.get("path").asText, node.get("offset").asLong, node.get("length").asInt, rows))
    }
}
