package lakemend

import java.io.File
import java.nio.file.Files
import java.util.{Map => JMap}
import java.util.concurrent.{ExecutionException, SynchronousQueue, ThreadPoolExecutor, TimeUnit}

import com.fasterxml.jackson.databind.{JsonNode, ObjectMapper}
import com.fasterxml.jackson.databind.node.ObjectNode
import org.apache.spark.SparkThrowable

/** The Python side, reached through py4j. Implemented by `lakemend.brain.service.Brain`. */
trait Brain {
  def call(op: String, payload: String): String
}

/** The one way from Spark to the brain: JSON out, JSON back, errors as [[LakemendException]]. */
object Bridge {
  val mapper: ObjectMapper = new ObjectMapper()

  @volatile private var brain: Option[Brain] = None

  def register(brain: Brain): Unit = this.brain = Some(brain)

  def unregister(): Unit = brain = None

  def request(): ObjectNode = mapper.createObjectNode()

  def call(op: String, request: ObjectNode): JsonNode = {
    val target = brain.getOrElse(throw LakemendException.withoutBrain())
    val answer =
      try onCaller(target.call(op, handedOver(request.toString)))
      catch { case e: py4j.Py4JException => throw LakemendException.unreachable(op, e) }
    val node = mapper.readTree(answer)
    if (node.has("error")) throw LakemendException.of(node.get("error"))
    if (node.has("file")) readAndDelete(new File(node.get("file").asText)) else node
  }

  // For every thread that ever calls, py4j keeps a connection and a Python thread for good, and Spark plans some queries
  // (toArrow, toPandas) on a new thread each. So threads that stay do the calling: as many as ever called at one time.
  private val callers = new ThreadPoolExecutor(0, Int.MaxValue, Long.MaxValue, TimeUnit.NANOSECONDS,
    new SynchronousQueue[Runnable], (work: Runnable) => {
      val thread = new Thread(work, "lakemend-brain")
      thread.setDaemon(true)
      thread
    })

  /** Waits for the answer also when interrupted: a commit must not land unheard. */
  private def onCaller(call: => String): String = {
    val answer = callers.submit(() => call)
    var interrupted = false
    try Iterator.continually(
      try Some(answer.get())
      catch { case _: InterruptedException => interrupted = true; None }).flatten.next()
    catch { case e: ExecutionException => throw e.getCause }
    finally if (interrupted) Thread.currentThread().interrupt()
  }

  /** A large request costs less as a file than through the socket; the brain reads and deletes it. */
  private def handedOver(request: String): String =
    if (request.length <= Inline) request
    else {
      val file = Files.createTempFile("lakemend-request-", ".json")
      Files.writeString(file, request)
      this.request().put("file", file.toString).toString
    }

  private val Inline = 256 * 1024

  private def readAndDelete(file: File): JsonNode =
    try mapper.readTree(file)
    finally Files.deleteIfExists(file.toPath)
}

/** An error of the brain, typed: Python raises the class named in `payload` again, the JVM sees the condition. */
class LakemendException(val payload: String, condition: String, message: String, cause: Throwable = null)
    extends RuntimeException(message, cause) with SparkThrowable {
  override def getCondition: String = condition
  override def getMessageParameters: JMap[String, String] = JMap.of("message", message)
  // Only a message made in Spark's own error file has a state there.
  override def getSqlState: String = "KD000"
  override def isInternalError: Boolean = false
}

object LakemendException {
  def of(error: JsonNode): LakemendException = {
    val parts = Seq("problem" -> "", "cause" -> "Cause: ", "remedy" -> "Remedy: ").flatMap { case (key, label) =>
      val text = error.path(key).asText("").stripSuffix(".")
      if (text.isEmpty) None else Some(s"$label$text.")
    }
    val condition = error.path("condition").asText("LAKEMEND_ERROR")
    new LakemendException(error.toString, condition, s"[$condition] ${parts.mkString(" ")}")
  }

  def apply(errorClass: String, condition: String, problem: String, cause: String = "", remedy: String = ""): LakemendException =
    of(Bridge.request().put("class", errorClass).put("condition", condition)
      .put("problem", problem).put("cause", cause).put("remedy", remedy))

  def invalid(problem: String, cause: String = "", remedy: String = ""): LakemendException =
    apply("InvalidInputError", "LAKEMEND_INVALID_INPUT", problem, cause, remedy)

  def mismatch(problem: String, cause: String = "", remedy: String = ""): LakemendException =
    apply("SchemaMismatchError", "LAKEMEND_SCHEMA_MISMATCH", problem, cause, remedy)

  def corrupt(problem: String, cause: String = "", remedy: String = ""): LakemendException =
    apply("CorruptTableError", "LAKEMEND_CORRUPT_TABLE", problem, cause, remedy)

  def withoutBrain(): LakemendException = apply("SessionError", "LAKEMEND_SESSION",
    "the Lakemend catalog was used without its Python side",
    "the jar is loaded, but no Python process has registered the brain with this Spark session",
    "start the session with lakemend.session(…) or call lakemend.attach(spark) in the driver's Python process")

  def unreachable(op: String, e: py4j.Py4JException): LakemendException = apply("SessionError", "LAKEMEND_SESSION",
    s"the Python side did not answer '$op'", String.valueOf(e.getMessage),
    "keep the Python process that called lakemend.session(…) running while Spark is used")
}
