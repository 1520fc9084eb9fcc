package lakemend.changes

import java.util.{EnumSet, Set => JSet}

import lakemend.LakemendException
import lakemend.catalog.Columns
import org.apache.spark.sql.connector.catalog._
import org.apache.spark.sql.connector.expressions.Transform
import org.apache.spark.sql.connector.read.ScanBuilder
import org.apache.spark.sql.util.CaseInsensitiveStringMap

/**
 * What `LakeCatalog.loadChangelog` hands to Spark. Spark is told that there is nothing left for it to do: it would need
 * an id in each row to find copied rows and updates. `ChangesInPlan` does that work, by comparing rows.
 */
class LakeChangelog(val changes: RowChanges) extends Changelog {
  override def name: String = changes.meta.name
  override def columns: Array[Column] = Columns.fromSchema(changes.schema)
  override def containsCarryoverRows: Boolean = false
  override def containsIntermediateChanges: Boolean = false
  override def representsUpdateAsDeleteAndInsert: Boolean = false

  /** Asked for by streams alone; in a batch `ChangesInPlan` has put the parts in place of the whole. */
  override def newScanBuilder(options: CaseInsensitiveStringMap): ScanBuilder = throw LakemendException(
    "UnsupportedFeatureError", "LAKEMEND_UNSUPPORTED_FEATURE", s"changes of $name cannot be read as a stream",
    "Lakemend reads changes of a range of versions", "read them in batches, each from the version after the last")
}

/** Some of the changes as a table of their own, read as they stand. */
class ChangesPart(val changes: RowChanges, val files: IndexedSeq[ChangedFile]) extends Table with SupportsRead {
  override def name: String = changes.meta.name
  override def columns: Array[Column] = Columns.fromSchema(changes.schema)

  /** What all rows of any file share. */
  override def partitioning: Array[Transform] = changes.feedMeta.partitioning.map(_.toSpark).toArray

  override def capabilities: JSet[TableCapability] = EnumSet.of(TableCapability.BATCH_READ)

  override def newScanBuilder(options: CaseInsensitiveStringMap): ScanBuilder = new ChangesScanBuilder(this)

  override def toString: String = changes.toString
}
