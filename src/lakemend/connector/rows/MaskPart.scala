package lakemend.rows

import java.util.Base64

import com.fasterxml.jackson.databind.JsonNode
import com.fasterxml.jackson.databind.node.JsonNodeFactory
import lakemend.Bridge
import lakemend.read.{InlineMask, Mask, MaskSource, StoredMask, UnitedMask}

/** Newly dead rows of one file: as a task tells them to the driver, and the driver to the brain. */
sealed trait MaskPart {
  /** How many they are. */
  def rows: Long

  /** For messages between tasks and driver; `MaskPart.of` reads it back. */
  def toMessage: JsonNode

  /** For the commit request (docs/architecture.md, `masked`). */
  def toWire: JsonNode

  /** All dead rows of the file, whose mask was `known` before the statement. `location` is the table's. */
  def mask(known: Option[MaskSource], location: String): MaskSource
}

/** The positions themselves. */
final case class InlinePart(rows: Long, serialized: Array[Byte]) extends MaskPart {
  override def toMessage: JsonNode =
    JsonNodeFactory.instance.arrayNode().add(rows).add(Base64.getEncoder.encodeToString(serialized))

  override def toWire: JsonNode = JsonNodeFactory.instance.textNode(Base64.getEncoder.encodeToString(serialized))

  override def mask(known: Option[MaskSource], location: String): MaskSource = {
    val own = InlineMask(rows, Mask.blob(serialized))
    known.fold[MaskSource](own)(old => UnitedMask(old.cardinality + rows, Seq(old, own)))
  }

  def positions: Positions = Positions.of(serialized)
}

object InlinePart {
  def of(positions: Positions): InlinePart = InlinePart(positions.count, positions.serialized)
}

/** In a mask file of the statement's, together with the rows that were dead before: `cardinality` counts all of them.
  * `path` is relative to the table; `last` is the highest position. */
final case class StoredPart(rows: Long, cardinality: Long, last: Long, path: String, offset: Long, length: Int)
    extends MaskPart {
  override def toMessage: JsonNode =
    JsonNodeFactory.instance.arrayNode().add(rows).add(cardinality).add(last).add(path).add(offset).add(length)

  override def toWire: JsonNode = Bridge.request().put("rows", rows).put("cardinality", cardinality).put("last", last)
    .put("path", path).put("offset", offset).put("length", length)

  override def mask(known: Option[MaskSource], location: String): MaskSource =
    StoredMask(cardinality, s"${location.stripSuffix("/")}/$path", offset, length)
}

object MaskPart {
  def of(message: JsonNode): MaskPart =
    if (message.size == 2) InlinePart(message.get(0).asLong, Base64.getDecoder.decode(message.get(1).asText))
    else StoredPart(message.get(0).asLong, message.get(1).asLong, message.get(2).asLong, message.get(3).asText,
      message.get(4).asLong, message.get(5).asInt)
}
