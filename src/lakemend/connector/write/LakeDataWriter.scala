package lakemend.write

import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.connector.write.{DataWriter, DataWriterFactory, WriterCommitMessage}
import org.apache.spark.sql.lakemend.{SparkBridge, TaskReports}

/** Sent to the executors with everything a task needs to write files. */
class LakeWriterFactory(layout: FileLayout, openFiles: Int, token: String) extends DataWriterFactory {
  override def createWriter(partitionId: Int, taskId: Long): DataWriter[InternalRow] =
    new LakeDataWriter(new DataFileWriter(layout, partitionId, openFiles), token)
}

/** One task attempt of a plain write. */
class LakeDataWriter(files: DataFileWriter, token: String) extends DataWriter[InternalRow] {
  override def write(row: InternalRow): Unit = files.write(row)

  override def commit(): WriterCommitMessage = {
    val written = files.finish()
    TaskReports.report(token, written.map(_.path))
    SparkBridge.reportOutput(written.map(_.rows).sum, written.map(_.size).sum)
    FileMessage.of(written)
  }

  /** This attempt's files are known to nobody else. */
  override def abort(): Unit = files.abort()

  override def close(): Unit = ()
}
