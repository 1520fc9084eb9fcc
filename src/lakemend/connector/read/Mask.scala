package lakemend.read

import java.io.{ByteArrayInputStream, DataInputStream, IOException, InterruptedIOException}
import java.nio.{ByteBuffer, ByteOrder}
import java.util.zip.CRC32

import scala.collection.mutable

import org.apache.hadoop.conf.Configuration
import org.apache.hadoop.fs.Path
import org.roaringbitmap.longlong.{LongIterator, Roaring64NavigableMap}

/** Where the dead row positions of a data file are kept. */
sealed trait MaskSource extends Serializable {
  def cardinality: Long

  /** Bytes that are to be read from files for it. */
  def storedBytes: Long

  /** Whether it takes a configuration to read. */
  def isStored: Boolean = storedBytes > 0

  /** `owner` names the data file and its table in errors. */
  def positions(conf: => Configuration, owner: String): Roaring64NavigableMap

  def read(conf: => Configuration, owner: String): Mask = new Mask(positions(conf, owner))
}

/** A mask in one piece, of a file that has `rows` rows; -1 if that is not known. */
sealed trait WholeMask extends MaskSource {
  def rows: Long

  /** The blob: magic and bitmap. */
  protected def blob(conf: => Configuration): Array[Byte]

  protected def place: String

  override def positions(conf: => Configuration, owner: String): Roaring64NavigableMap =
    try Mask.positions(blob(conf), cardinality, rows)
    catch {
      case e: InterruptedIOException => throw e
      case e @ (_: IOException | _: RuntimeException) => throw ReadErrors.unreadableMask(s"of $owner, $place,", e)
    }
}

/** The rows of several masks, no row being in two of them. */
final case class UnitedMask(cardinality: Long, parts: Seq[MaskSource]) extends MaskSource {
  override def storedBytes: Long = parts.map(_.storedBytes).sum

  override def positions(conf: => Configuration, owner: String): Roaring64NavigableMap = {
    val all = new Roaring64NavigableMap()
    parts.foreach(part => all.or(part.positions(conf, owner)))
    if (all.getLongCardinality != cardinality)
      throw new IllegalStateException(s"masks of $owner hold ${all.getLongCardinality} rows and should hold $cardinality")
    all
  }
}

final case class InlineMask(cardinality: Long, bytes: Array[Byte], rows: Long = -1) extends WholeMask {
  override def storedBytes: Long = 0
  override protected def blob(conf: => Configuration): Array[Byte] = bytes
  override protected def place: String = "kept in the table's log"
}

/** In a file: big-endian size at `offset`, `length` bytes of blob, big-endian CRC-32 of them. */
final case class StoredMask(cardinality: Long, path: String, offset: Long, length: Int, rows: Long = -1)
    extends WholeMask {
  override def storedBytes: Long = length
  override protected def place: String = s"at byte $offset of $path"

  override protected def blob(conf: => Configuration): Array[Byte] = {
    val file = new Path(path)
    val bytes = new Array[Byte](length + 8)
    val stream = file.getFileSystem(conf).open(file)
    try stream.readFully(offset, bytes) finally stream.close()
    val view = ByteBuffer.wrap(bytes)
    val size = view.getInt(0)
    if (size != length) throw new IOException(s"its size is $size there and $length in the log")
    val crc = new CRC32
    crc.update(bytes, 4, length)
    if (crc.getValue.toInt != view.getInt(length + 4)) throw new IOException("its checksum does not match")
    java.util.Arrays.copyOfRange(bytes, 4, length + 4)
  }
}

/** The dead rows of one file, asked in ascending order of position. */
final class Mask(bitmap: Roaring64NavigableMap) {
  private var dead: LongIterator = bitmap.getLongIterator
  private var next = -1L
  private var last = -1L
  advance()

  def isDead(position: Long): Boolean = {
    seek(position)
    next == position
  }

  /** The row numbers of a batch whose rows lie at `start` and after, that are dead; null if none is. */
  def deadFrom(start: Long, count: Int): Array[Int] = {
    seek(start)
    if (next >= start + count) return null
    val found = new mutable.ArrayBuilder.ofInt
    while (next < start + count) {
      found += (next - start).toInt
      advance()
    }
    found.result()
  }

  /** The same of a batch whose rows lie at `positions`, ascending. */
  def deadAmong(positions: Int => Long, count: Int): Array[Int] = {
    seek(positions(0))
    if (next > positions(count - 1)) return null
    val found = new mutable.ArrayBuilder.ofInt
    var i = 0
    while (i < count) {
      val position = positions(i)
      while (next < position) advance()
      if (next == position) found += i
      i += 1
    }
    val rows = found.result()
    if (rows.isEmpty) null else rows
  }

  private def seek(position: Long): Unit = {
    if (position < last) restart()
    last = position
    while (next < position) advance()
  }

  private def advance(): Unit = next = if (dead.hasNext) dead.next() else Long.MaxValue

  private def restart(): Unit = { dead = bitmap.getLongIterator; advance() }
}

object Mask {
  private val Magic = 1681511377

  /** The positions in a blob, ascending, as many as they should be, and all of them below `rows` unless that is -1. */
  def positions(blob: Array[Byte], cardinality: Long, rows: Long = -1): Roaring64NavigableMap = {
    if (blob.length < 12) throw new IOException(s"it has only ${blob.length} bytes")
    val magic = ByteBuffer.wrap(blob).order(ByteOrder.LITTLE_ENDIAN).getInt(0)
    if (magic != Magic) throw new IOException(s"it begins with $magic instead of $Magic")
    val bitmap = new Roaring64NavigableMap()
    bitmap.deserializePortable(new DataInputStream(new ByteArrayInputStream(blob, 4, blob.length - 4)))
    val found = bitmap.getLongCardinality
    if (found != cardinality) throw new IOException(s"it holds $found rows and should hold $cardinality")
    val last = lastOf(bitmap, cardinality)
    if (rows >= 0 && last >= rows)
      throw new IOException(s"it masks row $last (counted from 0), and the file has $rows rows")
    bitmap
  }

  /** The highest position, -1 if there is none. What a bitmap says of itself is not trusted: each position is seen. */
  private def lastOf(bitmap: Roaring64NavigableMap, cardinality: Long): Long = {
    var (last, count, ascending) = (-1L, 0L, true)
    bitmap.forEach { position =>
      ascending &= position > last
      last = position
      count += 1
    }
    if (!ascending || count != cardinality) throw new IOException("its bitmap is damaged: it holds rows twice or unsorted")
    last
  }

  /** The blob of a bitmap in the portable format. */
  def blob(bitmap: Array[Byte]): Array[Byte] =
    ByteBuffer.allocate(bitmap.length + 4).order(ByteOrder.LITTLE_ENDIAN).putInt(Magic).put(bitmap).array
}
