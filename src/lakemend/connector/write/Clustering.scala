package lakemend.write

import lakemend.LakemendException
import lakemend.catalog.TableMeta
import org.apache.spark.sql.connector.distributions.{Distribution, Distributions}
import org.apache.spark.sql.connector.expressions.{Expressions, NamedReference, SortDirection, SortOrder}
import org.apache.spark.sql.connector.write.{RequiresDistributionAndOrdering, Write}

/**
 * How rows are to arrive at the tasks. Unpartitioned tables take them as they come. Rows of partitioned tables are
 * clustered by partition, as a rebalance and not as a strict distribution: adaptive execution may then split a
 * partition that is too large for one task; and they are sorted by partition, so that a task has one file open at a
 * time.
 *
 * Options or table properties: `write.distribution-mode` (hash, none), `write.advisory-partition-size` (bytes of
 * shuffle data per task), `write.fanout-files` (n: do not sort, keep up to n files open).
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

  def ordering: Array[SortOrder] =
    if (fanout.isDefined) Array.empty else partitionColumns.map(c => Expressions.sort(c, SortDirection.ASCENDING))

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
