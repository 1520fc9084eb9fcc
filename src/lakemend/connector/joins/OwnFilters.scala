package org.apache.spark.sql.lakemend

import lakemend.joins.PackedScan
import lakemend.read.LakeScan
import org.apache.spark.sql.catalyst.rules.Rule
import org.apache.spark.sql.connector.read.Scan
import org.apache.spark.sql.execution.SparkPlan
import org.apache.spark.sql.execution.datasources.v2.BatchScanExec

/**
 * What is known at run time of the files a scan needs is known for one plan. Spark plans some queries several times, with
 * the same scan and other rows beside it: each step of a recursive query joins what the last step found. So every plan
 * that is run filters a scan of its own.
 */
object OwnFilters extends Rule[SparkPlan] {
  override def apply(plan: SparkPlan): SparkPlan = plan.transformUp {
    case scan: BatchScanExec if scan.runtimeFilters.nonEmpty => own(scan.scan).fold(scan) { filtered =>
      val copy = scan.copy(scan = filtered)
      copy.copyTagsFrom(scan)
      copy
    }
  }

  private def own(scan: Scan): Option[Scan] = scan match {
    case lake: LakeScan => Some(lake.own).filterNot(_ eq lake)
    case packed: PackedScan => Some(packed.of.own).filterNot(_ eq packed.of).map(new PackedScan(_))
    case _ => None
  }
}
