package lakemend.write

import java.nio.charset.StandardCharsets.UTF_8
import java.util.Arrays

import scala.jdk.CollectionConverters._

import com.fasterxml.jackson.databind.JsonNode
import com.fasterxml.jackson.databind.node.{ArrayNode, JsonNodeFactory}
import lakemend.Wire
import org.apache.parquet.column.statistics.Statistics
import org.apache.parquet.hadoop.metadata.{ColumnChunkMetaData, ColumnPath, ParquetMetadata}
import org.apache.parquet.io.api.Binary
import org.apache.spark.sql.lakemend.SparkBridge
import org.apache.spark.sql.types._

/** A leaf, reached through structs only, whose bounds are recorded. `path` has the names in the data files. */
case class StatsColumn(path: Seq[String], dataType: DataType) {
  /** The column chunk in a footer; of a variant, its metadata is null exactly where the variant is. */
  @transient lazy val chunk: ColumnPath =
    ColumnPath.get((if (dataType == VariantType) path :+ "metadata" else path): _*)
}

object StatsColumn {
  /** `wanted`: how many leading leaves (negative: all), or a list of physical paths. */
  def of(fileSchema: StructType, wanted: JsonNode): Seq[StatsColumn] = {
    val all = leaves(fileSchema, Nil)
    val chosen =
      if (wanted.isArray) {
        val paths = wanted.asScala.map(_.asScala.map(_.asText).toSeq).toSeq
        // A path may name a struct: then all of it is meant.
        all.filter(leaf => paths.exists(path => leaf.path.startsWith(path)))
      } else if (wanted.isNumber && wanted.asInt >= 0) all.take(wanted.asInt)
      else all
    // Footers say nothing of the nulls of arrays and maps.
    chosen.filterNot(leaf => leaf.dataType.isInstanceOf[ArrayType] || leaf.dataType.isInstanceOf[MapType])
  }

  private def leaves(schema: StructType, prefix: Seq[String]): Seq[StatsColumn] = schema.fields.toSeq.flatMap { f =>
    f.dataType match {
      case s: StructType => leaves(s, prefix :+ f.name)
      case other => Seq(StatsColumn(prefix :+ f.name, other))
    }
  }
}

/**
 * Bounds and null counts of a file, from the footer its writer still holds. In memory bounds are exact and in Spark's
 * order: NaN is the largest, -0.0 is less than 0.0.
 */
object FooterStats {
  private val nodes = JsonNodeFactory.instance
  private val MaxCharacters = 256

  /** [min, max, nulls] for each column; null is unknown. */
  def of(footer: ParquetMetadata, columns: Seq[StatsColumn]): ArrayNode = {
    val groups = footer.getBlocks.asScala.map(_.getColumns.asScala.map(c => c.getPath -> c).toMap).toSeq
    val array = nodes.arrayNode()
    columns.foreach(column => array.add(bounds(column, groups.map(_.get(column.chunk)))))
    array
  }

  private def bounds(column: StatsColumn, chunks: Seq[Option[ColumnChunkMetaData]]): ArrayNode = {
    val known = chunks.flatten.filter(c => c.getStatistics != null && c.getStatistics.isNumNullsSet)
    // Statistics can be switched off; then the count stands at zero and no value was seen.
    val complete = known.size == chunks.size &&
      known.forall(c => c.getStatistics.hasNonNullValue || c.getStatistics.getNumNulls == c.getValueCount)
    if (!complete) nodes.arrayNode().addNull().addNull().addNull()
    else {
      val nulls = known.map(_.getStatistics.getNumNulls).sum
      val valued = known.map(_.getStatistics.asInstanceOf[Statistics[_]]).filter(_.hasNonNullValue)
      val (min, max) = if (valued.isEmpty) unbounded else ends(column.dataType, merged(valued))
      nodes.arrayNode().add(min).add(max).add(nulls)
    }
  }

  private def merged(all: Seq[Statistics[_]]): Statistics[_] = {
    val total = all.head.copy()
    all.tail.foreach(total.mergeStatistics(_))
    total
  }

  private def ends(dataType: DataType, stats: Statistics[_]): (JsonNode, JsonNode) = {
    val (min, max) = (stats.genericGetMin: Any, stats.genericGetMax: Any)
    dataType match {
      case BooleanType | ByteType | ShortType | IntegerType | LongType | DateType | TimestampType | TimestampNTZType =>
        (Wire.value(min, dataType), Wire.value(max, dataType))
      case FloatType | DoubleType => (floating(min), floating(positiveZero(max)))
      case d: DecimalType => (decimal(min, d), decimal(max, d))
      case s: StringType if SparkBridge.isBinaryComparable(s) =>
        (text(bytes(min), whole = false), text(bytes(max), whole = true))
      case _ => unbounded
    }
  }

  private def unbounded: (JsonNode, JsonNode) = (nodes.nullNode(), nodes.nullNode())

  /** An upper bound of -0.0 would exclude 0.0 for readers that tell them apart. */
  private def positiveZero(value: Any): Any = value match {
    case n: java.lang.Number if n.doubleValue == 0.0 => 0.0
    case other => other
  }

  /** No bound is known where it would be NaN: engines disagree on its place. */
  private def floating(value: Any): JsonNode = value match {
    case n: java.lang.Float if !n.isNaN => Wire.value(n.floatValue, FloatType)
    case n: java.lang.Double if !n.isNaN => Wire.value(n.doubleValue, DoubleType)
    case _ => nodes.nullNode()
  }

  private def decimal(value: Any, d: DecimalType): JsonNode = {
    val unscaled = value match {
      case n: java.lang.Integer => java.math.BigInteger.valueOf(n.longValue)
      case n: java.lang.Long => java.math.BigInteger.valueOf(n)
      case b: Binary => new java.math.BigInteger(b.getBytes)
    }
    nodes.textNode(new java.math.BigDecimal(unscaled, d.scale).toPlainString)
  }

  private def bytes(value: Any): Array[Byte] = value.asInstanceOf[Binary].getBytes

  /** The text, or its first characters: a prefix is a lower bound, but no upper one. Malformed text bounds nothing. */
  private def text(bytes: Array[Byte], whole: Boolean): JsonNode = {
    val decoded = new String(bytes, 0, bytes.length.min(MaxCharacters * 4 + 4), UTF_8)
    val cut = decoded.codePointCount(0, decoded.length) > MaxCharacters
    val kept = if (cut) decoded.substring(0, decoded.offsetByCodePoints(0, MaxCharacters)) else decoded
    val encoded = kept.getBytes(UTF_8)
    val faithful = encoded.length <= bytes.length && Arrays.equals(encoded, Arrays.copyOf(bytes, encoded.length))
    if (!faithful || (cut && whole)) nodes.nullNode() else nodes.textNode(kept)
  }
}
