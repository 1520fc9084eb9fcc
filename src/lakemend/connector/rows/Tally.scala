package lakemend.rows

import java.nio.ByteBuffer
import java.nio.charset.StandardCharsets.UTF_8
import java.security.MessageDigest

import scala.collection.mutable

import com.fasterxml.jackson.databind.JsonNode
import com.fasterxml.jackson.databind.node.ObjectNode
import lakemend.Bridge
import org.apache.spark.unsafe.types.UTF8String

/**
 * What a task has seen become of the target's rows. Only what finished tasks say reaches the driver, so a row counts
 * once however often tasks were run.
 *
 * @param places the sum of `Places` over all rows of the target that came, where they are counted
 */
case class Tally(copied: Long = 0, updated: Long = 0, deleted: Long = 0, inserted: Long = 0, places: Option[Long] = None) {
  def +(other: Tally): Tally = Tally(copied + other.copied, updated + other.updated, deleted + other.deleted,
    inserted + other.inserted, (places ++ other.places).reduceOption(_ + _))

  def changesNothing: Boolean = updated == 0 && deleted == 0 && inserted == 0

  def toNode: ObjectNode = {
    val node = Bridge.request().put("copied", copied).put("updated", updated).put("deleted", deleted).put("inserted", inserted)
    places.foreach(sum => node.put("places", java.lang.Long.toUnsignedString(sum)))
    node
  }
}

object Tally {
  def of(node: JsonNode): Tally = Tally(node.get("copied").asLong, node.get("updated").asLong, node.get("deleted").asLong,
    node.get("inserted").asLong, Option(node.get("places")).map(n => java.lang.Long.parseUnsignedLong(n.asText)))

  def sum(all: Iterable[Tally]): Tally = all.foldLeft(Tally())(_ + _)
}

/**
 * A number for each place in the table's files, such that the sum over a set of places tells it from every other: a row
 * that comes twice, or not at all, changes it. `brain/places.py` knows the sum that all live rows of a file have.
 *
 * The number of a place is the product of one for the block of 65,536 rows it lies in and one for its place there, all
 * drawn anew for each statement (by its token), modulo 2^64.
 */
final class Places(token: String) {
  private val within = Places.seed(token, "")
  private val seeds = mutable.HashMap.empty[UTF8String, java.lang.Long]
  private var file: UTF8String = _
  private var seed = 0L
  private var block = -1L
  private var factor = 0L

  def number(path: UTF8String, position: Long): Long = {
    if (file == null || file != path) enter(path)
    val of = position >>> 16
    if (of != block) {
      block = of
      factor = Places.mixed(seed, of)
    }
    factor * Places.mixed(within, position & 0xffff)
  }

  private def enter(path: UTF8String): Unit = {
    val known = seeds.get(path)
    if (known.isDefined) seed = known.get
    else {
      seed = Places.seed(token, path.toString)
      seeds(path.copy()) = seed
    }
    file = path.copy()
    block = -1
  }
}

object Places {
  def seed(token: String, path: String): Long =
    ByteBuffer.wrap(MessageDigest.getInstance("SHA-256").digest(s"$token\n$path".getBytes(UTF_8))).getLong

  /** The finalizer of SplitMix64, made odd. */
  def mixed(seed: Long, n: Long): Long = {
    var z = seed + (n + 1) * 0x9E3779B97F4A7C15L
    z = (z ^ (z >>> 30)) * 0xBF58476D1CE4E5B9L
    z = (z ^ (z >>> 27)) * 0x94D049BB133111EBL
    (z ^ (z >>> 31)) | 1L
  }
}
