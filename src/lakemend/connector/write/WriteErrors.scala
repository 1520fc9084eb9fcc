package lakemend.write

import java.io.{IOException, InterruptedIOException, UncheckedIOException}
import java.nio.channels.ClosedByInterruptException

import lakemend.LakemendException

/** What a store refused while a task wrote to it, in the words of the table it belongs to. */
object WriteErrors {
  /** Runs what writes a file at the location; a store that is full, read-only, out of reach or forbidden is told as such. */
  def typed[T](location: String)(body: => T): T =
    try body
    catch {
      case e @ (_: InterruptedIOException | _: ClosedByInterruptException) => throw e
      case e: IOException => throw storage(location, e)
      case e: UncheckedIOException => throw storage(location, e.getCause)
    }

  private def storage(location: String, e: IOException): LakemendException = {
    val said = Option(e.getMessage).flatMap(_.linesIterator.nextOption()).getOrElse("no message")
    LakemendException("StorageError", "LAKEMEND_STORAGE", s"a file could not be written at $location",
      s"${e.getClass.getSimpleName}: $said",
      "nothing was committed: check that there is space and that Spark may write there, then run the statement again").because(e)
  }
}
