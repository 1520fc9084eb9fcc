package lakemend

import java.io.IOException
import java.util.{HexFormat, Map => JMap}

import com.fasterxml.jackson.databind.{JsonNode, ObjectMapper}
import com.fasterxml.jackson.databind.node.ObjectNode
import org.apache.spark.SparkThrowable
import org.apache.spark.sql.lakemend.{Padding, SparkBridge}

/** The one way from Spark to the brain (`lakemend.brain.service.Brain`): JSON out, JSON back, errors as [[LakemendException]]. */
object Bridge {
  val mapper: ObjectMapper = new ObjectMapper()

  @volatile private var brain: Option[Channel] = None

  /** Which requests and answers there are (docs/architecture.md). Raised with every change that the other side must know of. */
  val WireVersion = 5

  /**
   * Called by `lakemend.session.start`: where the brain listens, the secret (hex) by which both know each other, and the version of
   * the wire that it speaks. A jar of another Lakemend is refused here, before anything is read or written.
   */
  def connect(port: Int, secret: String, wireVersion: Int): Unit =
    if (wireVersion == WireVersion) replace(Some(new Channel(port, HexFormat.of().parseHex(secret))))
    else throw LakemendException.otherWire(wireVersion)

  def disconnect(): Unit = replace(None)

  def isConnected: Boolean = brain.isDefined

  private def replace(next: Option[Channel]): Unit = synchronized {
    brain.foreach(_.close())
    brain = next
  }

  def request(): ObjectNode = mapper.createObjectNode()

  /** Stored values may be local times, and CHAR values without their blanks. */
  def readingAs(request: ObjectNode, timeZone: String, padded: Boolean): ObjectNode =
    request.put("time_zone", timeZone).put("pad_chars", padded)

  def call(op: String, request: ObjectNode): JsonNode = {
    val channel = brain.getOrElse(throw LakemendException.withoutBrain())
    if (!request.has("time_zone")) readingAs(request, SparkBridge.timeZone, Padding.isOn)
    if (op == "commit") SparkBridge.autoCompact.foreach(request.put("auto_compact", _))
    val answer =
      try channel.call(op, request.toString)
      catch {
        case e: java.net.ConnectException => throw LakemendException.unreachable(op, e)
        case e: IOException if op == "commit" || op == "alter" => throw LakemendException.unheard(request, e)
        case e: IOException => throw LakemendException.unreachable(op, e)
      }
    val node = mapper.readTree(answer)
    if (node.has("error")) throw LakemendException.of(node.get("error"))
    node
  }
}

/**
 * An error of the brain, typed: Python raises the class named in `payload` again, the JVM sees the condition. That a file is
 * gone is all there is to say: where in the reader it was missed would fill the log several times.
 */
class LakemendException(
    val payload: String, condition: String, message: String, cause: Throwable = null, val isMissingFile: Boolean = false)
    extends RuntimeException(message, cause, true, !isMissingFile) with SparkThrowable {
  override def getCondition: String = condition
  override def getMessageParameters: JMap[String, String] = JMap.of("message", message)
  // Only a message made in Spark's own error file has a state there.
  override def getSqlState: String = "KD000"
  override def isInternalError: Boolean = false

  /** The same, with what has led to it. */
  def because(other: Throwable): LakemendException = new LakemendException(payload, condition, message, other, isMissingFile)
}

object LakemendException {
  def of(error: JsonNode): LakemendException = {
    val parts = Seq("problem" -> "", "cause" -> "Cause: ", "remedy" -> "Remedy: ").flatMap { case (key, label) =>
      val text = error.path(key).asText("").stripSuffix(".")
      if (text.isEmpty) None else Some(if (text.endsWith("?")) s"$label$text" else s"$label$text.")
    }
    val condition = error.path("condition").asText("LAKEMEND_ERROR")
    new LakemendException(error.toString, condition, s"[$condition] ${parts.mkString(" ")}")
  }

  /** `values`: what the error of Python has as attributes. */
  def apply(errorClass: String, condition: String, problem: String, cause: String = "", remedy: String = "",
      values: ObjectNode => Unit = _ => ()): LakemendException = {
    val node = Bridge.request().put("class", errorClass).put("condition", condition)
      .put("problem", problem).put("cause", cause).put("remedy", remedy)
    values(node.putObject("values"))
    of(node)
  }

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

  def otherWire(theirs: Int): LakemendException = apply("SessionError", "LAKEMEND_SESSION",
    "Lakemend's Python side and its jar in this Spark do not belong together",
    s"the one speaks version $theirs of the protocol between them, the other version ${Bridge.WireVersion}",
    "use the jar that comes with the installed Lakemend: take others out of spark.jars, or restart Spark")

  /** The brain may have made the version all the same. */
  def unheard(request: ObjectNode, e: IOException): LakemendException =
    apply("CommitUnknownError", "LAKEMEND_COMMIT_UNKNOWN", "whether the statement was committed is not known",
      s"the Python side did not answer: ${e.getMessage}", request.path("token").asText("") match {
        case "" => "look at the table's history before running the statement again"
        case token => s"look for the transaction $token in the table's history before running the statement again"
      })

  def unreachable(op: String, e: IOException): LakemendException = apply("SessionError", "LAKEMEND_SESSION",
    s"the Python side did not answer '$op'", String.valueOf(e.getMessage),
    "keep the Python process that called lakemend.session(…) running while Spark is used")
}
