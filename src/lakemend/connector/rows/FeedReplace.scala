package lakemend.rows

import lakemend.catalog.TableMeta
import org.apache.spark.sql.connector.write.RowLevelOperationInfo

/**
 * A copy-on-write replacement on a table with a change data feed. Rows that stay are copied, so that the log alone does not
 * tell which rows went: a record does, and for that every row that goes is read.
 */
class ReplaceByRecords(table: ReplacedTable, info: RowLevelOperationInfo, protected val replacement: Replacement)
    extends FeedRows(table.meta, info, table.looks, table.deliver, rewrites = true) with Replaces

object ReplaceByRecords {
  /** Whether a replacement of rows of some files needs it. */
  def isNeeded(meta: TableMeta): Boolean =
    FeedRows.isKept(meta) && meta.write.path("modes").path("delete").asText != "merge-on-read"
}
