package lakemend.write

import com.fasterxml.jackson.databind.node.ObjectNode
import lakemend.{LakemendException, Wire}
import lakemend.catalog.TableMeta
import org.apache.spark.sql.catalyst.expressions.RowOrdering
import org.apache.spark.sql.connector.distributions.{Distribution, Distributions}
import org.apache.spark.sql.connector.expressions.{Expressions, NamedReference, SortDirection, SortOrder}
import org.apache.spark.sql.connector.write.{RequiresDistributionAndOrdering, Write}
import org.apache.spark.sql.internal.SQLConf
import org.apache.spark.sql.lakemend.SparkBridge

/**
 * How rows are to arrive at the tasks. Unpartitioned tables take them as they come. Rows of partitioned tables are
 * clustered by partition, as a rebalance and not as a strict distribution: adaptive execution may then split a
 * partition that is too large for one task; and they are sorted by partition, so that a task has one file open at a
 * time.
 *
 * Options or table properties: `write.distribution-mode` (hash, none), `write.advisory-partition-size` (bytes of
 * shuffle data per task), `write.fanout-files` (n: do not sort, keep up to n files open), `write.sort-columns` (names,
 * parted by commas: rows of a file are in their order, and scans know it).
 */
class Clustering(meta: TableMeta, option: String => Option[String], few: Boolean = false) {
  private val partitionColumns: Array[NamedReference] = meta.partitioning.map(_.toSpark.references.head).toArray
  private val clustered: Boolean = option("write.distribution-mode").map(_.toLowerCase) match {
    case None | Some("hash") => partitionColumns.nonEmpty && !few
    case Some("none") => false
    case Some(other) => throw LakemendException.invalid(s"write.distribution-mode is '$other'",
      "it may be hash or none", "hash clusters rows by partition before the write, none leaves them where they are")
  }
  private val advisory: Option[Long] = number("write.advisory-partition-size", 1, Long.MaxValue)

  val fanout: Option[Int] = number("write.fanout-files", 1, LakeWrite.MaxOpenFiles).map(_.toInt)

  def distribution: Distribution =
    if (clustered) Distributions.clustered(partitionColumns.toArray) else Distributions.unspecified()

  /** About one file of the target size per task, within what a task can sort. */
  def advisorySize: Long =
    if (!clustered) 0 else advisory.getOrElse(FileLayout.targetFileSize(meta).max(16L << 20).min(128L << 20))

  /** The columns that rows of a file are sorted by, none if they come as they come. */
  val sortColumns: Seq[String] = if (fanout.isDefined) Nil else option("write.sort-columns").toSeq.flatMap(_.split(','))
    .map(_.trim).filter(_.nonEmpty).map(sortable)

  def ordering: Array[SortOrder] = if (fanout.isDefined) Array.empty else sortOrder

  /** By partition, so that a task has one file open at a time, then as files are sorted. */
  def sortOrder: Array[SortOrder] =
    (partitionColumns ++ sortColumns.map(name => Expressions.column(SparkBridge.quoted(Seq(name)))))
      .map(column => Expressions.sort(column, SortDirection.ASCENDING))

  /** Says in a commit request how the rows of its files are sorted, by the names the files use. */
  def describe(request: ObjectNode): Unit = if (sortColumns.nonEmpty)
    Wire.texts(request, "sorted_by", sortColumns.map(name => meta.physical.fields(meta.schema.fieldIndex(name)).name))

  private def sortable(name: String): String = {
    def refuse(cause: String) = LakemendException.invalid(s"write.sort-columns names '$name'", cause,
      s"name columns of ${meta.name} that it is not partitioned by, such as 'id' or 'customer, time'")
    val same = SQLConf.get.resolver
    val field = meta.schema.fields.find(f => same(f.name, name))
      .getOrElse(throw refuse(s"there is no such column; there are ${meta.schema.fieldNames.mkString(", ")}"))
    if (meta.isPartitionColumn(field.name)) throw refuse("files hold one value of a partition column")
    if (!RowOrdering.isOrderable(field.dataType)) throw refuse(s"values of type ${field.dataType.sql} have no order")
    field.name
  }

  private def number(key: String, least: Long, most: Long): Option[Long] = option(key).map { text =>
    text.trim.toLongOption.filter(n => n >= least && n <= most).getOrElse(
      throw LakemendException.invalid(s"$key is '$text'", s"it must be a whole number from $least to $most",
        s"set $key to such a number"))
  }
}

/** The clustering as Spark plans it for a part of a query; nothing is written with it. */
class RowOrder(clustering: Clustering, sorted: Boolean) extends Write with RequiresDistributionAndOrdering {
  override def requiredDistribution: Distribution = clustering.distribution
  override def distributionStrictlyRequired: Boolean = false
  override def advisoryPartitionSizeInBytes: Long = clustering.advisorySize
  override def requiredOrdering: Array[SortOrder] = if (sorted) clustering.ordering else Array.empty
}
