package lakemend.write

import lakemend.LakemendException
import org.apache.spark.sql.catalyst.expressions.SpecializedGetters
import org.apache.spark.sql.catalyst.util.ArrayData
import org.apache.spark.sql.types._

/**
 * Refuses nulls where the schema allows none, at any depth. Spark checks this in its plan; a null that came through all
 * the same would otherwise be stored in silence.
 */
abstract class NullCheck extends Serializable {
  def apply(row: SpecializedGetters, ordinal: Int): Unit
}

object NullCheck {
  /** The checks for rows of the schema, by ordinal; none for columns that may hold anything. */
  def of(schema: StructType): Array[(Int, NullCheck)] = fields("", schema)

  private def fields(prefix: String, schema: StructType): Array[(Int, NullCheck)] =
    schema.fields.zipWithIndex.flatMap { case (f, i) => value(prefix + f.name, f.nullable, f.dataType).map(i -> _) }

  private def value(path: String, nullable: Boolean, dataType: DataType): Option[NullCheck] = {
    val below = inside(path, dataType)
    if (nullable && below.isEmpty) None
    else Some(new NullCheck {
      private val check = below.orNull
      override def apply(row: SpecializedGetters, ordinal: Int): Unit =
        if (row.isNullAt(ordinal)) { if (!nullable) throw violation(path) }
        else if (check != null) check(row, ordinal)
    })
  }

  private def inside(path: String, dataType: DataType): Option[NullCheck] = dataType match {
    case s: StructType =>
      val checks = fields(s"$path.", s)
      if (checks.isEmpty) None
      else Some(new NullCheck {
        override def apply(row: SpecializedGetters, ordinal: Int): Unit = {
          val struct = row.getStruct(ordinal, s.length)
          checks.foreach { case (i, check) => check(struct, i) }
        }
      })
    case a: ArrayType => value(s"$path.element", a.containsNull, a.elementType).map { check =>
      new NullCheck {
        override def apply(row: SpecializedGetters, ordinal: Int): Unit = each(row.getArray(ordinal), check)
      }
    }
    case m: MapType =>
      // A catalyst map has no null keys; what lies inside a key may be null.
      val keys = value(s"$path.key", nullable = true, m.keyType)
      val values = value(s"$path.value", m.valueContainsNull, m.valueType)
      if (keys.isEmpty && values.isEmpty) None
      else Some(new NullCheck {
        override def apply(row: SpecializedGetters, ordinal: Int): Unit = {
          val map = row.getMap(ordinal)
          keys.foreach(each(map.keyArray(), _))
          values.foreach(each(map.valueArray(), _))
        }
      })
    case _ => None
  }

  private def each(array: ArrayData, check: NullCheck): Unit = {
    var i = 0
    while (i < array.numElements()) {
      check(array, i)
      i += 1
    }
  }

  def violation(column: String): LakemendException = LakemendException("ConstraintViolationError", "LAKEMEND_CONSTRAINT_VIOLATION",
    s"column $column is NOT NULL and a row holds NULL there",
    "in a partition column an empty string is NULL too; nothing was written",
    s"fill in $column, or drop its NOT NULL with ALTER TABLE", _.put("column", column))
}
