package lakemend.changes

import org.apache.spark.sql.SparkSession
import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.catalyst.expressions.aggregate.{Count, Max, Sum}
import org.apache.spark.sql.catalyst.plans.logical._
import org.apache.spark.sql.catalyst.rules.Rule
import org.apache.spark.sql.connector.catalog.Changelog._
import org.apache.spark.sql.execution.datasources.v2.{ChangelogTable, DataSourceV2Relation}
import org.apache.spark.sql.types.{BooleanType, IntegerType, StructField, StructType}
import org.apache.spark.sql.util.CaseInsensitiveStringMap

/**
 * Puts the work that changes need in place of the relation: copied rows are dropped, and the two halves of an update
 * are found by the key columns. Only the parts that need it pass through it; a version with a change data feed never
 * does.
 */
case class ChangesInPlan(spark: SparkSession) extends Rule[LogicalPlan] {
  override def apply(plan: LogicalPlan): LogicalPlan = plan.resolveOperators {
    case r: DataSourceV2Relation => r.table match {
      case ChangelogTable(log: LakeChangelog, _, _) => new ChangesPlan(log.changes).under(r.output)
      case path: PathChanges => new ChangesPlan(path.changes).under(r.output)
      case _ => r
    }
  }
}

/** The plan of some changes. */
class ChangesPlan(changes: RowChanges) {
  import RowChanges._

  /** With the output of the relation it stands for. */
  def under(output: Seq[AttributeReference]): LogicalPlan = {
    val compared = either(read(changes.of(Pairable)), read(changes.of(Mixed)).map(net(_, across = false)))
    val plain = read(changes.of(Plain))
    val rows =
      if (changes.across) either(plain, compared).map(net(_, across = true)).map(paired)
      else either(plain, compared.map(paired))
    val plan = rows.getOrElse(relation(IndexedSeq.empty))
    Project(output.zip(plan.output).map { case (asked, found) => Alias(found, asked.name)(asked.exprId, asked.qualifier) },
      plan)
  }

  private def read(files: IndexedSeq[ChangedFile]): Option[LogicalPlan] =
    if (files.isEmpty) None else Some(relation(files))

  private def relation(files: IndexedSeq[ChangedFile]): LogicalPlan =
    DataSourceV2Relation.create(new ChangesPart(changes, files), None, None, CaseInsensitiveStringMap.empty)

  private def either(one: Option[LogicalPlan], other: Option[LogicalPlan]): Option[LogicalPlan] =
    (one ++ other).reduceOption((left, right) => Union(Seq(left, right)))

  /** Rows that were deleted and inserted equally often are gone; of the others, as many as the difference are left. */
  private def net(plan: LogicalPlan, across: Boolean): LogicalPlan = {
    val columns = plan.output.dropRight(3)
    val image = Alias(RowImage(CreateStruct(columns)), "image")()
    val sign = Alias(If(isInserted(plan), Literal(1L), Literal(-1L)), "sign")()
    val signed = Project(Seq(image, sign, named(plan, Version), named(plan, Timestamp)), plan)
    val sum = Alias(Sum(sign.toAttribute).toAggregateExpression(), "net")()
    val gained = GreaterThan(sum.toAttribute, Literal(0L))
    val (summed, version, timestamp) =
      if (across) acrossVersions(signed, image.toAttribute, sign.toAttribute, sum, gained)
      else withinVersion(signed, image.toAttribute, sum)
    val changed = Filter(Not(EqualTo(sum.toAttribute, Literal(0L))), summed)
    val repeated = Generate(ReplicateRows(Seq(Abs(sum.toAttribute), Literal(true))), Nil, outer = false, None,
      Seq(AttributeReference("again", BooleanType)()), changed)
    val row = RowOfImage(image.toAttribute, StructType(columns.map(c => StructField(c.name, c.dataType))))
    Project(
      columns.indices.map(i => Alias(GetStructField(row, i), columns(i).name)()) ++ Seq(
        Alias(If(gained, Literal(CHANGE_TYPE_INSERT), Literal(CHANGE_TYPE_DELETE)), Type)(),
        Alias(version, Version)(), Alias(timestamp, Timestamp)()),
      repeated)
  }

  private def withinVersion(plan: LogicalPlan, image: Attribute, sum: Alias): (LogicalPlan, Expression, Expression) = {
    val Seq(_, _, version, timestamp) = plan.output
    val time = Alias(Max(timestamp).toAggregateExpression(), Timestamp)()
    (Aggregate(Seq(image, version), Seq(image, version, sum, time), plan), version, time.toAttribute)
  }

  /** A row counts as of when it was last inserted or last deleted, whichever it is in the end. */
  private def acrossVersions(plan: LogicalPlan, image: Attribute, sign: Attribute, sum: Alias, gained: Expression)
      : (LogicalPlan, Expression, Expression) = {
    val stamps = plan.output.drop(2).map { stamp =>
      Seq(1L, -1L).map { wanted =>
        val ofSign = If(EqualTo(sign, Literal(wanted)), stamp, Literal(null, stamp.dataType))
        Alias(Max(ofSign).toAggregateExpression(), s"${stamp.name} $wanted")()
      }
    }
    // Times grow with versions, so that the last version and the last time are of the same commit.
    val Seq(version, timestamp) = stamps.map { case Seq(in, out) => If(gained, in.toAttribute, out.toAttribute) }
    (Aggregate(Seq(image), Seq(image, sum) ++ stamps.flatten, plan), version, timestamp)
  }

  /** A row deleted and a row inserted under one key are the images of an update, if they are the only ones. */
  private def paired(plan: LogicalPlan): LogicalPlan = if (changes.key.isEmpty) plan else {
    val kind = named(plan, Type)
    val key = changes.key.map(name => plan.output(changes.schema.fieldIndex(name)))
    val groups = key ++ (if (changes.across) Nil else Seq(named(plan, Version)))
    val window = WindowSpecDefinition(groups, Nil, SpecifiedWindowFrame(RowFrame, UnboundedPreceding, UnboundedFollowing))
    def count(ofType: String, label: String): Alias = {
      val one = If(EqualTo(kind, Literal(ofType)), Literal(1), Literal(null, IntegerType))
      Alias(WindowExpression(Count(one).toAggregateExpression(), window), label)()
    }
    val (deleted, inserted) = (count(CHANGE_TYPE_DELETE, "deleted"), count(CHANGE_TYPE_INSERT, "inserted"))
    val counted = Window(Seq(deleted, inserted), groups, Nil, plan)
    val isUpdate = (EqualTo(deleted.toAttribute, Literal(1L)) +: EqualTo(inserted.toAttribute, Literal(1L)) +:
      key.map(IsNotNull(_): Expression)).reduce[Expression](And)
    val image = If(EqualTo(kind, Literal(CHANGE_TYPE_INSERT)),
      Literal(CHANGE_TYPE_UPDATE_POSTIMAGE), Literal(CHANGE_TYPE_UPDATE_PREIMAGE))
    Project(plan.output.map {
      case a if a.exprId == kind.exprId => Alias(If(isUpdate, image, kind), Type)()
      case a => a
    }, counted)
  }

  private def isInserted(plan: LogicalPlan): Expression =
    In(named(plan, Type), Seq(Literal(CHANGE_TYPE_INSERT), Literal(CHANGE_TYPE_UPDATE_POSTIMAGE)))

  /** The columns of changes stand last. */
  private def named(plan: LogicalPlan, name: String): Attribute =
    plan.output(plan.output.length - 3 + Seq(Type, Version, Timestamp).indexOf(name))
}
