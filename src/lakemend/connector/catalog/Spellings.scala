package org.apache.spark.sql.lakemend

import java.util.concurrent.ConcurrentHashMap

import scala.jdk.CollectionConverters._
import scala.util.control.NonFatal

import org.apache.spark.sql.SparkSession
import org.apache.spark.sql.classic.{SparkSession => ClassicSession}
import org.slf4j.LoggerFactory

/**
 * Under which names the tables of this process were read. Spark keeps the rows of cached frames by name and renews them when a
 * statement changes the table of that name; here the frames of all its other names are renewed too.
 */
object Spellings {
  private val log = LoggerFactory.getLogger(getClass)
  private val names = new ConcurrentHashMap[String, Set[Seq[String]]]

  def note(place: String, name: Seq[String]): Unit = names.merge(place, Set(name), (known, more) => known ++ more)

  /** To be called after the table at a place has changed. */
  def changed(place: String): Unit = SparkSession.getActiveSession.foreach(changed(_, place))

  /** The same from a thread that Spark does not know. */
  def changed(spark: SparkSession, place: String): Unit = renew(spark, Option(names.get(place)).getOrElse(Set.empty))

  /** The same for a table that is known by a name only: it is gone, or has another. */
  def changed(name: Seq[String]): Unit = SparkSession.getActiveSession.foreach(
    renew(_, names.asScala.values.filter(_.contains(name)).flatten.toSet + name))

  private def renew(session: SparkSession, all: Set[Seq[String]]): Unit = session match {
    case spark: ClassicSession if !spark.sharedState.cacheManager.isEmpty =>
      // The change has landed: what fails now does not undo it.
      all.foreach { name =>
        try spark.sharedState.cacheManager.recacheTableOrView(spark, name, includeTimeTravel = false)
        catch { case NonFatal(e) => log.warn(s"cached rows of ${name.mkString(".")} could not be renewed; unpersist them", e) }
      }
    case _ =>
  }
}
