package org.apache.spark.sql.lakemend

import scala.collection.mutable

import lakemend.catalog.TableMeta
import lakemend.rows.RowOperation
import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.catalyst.expressions.objects.StaticInvoke
import org.apache.spark.sql.catalyst.plans.logical._
import org.apache.spark.sql.catalyst.rules.Rule
import org.apache.spark.sql.catalyst.util.CharVarcharUtils
import org.apache.spark.sql.connector.write.RowLevelOperationTable
import org.apache.spark.sql.execution.datasources.v2.DataSourceV2Relation
import org.apache.spark.sql.internal.SQLConf

/**
 * A statement that changes rows sees the CHAR columns of its target as SELECT does: filled up with blanks, also where
 * another writer has stored them without. Spark fills them up for a DELETE and for no other statement.
 *
 * What prunes files names the columns as they are stored, and says there that they are filled up. Partition values are
 * filled up by the brain, and stand for themselves.
 */
object PaddedTarget extends Rule[LogicalPlan] {
  override def apply(plan: LogicalPlan): LogicalPlan = if (!Padding.isOn) plan else plan.resolveOperators {
    // A MERGE that only inserts looks at its target by the columns it writes.
    case merge: InsertOnlyMerge if merge.query.resolved => merge.table match {
      case LakeRelation(written, _) => merge.withNewQuery(padded(merge.query, _.outputSet == written.outputSet))
      case _ => merge
    }
    case write: ReplaceData if write.operation.isInstanceOf[RowOperation] && write.query.resolved =>
      val query = padded(write.query)
      val stored = new Stored(query)
      write.copy(query = query, condition = stored(write.condition), groupFilterCondition = write.groupFilterCondition.map(stored(_)))
    case write: WriteDelta if write.operation.isInstanceOf[RowOperation] && write.query.resolved =>
      val query = padded(write.query)
      val stored = new Stored(query)
      write.copy(query = query, condition = stored(write.condition), groupFilterCondition = write.groupFilterCondition.map(stored(_)))
  }

  /** The query with its target filled up, wherever it reads it. */
  private def padded(query: LogicalPlan, isTarget: DataSourceV2Relation => Boolean = isChanged): LogicalPlan = {
    val done = query.collect { case Project(columns, r: DataSourceV2Relation) if columns.exists(isPadding) => r }
    // A target that is read twice has the same columns each time.
    val ids = mutable.Map.empty[ExprId, ExprId]
    query.transformUpWithNewOutput { case LakeRelation(r, table) if isTarget(r) && !done.exists(_ eq r) =>
      val columns = r.output.map { a =>
        Padding.of(a, table.meta).fold[NamedExpression](a) { value =>
          Alias(value, a.name)(ids.getOrElseUpdate(a.exprId, NamedExpression.newExprId), a.qualifier, Some(a.metadata))
        }
      }
      val changed = r.output.zip(columns).collect { case (a, made: Alias) => a -> made.toAttribute }
      if (changed.isEmpty) r -> Nil else Project(columns, r) -> changed
    }
  }

  private def isPadding(column: NamedExpression): Boolean = column match {
    case Alias(value, _) => value.exists {
      case call: StaticInvoke => call.functionName == Padding.Function
      case _ => false
    }
    case _ => false
  }

  /** A condition in terms of what is stored. */
  private class Stored(query: LogicalPlan) {
    private val made = AttributeMap(query.collect {
      case Project(columns, LakeRelation(r, table)) if isChanged(r) && columns.exists(isPadding) => columns.collect {
        case a: Alias if a.references.subsetOf(r.outputSet) =>
          val whole = a.references.toSeq match {
            case Seq(column) if table.meta.isPartitionColumn(column.name) => column
            case _ => a.child
          }
          a.toAttribute -> whole
      }
    }.flatten)

    private val plain = AttributeMap(query.collect { case LakeRelation(r, table) if isChanged(r) =>
      r.output.flatMap(a => Padding.of(a, table.meta).map(a -> _))
    }.flatten)

    private def of(a: Attribute): Option[Expression] = made.get(a).orElse(plain.get(a))

    def apply(e: Expression): Expression = if (made.isEmpty && plain.isEmpty) e else e.transformUp {
      case a: Attribute => of(a).getOrElse(a)
      case s: SubqueryExpression if s.isCorrelated =>
        s.withNewPlan(outside(s.plan)).withNewOuterAttrs(s.getOuterAttrs.flatMap(_.references).distinct)
    }

    // Upwards: what a column is made of names it again.
    private def outside(subquery: LogicalPlan): LogicalPlan = subquery.transformUp { case node =>
      node.transformExpressionsUp { case outer @ OuterReference(a: Attribute) =>
        of(a).fold[Expression](outer)(_.transformUp { case column: Attribute => OuterReference(column) })
      }
    }
  }

  private def isChanged(r: DataSourceV2Relation): Boolean = r.table.isInstanceOf[RowLevelOperationTable]
}

/** CHAR values as this session reads them. */
object Padding {
  val Function = "readSidePadding"

  def isOn: Boolean = !SQLConf.get.charVarcharAsString && SQLConf.get.readSideCharPadding

  /** A stored column filled up with blanks; None: it is read as it is. */
  def of(column: Attribute, meta: TableMeta): Option[Expression] =
    if (!isOn || meta.isPartitionColumn(column.name)) None
    else meta.schema.fields.find(_.name == column.name).flatMap { field =>
      val bare = column.withMetadata(field.metadata)
      CharVarcharUtils.addPaddingForScan(bare) match {
        case same: Attribute if same.semanticEquals(column) => None
        case value => Some(value.transform { case a: Attribute if a.semanticEquals(column) => column })
      }
    }
}
