package lakemend.rows

import java.util.Locale
import java.util.concurrent.ConcurrentLinkedQueue

import scala.jdk.CollectionConverters._

import com.fasterxml.jackson.databind.node.ObjectNode
import lakemend.{LakemendException, Wire}
import lakemend.catalog.{MetadataColumns, Reads, RowsRead, TableKey, TableMeta}
import lakemend.read.{DataFile, LakeScan, LakeScanBuilder, RowChange}
import lakemend.write.{WriteJob, WrittenFile}
import org.apache.spark.sql.catalyst.util.RowDeltaUtils.OPERATION_COLUMN
import org.apache.spark.sql.connector.expressions.{Expressions, NamedReference}
import org.apache.spark.sql.connector.expressions.filter.Predicate
import org.apache.spark.sql.connector.read.{Scan, ScanBuilder}
import org.apache.spark.sql.connector.write._
import org.apache.spark.sql.connector.write.RowLevelOperation.Command
import org.apache.spark.sql.lakemend.Witness
import org.apache.spark.sql.util.CaseInsensitiveStringMap

/** One UPDATE, DELETE or MERGE on one version of a table. It knows the scan Spark made of it: what it read is in its commit. */
abstract class RowOperation(meta: TableMeta, info: RowLevelOperationInfo, reads: Reads, send: ObjectNode => Unit)
    extends RowLevelOperation {
  private var scanned: Option[LakeScan] = None
  private val everyScan = new ConcurrentLinkedQueue[LakeScan]()

  override def command: Command = info.command

  protected def wholeFiles: Boolean

  override def newScanBuilder(options: CaseInsensitiveStringMap): ScanBuilder =
    new LakeScanBuilder(meta, options, wholeFiles, reads, unread, Some(RowChange(known.keepsUnmatchedFiles))) {
      override def build(): Scan = super.build() match {
        case scan: LakeScan =>
          scanned = Some(scan)
          everyScan.add(scan)
          scan
        case other => other
      }
    }

  /** Files whose every row satisfies it go without being read. */
  protected def unread: Option[ObjectNode] = None

  @volatile private var learned: Statement => Statement = identity

  /** What is known of the statement from its beginning. */
  protected def given: Statement = Statement()

  /** That, and what the rules of the optimizer have found out: each of them knows more. */
  def known: Statement = learned(given)

  def learn(more: Statement => Statement): Unit = learned = learned.andThen(more)

  def key: TableKey = meta.key

  private val atEnd = new ConcurrentLinkedQueue[() => Unit]()

  /** What is to be let go of when the statement has been committed or given up. */
  def onEnd(release: () => Unit): Unit = atEnd.add(release)

  def end(): Unit = Iterator.continually(atEnd.poll()).takeWhile(_ != null).foreach(_.apply())

  /** The files that the statement has read of the table, by location; a plan may scan it more than once. */
  def filesRead: Map[String, DataFile] =
    everyScan.asScala.flatMap(_.plan.files).map(file => file.path -> file).toMap

  /** None: Spark found that nothing can match, and scans nothing. */
  def scan: Option[LakeScan] = scanned

  protected def job(info: LogicalWriteInfo): WriteJob = new WriteJob(meta, info, send) {
    /** In a Spark that reads them as any query does, source and target could be of different versions, and changes of others
      * be overwritten: nobody would know what the statement has read. */
    override def listen(): Unit =
      if (known.isPinned) super.listen()
      else throw new IllegalStateException(s"this Spark does not give the ${command.name} of ${meta.name} a catalog of its own: " +
        "report it with Spark's version. Nothing was changed")

    override def commit(request: ObjectNode): Unit = {
      end()
      known.ambiguous.foreach(refuse)
      known.condition.foreach(request.put("condition", _))
      readByKey.foreach(predicates => reads.narrowTo(RowsRead(meta.version, predicates)))
      super.commit(request)
    }

    override def abort(files: Seq[WrittenFile]): Unit = {
      end()
      super.abort(files)
    }
  }

  /** A MERGE's outcome rests on the target rows that have a key of its source, whatever else its scans came across. */
  private def readByKey: Option[Seq[Predicate]] =
    scan.filter(s => known.keepsUnmatchedFiles && !known.readsMore && s.keyRanges.nonEmpty).map(s => s.request.predicates ++ s.keyRanges)

  private def refuse(watch: Witness): Unit = if (watch.complaints.count > 0) {
    val rows = if (watch.complaints.count == 1) "one row" else s"${watch.complaints.count} rows"
    val sample = watch.complaints.sample.mkString("; ")
    throw LakemendException("AmbiguousMergeError", "LAKEMEND_AMBIGUOUS_MERGE",
      s"$rows of ${meta.name} match more than one row of the MERGE's source, for example those with $sample",
      "the source holds several rows for them, and nothing says which of these wins",
      "leave one row for each in the source, for example with row_number() over (partition by key order by …) = 1, " +
        "or make the ON condition match fewer",
      values => Wire.texts(values.put("count", watch.complaints.count), "sample", watch.complaints.sample))
  }
}

/** What becomes known of an UPDATE, DELETE or MERGE while it is planned. */
case class Statement(
    /** Whether it reads the table for more than the rows it changes: see `OwnReads`. */
    readsMore: Boolean = true,
    /** Whether its tables are read through a catalog of its own. */
    isPinned: Boolean = true,
    /** The columns an UPDATE sets, as far as that is known. */
    assigned: Option[Seq[String]] = None,
    /** A MERGE that does nothing to target rows without a match, so that files without one stay as they are. */
    keepsUnmatchedFiles: Boolean = false,
    /** A MERGE's ON condition, for the history. */
    condition: Option[String] = None,
    /** Sees the rows of a MERGE that match; it complains where a target row does so twice. */
    ambiguous: Option[Witness] = None)

object RowOperation {
  def of(meta: TableMeta, info: RowLevelOperationInfo, reads: Reads, send: ObjectNode => Unit): RowOperation = {
    val verb = info.command.name.toLowerCase(Locale.ROOT)
    val needed = Seq(MetadataColumns.File, MetadataColumns.Position) ++ (if (FeedRows.isKept(meta)) Seq(MetadataColumns.Before) else Nil)
    meta.schema.fieldNames.find(n => needed.exists(_.equalsIgnoreCase(n)))
      .foreach(name => throw LakemendException.invalid(s"$verb cannot find rows of ${meta.name} by their place",
        s"the table's own column $name hides the metadata column of that name", s"rename the column $name first"))
    // Spark finds its column by name, and would store what is done to a row in the table's.
    meta.schema.fieldNames.find(_.equalsIgnoreCase(OPERATION_COLUMN))
      .foreach(name => throw LakemendException.invalid(s"$verb cannot change rows of ${meta.name}",
        s"the table's own column $name has the name of the one in which Spark says what becomes of a row",
        s"rename the column $name first"))
    meta.write.path("modes").path(verb).asText("copy-on-write") match {
      case mode if FeedRows.isKept(meta) => new FeedRows(meta, info, reads, send, rewrites = mode != "merge-on-read")
      case "merge-on-read" => new MaskRows(meta, info, reads, send)
      case _ => new RewriteFiles(meta, info, reads, send)
    }
  }

  val file: NamedReference = Expressions.column(MetadataColumns.File)
  val position: NamedReference = Expressions.column(MetadataColumns.Position)
}

/** Copy-on-write: files with matching rows are written again without them. */
class RewriteFiles(meta: TableMeta, info: RowLevelOperationInfo, reads: Reads, send: ObjectNode => Unit)
    extends RowOperation(meta, info, reads, send) {
  override protected def wholeFiles: Boolean = true

  override def requiredMetadataAttributes: Array[NamedReference] = Array(RowOperation.file, RowOperation.position)

  override def newWriteBuilder(info: LogicalWriteInfo): WriteBuilder = {
    val write = job(info)
    new WriteBuilder {
      override def build(): Write = new RewriteWrite(write, RewriteFiles.this)
    }
  }
}

/** Merge-on-read: matching rows are masked by their position, and only changed rows are written. */
class MaskRows(meta: TableMeta, info: RowLevelOperationInfo, reads: Reads, send: ObjectNode => Unit)
    extends RowOperation(meta, info, reads, send) with SupportsDelta {
  override protected def wholeFiles: Boolean = false

  override def rowId: Array[NamedReference] = Array(RowOperation.file, RowOperation.position)

  /** If more than this share of a file's rows would be dead, the file is written again instead of masked: 0 means always. */
  def maxDeadShare: Double = meta.write.path("max_dead_share").asDouble(1.0)

  override def newWriteBuilder(info: LogicalWriteInfo): DeltaWriteBuilder = {
    val write = job(info)
    new DeltaWriteBuilder {
      override def build(): DeltaWrite = new MaskWrite(write, MaskRows.this)
    }
  }
}
