package lakemend.read

import com.fasterxml.jackson.databind.node.ObjectNode
import lakemend.Options
import lakemend.catalog.{Reads, RowsRead, TableMeta}
import lakemend.joins.Grouping
import org.apache.spark.sql.connector.expressions.aggregate.Aggregation
import org.apache.spark.sql.connector.expressions.filter.{PartitionPredicate, Predicate}
import org.apache.spark.sql.connector.read._
import org.apache.spark.sql.types.StructType
import org.apache.spark.sql.util.CaseInsensitiveStringMap

/** Collects what Spark pushes down and builds the scan.
  *
  * Spark offers predicates twice. First all of them: they prune files and row groups, and none is claimed, for pruning
  * never proves that every row matches. Then those over partition columns alone, as `PartitionPredicate`s that Spark
  * itself evaluates on a file's partition values: these are claimed, and Spark does not filter by them again.
  */
class LakeScanBuilder(
    meta: TableMeta, options: CaseInsensitiveStringMap, wholeFiles: Boolean = false, reads: Reads = new Reads,
    without: Option[ObjectNode] = None, change: => Option[RowChange] = None)
    extends ScanBuilder with SupportsPushDownRequiredColumns with SupportsPushDownV2Filters
    with SupportsPushDownAggregates with SupportsPushDownLimit {
  Options.check(options)
  private var columns = meta.schema
  private var offered: Seq[Predicate] = Nil
  private var claimed: Seq[PartitionPredicate] = Nil
  private var limit: Option[Int] = None
  private var answered: Option[(Aggregation, LocalScan)] = None

  override def pruneColumns(required: StructType): Unit = columns = required

  override def supportsIterativePushdown: Boolean = true

  override def pushPredicates(predicates: Array[Predicate]): Array[Predicate] = {
    val (onPartitions, others) = predicates.partition(_.isInstanceOf[PartitionPredicate])
    claimed ++= onPartitions.map(_.asInstanceOf[PartitionPredicate])
    offered ++= others
    others
  }

  override def pushedPredicates: Array[Predicate] = claimed.toArray

  /** Answers from statistics if they are exact for every file; asked for once per aggregation. */
  override def supportCompletePushDown(aggregation: Aggregation): Boolean = {
    answered = if (wholeFiles) None else StatsAggregate.answer(request, aggregation, reads).map(aggregation -> _)
    answered.isDefined
  }

  /** Nothing is pushed in part: Spark would then aggregate what is no longer rows of the table. */
  override def pushAggregation(aggregation: Aggregation): Boolean = answered.exists(_._1 eq aggregation)

  /** Fewer files may do, but they hold more rows than asked for: Spark keeps its own limit. */
  override def isPartiallyPushed: Boolean = true

  override def pushLimit(rows: Int): Boolean = {
    if (!wholeFiles) limit = Some(rows)
    !wholeFiles
  }

  override def build(): Scan = {
    reads.add(RowsRead(meta.version, offered))
    answered.fold[Scan](new LakeScan(request, columns, limit, wholeFiles, grouped, reads, change))(_._2)
  }

  private def grouped: Grouping.Asked = Grouping.asked(meta, key => Option(options.get(key)))

  private def request: ScanRequest = ScanRequest(meta, offered, claimed, without)
}
