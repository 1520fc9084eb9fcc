package lakemend.write

import com.fasterxml.jackson.databind.JsonNode
import com.fasterxml.jackson.databind.node.ObjectNode
import lakemend.Wire
import lakemend.catalog.TableMeta
import lakemend.rows.Replacement
import org.apache.spark.sql.SparkSession
import org.apache.spark.sql.connector.expressions.filter.Predicate
import org.apache.spark.sql.connector.write._
import org.apache.spark.sql.lakemend.ReplaceOptions

/** What a write does to the rows that are already there; `operation` is its name on the wire. */
sealed abstract class WriteMode(val operation: String) {
  /** Says it in the commit request. */
  def describe(request: ObjectNode): Unit = ()
}

object WriteMode {
  case object Append extends WriteMode("append")
  case object OverwriteDynamic extends WriteMode("overwrite_dynamic")
  /** Every row for which the predicates hold. */
  case class Overwrite(predicates: Seq[Predicate]) extends WriteMode("overwrite") {
    override def describe(request: ObjectNode): Unit = request.set[JsonNode]("predicates", Wire.predicates(predicates))
  }
  case class Replace(replacement: Replacement) extends WriteMode(replacement.operation) {
    override def describe(request: ObjectNode): Unit = replacement.describe(request)
  }
}

/**
 * Made by `LakeTable.newWriteBuilder`; Spark then says which rows are replaced. `send` is handed the finished commit
 * request exactly once, after every task has written its files.
 */
class LakeWriteBuilder(meta: TableMeta, info: LogicalWriteInfo, send: ObjectNode => Unit)
    extends WriteBuilder with SupportsOverwriteV2 with SupportsDynamicOverwrite {
  private var mode: WriteMode = WriteMode.Append

  /** Rows go that the predicates hold for; one that cannot be told to the brain must not decide that. */
  override def canOverwrite(predicates: Array[Predicate]): Boolean = !predicates.exists(p => untold(Wire.predicate(p)))

  override def overwrite(predicates: Array[Predicate]): WriteBuilder = {
    mode = WriteMode.Overwrite(predicates.toIndexedSeq)
    this
  }

  override def truncate(): WriteBuilder = {
    if (meta.partitioning.nonEmpty && dynamicOverwrite) overwriteDynamicPartitions() else super.truncate()
  }

  /** A table without partitions is one partition, which no rows leave as it is. */
  override def overwriteDynamicPartitions(): WriteBuilder = {
    mode = WriteMode.OverwriteDynamic
    this
  }

  override def build(): Write = {
    refuseReplaceWhere()
    new LakeWrite(new WriteJob(meta, info, send), mode)
  }

  /** The option wins over the session's setting, as in Spark's own file sources. */
  private def dynamicOverwrite: Boolean = Option(info.options.get("partitionOverwriteMode"))
    .getOrElse(SparkSession.active.conf.get("spark.sql.sources.partitionOverwriteMode")).equalsIgnoreCase("dynamic")

  /** `ReplaceRows` plans every write that has the option: one that gets here all the same would lose or double rows. */
  private def refuseReplaceWhere(): Unit = Option(info.options.get("replaceWhere")).foreach(text => throw ReplaceOptions.error(
    s"replaceWhere '$text' is not honoured by this kind of write to ${meta.name}",
    s"Spark planned it as ${mode.operation}",
    "use INSERT INTO … REPLACE WHERE …, df.writeTo(table).overwrite(condition) or table.replace_where(…); nothing was changed"))

  private def untold(node: ObjectNode): Boolean = node.findValues("op").stream.anyMatch(_.asText == "UNKNOWN")
}
