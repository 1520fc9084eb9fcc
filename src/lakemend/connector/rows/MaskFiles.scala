package lakemend.rows

import java.io.{ByteArrayOutputStream, DataOutputStream}
import java.nio.file.{Files, StandardOpenOption}
import java.util.{Base64, UUID}
import java.util.zip.CRC32

import com.fasterxml.jackson.databind.JsonNode
import lakemend.LakemendException
import lakemend.catalog.TableMeta
import lakemend.read.{Mask, MaskSource}
import lakemend.write.{FileLayout, SharedConf, WriteErrors}
import org.apache.hadoop.conf.Configuration
import org.apache.hadoop.fs.{LocalFileSystem, Path}
import org.apache.spark.broadcast.Broadcast
import org.apache.spark.sql.SparkSession
import org.apache.spark.sql.lakemend.SparkBridge
import org.slf4j.LoggerFactory

/**
 * How the tasks of a statement hand over the rows they found dead. Few positions travel in the task's message. Many go
 * to a mask file, one per task, united there with the rows that were dead before, and only their place travels: the
 * driver never holds them.
 *
 * @param form  what the format wants of a mask file's name and beginning; None: it has no such files
 * @param limit bytes of positions a task may put in its message, those counted that they are to be united with
 * @param known the masks of the statement's files before it
 */
class MaskFiles(
    val location: String,
    form: Option[MaskFileForm],
    limit: Int,
    conf: SharedConf,
    known: Option[Broadcast[Map[String, MaskSource]]]) extends Serializable {

  def writer: TaskMasks = new TaskMasks(this)

  def parts(dead: Seq[(String, Positions)], into: TaskMasks): Seq[(String, MaskPart)] = {
    val inline = dead.map { case (file, positions) => file -> InlinePart.of(positions) }
    val bytes = inline.map { case (file, part) => part.serialized.length + before(file).fold(0L)(_.storedBytes) }.sum
    if (form.isEmpty || bytes <= limit) inline
    else into.write(form.get, dead.map { case (file, positions) =>
      val rows = positions.count
      val before = this.before(file)
      before.foreach(mask => positions.unite(mask.positions(conf.value, s"data file $file")))
      // A scan gives no dead rows: a row that dies twice was read from another version than it is masked in.
      if (positions.count != rows + before.fold(0L)(_.cardinality))
        throw new IllegalStateException(s"rows of $file are to be masked that are masked already")
      MaskedRows(file, rows, positions)
    })
  }

  private def before(file: String): Option[MaskSource] = known.flatMap(_.value.get(file))

  /** The form of files that some task has written already. */
  def requiredForm: MaskFileForm = form.get

  def path(name: String): Path = new Path(s"${location.stripSuffix("/")}/$name")

  def hadoop: Configuration = conf.value
}

/** The dead rows of a file, `rows` of them new. */
case class MaskedRows(file: String, rows: Long, positions: Positions)

case class MaskFileForm(prefix: String, suffix: String, head: Array[Byte]) {
  def newName: String = s"$prefix${UUID.randomUUID}$suffix"
}

object MaskFiles {
  /** A session's own limit for each task, in bytes. */
  val Limit = "spark.lakemend.masks.message-bytes"

  /** Otherwise: what all tasks of a statement may put in their messages together, and the bounds of a task's share. */
  private val Total = 8L << 20
  private val Least = 1L << 10
  private val Most = 64L << 10

  /** `tasks` is how many there will be; `layout` is that of their data files, if they write any. */
  def of(meta: TableMeta, layout: Option[FileLayout], masks: Map[String, MaskSource], tasks: Int): MaskFiles = {
    val spark = SparkSession.active
    val share = (Total / tasks.max(1)).max(Least).min(Most).toInt
    val limit = spark.conf.getOption(Limit).fold(share)(text => text.trim.toIntOption.filter(_ >= 0).getOrElse(
      throw LakemendException.invalid(s"$Limit is '$text'", "it must be a whole number of bytes from 0",
        s"set $Limit to such a number, or unset it")))
    val conf = layout.fold(SharedConf.of(spark.sparkContext, SparkBridge.hadoopConf(spark)))(_.conf)
    val known = if (masks.isEmpty) None else Some(spark.sparkContext.broadcast(masks))
    new MaskFiles(meta.location, form(meta.write.path("mask_file")), limit, conf, known)
  }

  private def form(node: JsonNode): Option[MaskFileForm] =
    if (!node.isObject) None
    else Some(MaskFileForm(node.get("prefix").asText, node.get("suffix").asText,
      Base64.getDecoder.decode(node.get("head").asText)))
}

/** The mask file of one task attempt, if it comes to that. */
class TaskMasks(files: MaskFiles) {
  private val log = LoggerFactory.getLogger(getClass)
  private var name: Option[String] = None

  /** Relative to the table. */
  def path: Option[String] = name

  def parts(dead: Seq[(String, Positions)]): Seq[(String, MaskPart)] = files.parts(dead, this)

  /** In the file: `head`, then for each mask its size, its blob (see `Mask`) and the blob's CRC-32, big-endian. */
  def write(form: MaskFileForm, masks: Seq[MaskedRows]): Seq[(String, MaskPart)] = {
    val bytes = new ByteArrayOutputStream()
    val out = new DataOutputStream(bytes)
    name = Some(form.newName)
    out.write(form.head)
    val parts = masks.map { masked =>
      val blob = Mask.blob(masked.positions.serialized)
      val offset = bytes.size
      val crc = new CRC32
      crc.update(blob)
      out.writeInt(blob.length)
      out.write(blob)
      out.writeInt(crc.getValue.toInt)
      masked.file -> StoredPart(masked.rows, masked.positions.count, masked.positions.last, name.get, offset, blob.length)
    }
    WriteErrors.typed(files.location)(put(bytes.toByteArray))
    parts
  }

  /** Past the checksum files and permission processes of Hadoop's local file system, as data files are written. */
  private def put(bytes: Array[Byte]): Unit = {
    val path = files.path(name.get)
    path.getFileSystem(files.hadoop) match {
      case local: LocalFileSystem => Files.write(local.pathToFile(path).toPath, bytes, StandardOpenOption.CREATE_NEW)
      case other =>
        val stream = other.create(path, false)
        try stream.write(bytes) finally stream.close()
    }
  }

  def abort(): Unit = name.foreach { file =>
    val path = files.path(file)
    try path.getFileSystem(files.hadoop) match {
      case local: LocalFileSystem => Files.deleteIfExists(local.pathToFile(path).toPath)
      case other => other.delete(path, false)
    } catch {
      case e: Exception => log.warn(s"could not delete the mask file $path of a failed task; vacuum will", e)
    }
  }
}
