package lakemend.changes

import java.util.OptionalLong

import lakemend.LakemendException
import lakemend.catalog.{Reads, ReadsTable, TableMeta}
import lakemend.read._
import org.apache.spark.sql.SparkSession
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.connector.expressions.filter.{PartitionPredicate, Predicate}
import org.apache.spark.sql.connector.read._
import org.apache.spark.sql.internal.SQLConf
import org.apache.spark.sql.types.StructType
import org.apache.spark.sql.vectorized.ColumnarBatch

/** Predicates on versions, times and partition columns choose files; nothing else is pushed down. */
class ChangesScanBuilder(part: ChangesPart)
    extends ScanBuilder with SupportsPushDownRequiredColumns with SupportsPushDownV2Filters {
  private var columns = part.changes.schema
  private var claimed: Seq[PartitionPredicate] = Nil

  override def pruneColumns(required: StructType): Unit = columns = required

  override def supportsIterativePushdown: Boolean = true

  override def pushPredicates(predicates: Array[Predicate]): Array[Predicate] = {
    val (onFiles, others) = predicates.partition(_.isInstanceOf[PartitionPredicate])
    claimed ++= onFiles.map(_.asInstanceOf[PartitionPredicate])
    others
  }

  override def pushedPredicates: Array[Predicate] = claimed.toArray

  override def build(): Scan =
    new ChangesScan(part, columns, part.files.filter(c => claimed.forall(_.eval(c.shared))))
}

/** Reads files of changes with the reader of plain scans; records of changes have a layout of their own. */
class ChangesScan(part: ChangesPart, columns: StructType, files: IndexedSeq[ChangedFile])
    extends Scan with Batch with SupportsReportStatistics with ReadsTable {
  private val changes = part.changes

  override def table: TableMeta = changes.meta
  override def predicatesRead: Seq[Predicate] = Nil
  override val record: Reads = new Reads
  private val (records, rows) = files.partition(_.isFeed)
  private val ofRows = reading(changes.meta, rows)
  private val ofRecords = reading(changes.feedMeta, records)

  override def readSchema: StructType = columns

  override def toBatch: Batch = this

  override def description: String = s"lakemend $changes, ${files.length} of ${changes.files.length} files"

  override def estimateStatistics: Statistics = {
    val share = columns.defaultSize.toDouble / math.max(changes.schema.defaultSize, columns.defaultSize)
    // Of a masked file few rows are read; which bytes hold them is not known.
    val bytes = files.iterator.map { case ChangedFile(file, _, _) =>
      if (file.rows > 0) file.size.toDouble * file.liveRows / file.rows else file.size.toDouble
    }.sum
    val live = if (files.forall(_.file.rows >= 0)) Some(files.iterator.map(_.file.liveRows).sum) else None
    new Statistics {
      override def sizeInBytes: OptionalLong = OptionalLong.of((SQLConf.get.fileCompressionFactor * bytes * share).toLong)
      override def numRows: OptionalLong = live.fold(OptionalLong.empty)(OptionalLong.of)
    }
  }

  override def planInputPartitions: Array[InputPartition] = {
    val spark = SparkSession.active
    FilePacking.pack(spark, rows.map(_.file), splitting = true) ++
      FilePacking.pack(spark, records.map(_.file), splitting = true)
        .map { case p: SlicePartition => new RecordsPartition(p): InputPartition }
  }

  override def columnarSupportMode: Scan.ColumnarSupportMode =
    if (columnar) Scan.ColumnarSupportMode.SUPPORTED else Scan.ColumnarSupportMode.UNSUPPORTED

  override def createReaderFactory: PartitionReaderFactory =
    new ChangesReaderFactory(ofRows.factory(rows.map(_.file), columnar, Nil),
      ofRecords.factory(records.map(_.file), columnar, Nil), changes.meta.name)

  private def columnar: Boolean = ofRows.isColumnar && ofRecords.isColumnar

  private def reading(meta: TableMeta, files: Seq[ChangedFile]): ReadColumns =
    new ReadColumns(meta, columns, withMasks = files.exists(_.file.mask.isDefined))
}

/** Slices of records of changes. */
final class RecordsPartition(val slices: SlicePartition) extends InputPartition

class ChangesReaderFactory(rows: SliceReaderFactory, records: SliceReaderFactory, table: String)
    extends PartitionReaderFactory {
  override def supportColumnarReads(partition: InputPartition): Boolean = rows.supportColumnarReads(partition)

  override def createReader(partition: InputPartition): PartitionReader[InternalRow] = partition match {
    case p: RecordsPartition => new ChangesReader(records.createReader(p.slices), table)
    case p => new ChangesReader(rows.createReader(p), table)
  }

  override def createColumnarReader(partition: InputPartition): PartitionReader[ColumnarBatch] = partition match {
    case p: RecordsPartition => new ChangesReader(records.createColumnarReader(p.slices), table)
    case p => new ChangesReader(rows.createColumnarReader(p), table)
  }
}

/** Files of older versions may be gone for good reasons: that is no damage, but the changes cannot be told any more. */
class ChangesReader[T](reader: PartitionReader[T], table: String) extends PartitionReader[T] {
  override def next(): Boolean =
    try reader.next()
    catch { case e: LakemendException if e.isMissingFile => throw gone(e) }

  override def get(): T = reader.get()

  override def close(): Unit = reader.close()

  private def gone(e: LakemendException): LakemendException = {
    val error = LakemendException("VersionNotFoundError", "LAKEMEND_VERSION_NOT_FOUND",
      s"the changes of $table cannot be read back so far", s"a file that holds them is gone; " +
        "a vacuum deletes files that no version within the retention period uses",
      "start at a later version; delta.deletedFileRetentionDuration says how long files are kept")
    new LakemendException(error.payload, error.getCondition, error.getMessage, e, isMissingFile = true)
  }
}
