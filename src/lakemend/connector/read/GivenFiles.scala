package lakemend.read

import java.util.{Set => JSet}

import scala.jdk.CollectionConverters._

import com.fasterxml.jackson.databind.JsonNode
import lakemend.catalog.{Reads, TableMeta}
import lakemend.joins.Grouping
import org.apache.spark.sql.connector.catalog.{Column, SupportsRead, Table, TableCapability}
import org.apache.spark.sql.connector.read.{InputPartition, Scan, ScanBuilder, SupportsPushDownRequiredColumns}
import org.apache.spark.sql.types.{StructField, StructType}
import org.apache.spark.sql.util.CaseInsensitiveStringMap

/** A request for files that are known already. */
class GivenFiles(meta: TableMeta, files: IndexedSeq[DataFile]) extends ScanRequest(meta, Nil, Nil) {
  override lazy val key: Seq[Any] = Seq(this.asInstanceOf[AnyRef])

  override def plan(): FilePlan = new FilePlan(files.length, files)

  override def planFor(keys: Seq[KeyFilter]): FilePlan = plan()
}

/** A scan that reads each group of files in a task of its own, one file after the other. */
class GroupedFiles(meta: TableMeta, groups: Seq[Seq[DataFile]])
    extends LakeScan(new GivenFiles(meta, groups.flatten.toIndexedSeq), meta.schema, None, wholeFiles = true, grouped = None,
      Reads.Unrecorded) {
  override def planInputPartitions: Array[InputPartition] =
    groups.map(files => new SlicePartition(files.map(file => new FileSlice(file, 0, file.size)).toArray): InputPartition).toArray
}

/**
 * Some files of one version of a table, as a table of its own for a query: values as they are stored, without blanks that
 * a session would add to them.
 */
class FilesTable(meta: TableMeta, files: IndexedSeq[DataFile]) extends Table with SupportsRead {
  private val shown: StructType = StructType(meta.schema.fields.map(f => StructField(f.name, f.dataType, f.nullable)))

  override def name: String = s"${meta.name} (${files.length} files)"
  override def columns: Array[Column] = shown.fields.map(f => Column.create(f.name, f.dataType, f.nullable))
  override def capabilities: JSet[TableCapability] = Set(TableCapability.BATCH_READ).asJava

  override def newScanBuilder(options: CaseInsensitiveStringMap): ScanBuilder =
    new ScanBuilder with SupportsPushDownRequiredColumns {
      private var wanted = shown
      override def pruneColumns(required: StructType): Unit = wanted = required
      override def build(): Scan =
        new LakeScan(new GivenFiles(meta, files), wanted, None, wholeFiles = false, grouped = None, Reads.Unrecorded)
    }
}

object GivenFiles {
  /** The files of a `plan` answer. */
  def of(answer: JsonNode, meta: TableMeta): IndexedSeq[DataFile] = FilePlan.of(answer, meta).files
}
