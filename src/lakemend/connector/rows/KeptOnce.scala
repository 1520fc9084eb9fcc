package org.apache.spark.sql.lakemend

import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.catalyst.expressions.codegen.Block._
import org.apache.spark.sql.catalyst.expressions.codegen.{CodegenContext, ExprCode, FalseLiteral, JavaCode}
import org.apache.spark.sql.catalyst.plans.logical.{Join, MergeRows, Project}
import org.apache.spark.sql.types.{BooleanType, DataType}
import org.roaringbitmap.longlong.Roaring64Bitmap

/**
 * A MERGE without WHEN MATCHED does nothing to target rows that match, however many source rows they match. One that
 * writes files again copies such a row, and Spark would copy it for every match.
 */
object KeptOnce {
  /** The join with its target rows numbered, and the condition under which a row of it counts; none if all of them do. */
  def of(merge: MergeRows, join: Join): (Join, Option[Expression]) = merge.matchedInstructions match {
    case Seq(MergeRows.Keep(MergeRows.Copy, Literal.TrueLiteral, _)) if !merge.checkCardinality =>
      val number = Alias(MonotonicallyIncreasingID(), "__row_id")()
      val numbered = join.copy(left = Project(join.left.output :+ number, join.left))
      val both = And(merge.isSourceRowPresent, merge.isTargetRowPresent)
      (numbered, Some(Not(And(both, Again(number.toAttribute)))))
    case _ => (join, None)
  }
}

/** True for every row of a task but the first that brings the same number. */
case class Again(child: Expression) extends UnaryExpression with Nondeterministic {
  @transient private var before: Before = _

  override def dataType: DataType = BooleanType
  override def nullable: Boolean = false
  override def stateful: Boolean = true

  override protected def initializeInternal(partitionIndex: Int): Unit = before = new Before

  override protected def evalInternal(row: InternalRow): Any = before.has(child.eval(row).asInstanceOf[Long])

  override protected def doGenCode(ctx: CodegenContext, ev: ExprCode): ExprCode = {
    val type_ = classOf[Before].getName
    val state = ctx.addMutableState(type_, "before")
    ctx.addPartitionInitializationStatement(s"$state = new $type_();")
    val number = child.genCode(ctx)
    val code = code"""
      ${number.code}
      boolean ${ev.value} = $state.has(${number.value});"""
    ev.copy(code = code, isNull = FalseLiteral, value = JavaCode.variable(ev.value.code, BooleanType))
  }

  override protected def withNewChildInternal(newChild: Expression): Expression = copy(child = newChild)
}

class Before {
  private val seen = new Roaring64Bitmap

  /** Whether the number came before; from now on it did. */
  def has(number: Long): Boolean = {
    val known = seen.contains(number)
    if (!known) seen.addLong(number)
    known
  }
}
