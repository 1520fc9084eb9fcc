package lakemend.write

import java.nio.file.Files
import java.util.UUID

import org.apache.hadoop.conf.Configuration
import org.apache.hadoop.fs.{LocalFileSystem, Path}
import org.apache.parquet.hadoop.{ParquetFileWriter, ParquetOutputFormat, ParquetWriter}
import org.apache.parquet.hadoop.api.WriteSupport
import org.apache.parquet.hadoop.metadata.CompressionCodecName
import org.apache.parquet.hadoop.util.HadoopOutputFile
import org.apache.parquet.io.{DelegatingPositionOutputStream, LocalOutputFile, OutputFile, PositionOutputStream}
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions.UnsafeRow
import org.apache.spark.sql.lakemend.SparkBridge

/**
 * One Parquet file being written, at its final place: there is no rename, a file counts once a commit names it.
 * `key` holds the partition's values; `directory` ends in a slash or is empty.
 */
class DataFile(layout: FileLayout, task: Int, val key: UnsafeRow, directory: String, rowGroupSize: Long) {
  private val conf = layout.conf.value
  private val codec: CompressionCodecName = ParquetOutputFormat.getCompression(conf)
  val path: String = f"${directory}part-$task%05d-${UUID.randomUUID}-${layout.fileTag}${codec.getExtension}.parquet"
  private val output = new MeasuredFile(DataFile.output(layout.path(path), conf))
  private val writer: ParquetWriter[InternalRow] =
    try SparkBridge.withProlepticCalendar {
      new DataFileBuilder(output, new LakeWriteSupport(layout.fileSchema), layout, rowGroupSize)
        .withCompressionCodec(codec).build()
    } catch {
      case e: Throwable =>
        // Nobody else knows of a file that was created and then could not be opened.
        try DataFile.delete(layout, path) catch { case other: Exception => e.addSuppressed(other) }
        throw e
    }
  private var rows = 0L
  private var nextCheck = DataFile.FirstCheck

  def write(row: InternalRow): Unit = {
    writer.write(row)
    rows += 1
  }

  /** Whether the target size, or the number of rows a file may hold, is reached. Looks at the size only now and then, sooner where rows are large. */
  def isFull: Boolean = rows == layout.maxRows || rows >= nextCheck && {
    val size = writer.getDataSize
    val left = layout.targetFileSize - size
    nextCheck = rows + (left / 2 / (size / rows).max(1)).max(1).min(DataFile.MaxUnchecked)
    left <= 0
  }

  def close(paths: PartitionPath): WrittenFile = {
    writer.close()
    WrittenFile(path, output.size, rows, System.currentTimeMillis, paths.values(key),
      FooterStats.of(writer.getFooter, layout.statsColumns))
  }

  /** Closes and deletes; what is open has to be closed before some file systems let it go. */
  def discard(): Unit =
    try writer.close()
    finally DataFile.delete(layout, path)
}

object DataFile {
  private val FirstCheck = 10L
  private val MaxUnchecked = 10000L

  def delete(layout: FileLayout, path: String): Unit = delete(layout.path(path), layout.conf.value)

  /**
   * On a local disk not through Hadoop: it starts a process for each new file and directory to set its permissions, and
   * lays a checksum file beside it.
   */
  private def output(path: Path, conf: Configuration): OutputFile = path.getFileSystem(conf) match {
    case local: LocalFileSystem =>
      val file = local.pathToFile(path).toPath
      Files.createDirectories(file.getParent)
      new LocalOutputFile(file)
    case _ => HadoopOutputFile.fromPath(path, conf)
  }

  private def delete(path: Path, conf: Configuration): Unit = path.getFileSystem(conf) match {
    case local: LocalFileSystem => Files.deleteIfExists(local.pathToFile(path).toPath)
    case other => other.delete(path, false)
  }
}

/** Counts the bytes, so that the size of a closed file is known without asking the store. */
private class MeasuredFile(file: OutputFile) extends OutputFile {
  @volatile var size: Long = 0

  override def create(blockSize: Long): PositionOutputStream = measured(file.create(blockSize))
  override def createOrOverwrite(blockSize: Long): PositionOutputStream = measured(file.createOrOverwrite(blockSize))
  override def supportsBlockSize: Boolean = file.supportsBlockSize
  override def defaultBlockSize: Long = file.defaultBlockSize
  override def getPath: String = file.getPath

  private def measured(stream: PositionOutputStream): PositionOutputStream =
    new DelegatingPositionOutputStream(stream) {
      override def getPos: Long = stream.getPos
      override def close(): Unit = {
        size = size.max(stream.getPos)
        super.close()
      }
    }
}

/** Parquet's builder with the settings `ParquetOutputFormat` would take from the configuration. */
private class DataFileBuilder(
    file: OutputFile, support: WriteSupport[InternalRow], layout: FileLayout, rowGroupSize: Long)
    extends ParquetWriter.Builder[InternalRow, DataFileBuilder](file) {
  import ParquetOutputFormat._

  private val conf = layout.conf.value

  withConf(conf)
  withWriteMode(ParquetFileWriter.Mode.CREATE)
  withRowGroupSize(rowGroupSize)
  withRowGroupRowCountLimit(conf.getInt(BLOCK_ROW_COUNT_LIMIT, Int.MaxValue))
  withMaxPaddingSize(conf.getInt(MAX_PADDING_BYTES, ParquetWriter.MAX_PADDING_SIZE_DEFAULT))
  withPageSize(getPageSize(conf))
  withPageRowCountLimit(conf.getInt(PAGE_ROW_COUNT_LIMIT, 20000))
  withDictionaryPageSize(getDictionaryPageSize(conf))
  withDictionaryEncoding(getEnableDictionary(conf))
  withByteStreamSplitEncoding(getByteStreamSplitEnabled(conf))
  withWriterVersion(getWriterVersion(conf))
  withMinRowCountForPageSizeCheck(getMinRowCountForPageSizeCheck(conf))
  withMaxRowCountForPageSizeCheck(getMaxRowCountForPageSizeCheck(conf))
  withPageWriteChecksumEnabled(getPageWriteChecksumEnabled(conf))
  withColumnIndexTruncateLength(conf.getInt(COLUMN_INDEX_TRUNCATE_LENGTH, 64))
  withStatisticsTruncateLength(conf.getInt(STATISTICS_TRUNCATE_LENGTH, Int.MaxValue))
  withBloomFilterEnabled(getBloomFilterEnabled(conf))
  withAdaptiveBloomFilterEnabled(getAdaptiveBloomFilterEnabled(conf))
  if (getValidation(conf)) enableValidation()
  layout.columnSettings.foreach {
    case (ENABLE_DICTIONARY, column, value) => withDictionaryEncoding(column, value.toBoolean)
    case (BLOOM_FILTER_ENABLED, column, value) => withBloomFilterEnabled(column, value.toBoolean)
    case (BLOOM_FILTER_EXPECTED_NDV, column, value) => withBloomFilterNDV(column, value.toLong)
    case (BLOOM_FILTER_FPP, column, value) => withBloomFilterFPP(column, value.toDouble)
    case _ =>
  }

  override protected def self(): DataFileBuilder = this
  override protected def getWriteSupport(conf: Configuration): WriteSupport[InternalRow] = support
}
