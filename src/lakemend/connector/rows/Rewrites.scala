package org.apache.spark.sql.lakemend

import java.util.{Map => JMap}

import scala.jdk.CollectionConverters._

import com.fasterxml.jackson.databind.JsonNode
import lakemend.{Bridge, Wire}
import lakemend.catalog.TableMeta
import lakemend.read.{FilesTable, GivenFiles, GroupedFiles}
import lakemend.write._
import org.apache.spark.rdd.RDD
import org.apache.spark.sql.Row
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.classic.{Dataset, SparkSession}
import org.apache.spark.sql.connector.write.{LogicalWriteInfo, WriterCommitMessage}
import org.apache.spark.sql.execution.SQLExecution
import org.apache.spark.sql.execution.datasources.v2.DataSourceV2Relation
import org.apache.spark.sql.types.StructType
import org.apache.spark.sql.util.CaseInsensitiveStringMap

/**
 * Rows written again into new files, for `lakemend.maintenance`: Python says which files go together, tasks write them, and
 * Python commits what they wrote. Tables are as the brain's `load` describes them, files as its `plan` does.
 */
object Rewrites {
  /** Some files of a table as a frame. */
  def frame(spark: SparkSession, table: String, files: String): Dataset[Row] = {
    val meta = new TableMeta(Bridge.mapper.readTree(table))
    val given = new FilesTable(meta, GivenFiles.of(Bridge.mapper.readTree(files), meta))
    Dataset.ofRows(spark, DataSourceV2Relation.create(given, None, None, CaseInsensitiveStringMap.empty))
  }

  /** Writes each group of files again in a task of its own. `groups`: how many of the files are in each. */
  def groups(spark: SparkSession, table: String, files: String, groups: Array[Int], options: JMap[String, String]): String = {
    val meta = new TableMeta(Bridge.mapper.readTree(table))
    val all = GivenFiles.of(Bridge.mapper.readTree(files), meta)
    val starts = groups.scanLeft(0)(_ + _)
    val scan = new GroupedFiles(meta, groups.indices.map(i => all.slice(starts(i), starts(i + 1))))
    write(meta, options)(WriteTasks.rows(spark, scan))
  }

  /** Writes the rows of a frame, each of its partitions in a task of its own. */
  def rows(frame: Dataset[Row], table: String, options: JMap[String, String]): String = {
    val execution = frame.queryExecution
    val meta = new TableMeta(Bridge.mapper.readTree(table))
    // Rows are written as they lie: another column, or another order, would be read as what the table has there.
    require(frame.schema.fieldNames.sameElements(meta.schema.fieldNames) && SparkBridge.sameTypes(frame.schema, meta.schema),
      s"rows of ${frame.schema.simpleString} are no rows of ${meta.schema.simpleString}")
    SQLExecution.withNewExecutionId(execution, Some("lakemend")) {
      write(meta, options)(execution.toRdd)
    }
  }

  /** What the tasks wrote, and how many rows came to each. Nothing is left of what failed. */
  private def write(meta: TableMeta, options: JMap[String, String])(rows: => RDD[InternalRow]): String = {
    val job = new WriteJob(meta, new RewriteInfo(meta.schema, options), _ => ())
    val layout = job.layout
    job.listen()
    val said =
      try WriteTasks.counted(rows, new LakeWriterFactory(layout, layout.sortedOpenFiles, job.token))
      catch { case e: Throwable => job.abort(Nil); throw e }
    job.handOver()
    describe(job.token, layout, said)
  }

  private def describe(token: String, layout: FileLayout, said: Seq[(WriterCommitMessage, Long)]): String = {
    val node = Bridge.request().put("token", token)
    val tasks = node.putArray("tasks")
    said.foreach { case (message, count) =>
      Wire.values(tasks.addObject().put("rows", count), "files", FileMessage.files(Array(message)).map(_.toWire(layout.statsColumns)))
    }
    node.toString
  }
}

/** A write of rows as the table has them. */
private class RewriteInfo(columns: StructType, settings: JMap[String, String]) extends LogicalWriteInfo {
  override def options: CaseInsensitiveStringMap = new CaseInsensitiveStringMap(settings)
  override def queryId: String = "lakemend-rewrite"
  override def schema: StructType = columns
}
