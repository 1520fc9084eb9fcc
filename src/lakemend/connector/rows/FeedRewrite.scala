package lakemend.rows

import java.io.{ByteArrayInputStream, DataInputStream}
import java.util.Base64

import lakemend.changes.ChangesReading
import lakemend.catalog.MetadataColumns
import lakemend.read._
import lakemend.write.{DataFile => _, _}
import org.apache.spark.sql.SparkSession
import org.apache.spark.sql.catalyst.ProjectingInternalRow
import org.apache.spark.sql.lakemend.TaskReports
import org.apache.spark.sql.types.{LongType, StructType}
import org.roaringbitmap.longlong.Roaring64NavigableMap

/** Files that were written again without their dead rows: their locations, and the files that take their place. */
case class Rewritten(paths: Seq[String], files: Seq[WrittenFile], columns: Seq[StatsColumn])

object Rewritten {
  val none: Rewritten = Rewritten(Nil, Nil, Nil)
}

/**
 * Copy-on-write on a table with a change data feed. Spark's own plan for it never shows the rows that go, so the
 * statement finds them as one that masks rows does; then, before the commit, every file with such rows is written again.
 */
class FeedRewrite(job: WriteJob) {
  private val table = job.meta.schema
  // A DELETE brings no rows, and so says nothing of their columns.
  private lazy val layout = FileLayout.of(job.meta, new RowsOf(job.info, table))

  /** `files` are those the statement has read; `dead` the rows that go, by location. */
  def run(files: Seq[DataFile], dead: Map[String, Positions]): Rewritten = if (dead.isEmpty) Rewritten.none else {
    val touched = files.filter(file => dead.contains(file.path))
    require(touched.length == dead.size, s"rows were changed in ${dead.size} files, of which ${touched.length} were read")
    val spark = SparkSession.active
    val columns = table.add(MetadataColumns.Position, LongType)
    val reader = new ChangesReading(job.meta, columns, touched).factory(columnar = false)
    val tasks = FilePacking.pack(spark, touched, splitting = false).toIndexedSeq.map { case p: SlicePartition =>
      p.slices.toSeq.map(slice => slice -> dead(slice.file.path).toBase64)
    }
    val survivors = new SurvivorsTask(reader, layout, table, job.token)
    val messages = spark.sparkContext.parallelize(tasks, tasks.length)
      .mapPartitionsWithIndex((index, parts) => Iterator(survivors.run(index, parts.flatten))).collect()
    Rewritten(touched.map(_.path), FileMessage.files(messages.map(text => new FileMessage(text))), layout.statsColumns)
  }
}

/** Copies the rows of some files that are not dead. The position of a row follows the columns of the table. */
class SurvivorsTask(reader: SliceReaderFactory, layout: FileLayout, table: StructType, token: String) extends Serializable {
  def run(task: Int, files: Iterator[(FileSlice, String)]): String = {
    val writer = new DataFileWriter(layout, task, MaskWriter.OpenFiles)
    try {
      files.foreach { case (slice, dead) => copy(slice, bitmap(dead), writer) }
      val written = writer.finish()
      TaskReports.report(token, written.map(_.path))
      FileMessage.of(written).toString
    } catch {
      case e: Throwable =>
        writer.abort()
        throw e
    }
  }

  private def copy(slice: FileSlice, dead: Roaring64NavigableMap, writer: DataFileWriter): Unit = {
    val rows = reader.createReader(new SlicePartition(Array(slice)))
    val columns = new ProjectingInternalRow(table, table.indices)
    try while (rows.next()) {
      val row = rows.get()
      if (!dead.contains(row.getLong(table.length))) {
        columns.project(row)
        writer.write(columns)
      }
    } finally rows.close()
  }

  private def bitmap(text: String): Roaring64NavigableMap = {
    val positions = new Roaring64NavigableMap
    positions.deserializePortable(new DataInputStream(new ByteArrayInputStream(Base64.getDecoder.decode(text))))
    positions
  }
}
