package lakemend

import scala.jdk.CollectionConverters._

import org.apache.spark.sql.util.CaseInsensitiveStringMap

/** Options of a read or a write are looked at by the brain, which knows their names. */
object Options {
  def check(options: CaseInsensitiveStringMap): Unit = {
    val named = options.asCaseSensitiveMap.asScala.filterNot { case (key, _) => key.startsWith("__") || key == "path" }
    if (named.nonEmpty) {
      val request = Bridge.request()
      val node = request.putObject("options")
      named.foreach { case (key, value) => node.put(key, value) }
      Bridge.call("options", request)
    }
  }
}
