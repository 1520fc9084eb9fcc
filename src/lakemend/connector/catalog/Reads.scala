package lakemend.catalog

import java.util.concurrent.ConcurrentLinkedQueue

import scala.jdk.CollectionConverters._

import com.fasterxml.jackson.databind.JsonNode
import com.fasterxml.jackson.databind.node.ObjectNode
import lakemend.Wire
import org.apache.spark.sql.connector.expressions.filter.Predicate

/** The rows of one version of a table for which all predicates hold. */
case class RowsRead(version: Option[String], predicates: Seq[Predicate])

/** A scan tells what it reads, and the record that its table keeps of it. */
trait ReadsTable {
  def table: TableMeta
  def predicatesRead: Seq[Predicate]
  def record: Reads
}

/** What one statement has read of one table; its commit says so, and the conflict rules go by it. */
class Reads {
  private val scans = new ConcurrentLinkedQueue[RowsRead]()

  def add(read: RowsRead): Unit = scans.add(read)

  /** Puts one scan in the place of all: its rows are the only ones on which the statement's outcome rests. */
  def narrowTo(read: RowsRead): Unit = {
    scans.clear()
    scans.add(read)
  }

  /** Adds them to a commit request; one that read nothing keeps its null. */
  def describe(commit: ObjectNode): ObjectNode = {
    val known = scans.asScala.toSeq.distinct
    val all = if (known.exists(_.predicates.isEmpty)) Seq(Nil) else known.map(_.predicates).distinct
    if (all.length == 1) commit.set[JsonNode]("read_predicates", Wire.predicates(all.head))
    else if (all.nonEmpty) commit.putArray("read_predicates").add(all.map(conjunction).reduce(either))
    val base = Option(commit.get("version")).filterNot(_.isNull).map(_.asText)
    val others = known.filter(_.version != base)
    if (others.nonEmpty) {
      val reads = commit.putArray("reads_at")
      others.foreach { read =>
        val node = reads.addObject().put("version", read.version.orNull)
        node.set[JsonNode]("predicates", Wire.predicates(read.predicates))
      }
    }
    commit
  }

  private def conjunction(predicates: Seq[Predicate]): ObjectNode =
    if (predicates.isEmpty) Wire.operation("ALWAYS_TRUE") else predicates.map(Wire.predicate).reduce(Wire.operation("AND", _, _))

  private def either(one: ObjectNode, other: ObjectNode): ObjectNode = Wire.operation("OR", one, other)
}

object Reads {
  /** Of scans that look for the rows a predicate names: what it replaces is said by the predicate itself. */
  object Unrecorded extends Reads {
    override def add(read: RowsRead): Unit = ()
    override def narrowTo(read: RowsRead): Unit = ()
  }
}
