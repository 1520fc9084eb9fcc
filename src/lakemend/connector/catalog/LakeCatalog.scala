package lakemend.catalog

import java.util.{EnumSet, Map => JMap, Set => JSet}

import scala.jdk.CollectionConverters._

import com.fasterxml.jackson.databind.JsonNode
import com.fasterxml.jackson.databind.node.ObjectNode
import lakemend.{Bridge, LakemendException, Wire}
import lakemend.changes.{LakeChangelog, RowChanges}
import lakemend.joins.Transforms
import org.apache.spark.sql.SparkSession
import org.apache.spark.sql.catalyst.analysis._
import org.apache.spark.sql.connector.catalog._
import org.apache.spark.sql.connector.catalog.functions.UnboundFunction
import org.apache.spark.sql.connector.catalog.procedures.UnboundProcedure
import org.apache.spark.sql.connector.catalog.transactions.{Transaction, TransactionInfo}
import org.apache.spark.sql.lakemend.{LakeProcedure, SparkBridge, Spellings}
import org.apache.spark.sql.util.CaseInsensitiveStringMap
import org.slf4j.LoggerFactory

/**
 * Spark's door to the brain's catalog: namespaces and tables of a warehouse directory, and tables by path
 * (`lake.delta.`/some/path``, or `delta.`/some/path`` where this class is also registered as the catalog `delta`).
 */
class LakeCatalog extends StagingTableCatalog with SupportsNamespaces with FunctionCatalog with ProcedureCatalog
    with TransactionalCatalogPlugin {
  private val log = LoggerFactory.getLogger(getClass)
  private var catalogName: String = _
  private var warehouse: Option[String] = None

  override def initialize(name: String, options: CaseInsensitiveStringMap): Unit =
    open(name, Option(options.get("warehouse")))

  protected def open(name: String, place: Option[String]): Unit = {
    catalogName = name
    warehouse = place
  }

  override def beginTransaction(info: TransactionInfo): Transaction =
    new Statement(new StatementCatalog(catalogName, warehouse))

  override def name: String = catalogName

  /** The id of the one table that `alterTable` may change, where a statement has been analyzed with it. */
  def pinnedId: Option[String] = None

  /** This catalog for an ALTER of the table with that id. */
  def altering(id: String): LakeCatalog = {
    val same = new LakeCatalog { override val pinnedId: Option[String] = Some(id) }
    same.open(catalogName, warehouse)
    same
  }

  /**
   * A statement's view of a catalog is that catalog. Spark looks for a frame's table among those that the statement has
   * resolved, by its catalog, and where it is not found so, takes it with other columns than the frame has. One that is
   * pinned differs: Spark does not see a change of a plan that leaves it equal.
   */
  override def equals(other: Any): Boolean = other match {
    case that: LakeCatalog => name == that.name && warehouse == that.warehouse && pinnedId == that.pinnedId
    case _ => false
  }

  override def hashCode: Int = (name, warehouse, pinnedId).hashCode

  override def defaultNamespace: Array[String] = Array("default")

  override def capabilities: JSet[TableCatalogCapability] = EnumSet.of(
    TableCatalogCapability.SUPPORT_COLUMN_DEFAULT_VALUE,
    TableCatalogCapability.SUPPORT_TABLE_CONSTRAINT,
    TableCatalogCapability.SUPPORTS_CREATE_TABLE_WITH_GENERATED_COLUMNS)

  // ---- functions: those behind partition transforms

  override def listFunctions(namespace: Array[String]): Array[Identifier] =
    if (Transforms.isPlace(namespace)) Transforms.names.map(Identifier.of(namespace, _)).toArray
    else if (namespaceExists(namespace)) Array.empty
    else throw new NoSuchNamespaceException(namespace)

  override def loadFunction(ident: Identifier): UnboundFunction =
    Transforms.find(ident).getOrElse(throw new NoSuchFunctionException(ident))

  // ---- procedures

  override def loadProcedure(ident: Identifier): UnboundProcedure = new LakeProcedure(catalogName, ident)

  override def listProcedures(namespace: Array[String]): Array[Identifier] = LakeProcedure.list(namespace)

  // ---- tables

  override def loadTable(ident: Identifier): Table = load(ident, identity)

  override def loadTable(ident: Identifier, version: String): Table = load(ident, _.put("version", version))

  /** Spark passes microseconds. */
  override def loadTable(ident: Identifier, timestamp: Long): Table = load(ident, _.put("timestamp", timestamp))

  override def changelogStateOptionKeys: JSet[String] = JSet.of("key")

  override def loadChangelog(ident: Identifier, context: ChangelogContext, options: CaseInsensitiveStringMap): Changelog =
    onTable(ident)(new LakeChangelog(RowChanges.load(address(ident), context, Option(options.get("key")))))

  override def tableExists(ident: Identifier): Boolean =
    Bridge.call("catalog", action("table_exists").set("table", address(ident))).path("exists").asBoolean

  override def listTables(namespace: Array[String]): Array[Identifier] = inNamespace(namespace) {
    Bridge.call("catalog", action("list_tables", namespace)).get("tables").asScala
      .map(t => Identifier.of(namespace, t.asText)).toArray
  }

  override def createTable(ident: Identifier, info: TableInfo): Table = {
    val staged = stage("create", ident, info)
    staged.commitStagedChanges()
    // The table is there: that it cannot be read just now does not mean that it was not made.
    try loadTable(ident)
    catch {
      case e: LakemendException =>
        log.warn(s"$ident was created, but cannot be read: ${e.getMessage}")
        staged
    }
  }

  override def stageCreate(ident: Identifier, info: TableInfo): StagedTable = stage("create", ident, info)

  override def stageReplace(ident: Identifier, info: TableInfo): StagedTable = stage("replace", ident, info)

  override def stageCreateOrReplace(ident: Identifier, info: TableInfo): StagedTable =
    stage("create_or_replace", ident, info)

  override def alterTable(ident: Identifier, changes: TableChange*): Table = onTable(ident) {
    val request = Bridge.request()
    request.set[JsonNode]("table", address(ident))
    pinnedId.foreach(request.put("table_id", _))
    changes.foreach {
      case add: TableChange.AddConstraint =>
        // The constraint belongs to the table whose rows are looked at here.
        if (pinnedId.isEmpty) request.put("table_id", load(ident, identity).asInstanceOf[LakeTable].meta.tableId)
        requireTrue(ident, add)
      case _ =>
    }
    request.set[JsonNode]("changes", TableChanges.toWire(changes))
    val altered = new TableMeta(Bridge.call("alter", request))
    Spellings.changed(altered.key.place)
    new LakeTable(altered)
  }

  /** Spark has looked for rows for which the condition is false; those for which it is unknown break it too. */
  private def requireTrue(ident: Identifier, add: TableChange.AddConstraint): Unit = {
    val (name, sql) = TableRequests.check(add.constraint)
    val table = SparkBridge.quoted(catalogName +: ident.namespace.toSeq :+ ident.name)
    val rows = SparkSession.active.read.option("versionAsOf", add.validatedTableVersion).table(table)
    if (!rows.where(s"($sql) IS NOT TRUE").isEmpty) throw LakemendException("ConstraintViolationError",
      "LAKEMEND_CONSTRAINT_VIOLATION", s"the constraint $name cannot be added to $table",
      s"there are rows for which $sql is false or unknown (NULL)", "correct or delete those rows first")
  }

  override def dropTable(ident: Identifier): Boolean = {
    val dropped = Bridge.call("catalog", action("drop_table").set("table", address(ident))).path("dropped").asBoolean
    if (dropped) Spellings.changed(fullName(ident))
    dropped
  }

  override def purgeTable(ident: Identifier): Boolean = dropTable(ident)

  override def renameTable(from: Identifier, to: Identifier): Unit = onTable(from) {
    val target = withoutCatalog(to)
    val request: ObjectNode = action("rename_table").set("table", address(from))
    try Bridge.call("catalog", request.set("to", address(target)))
    catch {
      case e: LakemendException if e.getCondition == "LAKEMEND_TABLE_EXISTS" => throw new TableAlreadyExistsException(target)
    }
    Spellings.changed(fullName(from))
  }

  /** Spark passes the new name as it was written, with the catalog's own name if that stood before it. */
  private def withoutCatalog(ident: Identifier): Identifier =
    if (ident.namespace.headOption.exists(_.equalsIgnoreCase(catalogName)) && ident.namespace.length > 1 &&
        !namespaceExists(ident.namespace)) Identifier.of(ident.namespace.tail, ident.name)
    else ident

  private def fullName(ident: Identifier): Seq[String] = catalogName +: ident.namespace.toSeq :+ ident.name

  private def load(ident: Identifier, pin: ObjectNode => ObjectNode): Table = onTable(ident) {
    val request = Bridge.request()
    request.set[JsonNode]("table", address(ident))
    val meta = new TableMeta(Bridge.call("load", pin(request)))
    Spellings.note(meta.key.place, fullName(ident))
    new LakeTable(meta)
  }

  private def stage(mode: String, ident: Identifier, info: TableInfo): StagedLakeTable = {
    val request = TableRequests.stage(mode, info)
    request.set[JsonNode]("table", address(ident))
    try new StagedLakeTable(mode, new TableMeta(Bridge.call("stage", request)))
    catch {
      case e: LakemendException if e.getCondition == "LAKEMEND_TABLE_EXISTS" =>
        throw new TableAlreadyExistsException(ident)
      case e: LakemendException if e.getCondition == "LAKEMEND_TABLE_NOT_FOUND" => throw missing(ident)
      case e: LakemendException if e.getCondition == "LAKEMEND_NAMESPACE" =>
        throw new NoSuchNamespaceException(ident.namespace)
    }
  }

  private def onTable[T](ident: Identifier)(body: => T): T =
    try body
    catch {
      case e: LakemendException if e.getCondition == "LAKEMEND_TABLE_NOT_FOUND" => throw missing(ident)
    }

  /** Named with its catalog, by which Python knows the table as one of ours. */
  private def missing(ident: Identifier): NoSuchTableException =
    new NoSuchTableException(fullName(ident))

  /** How the brain is told which table is meant. A name with a slash or a scheme is a path. */
  private def address(ident: Identifier): ObjectNode = {
    val node = Bridge.request()
    if (LakeCatalog.isPath(ident)) node.put("path", ident.name)
    else {
      node.put("catalog", catalogName)
      warehouse.foreach(node.put("warehouse", _))
      Wire.texts(node, "namespace", ident.namespace).put("name", ident.name)
    }
  }

  // ---- namespaces

  override def listNamespaces(): Array[Array[String]] = listNamespaces(Array.empty)

  override def listNamespaces(parent: Array[String]): Array[Array[String]] = inNamespace(parent) {
    Bridge.call("catalog", action("list_namespaces", parent)).get("namespaces").asScala
      .map(_.asScala.map(_.asText).toArray).toArray
  }

  override def namespaceExists(namespace: Array[String]): Boolean =
    try { loadNamespaceMetadata(namespace); true }
    catch { case _: NoSuchNamespaceException => false }

  override def loadNamespaceMetadata(namespace: Array[String]): JMap[String, String] = inNamespace(namespace) {
    Bridge.call("catalog", action("namespace", namespace)).get("properties").properties().asScala
      .map(e => e.getKey -> e.getValue.asText).toMap.asJava
  }

  override def createNamespace(namespace: Array[String], metadata: JMap[String, String]): Unit = {
    val request = action("create_namespace", namespace)
    val properties = request.putObject("properties")
    metadata.forEach((k, v) => properties.put(k, v))
    try Bridge.call("catalog", request)
    catch {
      case e: LakemendException if e.getCondition == "LAKEMEND_NAMESPACE" =>
        if (namespaceExists(namespace)) throw new NamespaceAlreadyExistsException(namespace) else throw e
    }
  }

  override def alterNamespace(namespace: Array[String], changes: NamespaceChange*): Unit = inNamespace(namespace) {
    val request = action("alter_namespace", namespace)
    val properties = request.putObject("properties")
    changes.foreach {
      case set: NamespaceChange.SetProperty => properties.put(set.property, set.value)
      case remove: NamespaceChange.RemoveProperty => properties.putNull(remove.property)
    }
    Bridge.call("catalog", request)
  }

  override def dropNamespace(namespace: Array[String], cascade: Boolean): Boolean = inNamespace(namespace) {
    val request = action("drop_namespace", namespace).put("cascade", cascade)
    try Bridge.call("catalog", request).path("dropped").asBoolean
    catch {
      case e: LakemendException if e.payload.contains("not_empty") => throw new NonEmptyNamespaceException(namespace)
    }
  }

  private def inNamespace[T](namespace: Array[String])(body: => T): T =
    try body
    catch {
      case e: LakemendException if e.getCondition == "LAKEMEND_NAMESPACE" && !e.payload.contains("not_empty") =>
        throw new NoSuchNamespaceException(namespace)
    }

  private def action(name: String, namespace: Array[String] = Array.empty): ObjectNode = {
    val request = Bridge.request().put("action", name).put("catalog", catalogName)
    warehouse.foreach(request.put("warehouse", _))
    Wire.texts(request, "namespace", namespace)
  }
}

object LakeCatalog {
  /** Namespaces that stand for "by path", as in `lake.delta.`/some/path``. */
  private val pathNamespaces = Set("delta", "lakemend", "iceberg", "parquet")

  def isPath(ident: Identifier): Boolean = {
    val looksLikePath = ident.name.contains("/") || ident.name.contains(":")
    looksLikePath && (ident.namespace.isEmpty || ident.namespace.length == 1 && pathNamespaces(ident.namespace.head.toLowerCase))
  }
}
