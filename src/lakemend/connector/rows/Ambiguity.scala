package org.apache.spark.sql.lakemend

import org.apache.spark.sql.SparkSession
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.catalyst.expressions.codegen.Block._
import org.apache.spark.sql.catalyst.expressions.codegen.{CodegenContext, ExprCode, FalseLiteral, JavaCode}
import org.apache.spark.sql.catalyst.plans.logical.{LogicalPlan, MergeRows}
import org.apache.spark.sql.types.{BooleanType, DataType, StringType}
import org.roaringbitmap.longlong.Roaring64Bitmap

/**
 * A MERGE in which several source rows match one target row: no row says which of them wins. Spark stops at the first;
 * this goes on, so that the error can say how many target rows there are, and a few of them.
 */
object Ambiguity {
  /** Spark numbers the target's rows in this column where it would check. */
  private val RowId = "__row_id"

  /** Columns that tell of a row where the condition names none. */
  private val Shown = 3

  def watch(spark: SparkSession, merge: MergeRows, target: LogicalPlan, condition: Option[Expression]): Witness = {
    val row = target.output.find(_.name == RowId).getOrElse(
      throw new IllegalStateException(s"no $RowId in ${target.output.mkString(", ")}"))
    val both = And(merge.isSourceRowPresent, merge.isTargetRowPresent)
    val named = target.output.filter(a => condition.exists(_.references.contains(a)))
    val keys = if (named.nonEmpty) named
      else target.output.filterNot(a => a.name.startsWith("_") || !Cast.canCast(a.dataType, StringType)).take(Shown)
    Witness(And(both, SecondTime(row)), text(keys), Complaints.register(spark, "ambiguous target rows"))
  }

  private def text(keys: Seq[Attribute]): Expression = ConcatWs(Literal(", ") +: keys.map { key =>
    Concat(Seq(Literal(s"${key.name} = "), Coalesce(Seq(Cast(key, StringType, Some("UTC")), Literal("NULL")))))
  })
}

/** True for the second row of a task that brings the same number, and only for the second. */
case class SecondTime(child: Expression) extends UnaryExpression with Nondeterministic {
  @transient private var seen: Seen = _

  override def dataType: DataType = BooleanType
  override def nullable: Boolean = false
  override def stateful: Boolean = true

  override protected def initializeInternal(partitionIndex: Int): Unit = seen = new Seen

  override protected def evalInternal(row: InternalRow): Any = seen.isSecond(child.eval(row).asInstanceOf[Long])

  override protected def doGenCode(ctx: CodegenContext, ev: ExprCode): ExprCode = {
    val type_ = classOf[Seen].getName
    val state = ctx.addMutableState(type_, "seen")
    ctx.addPartitionInitializationStatement(s"$state = new $type_();")
    val number = child.genCode(ctx)
    val code = code"""
      ${number.code}
      boolean ${ev.value} = $state.isSecond(${number.value});"""
    ev.copy(code = code, isNull = FalseLiteral, value = JavaCode.variable(ev.value.code, BooleanType))
  }

  override protected def withNewChildInternal(newChild: Expression): Expression = copy(child = newChild)
}

class Seen {
  private val once = new Roaring64Bitmap
  private val twice = new Roaring64Bitmap

  def isSecond(number: Long): Boolean =
    if (!once.contains(number)) {
      once.addLong(number)
      false
    } else if (twice.contains(number)) false
    else {
      twice.addLong(number)
      true
    }
}
