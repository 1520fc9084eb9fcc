package lakemend.read

import org.apache.spark.sql.types._
import org.apache.spark.sql.vectorized.{ColumnVector, ColumnarArray, ColumnarMap}
import org.apache.spark.unsafe.types.UTF8String

/** A column without its dead rows: row i is row `live(i)` of the column below, which the reader owns and closes. */
final class MaskedVector(below: ColumnVector, live: Array[Int]) extends ColumnVector(below.dataType) {
  // Structs and the types Spark lays out as structs are read through their children by row number;
  // arrays and maps are read through getArray and getMap and address their elements themselves.
  private lazy val children: Array[ColumnVector] = {
    val count = below.dataType match {
      case s: StructType => s.length
      case CalendarIntervalType => 3
      case VariantType => 2
      case _ => 0
    }
    Array.tabulate(count)(i => if (below.getChild(i) == null) null else new MaskedVector(below.getChild(i), live))
  }

  override def close(): Unit = ()
  override def closeIfFreeable(): Unit = ()
  override def hasNull: Boolean = below.hasNull
  override def numNulls: Int = if (below.hasNull) live.count(below.isNullAt) else 0
  override def isNullAt(row: Int): Boolean = below.isNullAt(live(row))
  override def getBoolean(row: Int): Boolean = below.getBoolean(live(row))
  override def getByte(row: Int): Byte = below.getByte(live(row))
  override def getShort(row: Int): Short = below.getShort(live(row))
  override def getInt(row: Int): Int = below.getInt(live(row))
  override def getLong(row: Int): Long = below.getLong(live(row))
  override def getFloat(row: Int): Float = below.getFloat(live(row))
  override def getDouble(row: Int): Double = below.getDouble(live(row))
  override def getArray(row: Int): ColumnarArray = below.getArray(live(row))
  override def getMap(row: Int): ColumnarMap = below.getMap(live(row))
  override def getDecimal(row: Int, precision: Int, scale: Int): Decimal = below.getDecimal(live(row), precision, scale)
  override def getUTF8String(row: Int): UTF8String = below.getUTF8String(live(row))
  override def getBinary(row: Int): Array[Byte] = below.getBinary(live(row))
  override def getChild(ordinal: Int): ColumnVector =
    if (children.isEmpty) below.getChild(ordinal) else children(ordinal)
}
