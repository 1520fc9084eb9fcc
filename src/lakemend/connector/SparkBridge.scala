package org.apache.spark.sql.lakemend

import org.apache.hadoop.conf.Configuration
import org.apache.spark.sql.SparkSession
import org.apache.spark.sql.catalyst.analysis.TimeTravelSpec
import org.apache.spark.sql.catalyst.expressions.Literal
import org.apache.spark.sql.catalyst.types.DataTypeUtils
import org.apache.spark.sql.connector.catalog.{CatalogV2Util, Column}
import org.apache.spark.sql.connector.expressions.{Literal => V2Literal}
import org.apache.spark.sql.connector.expressions.filter.{PartitionPredicate, Predicate}
import org.apache.spark.sql.internal.connector.PredicateUtils
import org.apache.spark.sql.sources.Filter
import org.apache.spark.sql.types.StructType

/** The few Spark classes that are `private[sql]`, reached from the one package that may. */
object SparkBridge {
  def columns(schema: StructType): Array[Column] = CatalogV2Util.structTypeToV2Columns(schema, false)

  def schema(columns: Array[Column]): StructType = CatalogV2Util.v2ColumnsToStructType(columns.toIndexedSeq)

  /** The session's Hadoop configuration with its SQL settings laid over it. */
  def hadoopConf(spark: SparkSession): Configuration =
    spark.asInstanceOf[org.apache.spark.sql.classic.SparkSession].sessionState.newHadoopConf()

  /** A timestamp option as microseconds since the epoch, read as SQL's TIMESTAMP AS OF would. */
  def micros(text: String): Long = TimeTravelSpec.resolveTimestampExpression(
    Literal(text), SparkSession.active.conf.get("spark.sql.session.timeZone"))

  def literalSql(literal: V2Literal[_]): String = Literal(literal.value, literal.dataType).sql

  def sameTypes(one: StructType, other: StructType): Boolean = DataTypeUtils.equalsIgnoreCaseAndNullability(one, other)

  /** Which call of the Python API this statement belongs to, set by it on the calling thread. */
  def requestId: Option[String] = Option(SparkSession.active.sparkContext.getLocalProperty("lakemend.request"))

  def v1Filters(predicates: Seq[Predicate]): Seq[Filter] =
    predicates.filterNot(_.isInstanceOf[PartitionPredicate]).flatMap(p => PredicateUtils.toV1(p))
}
