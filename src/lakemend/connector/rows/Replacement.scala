package lakemend.rows

import scala.util.Try

import com.fasterxml.jackson.databind.node.ObjectNode
import lakemend.{Bridge, LakemendException, Wire}
import lakemend.catalog.{LakeTable, Reads, TableMeta}
import lakemend.read.LakeScanBuilder
import lakemend.write._
import org.apache.spark.sql.connector.read.ScanBuilder
import org.apache.spark.sql.connector.write._
import org.apache.spark.sql.lakemend.Complaints
import org.apache.spark.sql.util.CaseInsensitiveStringMap

/**
 * One replaceWhere, replaceUsing or replaceOn: which rows of the table go for those that come. The rule `ReplaceRows`
 * makes it while the statement is analysed; the write's commit says it to the brain.
 *
 * @param operation  its name on the wire
 * @param text       what is replaced, for history
 * @param predicate  what is replaced, as far as the brain can know it; None: known only when the rows have been read
 * @param files      how the files to take away are found
 * @param watches    which incoming rows may not come
 * @param checked    whether every row that comes is then known to satisfy the predicate
 */
class Replacement(
    val operation: String,
    val text: String,
    val predicate: Option[ObjectNode],
    val files: ReplacedFiles,
    watches: Seq[Watch],
    checked: Boolean = false) {

  /** Turns a plain commit request into this one; throws if rows came that must not. */
  def describe(request: ObjectNode): ObjectNode = {
    watches.foreach(_.check())
    request.put("operation", operation).put("command", "WRITE").put("text", text).put("checked", checked)
    Wire.values(request, "predicates", predicate)
    // The table adds what the statement's query has read of it; what is replaced stands in `predicates`.
    if (predicate.isDefined) request.putNull("read_predicates")
    files match {
      case ReplacedFiles.Inside => request.put("inside", "all")
      case ReplacedFiles.InsideAndScanned => request.put("inside", "some")
      case ReplacedFiles.Named(paths) => Wire.texts(request, "removed", paths)
      case ReplacedFiles.Scanned =>
    }
    request
  }

  /** Files whose every row goes are not read: the brain knows them. */
  def unread: Option[ObjectNode] = if (files == ReplacedFiles.InsideAndScanned) predicate else None
}

/** How the files that go are found. */
sealed trait ReplacedFiles

object ReplacedFiles {
  /** The predicate holds for all rows or for none of every file. */
  case object Inside extends ReplacedFiles
  /** The predicate decides for some files; the others are read. */
  case object InsideAndScanned extends ReplacedFiles
  /** Files that hold rows to replace are read. */
  case object Scanned extends ReplacedFiles
  /** Spark has evaluated the predicate on each file's partition values. */
  case class Named(paths: Seq[String]) extends ReplacedFiles
}

/** Looks at the rows that are to replace those of a predicate, and do not satisfy it themselves. */
class Watch(meta: TableMeta, predicate: String, complaints: Complaints) {
  def check(): Unit = if (complaints.count > 0) throw Watch.error(meta.name, predicate, complaints.count, complaints.sample)
}

object Watch {
  def error(table: String, predicate: String, count: Long, sample: Seq[String]): LakemendException = {
    val rows = if (count == 1) "one incoming row does" else s"$count incoming rows do"
    LakemendException("RowsOutsidePredicateError", "LAKEMEND_ROWS_OUTSIDE_PREDICATE",
      s"$rows not satisfy $predicate, for example ${sample.head}",
      s"they would lie outside of what is replaced in $table, and be there twice after the next such write",
      "filter the rows, or widen the predicate; the option replaceWhere.constraintCheck=false (check=False) lets them in. " +
        "Nothing was changed", { values =>
        val shown = values.put("count", count).put("predicate", predicate).putArray("sample")
        sample.foreach(text => Try(Bridge.mapper.readTree(text)).fold(_ => shown.add(text), shown.add(_)))
      })
  }
}

/**
 * The table as a replacement sees it: its scan leaves out files that go unread, and its write is the replacement.
 * `few` rows come, in one task.
 */
class ReplacedTable(of: LakeTable, replacement: Replacement, val few: Boolean) extends LakeTable(of.meta, of.reads) {
  override def newScanBuilder(options: CaseInsensitiveStringMap): ScanBuilder =
    new LakeScanBuilder(meta, options, reads = Reads.Unrecorded, without = replacement.unread)

  /** Spark asks for every row to be overwritten; what that means here is the replacement's alone. */
  override def newWriteBuilder(info: LogicalWriteInfo): WriteBuilder = new WriteBuilder with SupportsTruncate {
    override def truncate(): WriteBuilder = this
    override def build(): Write = new LakeWrite(new WriteJob(meta, info, send), WriteMode.Replace(replacement), few)
  }

  /** The row operation of this replacement; rows go as a DELETE would take them. */
  def operation(info: RowLevelOperationInfo, asDelete: RowLevelOperationInfo): RowOperation = {
    RowOperation.of(meta, asDelete, Reads.Unrecorded, _ => ()) match {
      case _ if ReplaceByRecords.isNeeded(meta) => new ReplaceByRecords(this, info, replacement)
      case _: MaskRows => new ReplaceByMasks(this, info, replacement)
      case _ => new ReplaceByRewriting(this, info, replacement)
    }
  }

  def deliver(commit: ObjectNode): Unit = send(replacement.describe(commit))

  /** Where the predicate tells what is replaced, looking for it is no read beside it. */
  def looks: Reads = if (replacement.predicate.isDefined) Reads.Unrecorded else reads
}

/** What a replacement knows, however its rows go. */
trait Replaces extends RowOperation {
  protected def replacement: Replacement

  override protected def unread: Option[ObjectNode] = replacement.unread

  /** Where rows go that match those that come, files that hold none of their keys stay as they are. */
  override protected def given: Statement = Statement(keepsUnmatchedFiles = replacement.predicate.isEmpty)
}

/** Merge-on-read: rows that go are masked, rows that come are written. */
class ReplaceByMasks(table: ReplacedTable, info: RowLevelOperationInfo, protected val replacement: Replacement)
    extends MaskRows(table.meta, info, table.looks, table.deliver) with Replaces {
  /** In a change data feed, rows that are copied without a record would show as changes. */
  override def maxDeadShare: Double = if (FeedRows.isKept(table.meta)) 1 else super.maxDeadShare
}

/** Copy-on-write: files that hold rows that go are written again without them, beside the rows that come. */
class ReplaceByRewriting(table: ReplacedTable, info: RowLevelOperationInfo, protected val replacement: Replacement)
    extends RewriteFiles(table.meta, info, table.looks, table.deliver) with Replaces {
  override def newWriteBuilder(info: LogicalWriteInfo): WriteBuilder = {
    val write = job(info)
    new WriteBuilder {
      override def build(): Write = new ReplaceWrite(write, replacement, ReplaceByRewriting.this)
    }
  }
}
