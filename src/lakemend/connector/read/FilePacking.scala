package lakemend.read

import scala.collection.mutable.ArrayBuffer

import org.apache.spark.sql.SparkSession
import org.apache.spark.sql.connector.read.InputPartition
import org.apache.spark.sql.execution.datasources.FilePartition
import org.apache.spark.sql.internal.SQLConf

/** A range of a file's bytes: the row groups whose middle lies in it. */
final class FileSlice(val file: DataFile, val start: Long, val length: Long) extends Serializable

/** What one task reads. */
class SlicePartition(val slices: Array[FileSlice]) extends InputPartition

/** Packs files into tasks as Spark packs the files of `spark.read.parquet`, by the same settings: large files are
  * split, small ones share a task, and opening a file counts as reading some bytes. */
object FilePacking {
  def pack(spark: SparkSession, files: Seq[DataFile], splitting: Boolean): Array[InputPartition] = {
    val conf = SQLConf.get
    val openCost = conf.filesOpenCostInBytes
    val maxBytes = FilePartition.maxSplitBytes(spark, files.iterator.map(_.size + openCost).sum)
    val slices = files.flatMap(slice(_, maxBytes, splitting)).sortBy(-_.length)
    val packed = pack(slices, maxBytes, openCost)
    conf.filesMaxPartitionNum.filter(packed.length > _) match {
      case Some(most) =>
        val total = slices.iterator.map(s => BigDecimal(s.length + openCost)).sum
        pack(slices, (total / most).setScale(0, BigDecimal.RoundingMode.UP).toLong, openCost)
      case None => packed
    }
  }

  private def slice(file: DataFile, maxBytes: Long, splitting: Boolean): Seq[FileSlice] =
    if (!splitting || file.size <= maxBytes) Seq(new FileSlice(file, 0, file.size))
    else (0L until file.size by maxBytes).map { start =>
      new FileSlice(file, start, math.min(maxBytes, file.size - start))
    }

  private def pack(slices: Seq[FileSlice], maxBytes: Long, openCost: Long): Array[InputPartition] = {
    val tasks = ArrayBuffer[InputPartition]()
    val current = ArrayBuffer[FileSlice]()
    var bytes = 0L
    slices.foreach { slice =>
      if (current.nonEmpty && bytes + slice.length > maxBytes) {
        tasks += new SlicePartition(current.toArray)
        current.clear()
        bytes = 0
      }
      bytes += slice.length + openCost
      current += slice
    }
    if (current.nonEmpty) tasks += new SlicePartition(current.toArray)
    tasks.toArray
  }
}
