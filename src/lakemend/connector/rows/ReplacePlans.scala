package org.apache.spark.sql.lakemend

import java.util.{HashMap => JHashMap}

import lakemend.catalog.{LakeTable, MetadataColumns}
import lakemend.rows._
import lakemend.write.{Clustering, RowOrder}
import org.apache.spark.sql.catalyst.analysis.RewriteRowLevelCommand
import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.catalyst.plans.{ExistenceJoin, LeftSemi}
import org.apache.spark.sql.catalyst.plans.logical._
import org.apache.spark.sql.catalyst.util.RowDeltaUtils._
import org.apache.spark.sql.classic.SparkSession
import org.apache.spark.sql.connector.write.{RowLevelOperationInfoImpl, RowLevelOperationTable}
import org.apache.spark.sql.connector.write.RowLevelOperation.Command
import org.apache.spark.sql.execution.datasources.{HadoopFsRelation, LogicalRelation}
import org.apache.spark.sql.execution.datasources.v2.{DataSourceV2Relation, DistributionAndOrderingUtils}
import org.apache.spark.sql.types._
import org.apache.spark.sql.util.CaseInsensitiveStringMap

/** The plans of replacements: one write, one commit, whatever the rows that go. */
case class ReplacePlans(spark: SparkSession) extends RewriteRowLevelCommand {
  override def apply(plan: LogicalPlan): LogicalPlan = plan

  /** The rows, each looked at on its way; what was seen is asked for by the commit. */
  def watched(rows: LogicalPlan, predicate: ReplacePredicate, check: Boolean): (LogicalPlan, Option[Watch]) =
    if (!check || predicate.simple == Literal.TrueLiteral) (rows, None)
    else {
      val complaints = Complaints.register(spark, "rows outside of the predicate")
      val named = predicate.columns.toSet
      val (first, others) = rows.output.zip(predicate.relation.output)
        .collect { case (row, column) if isPlain(column.dataType) => (row, column.name) }.partition(c => named(c._2))
      val shown = (first ++ others).take(ReplacePlans.ShownColumns).flatMap { case (row, name) => Seq(Literal(name), row) }
      val sample = StructsToJson(Map("ignoreNullFields" -> "false"), CreateNamedStruct(shown),
        Some(spark.sessionState.conf.sessionLocalTimeZone))
      (Filter(Witness(predicate.brokenBy(rows.output), sample, complaints), rows),
        Some(new Watch(predicate.meta, predicate.sql, complaints)))
    }

  /** Whole files go: a plain write of the rows that come. */
  def byFiles(o: OverwriteByExpression, relation: DataSourceV2Relation, table: LakeTable, rows: LogicalPlan,
      replacement: Replacement): LogicalPlan = {
    val replaced = new ReplacedTable(table, replacement, areFew(rows))
    o.copy(table = relation.copy(table = replaced), deleteExpr = Literal.TrueLiteral, query = gathered(rows))
  }

  /** Rows of some files go. */
  def byPredicate(o: OverwriteByExpression, relation: DataSourceV2Relation, table: LakeTable, rows: LogicalPlan,
      condition: Expression, replacement: Replacement): LogicalPlan =
    rowLevel(o, relation, new ReplacedTable(table, replacement, areFew(rows)), rows, new Target {
      override def going(read: LogicalPlan): LogicalPlan = Filter(condition, read)
      override def judged(read: LogicalPlan): (LogicalPlan, Expression) = (read, EqualNullSafe(condition, Literal.TrueLiteral))
      override def pushed: Expression = condition
      override def ofFiles: Expression = condition
    })

  /** Rows go that match one of those that come. */
  def byRows(o: OverwriteByExpression, relation: DataSourceV2Relation, table: LakeTable, rows: LogicalPlan, by: ByRows): LogicalPlan = {
    // Under ids of their own: the rows stand in the plan twice.
    val keys = Project(rows.output.map(a => Alias(a, a.name)()), rows)
    val condition = by.condition(spark, relation, keys, table.meta)
    val replacement = new Replacement(by.operation, by.text, None, ReplacedFiles.Scanned, Nil)
    rowLevel(o, relation, new ReplacedTable(table, replacement, areFew(rows)), rows, new Target {
      override def going(read: LogicalPlan): LogicalPlan = Join(read, keys, LeftSemi, Some(condition), JoinHint.NONE)
      override def judged(read: LogicalPlan): (LogicalPlan, Expression) = {
        val goes = AttributeReference("__goes", BooleanType, nullable = false)()
        (Join(read, keys, ExistenceJoin(goes), Some(condition), JoinHint.NONE), goes)
      }
      override def pushed: Expression = condition
      override def ofFiles: Expression = {
        val outer = condition.transform { case a: Attribute if relation.outputSet.contains(a) => OuterReference(a) }
        Exists(Filter(outer, keys), condition.references.filter(relation.outputSet.contains).toSeq)
      }
    })
  }

  private trait Target {
    def going(read: LogicalPlan): LogicalPlan
    /** Every row, and whether it goes. */
    def judged(read: LogicalPlan): (LogicalPlan, Expression)
    /** What prunes files and partitions while the scan is planned. */
    def pushed: Expression
    /** Of a row: whether its file must be written again. */
    def ofFiles: Expression
  }

  private def rowLevel(o: OverwriteByExpression, relation: DataSourceV2Relation, table: ReplacedTable, rows: LogicalPlan,
      target: Target): LogicalPlan = {
    val options = merged(o.writeOptions, relation.options)
    val original = relation.copy(table = table, options = options)
    // Spark takes it for a MERGE, which may delete and insert.
    val operation = table.operation(RowLevelOperationInfoImpl(Command.MERGE, options), RowLevelOperationInfoImpl(Command.DELETE, options))
    val operationTable = RowLevelOperationTable(table, operation)
    operation match {
      case masks: MaskRows => writeDelta(original, operationTable, masks, arriving(rows, original, table, sorted = true), target)
      case _ => replaceData(original, operationTable, arriving(rows, original, table, sorted = false), target)
    }
  }

  private def writeDelta(relation: DataSourceV2Relation, table: RowLevelOperationTable, operation: MaskRows, rows: LogicalPlan,
      target: Target): LogicalPlan = {
    val place = resolveRowIdAttrs(relation, operation)
    val metadata = resolveRequiredMetadataAttrs(relation, operation)
    val extra = dedupAttrs(place ++ metadata)
    val going = Project(operationColumn(DELETE_OPERATION) +: (nothing(relation.output) ++ same(extra)),
      target.going(buildRelationWithAttrs(relation, table, metadata, place)))
    val query = Union(going, coming(rows, relation, extra))
    val projections = buildWriteDeltaProjections(query, relation.output, place, metadata)
    WriteDelta(relation.copy(table = table), target.pushed, query, relation, projections)
  }

  private def replaceData(relation: DataSourceV2Relation, table: RowLevelOperationTable, rows: LogicalPlan, target: Target): LogicalPlan = {
    val metadata = resolveRequiredMetadataAttrs(relation, table.operation)
    val (old, goes) = target.judged(buildRelationWithAttrs(relation, table, metadata))
    val judged = Project(operationColumn(COPY_OPERATION) +: (same(relation.output) ++ fated(metadata, goes)), old)
    val query = Union(judged, coming(rows, relation, metadata))
    val projections = buildReplaceDataProjections(query, relation.output, metadata)
    val files = if (groupFilterEnabled) Some(target.ofFiles) else None
    ReplaceData(relation.copy(table = table), target.pushed, query, relation, projections, files)
  }

  private def coming(rows: LogicalPlan, relation: DataSourceV2Relation, extra: Seq[Attribute]): LogicalPlan = {
    val columns = rows.output.zip(relation.output).map { case (row, column) => Alias(row, column.name)() }
    Project(operationColumn(INSERT_OPERATION) +: (columns ++ nothing(extra)), rows)
  }

  private def operationColumn(code: Int): NamedExpression = Alias(Literal(code), OPERATION_COLUMN)()

  private def same(columns: Seq[Attribute]): Seq[NamedExpression] = columns.map(a => Alias(a, a.name)())

  /** Rows that go come by as well: see `Fates`. */
  private def fated(metadata: Seq[Attribute], goes: Expression): Seq[NamedExpression] = metadata.map {
    case a if a.name == MetadataColumns.Position => Alias(If(goes, Fate.deleted(a), a), a.name)(explicitMetadata = Some(a.metadata))
    case a => Alias(a, a.name)()
  }

  private def nothing(columns: Seq[Attribute]): Seq[NamedExpression] = columns.map(a => Alias(Literal(null, a.dataType), a.name)())

  /** Rows come clustered by partition, as in any other write; rows that go or stay are left where they lie. */
  private def arriving(rows: LogicalPlan, relation: DataSourceV2Relation, table: ReplacedTable, sorted: Boolean): LogicalPlan = {
    val named = Project(rows.output.zip(relation.output).map { case (row, column) => Alias(row, column.name)() }, gathered(rows))
    def option(key: String): Option[String] = Option(relation.options.get(key)).orElse(table.meta.properties.get(key))
    val clustering = new Clustering(table.meta, option, table.few)
    DistributionAndOrderingUtils.prepareQuery(new RowOrder(clustering, sorted), named, relation.funCatalog)
  }

  private def areFew(rows: LogicalPlan): Boolean = rows.maxRows.exists(_ <= ReplacePlans.FewRows) || isSmallFile(rows)

  /** Rows of files of known size, which nothing above makes more of. */
  private def isSmallFile(rows: LogicalPlan): Boolean = !rows.exists {
    case _: Project | _: Filter | _: SubqueryAlias | _: View | _: Sort | _: Aggregate => false
    case LogicalRelation(_: HadoopFsRelation, _, _, _, _) => false
    case _ => true
  } && rows.collectLeaves().map(_.stats.sizeInBytes).sum <= ReplacePlans.SmallFile

  /** Few rows go through one task, and so into one file per partition, without a shuffle. */
  private def gathered(rows: LogicalPlan): LogicalPlan = if (areFew(rows)) Repartition(1, shuffle = false, rows) else rows

  private def merged(options: Map[String, String], more: CaseInsensitiveStringMap): CaseInsensitiveStringMap = {
    val all = new JHashMap[String, String](more.asCaseSensitiveMap)
    options.foreach { case (key, value) => all.put(key, value) }
    new CaseInsensitiveStringMap(all)
  }

  private def isPlain(dataType: DataType): Boolean = dataType match {
    case _: NumericType | _: StringType | BooleanType | DateType | TimestampType | TimestampNTZType | BinaryType => true
    case _ => false
  }
}

object ReplacePlans {
  val ShownColumns = 20
  val FewRows = 1000L
  val SmallFile = 4L << 20
}
