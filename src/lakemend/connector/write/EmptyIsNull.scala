package org.apache.spark.sql.lakemend

import lakemend.catalog.TableMeta
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.analysis.EliminateSubqueryAliases
import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.catalyst.expressions.codegen.{CodegenContext, ExprCode}
import org.apache.spark.sql.catalyst.plans.logical._
import org.apache.spark.sql.catalyst.rules.Rule
import org.apache.spark.sql.types.{BinaryType, DataType, StringType}
import org.apache.spark.unsafe.types.UTF8String

/**
 * An empty string, or empty binary, in a partition column is NULL: the log cannot tell them apart. It becomes so as soon
 * as the row is on its way into the table, before constraints and predicates of a replacement look at it. Rows that an
 * UPDATE or MERGE writes become so in their files (`PartitionPath`), and constraints see them so (`ChecksLast`).
 *
 * Columns that are NOT NULL are left alone: their files refuse what is empty.
 */
object EmptyIsNull extends Rule[LogicalPlan] {
  override def apply(plan: LogicalPlan): LogicalPlan = plan.resolveOperators {
    case write: V2WriteCommand if isPlain(write) && write.table.resolved && write.query.resolved && write.outputResolved =>
      LakeRelation.table(EliminateSubqueryAliases(write.table)).fold[LogicalPlan](write)(table => written(write, table.meta))
  }

  private def isPlain(write: V2WriteCommand): Boolean = write match {
    case _: AppendData | _: OverwriteByExpression | _: OverwritePartitionsDynamic => true
    case _ => false
  }

  /** Whether a row may bring a value that the table holds as NULL. */
  def mayBeEmpty(column: Attribute, meta: TableMeta): Boolean =
    meta.schema.fields.find(_.name.equalsIgnoreCase(column.name)).forall(f => f.nullable && meta.isPartitionColumn(f.name)) &&
      (column.dataType match {
        case _: StringType | BinaryType => meta.schema.nonEmpty || meta.isPartitionColumn(column.name)
        case _ => false
      })

  /** Below the filter in which Spark checks constraints, if it is there already. */
  private def written(write: V2WriteCommand, meta: TableMeta): LogicalPlan = write.query match {
    case filter @ Filter(condition, child) if condition.exists(_.isInstanceOf[CheckInvariant]) =>
      nulls(child, meta).fold[LogicalPlan](write) { project =>
        val renamed = AttributeMap(child.output.zip(project.output))
        val moved = condition.transform { case a: Attribute => renamed.getOrElse(a, a) }
        write.withNewQuery(filter.copy(condition = moved, child = project))
      }
    case query => nulls(query, meta).fold[LogicalPlan](write)(write.withNewQuery)
  }

  private def nulls(query: LogicalPlan, meta: TableMeta): Option[Project] = {
    val doubtful = query.output.filter(mayBeEmpty(_, meta))
    if (doubtful.isEmpty || isDone(query)) None
    else Some(Project(query.output.map {
      case a if doubtful.contains(a) => Alias(NullIfEmpty(a), a.name)(explicitMetadata = Some(a.metadata))
      case a => a
    }, query))
  }

  private def isDone(query: LogicalPlan): Boolean = query match {
    case Project(list, child) => list.exists { case Alias(_: NullIfEmpty, _) => true; case _ => false } || isDone(child)
    case _ => false
  }
}

/** NULL for a string or binary without a byte. */
case class NullIfEmpty(child: Expression) extends UnaryExpression {
  override def dataType: DataType = child.dataType
  override def nullable: Boolean = true

  override def eval(row: InternalRow): Any = child.eval(row) match {
    case text: UTF8String if text.numBytes == 0 => null
    case bytes: Array[Byte] if bytes.isEmpty => null
    case value => value
  }

  override protected def doGenCode(ctx: CodegenContext, ev: ExprCode): ExprCode =
    nullSafeCodeGen(ctx, ev, value => {
      val size = if (dataType == BinaryType) s"$value.length" else s"$value.numBytes()"
      s"if ($size == 0) ${ev.isNull} = true; else ${ev.value} = $value;"
    })

  override protected def withNewChildInternal(newChild: Expression): Expression = copy(child = newChild)
}
