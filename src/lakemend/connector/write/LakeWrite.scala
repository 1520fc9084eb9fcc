package lakemend.write

import org.apache.spark.sql.connector.distributions.Distribution
import org.apache.spark.sql.connector.expressions.SortOrder
import org.apache.spark.sql.connector.write._

/** A write that adds rows and, by its mode, takes others away. `few` rows are not worth being clustered. */
class LakeWrite(job: WriteJob, mode: WriteMode, few: Boolean = false) extends MeasuredWrite with RequiresDistributionAndOrdering {
  private val clustering = new Clustering(job.meta, job.option, few)
  override protected val batch = new LakeBatchWrite(job, mode, clustering)

  override def description: String = s"lakemend ${job.meta.name} ${mode.operation}"

  override def requiredDistribution: Distribution = clustering.distribution

  override def distributionStrictlyRequired: Boolean = false

  override def advisoryPartitionSizeInBytes: Long = clustering.advisorySize

  override def requiredOrdering: Array[SortOrder] = clustering.ordering

  override def toBatch: BatchWrite = batch
}

object LakeWrite {
  /** Each open file holds a row group in memory. */
  val MaxOpenFiles = 256
}

/** The driver's side of the tasks: hands out writers, and turns what they report into the one commit. */
class LakeBatchWrite(val job: WriteJob, mode: WriteMode, clustering: Clustering) extends MeasuredBatch {
  override def createBatchWriterFactory(info: PhysicalWriteInfo): DataWriterFactory = {
    job.listen()
    new LakeWriterFactory(job.layout, clustering.fanout.getOrElse(job.layout.sortedOpenFiles), job.token)
  }

  override def commit(messages: Array[WriterCommitMessage], summary: WriteSummary): Unit = {
    val files = FileMessage.files(messages)
    val request = job.commitRequest(mode.operation, files, summary)
    clustering.describe(request)
    mode.describe(request)
    job.commit(request)
    committed = files
  }

  override def abort(messages: Array[WriterCommitMessage]): Unit = job.abort(FileMessage.files(messages))

  override def toString: String = s"${mode.operation} to ${job.meta.name}, token ${job.token}"
}
