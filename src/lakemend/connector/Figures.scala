package lakemend

import org.apache.spark.sql.connector.metric.{CustomSumMetric, CustomTaskMetric}

/** A figure in Spark's UI, where it stands under its description. Spark makes them by name, hence a class with no arguments each. */
abstract class Figure(override val name: String, override val description: String) extends CustomSumMetric {
  /** What it amounts to. */
  def is(amount: Long): CustomTaskMetric = new CustomTaskMetric {
    override def name: String = Figure.this.name
    override def value: Long = amount
  }
}
