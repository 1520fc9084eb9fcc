package lakemend.read

import java.io.{EOFException, FileNotFoundException, IOException, InterruptedIOException}
import java.nio.channels.ClosedByInterruptException
import java.nio.file.NoSuchFileException

import lakemend.LakemendException
import org.apache.parquet.ParquetRuntimeException
import org.apache.spark.sql.execution.datasources.SchemaColumnConvertNotSupportedException

/** What a data file did wrong, in the words of the table it belongs to. */
object ReadErrors {
  /** The typed error for a failure while reading a file; anything that is not the file's fault stays as it is. */
  def translate(error: Throwable, file: String, table: String): Throwable = {
    val chain = Iterator.iterate(error)(_.getCause).takeWhile(_ != null).take(20).toSeq
    if (chain.exists(isOurs)) error
    else chain.collectFirst {
      case _: FileNotFoundException | _: NoSuchFileException => missing(file, table)
      case e: SchemaColumnConvertNotSupportedException => wrongType(file, table, e)
      case e @ (_: EOFException | _: ParquetRuntimeException) => unreadable(file, table, e)
      case e @ (_: IOException | _: RuntimeException) if isDecoding(e) => unreadable(file, table, e)
      case e: IOException => storage(file, table, e)
    }.getOrElse(error)
  }

  def unreadableMask(place: String, e: Throwable): LakemendException = (e match {
    case _: FileNotFoundException => LakemendException.corrupt(
      s"the deletion vector $place is missing",
      "the file was deleted, for instance by a vacuum with too short a retention",
      "read the latest version, restore the file from a backup, or restore the table to a version without it")
    case _ => LakemendException.corrupt(s"the deletion vector $place cannot be read", message(e),
      "restore the file from a backup, or restore the table to an older version")
  }).because(e)

  /** The log says how many rows a file has, and it has `found` at least. */
  def moreRows(file: DataFile, table: String, found: Long): LakemendException = LakemendException.corrupt(
    s"the log says that the data file ${file.path} of table $table has ${file.rows} rows, and it has at least $found",
    "the file was written over, or the engine that wrote it counted wrongly",
    "restore the file from a backup, or repair the table with the engine that wrote it")

  private def isOurs(e: Throwable): Boolean = e match {
    case _: LakemendException | _: InterruptedException => true
    case _: InterruptedIOException | _: ClosedByInterruptException => true
    case _ => false
  }

  private def missing(file: String, table: String): Throwable = {
    val e = LakemendException.corrupt(s"table $table needs the data file $file, which is missing",
      "the file was deleted although this version of the table uses it, for instance by a vacuum with too short a retention",
      "read the latest version, restore the file from a backup, or restore the table to a version without it")
    new LakemendException(e.payload, e.getCondition, e.getMessage, isMissingFile = true)
  }

  private def unreadable(file: String, table: String, e: Throwable): Throwable = LakemendException.corrupt(
    s"the data file $file of table $table cannot be read as Parquet", message(e),
    "restore the file from a backup, or restore the table to a version without it").because(e)

  private def wrongType(file: String, table: String, e: SchemaColumnConvertNotSupportedException): Throwable =
    LakemendException.corrupt(
      s"the data file $file of table $table stores column ${e.getColumn} as ${e.getPhysicalType}, " +
        s"which cannot be read as ${e.getLogicalType}",
      "the file was written with another schema than the table's",
      "restore the table to a version without the file, or rewrite the file with the table's types").because(e)

  private def storage(file: String, table: String, e: Throwable): Throwable = LakemendException(
    "StorageError", "LAKEMEND_STORAGE", s"reading the data file $file of table $table failed", message(e),
    "check that the storage can be reached and that Spark may read the file, then run the query again").because(e)

  /** Thrown by code that makes sense of the file's bytes, not by what fetches them. */
  private def isDecoding(e: Throwable): Boolean =
    e.getStackTrace.iterator.map(_.getClassName).find(!_.startsWith("java."))
      .exists(name => decoders.exists(name.startsWith))

  private val decoders = Seq("org.apache.parquet.", "org.apache.spark.sql.execution.datasources.parquet.",
    "org.apache.spark.sql.execution.vectorized.", "org.apache.hadoop.io.compress.", "org.xerial.snappy.",
    "com.github.luben.zstd.", "io.airlift.compress.", "shaded.parquet.")

  private def message(e: Throwable): String = 
    Option(e.getMessage).flatMap(_.linesIterator.nextOption()).getOrElse(e.getClass.getSimpleName)
}
