package org.apache.spark.sql.lakemend

import org.apache.spark.{SparkEnv, TaskContext}
import org.apache.spark.rdd.RDD
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.catalyst.plans.physical.{KeyedPartitioning, Partitioning}
import org.apache.spark.sql.catalyst.rules.Rule
import org.apache.spark.sql.catalyst.types.DataTypeUtils
import org.apache.spark.sql.execution._
import org.apache.spark.sql.execution.datasources.v2.{BatchScanExec, GroupPartitionsExec}
import org.apache.spark.sql.execution.metric.{SQLMetric, SQLMetrics}
import org.apache.spark.sql.types.{DateType, IntegerType, LongType, TimestampType}

/**
 * Sorts the rows of one partition value after those of another, and by what is left of the order.
 *
 * A task of a grouped scan reads its partition values one after the other, in ascending order. Rows that must be sorted by
 * (part, id) are so once each value's are sorted by id: the sorter holds one value at a time, compares ids instead of rows
 * that all begin with the same part, and an order of partition columns alone is there already.
 */
object SortEachValue extends Rule[SparkPlan] {
  override def apply(plan: SparkPlan): SparkPlan = plan.transformUp {
    case sort: SortExec if !sort.global =>
      val known = keys(sort.child).zip(sort.sortOrder).takeWhile { case (key, order) => isAscending(order, key) }.length
      if (known == 0) sort else SortEachValueExec(sort.sortOrder, known, sort.child)
  }

  private def isAscending(order: SortOrder, key: Expression): Boolean =
    order.isAscending && order.nullOrdering == NullsFirst && order.child.semanticEquals(key)

  /** What the partition values that the plan reads are made of. */
  private def keys(plan: SparkPlan): Seq[Expression] = plan match {
    case _: FilterExec | _: CoalesceKeysExec => keys(plan.children.head)
    case project: ProjectExec => keys(project.child).map(called(_, project.projectList)).takeWhile(_.isDefined).flatten
    case _: BatchScanExec | _: GroupPartitionsExec if CoalesceKeys.isGrouped(plan) =>
      plan.outputPartitioning.asInstanceOf[KeyedPartitioning].expressions
    case _ => Nil
  }

  private def called(key: Expression, columns: Seq[NamedExpression]): Option[Attribute] = columns.collectFirst {
    case column: Attribute if column.semanticEquals(key) => column
    case named @ Alias(column, _) if column.semanticEquals(key) => named.toAttribute
  }
}

/** The child's rows, which come in the order of the first known columns already, in all of the order. */
case class SortEachValueExec(sortOrder: Seq[SortOrder], known: Int, child: SparkPlan) extends UnaryExecNode {
  override def output: Seq[Attribute] = child.output
  override def outputOrdering: Seq[SortOrder] = sortOrder
  override def outputPartitioning: Partitioning = child.outputPartitioning
  override lazy val metrics: Map[String, SQLMetric] = Map(
    "sortTime" -> SQLMetrics.createTimingMetric(sparkContext, "sort time"),
    "peakMemory" -> SQLMetrics.createSizeMetric(sparkContext, "peak memory"),
    "spillSize" -> SQLMetrics.createSizeMetric(sparkContext, "spill size"))

  override def simpleString(maxFields: Int): String = {
    val (first, rest) = sortOrder.splitAt(known)
    s"SortEachValue ${rest.mkString("[", ", ", "]")} of ${first.map(_.child).mkString("[", ", ", "]")}"
  }

  override protected def doExecute(): RDD[InternalRow] = {
    val (first, rest) = sortOrder.splitAt(known)
    val (columns, radix) = (child.output, conf.enableRadixSort)
    val (time, memory, spilled) = (longMetric("sortTime"), longMetric("peakMemory"), longMetric("spillSize"))
    child.execute().mapPartitionsInternal { rows =>
      val byValue = RowOrdering.create(first, columns)
      val unsafe = rows.asInstanceOf[Iterator[UnsafeRow]]
      if (rest.isEmpty) new InOrder(unsafe, byValue)
      else new EachValue(unsafe, byValue, new ValueSorters(rest, columns, radix), new SortMetrics(time, memory, spilled))
    }
  }

  override protected def withNewChildInternal(newChild: SparkPlan): SparkPlan = copy(child = newChild)
}

/** Rows of several values, each value's at once. */
private class EachValue(rows: Iterator[UnsafeRow], byValue: BaseOrdering, sorters: ValueSorters, metrics: SortMetrics)
    extends Iterator[InternalRow] {
  /** The first row of the value that comes next. */
  private var ahead: UnsafeRow = if (rows.hasNext) rows.next().copy() else null
  private var sorted: Iterator[InternalRow] = Iterator.empty

  override def hasNext: Boolean = sorted.hasNext || hasValue
  override def next(): InternalRow = if (hasNext) sorted.next() else throw new NoSuchElementException("no more rows")

  /** Begins with the next value, which has a row at least. */
  private def hasValue: Boolean = ahead != null && {
    sorted = value()
    sorted.hasNext
  }

  private def value(): Iterator[InternalRow] = metrics.of(sorters.create()) { sorter =>
    val first = ahead
    ahead = null
    sorter.insertRow(first)
    while (ahead == null && rows.hasNext) {
      val row = rows.next()
      val further = byValue.compare(row, first)
      if (further == 0) sorter.insertRow(row)
      else {
        ValuesInOrder.check(further)
        ahead = row.copy()
      }
    }
    sorter.sort()
  }
}

/** Rows that need not be sorted. */
private class InOrder(rows: Iterator[UnsafeRow], byValue: BaseOrdering) extends Iterator[InternalRow] {
  private var last: UnsafeRow = _

  override def hasNext: Boolean = rows.hasNext

  override def next(): InternalRow = {
    val row = rows.next()
    val further = if (last == null) 1 else byValue.compare(row, last)
    if (further != 0) {
      ValuesInOrder.check(further)
      last = row.copy()
    }
    row
  }
}

private object ValuesInOrder {
  /** What lies behind in one side of a join would be missed by the other: better no answer. */
  def check(further: Int): Unit = if (further < 0)
    throw new IllegalStateException("a task did not read its partition values in ascending order: " +
      "set spark.lakemend.planning.preserveDataGrouping to false for this query, and report it")
}

/** Makes sorters that begin with little memory: there is one for every value. */
private class ValueSorters(order: Seq[SortOrder], columns: Seq[Attribute], radix: Boolean) {
  private val PageBytes = 8L << 20
  private val schema = DataTypeUtils.fromAttributes(columns)
  private val first = BindReferences.bindReference(order.head, columns)
  private val ordering = RowOrdering.create(order, columns)
  private val comparator = SortPrefixUtils.getPrefixComparator(first)
  private val fully = radix && order.length == 1 && SortPrefixUtils.canSortFullyWithPrefix(first)
  private val prefixes = new Prefixes(SortPrefix(first))
  private val pages = math.min(PageBytes, SparkEnv.get.memoryManager.pageSizeBytes)

  def create(): UnsafeExternalRowSorter =
    UnsafeExternalRowSorter.create(schema, ordering, comparator, prefixes, pages, fully)

  private class Prefixes(prefix: SortPrefix) extends UnsafeExternalRowSorter.PrefixComputer {
    private val result = new UnsafeExternalRowSorter.PrefixComputer.Prefix
    /** A column of numbers is its own prefix; to project it takes as long as to sort by it. */
    private val number = prefix.child.child match {
      case BoundReference(i, LongType | TimestampType, _) => (row: InternalRow) => take(row.isNullAt(i), row.getLong(i))
      case BoundReference(i, IntegerType | DateType, _) => (row: InternalRow) => take(row.isNullAt(i), row.getInt(i))
      case _ =>
        val projection = UnsafeProjection.create(Seq(prefix))
        (row: InternalRow) => {
          val found = projection(row)
          take(found.isNullAt(0), found.getLong(0))
        }
    }

    private def take(isNull: Boolean, value: Long): Unit = {
      result.isNull = isNull
      result.value = if (isNull) prefix.nullValue else value
    }

    override def computePrefix(row: InternalRow): UnsafeExternalRowSorter.PrefixComputer.Prefix = {
      number(row)
      result
    }
  }
}

/** Sorters of a task come one after the other: the largest is what it takes. */
private class SortMetrics(time: SQLMetric, memory: SQLMetric, spilled: SQLMetric) {
  private val task = TaskContext.get().taskMetrics()
  private var most = 0L

  def of(sorter: UnsafeExternalRowSorter)(sort: UnsafeExternalRowSorter => Iterator[InternalRow]): Iterator[InternalRow] = {
    val before = task.memoryBytesSpilled
    val sorted = sort(sorter)
    time += java.util.concurrent.TimeUnit.NANOSECONDS.toMillis(sorter.getSortTimeNanos)
    spilled += task.memoryBytesSpilled - before
    if (sorter.getPeakMemoryUsage > most) {
      task.incPeakExecutionMemory(sorter.getPeakMemoryUsage - most)
      memory += sorter.getPeakMemoryUsage - most
      most = sorter.getPeakMemoryUsage
    }
    sorted
  }
}
