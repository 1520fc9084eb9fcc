package org.apache.spark.sql.lakemend

import lakemend.catalog.LakeTable
import lakemend.rows.RowOperation
import org.apache.spark.sql.SparkSession
import org.apache.spark.sql.catalyst.analysis.NamedRelation
import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.catalyst.planning.ExtractEquiJoinKeys
import org.apache.spark.sql.catalyst.plans.{FullOuter, Inner, JoinType, LeftAnti, LeftOuter, LeftSemi, RightOuter}
import org.apache.spark.sql.catalyst.plans.logical._
import org.apache.spark.sql.catalyst.rules.Rule
import org.apache.spark.sql.connector.write.RowLevelOperationTable
import org.apache.spark.sql.execution.datasources.v2.DataSourceV2Relation

/**
 * Keeps the target of a MERGE where it is when the source is small.
 *
 * Spark joins target and source by an outer join that keeps the source's rows, and such a join cannot broadcast the
 * source: the whole target is shuffled. Here the rows that match come from a join that can, and the source's rows without
 * a match from an anti join with the target rows that have one:
 *
 *     T RIGHT OUTER S  =  T INNER S       ∪  S ANTI (T' SEMI S)
 *     T FULL OUTER S   =  T LEFT OUTER S  ∪  S ANTI (T' SEMI S)
 *     S ANTI T         =                     S ANTI (T  SEMI S)      a MERGE that only inserts
 *
 * where T' reads the columns of the condition alone. The source is evaluated more than once: see `SmallSource`.
 */
case class MergePlan(spark: SparkSession) extends Rule[LogicalPlan] {
  override def apply(plan: LogicalPlan): LogicalPlan = plan.transformDown {
    case write: RowLevelWrite => write.operation match {
      case operation: RowOperation => changes(write, operation)
      case _ => write
    }
    case append: AppendData if isLake(append.table) => append.withNewQuery(inserts(append.query))
  }

  private def changes(write: RowLevelWrite, operation: RowOperation): LogicalPlan = {
    var found: Option[(Join, LogicalPlan)] = None
    val query = write.query.transformDown {
      case merge: MergeRows =>
        var checks = merge.checkCardinality
        val child = merge.child.transformDown {
          case whole @ Join(target, _, _, Some(condition), hint) if !decided(hint) && isTarget(target) =>
            val (join, once) = KeptOnce.of(merge, whole)
            val watch = if (checks) Some(Ambiguity.watch(spark, merge, target, condition)) else None
            operation.ambiguous = watch
            operation.keepsUnmatchedFiles = leavesUnmatched(merge)
            operation.condition = Some((if (write.condition.foldable) condition else write.condition).sql)
            checks = false
            val source = if (hasKeys(join)) SmallSource.of(spark, join.right, operation.onEnd) else None
            found = source.map(join -> _)
            planned(join, source, write.originalTable, rows => (watch ++ once).foldLeft(rows)((r, f) => Filter(f, r)))
        }
        merge.copy(checkCardinality = checks, child = child)
    }
    (write, found) match {
      case (rewrite: ReplaceData, Some((join, source))) =>
        rewrite.copy(query = query,
          groupFilterCondition = if (operation.keepsUnmatchedFiles) Some(hasMatch(join, source)) else None)
      case _ => write.withNewQuery(query)
    }
  }

  /** What Spark asks first, to learn which files have something to change: of the same source as the rest. */
  private def hasMatch(join: Join, source: LogicalPlan): Expression = Exists(source,
    outerAttrs = join.condition.get.references.intersect(join.left.outputSet).toSeq, joinCond = Seq(join.condition.get),
    hint = Some(HintInfo(Some(BROADCAST))))

  /** Rows of the target without a match are copied, or not asked for. */
  private def leavesUnmatched(merge: MergeRows): Boolean = merge.notMatchedBySourceInstructions.forall {
    case MergeRows.Keep(MergeRows.Copy, Literal.TrueLiteral, _) => true
    case _ => false
  }

  /** The join of target and source; `watching` looks at the rows that match. */
  private def planned(
      join: Join, source: Option[LogicalPlan], table: NamedRelation, watching: LogicalPlan => LogicalPlan): LogicalPlan = {
    val rewritten = source.flatMap { small =>
      def matched(kind: JoinType): LogicalPlan = watching(broadcast(join.copy(right = small, joinType = kind)))
      join.joinType match {
        case RightOuter => unmatched(join, small, table).map(rest => Union(Seq(matched(Inner), rest)))
        case FullOuter => unmatched(join, small, table).map(rest => Union(Seq(matched(LeftOuter), rest)))
        case kind @ (Inner | LeftOuter) => Some(matched(kind))
        case _ => None
      }
    }
    rewritten.getOrElse(watching(looked(join)))
  }

  /** The source's rows that match no row of the target, beside nulls for the target's columns. */
  private def unmatched(join: Join, source: LogicalPlan, table: NamedRelation): Option[LogicalPlan] =
    (place(join.left), table) match {
      case (Some((filters, target)), original: DataSourceV2Relation) =>
        val again = original.newInstance()
        val fresh = AttributeMap(target.output.flatMap(a => again.output.find(_.name == a.name).map(a -> _)))
        val needed = join.condition.get.references.intersect(join.left.outputSet).toSeq ++ filters.flatMap(_.references)
        // Metadata columns are not among the table's own.
        if (needed.forall(fresh.contains)) Some(padded(join, source, again, filters, fresh)) else None
      case _ => None
    }

  private def padded(
      join: Join, source: LogicalPlan, again: DataSourceV2Relation, filters: Seq[Expression],
      fresh: AttributeMap[AttributeReference]): LogicalPlan = {
    def moved(e: Expression): Expression = e.transform { case a: Attribute => fresh.getOrElse(a, a) }
    val condition = moved(join.condition.get)
    val columns = again.output.filter(condition.references.contains)
    val rows = Project(columns, filters.map(moved).reduceOption(And(_, _)).fold[LogicalPlan](again)(Filter(_, again)))
    Project(join.left.output.map(a => Alias(Literal(null, a.dataType), a.name)()) ++ source.output,
      without(source, rows, condition))
  }

  private def inserts(query: LogicalPlan): LogicalPlan = query.transformDown {
    case join @ Join(source, target, LeftAnti, Some(condition), hint) if !decided(hint) && place(target).exists(p => isLake(p._2)) =>
      val small = if (hasKeys(join)) SmallSource.of(spark, source, _ => ()) else None
      small.fold[LogicalPlan](looked(join))(without(_, target, condition))
  }

  /** The source's rows without a match, found with the target rows that have one: no more than the source could match. */
  private def without(source: LogicalPlan, target: LogicalPlan, condition: Expression): LogicalPlan = {
    val found = broadcast(Join(target, source, LeftSemi, Some(condition), JoinHint.NONE))
    looked(Join(source, found, LeftAnti, Some(condition), JoinHint.NONE))
  }

  private def broadcast(join: Join): Join = join.copy(hint = join.hint.copy(rightHint = Some(HintInfo(Some(BROADCAST)))))

  // A hint that says nothing marks a join as seen: the optimizer comes by several times.
  private def looked(join: Join): Join = join.copy(hint = join.hint.copy(rightHint = Some(HintInfo())))

  private def decided(hint: JoinHint): Boolean = hint.rightHint.isDefined

  private def hasKeys(join: Join): Boolean = ExtractEquiJoinKeys.unapply(join).isDefined

  private def isTarget(plan: LogicalPlan): Boolean = plan.exists {
    case DataSourceV2Relation(_: RowLevelOperationTable, _, _, _, _, _) => true
    case _ => false
  }

  private def isLake(table: LogicalPlan): Boolean = table match {
    case r: DataSourceV2Relation => r.table.isInstanceOf[LakeTable]
    case _ => false
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
