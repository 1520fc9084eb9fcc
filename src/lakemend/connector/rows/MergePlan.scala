package org.apache.spark.sql.lakemend

import lakemend.catalog.LakeTable
import lakemend.rows.RowOperation
import org.apache.spark.sql.SparkSession
import org.apache.spark.sql.catalyst.analysis.NamedRelation
import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.catalyst.planning.ExtractEquiJoinKeys
import org.apache.spark.sql.catalyst.plans.{ExistenceJoin, FullOuter, Inner, JoinType, LeftAnti, LeftOuter, LeftSemi, RightOuter}
import org.apache.spark.sql.catalyst.plans.logical._
import org.apache.spark.sql.catalyst.rules.Rule
import org.apache.spark.sql.connector.write.RowLevelOperationTable
import org.apache.spark.sql.execution.datasources.v2.DataSourceV2Relation
import org.apache.spark.sql.internal.SQLConf
import org.apache.spark.sql.types.BooleanType

/**
 * How the target and the source of a MERGE are joined.
 *
 * Every row of the target stays in one task, whatever the join: Spark is kept from sending the target to several
 * (`WholeTarget`), so that what a task sees of a row is all there is of it.
 *
 * Where it makes no difference which source row a target row meets, or how many, the join asks only whether there is
 * one, and gives each target row once: a MERGE without WHEN MATCHED, or with a sole, unconditional DELETE there. Others
 * may meet one source row at most: see `Ambiguity`.
 *
 * A small source leaves the target where it is. Spark joins by an outer join that keeps the source's rows, and such a
 * join cannot broadcast the source: the whole target is shuffled. Here the rows that match come from a join that can.
 * They are few, since a row is inserted for want of another with its key: an upsert sends them to the source's rows, and
 * the table is read once. Where the rows must stay, those of the source without a match come from an anti join:
 *
 *     T RIGHT OUTER S  =  (T SEMI S) RIGHT OUTER S
 *     T RIGHT OUTER S  =  T INNER S       ∪  S ANTI (T' SEMI S)      where they must stay: see `movesFew`
 *     T FULL OUTER S   =  T LEFT OUTER S  ∪  S ANTI (T' SEMI S)
 *     S ANTI T         =                     S ANTI (T  SEMI S)      a MERGE that only inserts
 *
 * where T' reads the columns of the condition alone. A source that stands in the plan more than once gives the same rows
 * each time: see `Source`.
 */
case class MergePlan(spark: SparkSession) extends Rule[LogicalPlan] {
  override def apply(plan: LogicalPlan): LogicalPlan = plan.transformDown {
    case write: RowLevelWrite => write.operation match {
      case operation: RowOperation => changes(write, operation)
      case _ => write
    }
    case append: AppendData => inserting(append)
    case merge: InsertOnlyMerge => inserting(merge)
  }

  private def inserting(write: V2WriteCommand): LogicalPlan =
    lakeTable(write.table).fold[LogicalPlan](write)(table => write.withNewQuery(inserts(write.query, table.onEnd)))

  private def changes(write: RowLevelWrite, operation: RowOperation): LogicalPlan = {
    var files: Option[Option[Expression]] = None
    val query = write.query.transformDown {
      case merge: MergeRows if !merge.isSourceRowPresent.isInstanceOf[Settled] =>
        merge.child.collectFirst { case join: Join if isTarget(join.left) => join }.fold(merge) { join =>
          val asks = write match {
            case rewrite: ReplaceData => rewrite.groupFilterCondition.isDefined
            case _ => false
          }
          val (rows, source) = planned(merge, join, write, operation, asks)
          files = Some(if (asks && operation.known.keepsUnmatchedFiles) hasMatch(join, source) else None)
          merge.copy(isSourceRowPresent = Settled(merge.isSourceRowPresent), checkCardinality = false,
            child = merge.child.transformDown { case found: Join if found eq join => rows })
        }
    }
    (write, files) match {
      case (rewrite: ReplaceData, Some(filter)) => rewrite.copy(query = query, groupFilterCondition = filter)
      case _ => write.withNewQuery(query)
    }
  }

  /** The join of a MERGE, and its source as it stands there. */
  private def planned(merge: MergeRows, join: Join, write: RowLevelWrite, operation: RowOperation,
      asks: Boolean): (LogicalPlan, LogicalPlan) = {
    operation.learn(_.copy(keepsUnmatchedFiles = leavesUnmatched(merge),
      condition = join.condition.map(on => (if (write.condition.foldable) on else write.condition).sql)))
    val several = asks || join.joinType == FullOuter || join.joinType == RightOuter
    val small = if (hasKeys(join)) Source.small(spark, join.right, operation.onEnd) else None
    if (!merge.checkCardinality) {
      val source = small.getOrElse(if (several) Source.steady(spark, join.right, operation.onEnd) else join.right)
      (once(merge, join.copy(right = source), small.isDefined, write.originalTable), source)
    } else {
      val watch = Ambiguity.watch(spark, merge, join.left, join.condition)
      operation.learn(_.copy(ambiguous = Some(watch)))
      val split = small.flatMap(source => broadcasting(join.copy(right = source), write.originalTable, Filter(watch, _)))
      split.map(_ -> small.get).getOrElse {
        val source = small.getOrElse(if (asks) Source.steady(spark, join.right, operation.onEnd) else join.right)
        (Filter(watch, join.copy(right = source)), source)
      }
    }
  }

  /** Each target row once, with or without a source row beside it, and the source's rows without a match. */
  private def once(merge: MergeRows, join: Join, small: Boolean, table: NamedRelation): LogicalPlan = {
    val (from, values) = join.right.output.partition(a => merge.isSourceRowPresent.references.contains(a))
    def beside(present: Expression): Seq[NamedExpression] = join.right.output.map { a =>
      Alias(if (from.contains(a)) present else Literal(null, a.dataType), a.name)(exprId = a.exprId)
    }
    val there = Literal.TrueLiteral
    val exists = AttributeReference("__matched", BooleanType, nullable = false)()
    def asked(kind: JoinType): Join = if (small) broadcast(join.copy(joinType = kind)) else join.copy(joinType = kind)
    val kept = join.joinType match {
      case Inner | RightOuter => Project(join.left.output ++ beside(there), asked(LeftSemi))
      case _ => Project(join.left.output ++ beside(If(exists, there, Literal(null, BooleanType))), asked(ExistenceJoin(exists)))
    }
    join.joinType match {
      case Inner | LeftOuter => kept
      case RightOuter | FullOuter => Union(Seq(kept, unmatched(join, small, table)))
      case other => throw new IllegalStateException(s"a MERGE is planned with a $other join")
    }
  }

  /** What Spark asks first, to learn which files have something to change: of the same source as the rest. */
  private def hasMatch(join: Join, source: LogicalPlan): Option[Expression] = {
    val condition = join.condition.map(stored(join.left)(_))
    val columns = condition.toSeq.flatMap(_.references).filterNot(join.right.outputSet.contains).distinct
    val hint = if (hasKeys(join) && Source.isSmall(source)) Some(HintInfo(Some(BROADCAST))) else None
    // Without a column of the target there is nothing to ask.
    if (columns.isEmpty) None else Some(Exists(source, outerAttrs = columns, joinCond = condition.toSeq, hint = hint))
  }

  /** Rows of the target without a match are copied, or not asked for. */
  private def leavesUnmatched(merge: MergeRows): Boolean = merge.notMatchedBySourceInstructions.forall {
    case MergeRows.Keep(MergeRows.Copy, Literal.TrueLiteral, _) => true
    case _ => false
  }

  /** The join of a target with a source that is broadcast; `watching` looks at the rows that match. */
  private def broadcasting(join: Join, table: NamedRelation, watching: LogicalPlan => LogicalPlan): Option[LogicalPlan] = {
    def matched(kind: JoinType): LogicalPlan = watching(broadcast(join.copy(joinType = kind)))
    join.joinType match {
      case RightOuter if movesFew(table) =>
        Some(watching(join.copy(left = broadcast(Join(join.left, join.right, LeftSemi, join.condition, JoinHint.NONE)))))
      case RightOuter => Some(Union(Seq(matched(Inner), unmatched(join, small = true, table))))
      case FullOuter => Some(Union(Seq(matched(LeftOuter), unmatched(join, small = true, table))))
      case kind @ (Inner | LeftOuter) => Some(matched(kind))
      case _ => None
    }
  }

  /** Whether rows that match may be sent to other tasks: to as few as they need, and not out of the order of partitions,
    * in which a writer has one file open at a time. */
  private def movesFew(table: NamedRelation): Boolean =
    SQLConf.get.adaptiveExecutionEnabled && lakeTable(table).exists(_.meta.partitioning.isEmpty)

  /** The source's rows that match no row of the target, beside nulls for the target's columns. */
  private def unmatched(join: Join, small: Boolean, table: NamedRelation): LogicalPlan = (place(join.left), table) match {
    case (Some((filters, target)), original: DataSourceV2Relation) =>
      // Under ids of its own, with the metadata columns that a condition may name.
      val again = original.withMetadataColumns().newInstance().asInstanceOf[DataSourceV2Relation]
      val fresh = AttributeMap(target.output.flatMap(a => again.output.find(_.name == a.name).map(a -> _)))
      val made = stored(join.left)
      padded(join, small, again, filters, e => made(e).transform { case a: Attribute => fresh.getOrElse(a, a) })
    case _ => throw new IllegalStateException(s"the target of a MERGE is not found below ${join.left.simpleString(100)}")
  }

  private def padded(
      join: Join, small: Boolean, again: DataSourceV2Relation, filters: Seq[Expression],
      moved: Expression => Expression): LogicalPlan = {
    val source = join.right
    val condition = join.condition.map(moved)
    val columns = again.output.filter(a => condition.exists(_.references.contains(a)))
    val rows = Project(columns, filters.map(moved).reduceOption(And(_, _)).fold[LogicalPlan](again)(Filter(_, again)))
    Project(join.left.output.map(a => Alias(Literal(null, a.dataType), a.name)()) ++ source.output,
      if (small) without(source, rows, condition.get) else Join(source, rows, LeftAnti, condition, JoinHint.NONE))
  }

  private def inserts(query: LogicalPlan, onEnd: (() => Unit) => Unit): LogicalPlan = query.transformDown {
    case join @ Join(source, target, LeftAnti, Some(condition), _)
        if hasKeys(join) && place(target).exists(p => lakeTable(p._2).isDefined) =>
      Source.small(spark, source, onEnd).fold[LogicalPlan](join)(without(_, target, condition))
  }

  /** The source's rows without a match, found with the target rows that have one: no more than the source could match. */
  private def without(source: LogicalPlan, target: LogicalPlan, condition: Expression): LogicalPlan = {
    val found = broadcast(Join(target, source, LeftSemi, Some(condition), JoinHint.NONE))
    Join(source, found, LeftAnti, Some(condition), JoinHint.NONE)
  }

  private def broadcast(join: Join): Join = join.copy(hint = join.hint.copy(rightHint = Some(HintInfo(Some(BROADCAST)))))

  private def hasKeys(join: Join): Boolean = ExtractEquiJoinKeys.unapply(join).isDefined

  private def isTarget(plan: LogicalPlan): Boolean = plan.exists {
    case DataSourceV2Relation(_: RowLevelOperationTable, _, _, _, _, _) => true
    case _ => false
  }

  private def lakeTable(relation: LogicalPlan): Option[LakeTable] = relation match {
    case r: DataSourceV2Relation => Option(r.table).collect { case table: LakeTable => table }
    case _ => None
  }

  /** What says of a target's columns how they are made of those that are stored: CHAR values are filled up with blanks. */
  private def stored(target: LogicalPlan): Expression => Expression = {
    val made = AttributeMap(target.collect { case Project(columns, _) =>
      columns.collect { case a @ Alias(value, _) if value.deterministic && value.references.nonEmpty => a.toAttribute -> value }
    }.flatten)
    def plain(e: Expression): Expression = e.transform { case a: Attribute if made.contains(a) => plain(made(a)) }
    plain
  }

  /** The filters over a relation, where nothing else is done to it but to add columns or to leave some out. */
  private def place(plan: LogicalPlan): Option[(Seq[Expression], DataSourceV2Relation)] = plan match {
    case r: DataSourceV2Relation => Some((Nil, r))
    case Filter(condition, child) if condition.deterministic =>
      place(child).map { case (filters, relation) => (filters :+ condition, relation) }
    case Project(_, child) => place(child)
    case _ => None
  }
}
