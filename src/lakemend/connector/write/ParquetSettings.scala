package lakemend.write

import scala.jdk.CollectionConverters._

import lakemend.catalog.TableMeta
import org.apache.hadoop.conf.Configuration
import org.apache.hadoop.mapreduce.Job
import org.apache.spark.sql.SparkSession
import org.apache.spark.sql.connector.write.LogicalWriteInfo
import org.apache.spark.sql.execution.datasources.parquet.{ParquetFileFormat, ParquetWriteSupport}
import org.apache.spark.sql.internal.SQLConf
import org.apache.spark.sql.lakemend.SparkBridge
import org.apache.spark.sql.types.StructType

/** Spark's own Parquet settings for a write, made on the driver. */
object ParquetSettings {
  /** Settings of the session count, then those of the table, then the options of the write. */
  def hadoopConf(meta: TableMeta, info: LogicalWriteInfo, fileSchema: StructType): SharedConf = {
    val spark = SparkSession.active
    val conf = SparkBridge.hadoopConf(spark)
    val ofTable = meta.write.path("writer_options").properties.asScala.map(e => e.getKey -> e.getValue.asText).toMap
    val options = ofTable ++ info.options.asCaseSensitiveMap.asScala
    options.foreach { case (key, value) =>
      if (key.startsWith("parquet.") || key.startsWith("fs.")) conf.set(key, value)
    }
    // Other engines read these files: no INT96, no legacy lists and decimals, whatever the session says.
    conf.set(SQLConf.PARQUET_OUTPUT_TIMESTAMP_TYPE.key, SQLConf.ParquetOutputTimestampType.TIMESTAMP_MICROS.toString)
    conf.setBoolean(SQLConf.PARQUET_WRITE_LEGACY_FORMAT.key, false)
    conf.setBoolean(SQLConf.PARQUET_FIELD_ID_WRITE_ENABLED.key, true)
    val job = Job.getInstance(conf)
    new ParquetFileFormat().prepareWrite(spark, job, codec(meta, options).toMap, fileSchema)
    val prepared = job.getConfiguration
    // A shredded variant is a table feature of its own.
    prepared.unset(ParquetWriteSupport.SPARK_VARIANT_SHREDDING_SCHEMA)
    SharedConf.of(spark.sparkContext, prepared)
  }

  private def codec(meta: TableMeta, options: Map[String, String]): Option[(String, String)] = {
    val asked = options.collectFirst { case (key, value) if key.equalsIgnoreCase("compression") => value }
    asked.orElse(Option(meta.write.get("compression")).filterNot(_.isNull).map(_.asText)).map("compression" -> _)
  }
}
