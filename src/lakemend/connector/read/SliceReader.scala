package lakemend.read

import java.io.Closeable

import lakemend.write.SharedConf
import org.apache.hadoop.conf.Configuration
import org.apache.spark.paths.SparkPath
import org.apache.spark.sql.catalyst.{InternalRow, ProjectingInternalRow}
import org.apache.spark.sql.catalyst.expressions.GenericInternalRow
import org.apache.spark.sql.connector.read.{InputPartition, PartitionReader, PartitionReaderFactory}
import org.apache.spark.sql.execution.datasources.PartitionedFile
import org.apache.spark.sql.lakemend.SparkBridge
import org.apache.spark.sql.execution.vectorized.OnHeapColumnVector
import org.apache.spark.sql.types.{LongType, StructType}
import org.apache.spark.sql.vectorized.ColumnarBatch

/** Reads the slices of a task with Spark's Parquet reader (`parquet`), in batches or row by row.
  * `conf` is there if masks are to be read from files. */
class SliceReaderFactory(
    val parquet: PartitionedFile => Iterator[InternalRow],
    val layout: RowLayout,
    val schema: StructType,
    val conf: Option[SharedConf],
    val table: String,
    val byId: Boolean,
    columnar: Boolean) extends PartitionReaderFactory {

  override def supportColumnarReads(partition: InputPartition): Boolean = columnar

  override def createReader(partition: InputPartition): PartitionReader[InternalRow] =
    new RowReader(this, partition.asInstanceOf[SlicePartition].slices)

  override def createColumnarReader(partition: InputPartition): PartitionReader[ColumnarBatch] =
    new BatchReader(this, partition.asInstanceOf[SlicePartition].slices)
}

/** Walks over the slices of a task. Whatever goes wrong in a file is told in the words of the table. */
abstract class SliceReader[T](factory: SliceReaderFactory, slices: Array[FileSlice]) extends PartitionReader[T] {
  private var index = -1
  // Spark's reader gives whole batches through an iterator of rows when it is asked for batches.
  private var elements: Iterator[Any] = Iterator.empty
  protected var mask: Option[Mask] = None

  /** The next batch or row of the task as Parquet gives it; null at the end. */
  protected def advance(): Any = {
    while (true) {
      if (index >= 0 && guarded(elements.hasNext)) return guarded(elements.next())
      close()
      if (index + 1 >= slices.length) return null
      index += 1
      guarded(open(slices(index)))
    }
  }

  override def close(): Unit = {
    elements match {
      case c: Closeable => c.close()
      case _ =>
    }
    elements = Iterator.empty
    SparkBridge.leaveFile()
  }

  private def open(slice: FileSlice): Unit = {
    val file = slice.file
    val constants = new GenericInternalRow(factory.layout.constants.map(_.of(file)))
    val source = PartitionedFile(constants, SparkPath.fromPathString(file.path), slice.start, slice.length,
      Array.empty, file.modified, file.size)
    SparkBridge.enterFile(source)
    mask = file.mask.map(_.read(conf, s"data file ${file.path} of table ${factory.table}"))
    elements = if (factory.byId) SparkBridge.readingByFieldId(factory.parquet(source)) else factory.parquet(source)
    opened(elements)
  }

  /** The file that is being read. */
  protected def file: DataFile = slices(index).file

  /** A file has been opened, with `mask` if it has one, and nothing of it read yet. */
  protected def opened(elements: Iterator[Any]): Unit = ()

  /** A row at this position was read. */
  protected def requireCounted(position: Long): Unit =
    if (file.rows >= 0 && position >= file.rows) throw ReadErrors.moreRows(file, factory.table, position + 1)

  private def conf: Configuration = factory.conf.get.value

  private def guarded[A](action: => A): A =
    try action
    catch { case e: Exception => throw ReadErrors.translate(e, slices(index).file.path, factory.table) }
}

/** Dead rows are dropped from the batch's vectors, columns reordered by reordering the vectors. */
class BatchReader(factory: SliceReaderFactory, slices: Array[FileSlice])
    extends SliceReader[ColumnarBatch](factory, slices) {
  private val layout = factory.layout
  private var current: ColumnarBatch = _
  private var groups: RowGroups = _
  private lazy val positions = new OnHeapColumnVector(BatchReader.Rows, LongType)

  override def get(): ColumnarBatch = current

  override def next(): Boolean = {
    do {
      val read = advance().asInstanceOf[ColumnarBatch]
      if (read == null) return false
      current = arrange(read)
    } while (current.numRows == 0)
    true
  }

  override protected def opened(batches: Iterator[Any]): Unit =
    groups = if (layout.findsPositions && (layout.asksPosition || mask.isDefined)) RowGroups.of(batches, file, factory.table)
      else null

  private def arrange(read: ColumnarBatch): ColumnarBatch = {
    if (groups != null) groups.take(read.numRows)
    if (groups != null && layout.asksPosition) groups.writeTo(positions, read.numRows)
    if (groups == null && layout.position >= 0 && !layout.findsPositions && read.numRows > 0)
      requireCounted(read.column(layout.position).getLong(read.numRows - 1))
    val dead = if (mask.isEmpty || read.numRows == 0) null else deadRows(mask.get, read)
    if (dead == null && layout.isIdentity) read
    else {
      val vectors = layout.order.map(i => if (i < layout.width) read.column(i) else positions)
      if (dead == null) new ColumnarBatch(vectors, read.numRows)
      else {
        val live = new LiveRows(dead, read.numRows)
        if (live.length > 0) vectors.foreach(live.keepIn)
        new ColumnarBatch(vectors, live.length)
      }
    }
  }

  private def deadRows(mask: Mask, read: ColumnarBatch): Array[Int] =
    if (groups == null) mask.deadAmong(read.column(layout.position).getLong(_), read.numRows)
    else if (groups.positions == null) mask.deadFrom(groups.start, read.numRows)
    else mask.deadAmong(groups.positions(_), read.numRows)
}

object BatchReader {
  /** What Spark's reader puts in a batch unless it is told otherwise. */
  private val Rows = 4096
}

class RowReader(factory: SliceReaderFactory, slices: Array[FileSlice])
    extends SliceReader[InternalRow](factory, slices) {
  private val layout = factory.layout
  private val projection =
    if (layout.isIdentity) None else Some(ProjectingInternalRow(factory.schema, layout.order.toIndexedSeq))
  private var current: InternalRow = _

  override def get(): InternalRow = projection match {
    case Some(p) => p.project(current); p
    case None => current
  }

  override def next(): Boolean = {
    do {
      current = advance().asInstanceOf[InternalRow]
      if (current != null && layout.position >= 0) requireCounted(current.getLong(layout.position))
    } while (current != null && mask.exists(_.isDead(current.getLong(layout.position))))
    current != null
  }
}
