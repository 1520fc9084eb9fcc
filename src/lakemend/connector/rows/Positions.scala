package lakemend.rows

import java.io.{ByteArrayInputStream, ByteArrayOutputStream, DataInputStream, DataOutputStream}

import org.roaringbitmap.longlong.Roaring64NavigableMap

/** Row positions of one file, as a 64-bit Roaring bitmap in the portable format. */
final class Positions(bitmap: Roaring64NavigableMap = new Roaring64NavigableMap()) {
  def add(position: Long): Unit = bitmap.addLong(position)

  def count: Long = bitmap.getLongCardinality

  /** The highest of them; there must be one. */
  def last: Long = bitmap.last

  def unite(others: Roaring64NavigableMap): Unit = bitmap.or(others)

  def unite(others: Positions): Unit = others.uniteInto(bitmap)

  def serialized: Array[Byte] = {
    bitmap.runOptimize()
    val bytes = new ByteArrayOutputStream()
    bitmap.serializePortable(new DataOutputStream(bytes))
    bytes.toByteArray
  }

  private def uniteInto(target: Roaring64NavigableMap): Unit = target.or(bitmap)
}

object Positions {
  def of(serialized: Array[Byte]): Positions = {
    val bitmap = new Roaring64NavigableMap()
    bitmap.deserializePortable(new DataInputStream(new ByteArrayInputStream(serialized)))
    new Positions(bitmap)
  }
}
