package org.apache.spark.sql.lakemend

import org.apache.spark.sql.catalyst.plans.logical.{InsertIntoStatement, LogicalPlan}
import org.apache.spark.sql.catalyst.rules.Rule
import org.apache.spark.sql.catalyst.trees.TreeNodeTag

/** Marks INSERT OVERWRITE: where the session asks for single partitions, Spark plans it as a partition overwrite by name, and
  * then it cannot be told from one that was asked for. */
object InsertOverwrite extends Rule[LogicalPlan] {
  private val mark = TreeNodeTag[Unit]("lakemend.insertOverwrite")

  override def apply(plan: LogicalPlan): LogicalPlan = {
    plan.foreach {
      case insert: InsertIntoStatement if insert.overwrite => insert.setTagValue(mark, ())
      case _ =>
    }
    plan
  }

  def is(plan: LogicalPlan): Boolean = plan.getTagValue(mark).isDefined
}
