package lakemend.read

import java.util.{Objects, OptionalLong}

import scala.util.Try

import lakemend.catalog.{MetadataColumns, Reads, ReadsTable, TableMeta}
import lakemend.joins.Grouping
import org.apache.spark.sql.SparkSession
import org.apache.spark.sql.connector.expressions.{Expressions, NamedReference, SortOrder}
import org.apache.spark.sql.connector.expressions.filter.Predicate
import org.apache.spark.sql.connector.metric.{CustomMetric, CustomTaskMetric}
import org.apache.spark.sql.connector.read._
import org.apache.spark.sql.connector.read.partitioning.Partitioning
import org.apache.spark.sql.internal.SQLConf
import org.apache.spark.sql.lakemend.SparkBridge
import org.apache.spark.sql.types.StructType

/** A scan of one version of a table. The brain is asked for the files once, when they are first needed.
  *
  * With `wholeFiles` every row of every file that is read comes out: files are pruned, row groups are not, and files
  * are not split. Rewriting files needs that.
  */
class LakeScan(
    val request: ScanRequest, columns: StructType, limit: Option[Int], wholeFiles: Boolean, grouped: Grouping.Asked,
    override val record: Reads, change: Option[RowChange] = None)
    extends Scan with Batch with SupportsReportStatistics with SupportsReportPartitioning with SupportsReportOrdering
    with SupportsRuntimeV2Filtering with ReadsTable {
  private val meta = request.meta

  override def table: TableMeta = meta

  override def predicatesRead: Seq[Predicate] = request.predicates

  private[read] lazy val planned: FilePlan = request.plan()

  @volatile private var runtime: Seq[Predicate] = Nil
  @volatile private var keys: Seq[KeyFilter] = Nil
  @volatile private var withKeys: Option[FilePlan] = None

  /** The files left after all filters known so far. */
  def plan: FilePlan = {
    val known = withKeys.getOrElse(planned)
    val kept = if (runtime.isEmpty) known else known.filter(runtime, meta.schema)
    limit.fold(kept)(kept.limited)
  }

  /** Whether this scan finds the rows of an UPDATE, DELETE or MERGE. */
  def isRowChange: Boolean = change.isDefined

  /** The same scan without what was known at run time elsewhere: see `OwnFilters`. A statement that changes rows asks its
    * own scan which files it has read. */
  def own: LakeScan = if (isRowChange) this else new OwnScan(this, columns, limit, wholeFiles, grouped)

  /** The same files, packed into tasks by size alone, whatever is made of the rows: see `SameTasks`. */
  def ungrouped: LakeScan = new UngroupedScan(this, columns, limit, wholeFiles)

  /** Whether the files it reads are those that a statement replaces. */
  def rewrites: Boolean = isRowChange && wholeFiles

  /** Whether files that a join's keys rule out may be left out although the join keeps every row of this side: they are
    * those that a rewriting statement has nothing to change in. */
  def keepsUnmatchedFiles: Boolean = change.exists(_.keepsUnmatchedFiles)

  /** The rows that the keys known at run time leave, as predicates. */
  def keyRanges: Seq[Predicate] = keys.flatMap(_.range)

  /** Whether it is worth asking at run time which files hold a join's keys. */
  def canSkipFiles: Boolean = planned.files.length > 1

  override def readSchema: StructType = columns

  override def toBatch: Batch = this

  override def description: String = describe("grouped by")

  /** `use`: how its grouping is read, if it has one. */
  def describe(use: String): String = {
    val files = Try(plan).fold(_ => "files unknown", p => s"${p.files.length} of ${p.totalFiles} files")
    val pruned = request.predicates.mkString("[", ", ", "]")
    s"lakemend ${meta.name} version ${meta.version.getOrElse("none")}, $files, pruned by $pruned" +
      listed("filtered by", request.claimed) + listed("at run time by", runtime ++ keys) + limit.fold("")(n => s", limit $n") +
      Try(grouping).toOption.flatten.fold("")(found => s", $use ${found.describe(planned.files)}")
  }

  private def listed(label: String, predicates: Seq[Any]): String =
    if (predicates.isEmpty) "" else s", $label ${predicates.mkString("[", ", ", "]")}"

  // Read through Spark's own formula for files: stored bytes, scaled by the share of the columns that is read.
  override def estimateStatistics: Statistics = {
    val now = plan
    val share = columns.defaultSize.toDouble / math.max(meta.schema.defaultSize, columns.defaultSize)
    val stored = (SQLConf.get.fileCompressionFactor * now.bytes * share).toLong
    // What a broadcast would hold, as Spark reckons rows, and not how well they were compressed: a few megabytes of
    // Parquet can be millions of rows.
    val bytes = math.max(stored, now.liveRows.fold(0L)(_ * (8 + columns.defaultSize)))
    new Statistics {
      override def sizeInBytes: OptionalLong = OptionalLong.of(bytes)
      override def numRows: OptionalLong = now.liveRows.fold(OptionalLong.empty)(OptionalLong.of)
    }
  }

  /** What Spark may ask for first, at the price of a pass over the rows: which partitions a join can match, or which
    * files a rewriting statement has something to change in. Row changes are filtered by file alone, since a filter of
    * two attributes would never be translated. */
  override def filterAttributes: Array[NamedReference] = {
    val names = columns.fieldNames
    val wanted =
      if (!isRowChange) names.filter(meta.isPartitionColumn)
      else if (wholeFiles && planned.files.length > 1) names.filter(_ == MetadataColumns.File)
      else Array.empty[String]
    wanted.map(name => Expressions.column(SparkBridge.quoted(Seq(name))))
  }

  override def supportsIterativePushdown: Boolean = true

  override def filter(predicates: Array[Predicate]): Unit = {
    val (onFiles, others) = predicates.toSeq.partition(FilePruning.test(_, meta.schema).isDefined)
    runtime = runtime ++ onFiles
    val more = others.flatMap(KeyFilter.of(_, meta))
    if (more.nonEmpty) {
      keys = keys ++ more
      withKeys = Some(request.planFor(keys))
    }
  }

  /** The columns by which tasks are told apart; decided once, on the files known before any runtime filter. */
  private[read] lazy val grouping: Option[Grouping] =
    if (limit.isDefined || !SQLConf.get.v2BucketingEnabled || mayBeReplicated) None
    else grouped.flatMap(asked => Grouping.of(meta, columns).filter(found =>
      planned.files.nonEmpty && Grouping.isWanted(asked, Grouping.sizes(planned, found), meta)))

  /** Spark may send one side of a grouped join to several tasks; a row that a statement changes belongs in one. */
  private def mayBeReplicated: Boolean = isRowChange && SQLConf.get.v2BucketingPartiallyClusteredDistributionEnabled

  override def outputPartitioning: Partitioning =
    grouping.fold(Grouping.unknown)(found => found.partitioning(Grouping.sizes(planned, found).length))

  override def outputOrdering: Array[SortOrder] =
    grouping.fold(Array.empty[SortOrder])(_.ordering(planned.files, columns).toArray)

  override def planInputPartitions: Array[InputPartition] = grouping.fold(packed)(_.tasks(planned.files, plan.files))

  /** Files in as few tasks as it takes. */
  def packed: Array[InputPartition] = FilePacking.pack(SparkSession.active, plan.files, splitting = !wholeFiles)

  override def columnarSupportMode: Scan.ColumnarSupportMode =
    if (read.isColumnar) Scan.ColumnarSupportMode.SUPPORTED
    else Scan.ColumnarSupportMode.UNSUPPORTED

  override def createReaderFactory: PartitionReaderFactory =
    read.factory(planned.files, read.isColumnar, if (wholeFiles) Nil else new RowGroupFilters(meta).of(request.predicates))

  override def supportedCustomMetrics: Array[CustomMetric] = ScanMetrics.supported

  override def reportDriverMetrics: Array[CustomTaskMetric] = ScanMetrics.of(plan)

  // Whether positions are read depends on all planned files, so that it does not change when runtime filters arrive.
  private lazy val read = ReadColumns.of(meta, columns, withMasks = planned.files.exists(_.mask.isDefined))

  // Spark keeps the node it has where a rule puts an equal one in its place.
  private def key: Seq[Any] = Seq(getClass, request.key, columns, limit, wholeFiles, grouped)

  override def equals(other: Any): Boolean = other match {
    case that: LakeScan => (this eq that) || key == that.key
    case _ => false
  }

  override def hashCode: Int = Objects.hash(meta.tableId, meta.version, columns, limit)
}

/** What finds the rows of an UPDATE, DELETE or MERGE; `keepsUnmatchedFiles`: one that does nothing to rows without a match. */
case class RowChange(keepsUnmatchedFiles: Boolean)

/** A scan of one plan that is run; its files before any runtime filter are those of the scan it was made of. */
final class OwnScan(
    of: LakeScan, columns: StructType, limit: Option[Int], wholeFiles: Boolean, grouped: Grouping.Asked)
    extends LakeScan(of.request, columns, limit, wholeFiles, grouped, of.record) {
  override private[read] lazy val planned: FilePlan = of.planned
  // The plan rests on it: asked again, another number of cores could give another answer.
  override private[read] lazy val grouping: Option[Grouping] = of.grouping

  override def own: LakeScan = this
}

/** A scan that is grouped by nothing; its files are those of the scan it was made of. */
final class UngroupedScan(of: LakeScan, columns: StructType, limit: Option[Int], wholeFiles: Boolean)
    extends LakeScan(of.request, columns, limit, wholeFiles, None, of.record) {
  override private[read] lazy val planned: FilePlan = of.planned
}
