package lakemend.catalog

import scala.collection.mutable

import com.fasterxml.jackson.databind.JsonNode
import com.fasterxml.jackson.databind.node.ArrayNode
import lakemend.Bridge
import org.apache.spark.sql.connector.catalog.{CatalogPlugin, Identifier, Table, TableChange}
import org.apache.spark.sql.connector.catalog.transactions.Transaction
import org.apache.spark.sql.connector.read.Scan

/**
 * The catalog as one writing statement sees it: every table is loaded once, so source and target are read at one
 * version, what it reads of its target is known when it commits, and columns that schema evolution adds become part of
 * the statement's own commit.
 */
class StatementCatalog(catalog: String, warehouse: Option[String]) extends LakeCatalog {
  private val pinned = mutable.Map.empty[Identifier, TableMeta]
  private val pending = mutable.Map.empty[Identifier, ArrayNode]
  private val reads = mutable.Map.empty[TableKey, Reads]
  private val changing = mutable.Set.empty[Identifier]
  open(catalog, warehouse)

  override def loadTable(ident: Identifier): Table = synchronized {
    table(ident, pinned.getOrElseUpdate(ident, super.loadTable(ident).asInstanceOf[LakeTable].meta))
  }

  /** The table is the target of an UPDATE or MERGE, and stays it when it gets more columns. */
  def changesRows(ident: Identifier): Unit = synchronized(changing += ident)

  override def alterTable(ident: Identifier, changes: TableChange*): Table = synchronized {
    loadTable(ident)
    val all = pending.getOrElseUpdate(ident, Bridge.mapper.createArrayNode())
    all.addAll(TableChanges.toWire(changes))
    val request = pinned(ident).request().put("mode", "alter")
    request.set[JsonNode]("changes", all)
    val evolved = new TableMeta(Bridge.call("stage", request))
    pinned(ident) = evolved
    table(ident, evolved)
  }

  /** Whether the table has got columns that only this statement knows of. */
  def hasEvolved(ident: Identifier): Boolean = synchronized(pending.contains(ident))

  /** One record of reads per table, which may be named in several ways. */
  private def table(ident: Identifier, meta: TableMeta): LakeTable = {
    val table = new LakeTable(meta, reads.getOrElseUpdate(meta.key, new Reads))
    if (changing(ident)) table.forRowChanges else table
  }
}

/** Spark's transaction around one statement. The write commits by itself; there is nothing left to do here. */
class Statement(statementCatalog: StatementCatalog) extends Transaction {
  override def catalog: CatalogPlugin = statementCatalog
  override def commit(): Unit = ()
  override def abort(): Unit = ()
  override def registerScans(scans: Array[Scan]): Boolean = true
  override def close(): Unit = ()
}
