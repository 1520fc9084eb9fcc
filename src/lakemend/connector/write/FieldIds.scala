package lakemend.write

import scala.jdk.CollectionConverters._

import org.apache.hadoop.conf.Configuration
import org.apache.parquet.hadoop.api.WriteSupport.WriteContext
import org.apache.parquet.schema.{GroupType, MessageType, Type}
import org.apache.spark.sql.execution.datasources.parquet.ParquetWriteSupport
import org.apache.spark.sql.types._

/** Field ids in the metadata of the physical schema. Spark writes those of struct fields only. */
object FieldIds {
  val Key = "parquet.field.id"
  /** On the nearest struct field: {"a.element": 5, "m.key": 6, "m.value.element": 7}, the field's own name first. */
  val NestedKey = "parquet.field.nested.ids"

  def only(metadata: Metadata): Metadata = {
    val builder = new MetadataBuilder()
    if (metadata.contains(Key)) builder.putLong(Key, metadata.getLong(Key))
    if (metadata.contains(NestedKey)) builder.putMetadata(NestedKey, metadata.getMetadata(NestedKey))
    builder.build()
  }

  /** The same Parquet schema, with ids on list elements, map keys and map values where the metadata has them. */
  def add(message: MessageType, schema: StructType): MessageType =
    if (!hasNested(schema)) message
    else new MessageType(message.getName, withIds(message.getFields.asScala.toSeq, schema).asJava)

  private def withIds(types: Seq[Type], schema: StructType): Seq[Type] =
    types.zip(schema.fields).map { case (parquet, field) =>
      val ids = if (field.metadata.contains(NestedKey)) field.metadata.getMetadata(NestedKey) else Metadata.empty
      withIds(parquet, field.dataType, field.name, ids)
    }

  /** `path` is where `parquet` stands below the struct field whose metadata is `ids`. */
  private def withIds(parquet: Type, dataType: DataType, path: String, ids: Metadata): Type = {
    val below = dataType match {
      case s: StructType =>
        val group = parquet.asGroupType
        group.withNewFields(withIds(group.getFields.asScala.toSeq, s).asJava)
      case a: ArrayType => inRepeated(parquet, Seq(a.elementType -> s"$path.element"), ids)
      case m: MapType => inRepeated(parquet, Seq(m.keyType -> s"$path.key", m.valueType -> s"$path.value"), ids)
      case _ => parquet
    }
    if (ids.contains(path)) below.withId(ids.getLong(path).toInt) else below
  }

  /** Lists and maps hold their values in one repeated group between. */
  private def inRepeated(parquet: Type, values: Seq[(DataType, String)], ids: Metadata): Type = {
    val outer = parquet.asGroupType
    val repeated = outer.getType(0).asGroupType
    val inner = repeated.getFields.asScala.toSeq.zip(values).map { case (value, (dataType, path)) =>
      withIds(value, dataType, path, ids)
    }
    val group: GroupType = repeated.withNewFields(inner.asJava)
    outer.withNewFields(Seq[Type](group).asJava)
  }

  private def hasNested(dataType: DataType): Boolean = dataType match {
    case s: StructType => s.fields.exists(f => f.metadata.contains(NestedKey) || hasNested(f.dataType))
    case a: ArrayType => hasNested(a.elementType)
    case m: MapType => hasNested(m.keyType) || hasNested(m.valueType)
    case _ => false
  }
}

/** Spark's own writing of rows, under a Parquet schema with all field ids. */
class LakeWriteSupport(schema: StructType) extends ParquetWriteSupport {
  override def init(configuration: Configuration): WriteContext = {
    val context = super.init(configuration)
    new WriteContext(FieldIds.add(context.getSchema, schema), context.getExtraMetaData)
  }
}
