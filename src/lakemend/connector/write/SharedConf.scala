package lakemend.write

import java.util.{LinkedHashMap => JLinkedHashMap, Map => JMap}

import scala.jdk.CollectionConverters._
import scala.ref.WeakReference

import org.apache.hadoop.conf.Configuration
import org.apache.spark.SparkContext
import org.apache.spark.broadcast.Broadcast
import org.apache.spark.util.SerializableConfiguration

/**
 * A Hadoop configuration as tasks get it: by broadcast, since with a thousand settings it takes longer to send than all
 * else a small write sends. Nobody may change `value`: tasks of several writes share it.
 */
class SharedConf(broadcast: Broadcast[SerializableConfiguration]) extends Serializable {
  def value: Configuration = broadcast.value.value
}

/** Equal configurations are broadcast once: statement after statement writes to the same tables. */
object SharedConf {
  private val Kept = 16

  private var context = WeakReference[SparkContext](null)
  private val known = new JLinkedHashMap[Map[String, String], SharedConf](Kept, 0.75f, true) {
    override def removeEldestEntry(eldest: JMap.Entry[Map[String, String], SharedConf]): Boolean = size > Kept
  }

  def of(sparkContext: SparkContext, conf: Configuration): SharedConf = synchronized {
    if (!context.get.exists(_ eq sparkContext)) {
      known.clear()
      context = WeakReference(sparkContext)
    }
    val settings = conf.iterator.asScala.map(entry => entry.getKey -> entry.getValue).toMap
    known.computeIfAbsent(settings, _ => new SharedConf(sparkContext.broadcast(new SerializableConfiguration(conf))))
  }
}
