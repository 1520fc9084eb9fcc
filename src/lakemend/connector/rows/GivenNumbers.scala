package org.apache.spark.sql.lakemend

import lakemend.rows.RowOperation
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.catalyst.expressions.codegen.{CodeGenerator, CodegenContext, EmptyBlock, ExprCode, FalseLiteral, JavaCode}
import org.apache.spark.sql.catalyst.plans.logical.{Filter, Join, LogicalPlan, RowLevelWrite}
import org.apache.spark.sql.catalyst.rules.Rule
import org.apache.spark.sql.types._

/**
 * Numbers and times that a row change compares with in filters and joins are handed to the code that Spark compiles: as a
 * part of it they would have a statement with other bounds compiled again, and run slowly until Java knows the new code.
 * What a scan may be told of them it has been told by now.
 */
object GivenNumbers extends Rule[LogicalPlan] {
  override def apply(plan: LogicalPlan): LogicalPlan = plan match {
    case write: RowLevelWrite if write.operation.isInstanceOf[RowOperation] => write.withNewQuery(
      // In subqueries too: a filter asks a join's broadcast for its keys, and finds it by its plan.
      write.query.transformWithSubqueries { case node @ (_: Filter | _: Join) => node.mapExpressions(given) })
    case _ => plan
  }

  private def given(condition: Expression): Expression = condition.transform {
    case comparison: BinaryComparison => comparison.withNewChildren(comparison.children.map {
      case literal @ Literal(_: Number, _: NumericType | DateType | TimestampType | TimestampNTZType) => Given(literal)
      case other => other
    })
  }
}

case class Given(literal: Literal) extends LeafExpression {
  override def dataType: DataType = literal.dataType
  override def nullable: Boolean = false
  override def eval(row: InternalRow): Any = literal.value
  override def toString: String = literal.toString
  override def sql: String = literal.sql

  override protected def doGenCode(ctx: CodegenContext, ev: ExprCode): ExprCode = {
    val primitive = CodeGenerator.javaType(dataType)
    val number = ctx.addReferenceObj("given", literal.value, classOf[Number].getName)
    val value = ctx.addMutableState(primitive, "given", name => s"$name = $number.${primitive}Value();")
    ev.copy(code = EmptyBlock, isNull = FalseLiteral, value = JavaCode.global(value, dataType))
  }
}
