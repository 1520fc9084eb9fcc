"""The pairs of tables that these benchmarks join: each made once, by us.

Both tables of a pair have the same ids in the same partitions, and other numbers. Doubles are halves of numbers so
small that their sums are exact in whatever order they are added.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

from benchmarks.data import scratch, spark
from benchmarks.peers.engine import Base
from benchmarks.rows.tables import MANY

COLUMNS = "id BIGINT, part INT, a INT, b DOUBLE"
TASKS = 8


@dataclass(frozen=True)
class Layout:
    """How the rows of a table are told apart, and in which order they lie in its files.

    `part` and `order` are expressions of id: rows in the order of a hash must be sorted to be merged, and those in the
    order of their ids need not be, which the table is then told to keep. The rows of one value of `spread` are written
    by one task: with `part` a partition is one file, with `id` it has one from every task.
    """

    name: str
    count: int
    part: str
    order: str = "hash(id)"
    spread: str = "part"


HUNDRED = Layout("hundred", MANY, "id % 100")
SORTED = Layout("sorted", MANY, "id % 100", order="id")
FOUR = Layout("four", MANY, "id % 4", spread="id")
# One value has 80 % of the rows, and 99 share the others.
SKEWED = Layout("skewed", MANY, "IF(id % 10 < 8, 0, id DIV 10 % 99 + 1)", spread="id")
TINY = Layout("tiny", MANY // 10, "id % 2000")


@cache
def table(layout: Layout, number: int) -> Base:
    """The first, second, … table of a layout."""
    name = f"{layout.name}_{number}"
    rows = (
        spark()
        .range(0, layout.count, 1, 2 * TASKS)
        .selectExpr(
            "id",
            f"CAST({layout.part} AS INT) AS part",
            f"hash(id, {number}) AS a",
            f"CAST((id + {number}) % 1000003 * 1.5 AS DOUBLE) AS b",
        )
    )
    together = rows.repartition(TASKS, layout.spread).selectExpr("*", f"{layout.order} AS position")
    ordered = together.sortWithinPartitions("part", "position").drop("position")
    writer = ordered.writeTo(f"lake.bench.{name}").partitionedBy("part")
    (writer.tableProperty("write.sort-columns", "id") if layout.order == "id" else writer).create()
    return Base(name, scratch() / "warehouse" / "bench" / name, COLUMNS, "part")


def sql_name(layout: Layout, number: int) -> str:
    """What the table is called in queries; it is made if it is not there yet."""
    return f"lake.bench.{table(layout, number).name}"


def joined(tables: int) -> str:
    """The join of the first tables of a layout, named {1}, {2}, …, by partition and id."""
    others = (f"JOIN {{{i}}} AS t{i} ON t1.part = t{i}.part AND t1.id = t{i}.id" for i in range(2, tables + 1))
    return f"{{1}} AS t1 {' '.join(others)}"


def total(layout: Layout, tables: int = 2) -> str:
    """Numbers of every table's columns over that join."""
    sums = ", ".join(f"sum(t{i}.a), sum(t{i}.b)" for i in range(1, tables + 1))
    names = [sql_name(layout, i) for i in range(1, tables + 1)]
    return f"SELECT count(*), {sums} FROM {joined(tables)}".format(None, *names)
