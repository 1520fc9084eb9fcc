package lakemend.write

import java.util.{LinkedHashMap => JLinkedHashMap}

import scala.collection.mutable.ArrayBuffer

import org.apache.parquet.hadoop.ParquetOutputFormat
import org.apache.spark.SparkEnv
import org.apache.spark.sql.catalyst.{InternalRow, ProjectingInternalRow}
import org.apache.spark.sql.catalyst.expressions.{BoundReference, Expression, UnsafeProjection, UnsafeRow}
import org.slf4j.LoggerFactory

/**
 * The files one task attempt writes: rows go to a file of their partition, which makes way for a new one when it has
 * reached its target size. At most `maxOpen` files are open; the one not used for longest makes way for another
 * partition. Rows sorted by partition therefore need only one. Plain and row-level writes share this class.
 */
class DataFileWriter(layout: FileLayout, task: Int, maxOpen: Int) {
  private val log = LoggerFactory.getLogger(getClass)
  private val paths = new PartitionPath(layout.partitionColumns)
  private val (checkedOrdinals, checks) = NullCheck.of(layout.rowColumns).unzip
  private val data: ProjectingInternalRow =
    if (layout.isIdentity) null else new ProjectingInternalRow(layout.fileSchema, layout.dataOrdinals.toIndexedSeq)
  private val keyOf: UnsafeProjection = UnsafeProjection.create(
    layout.partitionColumns.map(c => BoundReference(c.ordinal, c.dataType, nullable = true): Expression))
  private val partitioned = layout.partitionColumns.nonEmpty
  private val noKey = new UnsafeRow(0)
  private val rowGroupSize = DataFileWriter.rowGroupSize(layout, maxOpen)

  // In order of use, the longest unused first.
  private val open = new JLinkedHashMap[UnsafeRow, DataFile](16, 0.75f, true)
  private val finished = ArrayBuffer.empty[WrittenFile]
  private var current: DataFile = _

  def write(row: InternalRow): Unit = WriteErrors.typed(layout.location) {
    var i = 0
    while (i < checks.length) {
      checks(i)(row, checkedOrdinals(i))
      i += 1
    }
    if (partitioned) {
      val key = keyOf(row)
      if (current == null || key != current.key) current = fileFor(key)
    } else if (current == null) current = fileFor(noKey)
    if (data == null) current.write(row)
    else {
      data.project(row)
      current.write(data)
    }
    if (current.isFull) {
      finish(current)
      current = null
    }
  }

  /** Closes what is open and hands over every file. */
  def finish(): Seq[WrittenFile] = WriteErrors.typed(layout.location) {
    while (!open.isEmpty) finish(open.values.iterator.next())
    current = null
    finished.toSeq
  }

  /** Deletes every file of this attempt; goes on past one that cannot be deleted. */
  def abort(): Unit = {
    open.values.forEach(file => quietly(file.path)(file.discard()))
    finished.foreach(file => quietly(file.path)(DataFile.delete(layout, file.path)))
    open.clear()
    finished.clear()
    current = null
  }

  private def fileFor(key: UnsafeRow): DataFile = {
    val found = open.get(key)
    if (found != null) found
    else {
      if (open.size >= maxOpen) finish(open.values.iterator.next())
      val own = key.copy()
      val file = new DataFile(layout, task, own, paths.directory(own), rowGroupSize)
      open.put(own, file)
      file
    }
  }

  /** A file leaves `open` only once it is closed: until then an abort has to find it there. */
  private def finish(file: DataFile): Unit = {
    val written = file.close(paths)
    finished += written
    open.remove(file.key)
  }

  private def quietly(path: String)(action: => Unit): Unit =
    try action
    catch {
      case e: Exception => log.warn(s"could not delete $path of a failed task at ${layout.location}; vacuum will", e)
    }
}

object DataFileWriter {
  private val Smallest = 1L << 20

  /** Parquet's row group size, or less where the tasks of this process could not all hold one in memory. */
  private def rowGroupSize(layout: FileLayout, maxOpen: Int): Long = {
    val conf = layout.conf.value
    val share = (Runtime.getRuntime.maxMemory * conf.getFloat(ParquetOutputFormat.MEMORY_POOL_RATIO, 0.95f)).toLong
    ParquetOutputFormat.getLongBlockSize(conf).min((share / slots(layout) / maxOpen).max(Smallest))
  }

  private def slots(layout: FileLayout): Int =
    if (layout.localSlots > 0) layout.localSlots
    else {
      val conf = SparkEnv.get.conf
      val cores = conf.getInt("spark.executor.cores", Runtime.getRuntime.availableProcessors)
      (cores / conf.getInt("spark.task.cpus", 1)).max(1)
    }
}
