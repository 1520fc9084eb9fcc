package lakemend.rows

import java.io.{ByteArrayInputStream, ByteArrayOutputStream, DataInputStream, DataOutputStream}
import java.util.Base64

import org.roaringbitmap.longlong.Roaring64NavigableMap

/** Row positions of one file, as a 64-bit Roaring bitmap in the portable format. */
class Positions(bitmap: Roaring64NavigableMap = new Roaring64NavigableMap()) {
  def add(position: Long): Unit = bitmap.addLong(position)

  def toBase64: String = {
    bitmap.runOptimize()
    val bytes = new ByteArrayOutputStream()
    bitmap.serializePortable(new DataOutputStream(bytes))
    Base64.getEncoder.encodeToString(bytes.toByteArray)
  }

  private def uniteWith(other: Positions): Positions = {
    bitmap.or(other.map)
    this
  }

  private def map: Roaring64NavigableMap = bitmap
}

object Positions {
  def ofBase64(text: String): Positions = {
    val bitmap = new Roaring64NavigableMap()
    bitmap.deserializePortable(new DataInputStream(new ByteArrayInputStream(Base64.getDecoder.decode(text))))
    new Positions(bitmap)
  }

  /** The positions that several tasks found, per file. */
  def united(parts: Seq[Map[String, Positions]]): Map[String, Positions] =
    parts.flatten.groupMapReduce(_._1)(_._2)((one, other) => one.uniteWith(other))
}
