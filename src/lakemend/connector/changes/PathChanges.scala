package lakemend.changes

import java.util.{EnumSet, Optional, Set => JSet}

import lakemend.{Bridge, LakemendException, Options}
import lakemend.catalog.{Columns, PathTables}
import org.apache.spark.sql.connector.catalog._
import org.apache.spark.sql.connector.catalog.ChangelogContext.DeduplicationMode
import org.apache.spark.sql.connector.read.ScanBuilder
import org.apache.spark.sql.lakemend.SparkBridge
import org.apache.spark.sql.util.CaseInsensitiveStringMap

/** `spark.read.format("delta").option("readChangeFeed", true).option("startingVersion", 3).load(path)`. */
class PathChanges(options: CaseInsensitiveStringMap) extends Table with SupportsRead {
  lazy val changes: RowChanges = {
    Options.check(options)
    RowChanges.load(Bridge.request().put("path", PathTables.path(options)), context, Option(options.get("key")))
  }

  override def name: String = s"changes of ${options.get("path")}"
  override def columns: Array[Column] = Columns.fromSchema(changes.schema)
  override def capabilities: JSet[TableCapability] = EnumSet.of(TableCapability.BATCH_READ)

  /** `ChangesInPlan` puts the parts in place of this table before it comes to a scan. */
  override def newScanBuilder(options: CaseInsensitiveStringMap): ScanBuilder =
    throw new IllegalStateException(s"$name was not replaced by its parts")

  private def context: ChangelogContext = {
    val versions = bounds("startingVersion", "endingVersion")
    val times = bounds("startingTimestamp", "endingTimestamp")
    val range = (versions, times) match {
      case ((Some(start), end), (None, None)) =>
        new ChangelogRange.VersionRange(start, Optional.ofNullable(end.orNull), true, true)
      case ((None, None), (Some(start), end)) =>
        val last: Optional[java.lang.Long] = Optional.ofNullable(end.map(t => Long.box(SparkBridge.micros(t))).orNull)
        new ChangelogRange.TimestampRange(SparkBridge.micros(start), last, true, true)
      case _ => throw LakemendException.invalid(s"which changes of ${options.get("path")} to read is not clear",
        "readChangeFeed takes startingVersion and perhaps endingVersion, or startingTimestamp and perhaps endingTimestamp",
        "set startingVersion")
    }
    new ChangelogContext(range, DeduplicationMode.DROP_CARRYOVERS, false)
  }

  private def bounds(start: String, end: String): (Option[String], Option[String]) =
    (Option(options.get(start)), Option(options.get(end)))
}

object PathChanges {
  def areAsked(options: CaseInsensitiveStringMap): Boolean =
    Seq("readChangeFeed", "readChangeData").exists(options.getBoolean(_, false))

  /** A table of the catalog has its own columns, whatever the option says. */
  def refuse(table: String): Nothing = throw LakemendException.invalid(
    s"the option readChangeFeed is not honoured for $table", "a table read by its name gives rows, not changes",
    s"use spark.read.option(\"startingVersion\", …).changes(\"$table\"), or SELECT … FROM $table CHANGES FROM VERSION …")
}
