package lakemend.changes

import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions.{Expression, UnaryExpression, UnsafeProjection, UnsafeRow}
import org.apache.spark.sql.catalyst.expressions.codegen.{CodegenContext, ExprCode}
import org.apache.spark.sql.types.{BinaryType, DataType, StructType}

/**
 * A row as bytes: equal for rows that are equal in every bit. Grouping by them, rather than by the columns, tells 0.0
 * from -0.0 and 'a' from 'A' under a collation, and takes maps and variants too.
 */
case class RowImage(child: Expression) extends UnaryExpression {
  private val codec = new RowCodec(child.dataType.asInstanceOf[StructType])

  override def dataType: DataType = BinaryType
  override def nullable: Boolean = false
  override protected def nullSafeEval(row: Any): Any = codec.encode(row.asInstanceOf[InternalRow])

  override protected def doGenCode(ctx: CodegenContext, ev: ExprCode): ExprCode = {
    val reference = ctx.addReferenceObj("codec", codec)
    nullSafeCodeGen(ctx, ev, row => s"${ev.value} = $reference.encode($row);")
  }

  override protected def withNewChildInternal(newChild: Expression): Expression = copy(child = newChild)
}

/** The row whose image it is. */
case class RowOfImage(child: Expression, schema: StructType) extends UnaryExpression {
  private val codec = new RowCodec(schema)

  override def dataType: DataType = schema
  override def nullable: Boolean = false
  override protected def nullSafeEval(image: Any): Any = codec.decode(image.asInstanceOf[Array[Byte]])

  override protected def doGenCode(ctx: CodegenContext, ev: ExprCode): ExprCode = {
    val reference = ctx.addReferenceObj("codec", codec)
    nullSafeCodeGen(ctx, ev, image => s"${ev.value} = $reference.decode($image);")
  }

  override protected def withNewChildInternal(newChild: Expression): Expression = copy(child = newChild)
}

/** Rows to bytes and back. Each task has its own copy. */
class RowCodec(schema: StructType) extends Serializable {
  @transient private lazy val projection = UnsafeProjection.create(schema)

  def encode(row: InternalRow): Array[Byte] = projection(row).getBytes

  def decode(image: Array[Byte]): InternalRow = {
    val row = new UnsafeRow(schema.length)
    row.pointTo(image, image.length)
    row
  }
}
