package lakemend.rows

import java.util.Locale

import com.fasterxml.jackson.databind.node.ObjectNode
import lakemend.LakemendException
import lakemend.catalog.{MetadataColumns, Reads, TableMeta}
import lakemend.read.{LakeScan, LakeScanBuilder}
import lakemend.write.WriteJob
import org.apache.spark.sql.connector.expressions.{Expressions, NamedReference}
import org.apache.spark.sql.connector.read.{Scan, ScanBuilder}
import org.apache.spark.sql.connector.write._
import org.apache.spark.sql.connector.write.RowLevelOperation.Command
import org.apache.spark.sql.util.CaseInsensitiveStringMap

/** One UPDATE, DELETE or MERGE on one version of a table. It knows the scan Spark made of it: what it read is in its commit. */
abstract class RowOperation(meta: TableMeta, info: RowLevelOperationInfo, reads: Reads, send: ObjectNode => Unit)
    extends RowLevelOperation {
  private var scanned: Option[LakeScan] = None

  override def command: Command = info.command

  protected def wholeFiles: Boolean

  override def newScanBuilder(options: CaseInsensitiveStringMap): ScanBuilder =
    new LakeScanBuilder(meta, options, wholeFiles, reads) {
      override def build(): Scan = super.build() match {
        case scan: LakeScan => scanned = Some(scan); scan
        case other => other
      }
    }

  /** None: Spark found that nothing can match, and scans nothing. */
  def scan: Option[LakeScan] = scanned

  protected def job(info: LogicalWriteInfo): WriteJob = new WriteJob(meta, info, send)
}

object RowOperation {
  def of(meta: TableMeta, info: RowLevelOperationInfo, reads: Reads, send: ObjectNode => Unit): RowOperation = {
    val verb = info.command.name.toLowerCase(Locale.ROOT)
    meta.schema.fieldNames.find(n => Seq(MetadataColumns.File, MetadataColumns.Position).exists(_.equalsIgnoreCase(n)))
      .foreach(name => throw LakemendException.invalid(s"$verb cannot find rows of ${meta.name} by their place",
        s"the table's own column $name hides the metadata column of that name", s"rename the column $name first"))
    meta.write.path("modes").path(verb).asText("copy-on-write") match {
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

  override def requiredMetadataAttributes: Array[NamedReference] = Array(RowOperation.file)

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

  override def newWriteBuilder(info: LogicalWriteInfo): DeltaWriteBuilder = {
    val write = job(info)
    new DeltaWriteBuilder {
      override def build(): DeltaWrite = new MaskWrite(write, MaskRows.this)
    }
  }
}
