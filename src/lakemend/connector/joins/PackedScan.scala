package lakemend.joins

import lakemend.read.LakeScan
import org.apache.spark.sql.connector.expressions.NamedReference
import org.apache.spark.sql.connector.expressions.filter.Predicate
import org.apache.spark.sql.connector.metric.{CustomMetric, CustomTaskMetric}
import org.apache.spark.sql.connector.read._
import org.apache.spark.sql.types.StructType

/** A scan whose grouping nobody uses: the same rows, with files packed into tasks by size alone. */
class PackedScan(val of: LakeScan) extends Scan with Batch with SupportsReportStatistics with SupportsRuntimeV2Filtering {
  override def readSchema: StructType = of.readSchema
  override def toBatch: Batch = this
  override def description: String = of.describe("not read by")
  override def columnarSupportMode: Scan.ColumnarSupportMode = of.columnarSupportMode
  override def supportedCustomMetrics: Array[CustomMetric] = of.supportedCustomMetrics
  override def reportDriverMetrics: Array[CustomTaskMetric] = of.reportDriverMetrics
  override def estimateStatistics: Statistics = of.estimateStatistics

  override def filterAttributes: Array[NamedReference] = of.filterAttributes
  override def supportsIterativePushdown: Boolean = of.supportsIterativePushdown
  override def filter(predicates: Array[Predicate]): Unit = of.filter(predicates)

  override def planInputPartitions: Array[InputPartition] = of.packed
  override def createReaderFactory: PartitionReaderFactory = of.createReaderFactory

  override def equals(other: Any): Boolean = other match {
    case that: PackedScan => of == that.of
    case _ => false
  }

  override def hashCode: Int = of.hashCode
}
