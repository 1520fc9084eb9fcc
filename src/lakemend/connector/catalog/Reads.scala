package lakemend.catalog

import java.util.concurrent.ConcurrentLinkedQueue

import scala.jdk.CollectionConverters._

import com.fasterxml.jackson.databind.JsonNode
import com.fasterxml.jackson.databind.node.{JsonNodeFactory, ObjectNode}
import lakemend.Wire
import org.apache.spark.sql.connector.expressions.filter.Predicate

/** What one statement has read of one table; its commit says so, and the conflict rules go by it. */
class Reads {
  private val scans = new ConcurrentLinkedQueue[Seq[Predicate]]()

  /** A scan of the rows for which all predicates hold. */
  def add(predicates: Seq[Predicate]): Unit = scans.add(predicates)

  /** Puts one scan in the place of all: its rows are the only ones on which the statement's outcome rests. */
  def narrowTo(predicates: Seq[Predicate]): Unit = {
    scans.clear()
    scans.add(predicates)
  }

  /** Adds them to a commit request; one that read nothing keeps its null. */
  def describe(commit: ObjectNode): ObjectNode = {
    val everything = scans.asScala.exists(_.isEmpty)
    val all = if (everything) Seq(Nil) else scans.asScala.toSeq.distinct
    if (all.length == 1) commit.set[JsonNode]("read_predicates", Wire.predicates(all.head))
    else if (all.nonEmpty) commit.putArray("read_predicates").add(all.map(conjunction).reduce(either))
    commit
  }

  private def conjunction(predicates: Seq[Predicate]): ObjectNode =
    if (predicates.isEmpty) operation("ALWAYS_TRUE") else predicates.map(Wire.predicate).reduce(operation("AND", _, _))

  private def either(one: ObjectNode, other: ObjectNode): ObjectNode = operation("OR", one, other)

  private def operation(name: String, arguments: ObjectNode*): ObjectNode = {
    val node = JsonNodeFactory.instance.objectNode().put("op", name)
    val array = node.putArray("args")
    arguments.foreach(array.add)
    node
  }
}
