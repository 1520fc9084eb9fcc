package org.apache.spark.sql.lakemend

import java.util.concurrent.ConcurrentLinkedQueue

import scala.jdk.CollectionConverters._

import org.apache.spark.SparkEnv
import org.apache.spark.rpc.{RpcCallContext, RpcEndpointRef, RpcEnv, ThreadSafeRpcEndpoint}
import org.apache.spark.util.RpcUtils

/**
 * The driver's ear for the tasks of one write. A task that has closed its files names them here before it counts as
 * done: if another task has failed by then, Spark drops its result, and nobody else would know its files. Once the
 * write has ended, a task is told so and deletes what it wrote.
 *
 * It stands in Spark's package because Spark's RPC is its own. Messages are arrays of strings: Spark reads them with a
 * class loader that does not know this jar.
 */
class TaskReports(token: String) {
  private val env: RpcEnv = SparkEnv.get.rpcEnv
  private val reported = new ConcurrentLinkedQueue[String]()
  @volatile private var ended = false

  private val endpoint: RpcEndpointRef = env.setupEndpoint(TaskReports.name(token), new ThreadSafeRpcEndpoint {
    override val rpcEnv: RpcEnv = env
    override def receiveAndReply(context: RpcCallContext): PartialFunction[Any, Unit] = {
      case paths: Array[String] => context.reply(take(paths))
    }
  })

  /** Ends the write: no report is accepted afterwards. Returns the paths of all that were. */
  def end(): Seq[String] = synchronized {
    if (!ended) {
      ended = true
      env.stop(endpoint)
    }
    reported.asScala.toSeq
  }

  private def take(paths: Array[String]): java.lang.Boolean = synchronized {
    if (!ended) paths.foreach(reported.add)
    !ended
  }
}

object TaskReports {
  /** Called by a task; throws if the write has ended without it. */
  def report(token: String, paths: Seq[String]): Unit = if (paths.nonEmpty) {
    val env = SparkEnv.get
    val accepted =
      try RpcUtils.makeDriverRef(name(token), env.conf, env.rpcEnv).askSync[java.lang.Boolean](paths.toArray)
      catch { case e: Exception if !e.isInstanceOf[InterruptedException] => throw ended(token, e) }
    if (!accepted) throw ended(token, null)
  }

  private def name(token: String): String = s"lakemend-write-$token"

  private def ended(token: String, cause: Throwable): Exception =
    new IllegalStateException(s"the write $token ended before this task did; its files are deleted", cause)
}
