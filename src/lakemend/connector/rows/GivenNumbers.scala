package org.apache.spark.sql.lakemend

import lakemend.rows.RowOperation
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.catalyst.expressions.codegen.{CodeGenerator, CodegenContext, EmptyBlock, ExprCode, FalseLiteral, JavaCode}
import org.apache.spark.sql.catalyst.plans.logical._
import org.apache.spark.sql.catalyst.rules.Rule
import org.apache.spark.sql.execution.LogicalRDD
import org.apache.spark.sql.execution.datasources.v2.DataSourceV2ScanRelation
import org.apache.spark.sql.types._

/**
 * Numbers and times that a row change compares with in filters and joins are handed to the code that Spark compiles: as a
 * part of it they would have a statement with other bounds compiled again, and run slowly until Java knows the new code.
 * What a scan may be told of them it has been told by now. Spark tells others when it runs them, such as files and databases
 * it reads by itself and frames that are cached: of those the numbers stay in the plan, for nobody is told what is handed on.
 */
object GivenNumbers extends Rule[LogicalPlan] {
  override def apply(plan: LogicalPlan): LogicalPlan = plan match {
    case write: RowLevelWrite if write.operation.isInstanceOf[RowOperation] => write.withNewQuery(
      // In subqueries too: a filter asks a join's broadcast for its keys, and finds it by its plan.
      write.query.transformWithSubqueries {
        case filter: Filter if hasBeenTold(filter.child) => filter.mapExpressions(given)
        case join: Join => join.mapExpressions(given)
      })
    case _ => plan
  }

  private def hasBeenTold(below: LogicalPlan): Boolean = below match {
    case Project(_, child) => hasBeenTold(child)
    case Filter(_, child) => hasBeenTold(child)
    case _: DataSourceV2ScanRelation | _: LogicalRDD | _: LocalRelation | _: Range => true
    case other => other.children.nonEmpty
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
