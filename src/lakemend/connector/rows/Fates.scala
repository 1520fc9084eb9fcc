package org.apache.spark.sql.lakemend

import lakemend.catalog.MetadataColumns
import lakemend.rows.{RewriteFiles, RowOperation}
import org.apache.spark.sql.SparkSession
import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.catalyst.plans.logical._
import org.apache.spark.sql.catalyst.rules.Rule
import org.apache.spark.sql.catalyst.util.RowDeltaUtils._
import org.apache.spark.sql.types.LongType

/** What becomes of a row of the target, said with its position: as it is for one that stays. */
object Fate {
  private val Updated = 1L << 62

  def isDeleted(marked: Long): Boolean = marked < 0

  def isUpdated(marked: Long): Boolean = (marked & Updated) != 0

  def position(marked: Long): Long = if (marked < 0) -1 - marked else marked & ~Updated

  def updated(position: Expression): Expression = BitwiseOr(position, Literal(Updated, LongType))

  def deleted(position: Expression): Expression = Subtract(Literal(-1L, LongType), position)
}

/**
 * In a copy-on-write statement every row of the files that are written again reaches the writer, with what becomes of it:
 * rows that go, which Spark would leave out, and rows that change, which Spark does not tell from those that stay. So
 * the writer can say for each row of these files that it was seen, and seen once.
 */
case class Fates(spark: SparkSession) extends Rule[LogicalPlan] {
  override def apply(plan: LogicalPlan): LogicalPlan = plan.resolveOperators {
    case write: ReplaceData if write.operation.isInstanceOf[RewriteFiles] && write.query.resolved =>
      val query = marked(write.query)
      if (query fastEquals write.query) write else write.copy(query = query)
  }

  private def marked(query: LogicalPlan): LogicalPlan = query match {
    case merge: MergeRows => merges(merge)
    case union: Union => updates(union).getOrElse(union)
    case Project(columns, Filter(Not(EqualNullSafe(condition, Literal.TrueLiteral)), rows)) if isPlain(columns) =>
      Project(columns.map(ofPosition(_, p => If(EqualNullSafe(condition, Literal.TrueLiteral), Fate.deleted(p), p))), rows)
    case Project((operation @ Alias(change: If, OPERATION_COLUMN)) +: columns, rows) if isPlain(columns) =>
      Project(operation +: columns.map(ofPosition(_, p => If(change.predicate, Fate.updated(p), p))), rows)
    // What Spark looks for in the rows that are written: constraints.
    case other: UnaryNode if !other.isInstanceOf[Project] => other.withNewChildren(Seq(marked(other.child)))
    case other => other
  }

  private def merges(merge: MergeRows): MergeRows = {
    val place = merge.output.indexWhere(_.name == MetadataColumns.Position)
    val copy = merge.matchedInstructions.collectFirst { case MergeRows.Keep(MergeRows.Copy, _, output) => output }
    def all(instructions: Seq[MergeRows.Instruction]): Seq[MergeRows.Instruction] = instructions.map {
      case MergeRows.Discard(condition) =>
        MergeRows.Keep(MergeRows.Delete, condition, copy.get.updated(place, Fate.deleted(copy.get(place))))
      case MergeRows.Keep(MergeRows.Update, condition, output) if output(place).isInstanceOf[Attribute] =>
        MergeRows.Keep(MergeRows.Update, condition, output.updated(place, Fate.updated(output(place))))
      case other => other
    }
    val (matched, alone) = (all(merge.matchedInstructions), all(merge.notMatchedBySourceInstructions))
    if (matched == merge.matchedInstructions && alone == merge.notMatchedBySourceInstructions) merge
    else merge.copy(matchedInstructions = matched, notMatchedBySourceInstructions = alone)
  }

  /**
   * An UPDATE whose condition holds a subquery reads the table twice, for rows that change and for rows that stay, and
   * asks the subquery each time. Here both come of one reading, so that a row is the one or the other.
   */
  private def updates(union: Union): Option[LogicalPlan] = union.children match {
    case Seq(Project((_: Alias) +: changed, Filter(condition, rows)), Project((_: Alias) +: kept, Filter(_: Not, same)))
        if (rows fastEquals same) && changed.length == kept.length && kept.forall(_.isInstanceOf[Attribute]) =>
      val changes = Alias(EqualNullSafe(condition, Literal.TrueLiteral), "__changes")()
      val both = Project(rows.output :+ changes, rows)
      def either(one: Expression, other: Expression): Expression = If(changes.toAttribute, one, other)
      val operation = Alias(either(Literal(UPDATE_OPERATION), Literal(COPY_OPERATION)), OPERATION_COLUMN)()
      Some(Project(operation +: changed.zip(kept).map {
        case (value: Attribute, old: Attribute) if value.name == MetadataColumns.Position =>
          Alias(either(Fate.updated(value), old), old.name)(explicitMetadata = Some(old.metadata))
        case (Alias(value, name), old: Attribute) => Alias(either(value, old), name)(explicitMetadata = Some(old.metadata))
        case (value, _) => value
      }, both))
    case _ => None
  }

  /** Positions are not marked yet. */
  private def isPlain(columns: Seq[NamedExpression]): Boolean =
    columns.exists(c => c.isInstanceOf[Attribute] && c.name == MetadataColumns.Position)

  private def ofPosition(column: NamedExpression, mark: Expression => Expression): NamedExpression = column match {
    case a: Attribute if a.name == MetadataColumns.Position => Alias(mark(a), a.name)(explicitMetadata = Some(a.metadata))
    case other => other
  }
}
