package lakemend

import java.util.Base64

import com.fasterxml.jackson.databind.JsonNode
import com.fasterxml.jackson.databind.node.{ArrayNode, JsonNodeFactory, ObjectNode}
import org.apache.spark.sql.connector.expressions.{Cast, Expression, Literal, NamedReference}
import org.apache.spark.sql.connector.expressions.filter.{PartitionPredicate, Predicate}
import org.apache.spark.sql.lakemend.SparkBridge
import org.apache.spark.sql.types._
import org.apache.spark.unsafe.types.UTF8String

/** Values and predicates as they travel to and from the brain (docs/architecture.md). */
object Wire {
  private val nodes = JsonNodeFactory.instance

  private val operators = Set("=", "<=>", "<>", "<", "<=", ">", ">=", "IN", "IS_NULL", "IS_NOT_NULL", "STARTS_WITH",
    "ENDS_WITH", "CONTAINS", "AND", "OR", "NOT", "ALWAYS_TRUE", "ALWAYS_FALSE")

  /** A catalyst value as JSON. */
  def value(v: Any, dataType: DataType): JsonNode = v match {
    case null => nodes.nullNode()
    case b: Boolean => nodes.booleanNode(b)
    case n: Byte => nodes.numberNode(n.toInt)
    case n: Short => nodes.numberNode(n.toInt)
    case n: Int => nodes.numberNode(n)
    case n: Long => nodes.numberNode(n)
    case n: Float => if (n.isNaN || n.isInfinite) nodes.textNode(n.toString) else nodes.numberNode(n.toDouble)
    case n: Double => if (n.isNaN || n.isInfinite) nodes.textNode(n.toString) else nodes.numberNode(n)
    case d: Decimal => nodes.textNode(d.toJavaBigDecimal.toPlainString)
    case s: UTF8String =>
      if (isText(s)) nodes.textNode(s.toString)
      else throw new IllegalArgumentException(s"no wire form for a string that is not UTF-8: $s")
    case b: Array[Byte] => nodes.textNode(Base64.getEncoder.encodeToString(b))
    case other => throw new IllegalArgumentException(s"no wire form for $other of type ${dataType.simpleString}")
  }

  /** A JSON value as catalyst's own representation of the type. */
  def internal(node: JsonNode, dataType: DataType): Any =
    if (node == null || node.isNull) null
    else dataType match {
      case BooleanType => node.asBoolean
      case ByteType => node.asInt.toByte
      case ShortType => node.asInt.toShort
      case IntegerType | DateType | _: YearMonthIntervalType => node.asInt
      case LongType | TimestampType | TimestampNTZType | _: DayTimeIntervalType => node.asLong
      case FloatType => if (node.isTextual) node.asText.toFloat else node.asDouble.toFloat
      case DoubleType => if (node.isTextual) node.asText.toDouble else node.asDouble
      case d: DecimalType => Decimal(new java.math.BigDecimal(node.asText), d.precision, d.scale)
      case _: StringType => UTF8String.fromString(node.asText)
      case BinaryType => Base64.getDecoder.decode(node.asText)
      case other => throw new IllegalArgumentException(s"no value of type ${other.simpleString} travels on the wire")
    }

  def predicates(all: Iterable[Predicate]): ArrayNode = {
    val array = nodes.arrayNode()
    all.foreach(p => array.add(predicate(p)))
    array
  }

  /** What cannot be said on the wire becomes UNKNOWN: the brain then keeps every file. */
  def predicate(e: Expression): ObjectNode = e match {
    case _: PartitionPredicate => unknown
    case r: NamedReference => column(r)
    // Before literals: Spark's ALWAYS_TRUE and ALWAYS_FALSE are both.
    case p: Predicate if operators(p.name) =>
      operation(p.name, p.children.toSeq.map(predicate): _*)
    case l: Literal[_] => literal(l)
    case c: Cast if !isCollated(c.dataType) =>
      val node = nodes.objectNode().put("op", "CAST")
      node.set[JsonNode]("type", dataType(c.dataType))
      node.set[JsonNode]("args", nodes.arrayNode().add(predicate(c.expression)))
      node
    case _ => unknown
  }

  def column(r: NamedReference): ObjectNode = {
    texts(nodes.objectNode(), "col", r.fieldNames)
  }

  /** Adds an array of texts to a request. */
  def texts(request: ObjectNode, name: String, all: Iterable[String]): ObjectNode = {
    val array = request.putArray(name)
    all.foreach(array.add)
    request
  }

  /** The same of other values. */
  def values(request: ObjectNode, name: String, all: Iterable[JsonNode]): ObjectNode = {
    val array = request.putArray(name)
    all.foreach(array.add)
    request
  }

  def dataType(t: DataType): JsonNode = Bridge.mapper.readTree(t.json)

  /** A predicate no row satisfies. */
  def never: ObjectNode = operation("ALWAYS_FALSE")

  def operation(name: String, arguments: ObjectNode*): ObjectNode = values(nodes.objectNode().put("op", name), "args", arguments)

  private def unknown: ObjectNode = nodes.objectNode().put("op", "UNKNOWN")

  /** Whether it is UTF-8. Other bytes are values of strings too, but a text of JSON holds characters. */
  def isText(s: UTF8String): Boolean = s.isValid

  // The wire's names of types know nothing of collations.
  private def isCollated(t: DataType): Boolean = t match {
    case s: StringType => !SparkBridge.isBinaryComparable(s)
    case _ => false
  }

  private def literal(l: Literal[_]): ObjectNode =
    if (isCollated(l.dataType)) unknown
    else try {
      val node = nodes.objectNode()
      node.set[JsonNode]("lit", value(l.value, l.dataType))
      node.set[JsonNode]("type", dataType(l.dataType))
      node
    } catch { case _: IllegalArgumentException => unknown }
}
