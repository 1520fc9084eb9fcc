package lakemend

import java.io.FileNotFoundException
import java.util.{EnumSet, UUID}

import com.fasterxml.jackson.databind.node.ObjectNode
import org.apache.hadoop.conf.Configuration
import org.apache.hadoop.fs.{CreateFlag, FSDataInputStream, FileAlreadyExistsException, FileContext, FileStatus, FileSystem,
  Options, Path}
import org.apache.hadoop.fs.permission.FsPermission

/** Hadoop's file systems for the brain (hdfs:// and whatever obstore lacks), one call per operation.
  *
  * Called by `lakemend.session.hadoop.HadoopStore`. Locations are plain, never URI-encoded. What is missing is null
  * or an empty list; every other failure is thrown as Hadoop says it.
  */
class HadoopFiles(conf: Configuration, root: String) {
  private val rootPath = new Path(root)
  private val files: FileSystem = rootPath.getFileSystem(conf)
  private lazy val context: FileContext = FileContext.getFileContext(files.getUri, conf)
  private val base: String = files.makeQualified(rootPath).toUri.getPath.stripSuffix("/")

  def read(path: String): Array[Byte] = reading(path)(_.readAllBytes())

  def readRange(path: String, start: Long, length: Int): Array[Byte] = reading(path) { in =>
    in.seek(start)
    in.readNBytes(length)
  }

  private def reading(path: String)(body: FSDataInputStream => Array[Byte]): Array[Byte] =
    try {
      val in = files.open(at(path))
      try body(in) finally in.close()
    } catch { case _: FileNotFoundException => null }

  def write(path: String, data: Array[Byte]): Unit = {
    val out = files.create(at(path), true)
    try out.write(data) finally out.close()
  }

  /**
   * Null if it is written; otherwise nothing is: an empty string because the path exists, or what was wrong. What is thrown
   * leaves open whether it was written. The whole content appears at once: written aside, then renamed.
   */
  def createIfAbsent(path: String, data: Array[Byte]): String = {
    val target = at(path)
    val aside = new Path(target.getParent, s".${target.getName}.${UUID.randomUUID()}.tmp")
    var renaming = false
    try {
      val out = context.create(aside, EnumSet.of(CreateFlag.CREATE), Options.CreateOpts.createParent(),
        Options.CreateOpts.perms(FsPermission.getFileDefault))
      try out.write(data) finally out.close()
      // Rename.NONE never overwrites; rename(src, dst) of FileSystem does, on some of them.
      renaming = true
      context.rename(aside, target, Options.Rename.NONE)
      null
    } catch {
      case _: FileAlreadyExistsException =>
        discard(aside)
        ""
      case e: java.io.IOException =>
        // Without its source a rename that is still on its way comes to nothing.
        val gone = discard(aside)
        if (!renaming || gone) e.toString else throw e
    }
  }

  /** Whether the file was there and is deleted; a left-over under a hidden name harms nobody. */
  private def discard(file: Path): Boolean =
    try files.delete(file, false)
    catch { case _: java.io.IOException => false }

  def list(path: String): String =
    entries(try {
      val found = files.listFiles(at(path), true)
      Iterator.continually(found).takeWhile(_.hasNext).map(_.next(): FileStatus).toVector
    } catch { case _: FileNotFoundException => Vector.empty })

  def listDirectory(path: String): String =
    entries(try files.listStatus(at(path)).toVector catch { case _: FileNotFoundException => Vector.empty })

  def head(path: String): String =
    try {
      val status = files.getFileStatus(at(path))
      if (status.isFile) entry(Bridge.request(), status).toString else null
    } catch { case _: FileNotFoundException => null }

  def delete(path: String): Unit =
    if (!files.delete(at(path), false) && files.exists(at(path)))
      throw new java.io.IOException(s"the file system did not delete ${at(path)}")

  def exists(): Boolean = files.exists(at(""))

  def deleteDirectory(path: String): Unit =
    if (!files.delete(at(path), true) && files.exists(at(path)))
      throw new java.io.IOException(s"the file system did not delete ${at(path)}")

  /** False, having moved nothing, if the new name exists. */
  def renameDirectory(from: String, to: String): Boolean =
    // Rename.NONE puts up with an empty directory at the new name.
    if (files.exists(at(to))) false
    else try {
      files.mkdirs(at(to).getParent)
      context.rename(at(from), at(to), Options.Rename.NONE)
      true
    } catch { case _: FileAlreadyExistsException => false }

  // Not new Path(parent, child): it reads a colon in the child as a scheme.
  private def at(path: String): Path = {
    val uri = files.makeQualified(rootPath).toUri
    new Path(uri.getScheme, uri.getAuthority, if (path.isEmpty) base + "/" else s"$base/$path")
  }

  private def entries(found: Vector[FileStatus]): String = {
    val array = Bridge.mapper.createArrayNode()
    found.foreach(status => entry(array.addObject(), status))
    array.toString
  }

  private def entry(node: ObjectNode, status: FileStatus): ObjectNode =
    node.put("path", status.getPath.toUri.getPath.stripPrefix(base).stripPrefix("/")).put("size", status.getLen)
      .put("modified", status.getModificationTime).put("directory", status.isDirectory)
}
