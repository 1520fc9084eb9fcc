package org.apache.spark.sql.lakemend

import org.apache.spark.sql.SparkSession
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions.{BinaryExpression, Expression}
import org.apache.spark.sql.catalyst.expressions.codegen.Block._
import org.apache.spark.sql.catalyst.expressions.codegen.{CodegenContext, ExprCode, FalseLiteral, JavaCode}
import org.apache.spark.sql.types.{BooleanType, DataType}
import org.apache.spark.unsafe.types.UTF8String
import org.apache.spark.util.AccumulatorV2

/**
 * A condition that lets every row through and remembers those for which `violated` is true, with `sample` as their
 * text. The statement's commit asks `Complaints` whether there were any.
 */
case class Witness(violated: Expression, sample: Expression, complaints: Complaints) extends BinaryExpression {
  override def left: Expression = violated
  override def right: Expression = sample
  override def dataType: DataType = BooleanType
  override def nullable: Boolean = false
  override def foldable: Boolean = false
  override def toString: String = s"witness($violated)"
  // Never moved, merged or evaluated ahead: each row is judged once.
  override lazy val deterministic: Boolean = false

  override def eval(row: InternalRow): Any = {
    if (violated.eval(row) == true) complaints.add(sample.eval(row).asInstanceOf[UTF8String])
    true
  }

  override protected def doGenCode(ctx: CodegenContext, ev: ExprCode): ExprCode = {
    val judged = violated.genCode(ctx)
    val text = sample.genCode(ctx)
    val all = ctx.addReferenceObj("complaints", complaints)
    val code = code"""
      ${judged.code}
      if (!${judged.isNull} && ${judged.value}) {
        ${text.code}
        $all.add(${text.isNull} ? null : ${text.value});
      }
      boolean ${ev.value} = true;"""
    ev.copy(code = code, isNull = FalseLiteral, value = JavaCode.variable(ev.value.code, BooleanType))
  }

  override protected def withNewChildrenInternal(newLeft: Expression, newRight: Expression): Expression =
    copy(violated = newLeft, sample = newRight)
}

/** How many rows broke a rule, and a few of them. A task that ran twice is counted twice: the number is for people. */
class Complaints extends AccumulatorV2[UTF8String, java.lang.Long] {
  private var rows = 0L
  private var texts = Vector.empty[String]

  def count: Long = rows
  def sample: Seq[String] = texts

  override def isZero: Boolean = rows == 0
  override def copy(): Complaints = {
    val same = new Complaints
    same.merge(this)
    same
  }
  override def reset(): Unit = {
    rows = 0
    texts = Vector.empty
  }
  override def add(text: UTF8String): Unit = {
    rows += 1
    if (texts.length < Complaints.Sample) texts :+= String.valueOf(text)
  }
  override def merge(other: AccumulatorV2[UTF8String, java.lang.Long]): Unit = other match {
    case more: Complaints =>
      rows += more.rows
      texts = (texts ++ more.texts).distinct.take(Complaints.Sample)
  }
  override def value: java.lang.Long = rows
}

object Complaints {
  val Sample = 5

  def register(spark: SparkSession, name: String): Complaints = {
    val complaints = new Complaints
    spark.sparkContext.register(complaints, name)
    complaints
  }
}
