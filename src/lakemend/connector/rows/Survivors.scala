package lakemend.rows

import com.fasterxml.jackson.databind.node.{ArrayNode, ObjectNode}
import lakemend.catalog.Reads
import lakemend.joins.Grouping
import lakemend.read.{DataFile, GivenFiles, LakeScan}
import lakemend.write._
import org.apache.spark.sql.SparkSession
import org.apache.spark.sql.lakemend.WriteTasks

/**
 * Files that would be mostly dead, written again without their dead rows. Runs as a job of its own before the statement
 * commits: tasks name their files to the driver as those of any write do, so that an abort finds them.
 */
class Survivors(job: WriteJob) {
  private val meta = job.meta
  private lazy val layout = FileLayout.of(meta, new RowsOf(job.info, meta.schema))

  /** The new files that hold the live rows of `files`, each with the mask that it is to have. */
  def rewrite(files: Seq[DataFile]): Seq[WrittenFile] = if (files.isEmpty) Nil else {
    val scan = new LakeScan(new GivenFiles(meta, files.toIndexedSeq), meta.schema, None, wholeFiles = false, grouped = None,
      Reads.Unrecorded)
    FileMessage.files(WriteTasks.run(SparkSession.active, scan,
      new LakeWriterFactory(layout, MaskWriter.OpenFiles, job.token)).toArray)
  }

  /** Says in a commit request that `files` are replaced by `written`. */
  def describe(request: ObjectNode, files: Seq[DataFile], written: Seq[WrittenFile]): Unit = if (files.nonEmpty) {
    val removed = request.get("removed").asInstanceOf[ArrayNode]
    files.foreach(file => removed.add(file.path))
    val added = request.get("added").asInstanceOf[ArrayNode]
    written.foreach(file => added.add(file.toWire(layout.statsColumns)))
  }
}
