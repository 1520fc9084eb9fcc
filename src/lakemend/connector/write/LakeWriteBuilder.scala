package lakemend.write

import com.fasterxml.jackson.databind.node.ObjectNode
import lakemend.{LakemendException, Wire}
import lakemend.catalog.TableMeta
import org.apache.spark.sql.SparkSession
import org.apache.spark.sql.connector.expressions.filter.Predicate
import org.apache.spark.sql.connector.write._

/** What a write does to the rows that are already there; `operation` is its name on the wire. */
sealed abstract class WriteMode(val operation: String)

object WriteMode {
  case object Append extends WriteMode("append")
  case class Overwrite(predicates: Seq[Predicate]) extends WriteMode("overwrite")
  case object OverwriteDynamic extends WriteMode("overwrite_dynamic")
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
    refuseReplaceWhere()
    if (meta.partitioning.nonEmpty && dynamicOverwrite) overwriteDynamicPartitions() else super.truncate()
  }

  /** A table without partitions is one partition, replaced even by no rows: INSERT OVERWRITE leaves what it selects. */
  override def overwriteDynamicPartitions(): WriteBuilder =
    if (meta.partitioning.isEmpty) super.truncate()
    else {
      mode = WriteMode.OverwriteDynamic
      this
    }

  override def build(): Write = new LakeWrite(new WriteJob(meta, info, send), mode)

  /** The option wins over the session's setting, as in Spark's own file sources. */
  private def dynamicOverwrite: Boolean = Option(info.options.get("partitionOverwriteMode"))
    .getOrElse(SparkSession.active.conf.get("spark.sql.sources.partitionOverwriteMode")).equalsIgnoreCase("dynamic")

  /** A full overwrite that was meant for a part of the table would lose the rest. */
  private def refuseReplaceWhere(): Unit = {
    val condition = Option(info.options.get("replaceWhere")).filterNot(_.trim.equalsIgnoreCase("true"))
    condition.foreach(text => throw LakemendException.invalid(
      s"replaceWhere '$text' is not honoured by this kind of write to ${meta.name}",
      "Spark asked for the whole table to be overwritten",
      "use INSERT INTO … REPLACE WHERE …, or df.writeTo(table).overwrite(condition)"))
  }

  private def untold(node: ObjectNode): Boolean = node.findValues("op").stream.anyMatch(_.asText == "UNKNOWN")
}
