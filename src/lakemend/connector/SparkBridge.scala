package org.apache.spark.sql.lakemend

import org.apache.hadoop.conf.Configuration
import org.apache.spark.rdd.InputFileBlockHolder
import org.apache.spark.sql.catalyst.analysis.TimeTravelSpec
import org.apache.spark.sql.catalyst.expressions.{AttributeReference, ExprId, Literal}
import org.apache.spark.sql.catalyst.types.DataTypeUtils
import org.apache.spark.sql.catalyst.util.{DateTimeUtils, QuotingUtils, UnsafeRowUtils}
import org.apache.spark.sql.connector.catalog.{CatalogPlugin, CatalogV2Util, Column}
import org.apache.spark.sql.connector.expressions.filter.PartitionPredicate
import org.apache.spark.sql.connector.expressions.{Literal => V2Literal, LiteralValue}
import org.apache.spark.sql.execution.datasources.PartitionedFile
import org.apache.spark.sql.execution.WholeStageCodegenExec
import org.apache.spark.sql.internal.connector.PartitionPredicateImpl
import org.apache.spark.sql.internal.{LegacyBehaviorPolicy, SQLConf}
import org.apache.spark.TaskContext
import org.apache.spark.sql.SparkSession
import org.apache.spark.sql.types.{DataType, StructType}

/** The few Spark classes that are `private[sql]`, reached from the one package that may. */
object SparkBridge {
  def columns(schema: StructType): Array[Column] = CatalogV2Util.structTypeToV2Columns(schema, false)

  def schema(columns: Array[Column]): StructType = CatalogV2Util.v2ColumnsToStructType(columns.toIndexedSeq)

  /** The session's Hadoop configuration with its SQL settings laid over it. */
  def hadoopConf(spark: SparkSession): Configuration =
    spark.asInstanceOf[org.apache.spark.sql.classic.SparkSession].sessionState.newHadoopConf()

  def catalog(spark: SparkSession, name: String): CatalogPlugin =
    spark.asInstanceOf[org.apache.spark.sql.classic.SparkSession].sessionState.catalogManager.catalog(name)

  /** A timestamp option as microseconds since the epoch, read as SQL's TIMESTAMP AS OF would. */
  def micros(text: String): Long = TimeTravelSpec.resolveTimestampExpression(
    Literal(text), SparkSession.active.conf.get("spark.sql.session.timeZone"))

  /** The session's, in Java's full spelling. */
  def timeZone: String = DateTimeUtils.getZoneId(SQLConf.get.sessionLocalTimeZone).getId

  /** What the session says of small files after a write, whatever their table says. */
  def autoCompact: Option[String] = SQLConf.get.getAllConfs.get("spark.databricks.delta.autoCompact.enabled")

  def literal(value: Any, dataType: DataType): V2Literal[_] = LiteralValue(value, dataType)

  def literalSql(literal: V2Literal[_]): String = Literal(literal.value, literal.dataType).sql

  def sameTypes(one: StructType, other: StructType): Boolean = DataTypeUtils.equalsIgnoreCaseAndNullability(one, other)

  /** Which call of the Python API this statement belongs to, set by it on the calling thread. */
  def requestId: Option[String] = Option(SparkSession.active.sparkContext.getLocalProperty("lakemend.request"))

  /** The schema with every field, element and value nullable. */
  def nullable(schema: StructType): StructType = schema.asNullable

  /** Rows and bytes as the running task's output in Spark's UI. */
  def reportOutput(rows: Long, bytes: Long): Unit = Option(TaskContext.get()).foreach { task =>
    task.taskMetrics().outputMetrics.setRecordsWritten(rows)
    task.taskMetrics().outputMetrics.setBytesWritten(bytes)
  }

  /** Makes a Parquet writer that stores dates as they are, even in a session that rebases them to the Julian calendar. */
  def withProlepticCalendar[T](make: => T): T = {
    val session = SQLConf.get
    if (session.getConf(SQLConf.PARQUET_REBASE_MODE_IN_WRITE) == LegacyBehaviorPolicy.CORRECTED) make
    else {
      val conf = new SQLConf
      session.getAllConfs.foreach { case (key, value) => conf.setConfString(key, value) }
      conf.setConf(SQLConf.PARQUET_REBASE_MODE_IN_WRITE, LegacyBehaviorPolicy.CORRECTED)
      SQLConf.withExistingConf(conf)(make)
    }
  }


  /** Equal for predicates that mean the same, whichever scan they were made for. */
  def canonical(predicate: PartitionPredicate, partitionColumns: Seq[String]): Any = predicate match {
    case p: PartitionPredicateImpl => p.expression.transform { case a: AttributeReference =>
      a.withExprId(ExprId(partitionColumns.indexOf(a.name), SparkBridge.noJvm))
    }.canonicalized
    case other => other
  }

  /** Whether equal values are equal bytes: not so for strings with a collation. */
  def isBinaryComparable(dataType: DataType): Boolean = UnsafeRowUtils.isBinaryStable(dataType)

  def quoted(path: Seq[String]): String = path.map(QuotingUtils.quoteIfNeeded).mkString(".")

  /** Whether Spark compiles plans over rows of this width; batches pay off only then. */
  def generatesCode(schema: StructType): Boolean =
    SQLConf.get.wholeStageEnabled && !WholeStageCodegenExec.isTooManyFields(SQLConf.get, schema)

  /** What `input_file_name()` says on this thread. */
  def enterFile(file: PartitionedFile): Unit = InputFileBlockHolder.set(file.urlEncodedPath, file.start, file.length)

  def leaveFile(): Unit = InputFileBlockHolder.unset()

  /** Spark's row-by-row Parquet reader asks the session, not the Hadoop configuration, whether to read by field id. */
  def readingByFieldId[T](body: => T): T = {
    val conf = new SQLConf
    SQLConf.get.getAllConfs.foreach { case (key, value) => if (key.startsWith("spark.sql.")) conf.setConfString(key, value) }
    conf.setConf(SQLConf.PARQUET_FIELD_ID_READ_ENABLED, true)
    SQLConf.withExistingConf(conf)(body)
  }

  private val noJvm = new java.util.UUID(0, 0)
}
