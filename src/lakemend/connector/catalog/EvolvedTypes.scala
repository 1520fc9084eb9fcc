package org.apache.spark.sql.lakemend

import org.apache.spark.sql.catalyst.analysis.caseInsensitiveResolution
import org.apache.spark.sql.catalyst.expressions.Cast
import org.apache.spark.sql.connector.catalog.TableChange.UpdateColumnType
import org.apache.spark.sql.types.{DataType, DecimalType, IntegralType, StructType}

/** Types that schema evolution asks for: Spark names every column whose type is not that of the incoming rows. */
object EvolvedTypes {
  /** Whether the column takes the rows' values as it is: they are cast, and it becomes no narrower. */
  def fit(schema: StructType, change: UpdateColumnType): Boolean =
    schema.findNestedField(change.fieldNames.toSeq, includeCollections = true, resolver = caseInsensitiveResolution)
      .exists { case (_, field) => fit(change.newDataType, field.dataType) }

  private def fit(incoming: DataType, own: DataType): Boolean = (incoming, own) match {
    case (_: IntegralType, _: DecimalType) => true // one with more digits than the column has room for is an error
    case _ => Cast.canUpCast(incoming, own)
  }
}
