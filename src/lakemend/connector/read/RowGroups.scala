package lakemend.read

import java.lang.reflect.{Field, InvocationHandler, InvocationTargetException, Method, Proxy}
import java.util.PrimitiveIterator

import scala.util.Try

import org.apache.parquet.column.page.PageReadStore
import org.apache.spark.sql.execution.datasources.RecordReaderIterator
import org.apache.spark.sql.execution.datasources.parquet.{SpecificParquetRecordReaderBase, VectorizedParquetRecordReader}
import org.apache.spark.sql.execution.vectorized.WritableColumnVector
import org.apache.spark.sql.internal.SQLConf

/** Where the rows of each batch lie in their file, learned from the row groups that Spark's reader loads.
  *
  * Spark can give positions as a column too, but it boxes every one of them, which costs more than reading most
  * columns does. The reader keeps its row groups to itself: they are listened to through a private field, and where
  * a Spark has no such field (`areHeard`), positions are read as that column. A file that has more rows than the log
  * says is no file to change rows of: with all that are counted dead it would leave the table, and the others with it.
  */
final class RowGroups(file: DataFile, table: String) {
  private var left = 0L
  private var next = 0L
  // There if Parquet skips pages inside the row group: then the rows that come are not all its rows.
  private var chosen: PrimitiveIterator.OfLong = _
  private var offset = 0L

  private var first = 0L
  private var scattered: Array[Long] = _

  /** The reader has given a batch of `count` rows: `start` and `positions` are now those of its rows. */
  def take(count: Int): Unit = {
    // Batches end where row groups end. Anything else would put masks on the wrong rows.
    if (count > left) throw new IllegalStateException(s"a batch of $count rows where the row group has $left left")
    left -= count
    if (chosen == null) {
      first = next
      next += count
      scattered = null
    } else {
      scattered = new Array[Long](count)
      var i = 0
      while (i < count) {
        scattered(i) = offset + chosen.nextLong()
        i += 1
      }
    }
  }

  /** The position of the batch's first row, the others following; only if `positions` is null. */
  def start: Long = first

  /** The position of each row, ascending; null if they follow each other from `start`. */
  def positions: Array[Long] = scattered

  def writeTo(vector: WritableColumnVector, count: Int): Unit = {
    vector.reserve(count)
    if (scattered != null) vector.putLongs(0, count, scattered, 0)
    else {
      var i = 0
      while (i < count) {
        vector.putLong(i, first + i)
        i += 1
      }
    }
  }

  private def enter(group: PageReadStore): Unit = {
    if (left != 0) throw new IllegalStateException(s"a new row group where $left rows of the last one are missing")
    offset = group.getRowIndexOffset.orElseThrow(() => new IllegalStateException("a row group without a position"))
    left = group.getRowCount
    if (file.rows >= 0 && offset + left > file.rows) throw ReadErrors.moreRows(file, table, offset + left)
    next = offset
    chosen = group.getRowIndexes.orElse(null)
  }
}

object RowGroups {
  /** Set to true in a session, positions are read as a column there. */
  val Ignored = "spark.lakemend.read.row-index-column"

  private val fields: Option[(Field, Field)] = Try {
    val reader = classOf[RecordReaderIterator[_]].getDeclaredField("rowReader")
    val groups = classOf[SpecificParquetRecordReaderBase[_]].getDeclaredField("reader")
    reader.setAccessible(true)
    groups.setAccessible(true)
    val load = groups.getType.getMethod(Load)
    require(groups.getType.isInterface && load.getReturnType == classOf[PageReadStore])
    (reader, groups)
  }.toOption

  private def Load = "readNextRowGroup"

  def areHeard: Boolean = fields.isDefined && !SQLConf.get.getConfString(Ignored, "false").toBoolean

  /** Listens to a reader that has not given a batch yet. */
  def of(batches: Iterator[_], file: DataFile, table: String): RowGroups = {
    val (reader, groups) = fields.get
    val parquet = batches match {
      case records: RecordReaderIterator[_] => reader.get(records)
      case other => throw new IllegalStateException(s"batches come from ${other.getClass.getName}")
    }
    require(parquet.isInstanceOf[VectorizedParquetRecordReader], s"${parquet.getClass.getName} does not read batches")
    val found = new RowGroups(file, table)
    val inner = groups.get(parquet)
    groups.set(parquet, Proxy.newProxyInstance(groups.getType.getClassLoader, Array(groups.getType), listener(inner, found)))
    found
  }

  private def listener(inner: AnyRef, found: RowGroups): InvocationHandler = new InvocationHandler {
    override def invoke(proxy: AnyRef, method: Method, arguments: Array[AnyRef]): AnyRef = {
      method.setAccessible(true)
      val result =
        try method.invoke(inner, arguments: _*)
        catch { case e: InvocationTargetException => throw e.getCause }
      result match {
        case group: PageReadStore if method.getName == Load => found.enter(group)
        case _ =>
      }
      result
    }
  }
}
