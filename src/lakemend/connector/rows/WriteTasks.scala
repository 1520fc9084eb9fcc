package org.apache.spark.sql.lakemend

import scala.jdk.CollectionConverters._
import scala.reflect.ClassTag

import lakemend.read.LakeScan
import lakemend.write.FileMessage
import org.apache.spark.TaskContext
import org.apache.spark.rdd.RDD
import org.apache.spark.sql.SparkSession
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions.GenericInternalRow
import org.apache.spark.sql.connector.write.{DataWriterFactory, WriterCommitMessage}
import org.apache.spark.sql.execution.datasources.v2.{DataSourceRDD, DataWritingSparkTask}
import org.apache.spark.sql.vectorized.ColumnarBatch
import org.apache.spark.unsafe.types.UTF8String

/**
 * A write beside the statement's own, run by its driver before it commits. Tasks are Spark's own writing tasks: one
 * attempt of each may commit, and one that fails aborts its writer. Returns what the writers say.
 */
object WriteTasks {
  /** Writes the rows of a scan. */
  def run(spark: SparkSession, scan: LakeScan, factory: DataWriterFactory): Seq[WriterCommitMessage] =
    run(rows(spark, scan), factory)(identity)

  /** The rows of a scan, in the tasks that it plans. */
  def rows(spark: SparkSession, scan: LakeScan): RDD[InternalRow] = {
    val partitions = scan.planInputPartitions.toSeq
    val reader = scan.createReaderFactory
    val columnar = partitions.forall(reader.supportColumnarReads)
    val read = new DataSourceRDD(spark.sparkContext, partitions.map(Some(_)), reader, columnar, Map.empty)
    if (columnar) read.mapPartitions(unpacked) else read
  }

  /** Writes rows; what each task's writer says, in the order of the tasks, and how many rows came to it. */
  def counted(rdd: RDD[InternalRow], factory: DataWriterFactory): Seq[(WriterCommitMessage, Long)] = {
    val write = (task: TaskContext, rows: Iterator[InternalRow]) => {
      var count = 0L
      val counting = rows.map { row => count += 1; row }
      val said = DataWritingSparkTask.run(factory, task, counting, useCommitCoordinator = true, Map.empty)
      (said.writerCommitMessage.toString, count)
    }
    rdd.sparkContext.runJob(rdd, write).toSeq.map { case (message, count) => (new FileMessage(message), count) }
  }

  /** Writes texts, each a row of one column. */
  def run(spark: SparkSession, texts: Seq[String], tasks: Int, factory: DataWriterFactory): Seq[WriterCommitMessage] =
    run(spark.sparkContext.parallelize(texts, tasks), factory)(_.map(text =>
      new GenericInternalRow(Array[Any](UTF8String.fromString(text))): InternalRow))

  private def run[T: ClassTag](rdd: RDD[T], factory: DataWriterFactory)(
      rows: Iterator[T] => Iterator[InternalRow]): Seq[WriterCommitMessage] = {
    val write = (task: TaskContext, elements: Iterator[T]) =>
      DataWritingSparkTask.run(factory, task, rows(elements), useCommitCoordinator = true, Map.empty)
        .writerCommitMessage.toString
    rdd.sparkContext.runJob(rdd, write).toSeq.map(new FileMessage(_))
  }

  /** Where batches are read, the rows of such an RDD are batches. */
  private def unpacked(rows: Iterator[InternalRow]): Iterator[InternalRow] =
    rows.asInstanceOf[Iterator[Any]].flatMap { case batch: ColumnarBatch => batch.rowIterator.asScala }
}
