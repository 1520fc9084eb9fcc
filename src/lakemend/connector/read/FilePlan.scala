package lakemend.read

import scala.jdk.CollectionConverters._

import com.fasterxml.jackson.databind.JsonNode
import com.fasterxml.jackson.databind.node.ObjectNode
import lakemend.{Bridge, LakemendException, Wire}
import lakemend.catalog.{MetadataColumns, TableMeta}
import org.apache.spark.sql.catalyst.expressions.GenericInternalRow
import org.apache.spark.sql.connector.expressions.{Expression, Literal, NamedReference}
import org.apache.spark.sql.connector.expressions.filter.{PartitionPredicate, Predicate}
import org.apache.spark.sql.lakemend.SparkBridge
import org.apache.spark.sql.types.{DataType, StructType}

/** What Spark asked a scan for. `predicates` may drop whole files and row groups, but Spark filters rows again;
  * `claimed` are evaluated here alone, file by file. Files whose every row satisfies `without` are not read. */
case class ScanRequest(
    meta: TableMeta,
    predicates: Seq[Predicate],
    claimed: Seq[PartitionPredicate],
    without: Option[ObjectNode] = None) {

  /** The same for two requests that read the same files of the same table. */
  lazy val key: Seq[Any] = Seq(meta.identity, meta.tableId, meta.version, predicates.toSet, without,
    claimed.map(SparkBridge.canonical(_, meta.partitioning.map(_.name))).toSet)

  def plan(): FilePlan = {
    val request = asked()
    without.foreach(request.set[JsonNode]("without", _))
    FilePlan.of(Bridge.call("plan", request), meta).filter(predicates ++ claimed, meta.schema)
  }

  /** The files that may hold one of the keys of every filter. */
  def planFor(keys: Seq[KeyFilter]): FilePlan = copy(predicates = predicates ++ keys.map(_.predicate)).plan()

  /** Counts of rows, and of values of these columns, for each combination of partition values; None: not every file knows. */
  def totals(columns: Seq[TotalsColumn]): Option[Seq[Totals]] = {
    val request = asked()
    val named = request.putArray("columns")
    columns.foreach(column => named.addObject().put("bounds", column.bounds).putArray("path").add(column.name))
    val types = DataFile.partitionTypes(meta)
    Option(Bridge.call("totals", request).get("groups")).filter(_.isArray).map(_.asScala.toSeq.map { group =>
      Totals(DataFile.partition(group, types), group.get("rows").asLong, group.get("files").asLong, group.get("columns"))
    }.filter(group => claimed.forall(_.eval(new GenericInternalRow(group.partition)))))
  }

  private def asked(): ObjectNode = {
    if (meta.version.isEmpty) throw LakemendException("TableNotFoundError", "LAKEMEND_TABLE_NOT_FOUND",
      s"there is no table at ${meta.location}", "nothing has been committed there yet",
      "write to it first, or check the path")
    val request = meta.request()
    request.set[JsonNode]("predicates", Wire.predicates(predicates.filter(FilePruning.isForBrain(_, meta.schema))))
    request
  }
}

/** A data column whose values are counted, with their least and greatest if `bounds`. */
case class TotalsColumn(name: String, bounds: Boolean)

/** What is known of all rows of the same partition values; of each column [count, min, max]. */
case class Totals(partition: Array[Any], rows: Long, files: Long, columns: JsonNode)

/** The files a scan reads. */
class FilePlan(val totalFiles: Long, val files: IndexedSeq[DataFile]) {
  def filter(predicates: Seq[Predicate], schema: StructType): FilePlan = {
    val tests = predicates.flatMap(FilePruning.test(_, schema))
    if (tests.isEmpty) this else new FilePlan(totalFiles, files.filter(file => tests.forall(_(file))))
  }

  def bytes: Long = files.iterator.map(_.size).sum

  /** Rows that are not masked, if every file tells. */
  def liveRows: Option[Long] = if (files.forall(_.rows >= 0)) Some(files.iterator.map(_.liveRows).sum) else None

  /** The first files that hold at least `limit` rows together; all of them if row counts are unknown. */
  def limited(limit: Int): FilePlan = {
    var rows = 0L
    val count = files.iterator.takeWhile { file =>
      val wanted = rows < limit
      rows += math.max(file.liveRows, 0L)
      wanted
    }.size
    new FilePlan(totalFiles, files.take(count))
  }
}

object FilePlan {
  def of(answer: JsonNode, meta: TableMeta): FilePlan = {
    val types = DataFile.partitionTypes(meta)
    val nodes = answer.get("files").asScala.toArray[JsonNode]
    val orders = answer.path("sorted")
    def order(i: Int): Seq[String] = orders.path(i).asScala.map(_.asText).toSeq
    new FilePlan(answer.path("total_files").asLong(nodes.length),
      nodes.indices.map(i => DataFile.of(nodes(i), types, order(i))))
  }
}

/** Predicates that say something about a whole file without asking the brain. */
object FilePruning {
  /** None: the predicate says nothing here.
    * `_file` is a file's path only where the table has no column of that name. */
  def test(predicate: Predicate, schema: StructType): Option[DataFile => Boolean] = predicate match {
    case p: PartitionPredicate => Some(file => p.eval(file.partitionRow))
    case p if (p.name == "IN" || p.name == "=") && !schema.fieldNames.contains(MetadataColumns.File) =>
      p.children.toSeq match {
        case FileColumn() +: values if values.forall(_.isInstanceOf[Literal[_]]) =>
          val paths = values.collect { case l: Literal[_] if l.value != null => l.value.toString }.toSet
          Some(file => paths.contains(file.path))
        case _ => None
      }
    case _ => None
  }

  /** The brain knows the table's own columns and compares strings byte by byte. */
  def isForBrain(predicate: Predicate, schema: StructType): Boolean = !predicate.isInstanceOf[PartitionPredicate] &&
    predicate.references.forall(r => typeOf(r.fieldNames.toSeq, schema).exists(SparkBridge.isBinaryComparable))

  def typeOf(path: Seq[String], schema: StructType): Option[DataType] =
    schema.fields.find(_.name == path.head).map(_.dataType).flatMap {
      case t if path.length == 1 => Some(t)
      case s: StructType => typeOf(path.tail, s)
      case _ => None
    }

  private object FileColumn {
    def unapply(e: Expression): Boolean = e match {
      case r: NamedReference => r.fieldNames.toSeq == Seq(MetadataColumns.File)
      case _ => false
    }
  }
}
