"""MERGE of a table into one ten times as large and partitioned alike, against the same MERGE with a shuffle.

Of five consecutive ids the target has four, so that four fifths of the source's rows are updates.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cache

from pyspark.sql import DataFrame

from benchmarks.data import scratch, settings, spark
from benchmarks.joins.tables import COLUMNS, TASKS
from benchmarks.joins.turns import AUTO, SHUFFLED, Way, take_turns
from benchmarks.peers.engine import BOTH, Base, Mode
from benchmarks.peers.race import ours
from benchmarks.ratio import Answer, Figure, seconds
from benchmarks.rows.tables import MANY

TARGET_ROWS = MANY // 2
SOURCE_ROWS = MANY // 20
# No source is sent to the executors: the lower limit is for tables of a few hundred thousand rows.
LARGE_SOURCE = {"spark.lakemend.merge.broadcastThreshold": "1b"}


def run() -> Iterator[Figure]:
    for mode in BOTH:
        ways = (AUTO.without_broadcasts(), SHUFFLED.without_broadcasts())
        turns = take_turns({way.name: merging(way, mode) for way in ways})
        yield turns.figure(
            f"MERGE {TARGET_ROWS / 1e6:g}M × {SOURCE_ROWS / 1e6:g}M aligned, {mode}, against shuffled",
            *(way.name for way in ways),
            target=0.5,
        )


def merging(way: Way, mode: Mode) -> Callable[[], Answer]:
    """MERGE into a fresh copy; the answer is what the copy holds then."""

    def merge() -> Answer:
        copy = ours().fresh(target(), mode)
        with settings({**way.settings, **LARGE_SOURCE}):
            taken = seconds(
                lambda: spark().sql(
                    f"""MERGE INTO {copy} t USING {source()} s ON t.part = s.part AND t.id = s.id
                    WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *"""
                )
            )
        return Answer(taken, [ours().checksum(copy)])

    return merge


@cache
def target() -> Base:
    return written(
        "merge_target", spark().range(0, TARGET_ROWS, 1, 2 * TASKS).selectExpr("id DIV 4 * 5 + id % 4 AS id")
    )


@cache
def source() -> str:
    """Every eleventh id, of every partition as many."""
    ids = spark().range(0, SOURCE_ROWS, 1, 2 * TASKS).selectExpr("id * 11 AS id")
    return f"lake.bench.{written('merge_source', ids).name}"


def written(name: str, ids: DataFrame) -> Base:
    """A table of 100 partitions, a file each, in no order."""
    rows = ids.selectExpr(
        "id",
        "CAST(id DIV 5 % 100 AS INT) AS part",
        f"hash(id, '{name}') AS a",
        f"CAST(hash('{name}', id) * 0.5 AS DOUBLE) AS b",
    )
    ordered = rows.repartition(TASKS, "part").sortWithinPartitions("part", "a")
    ordered.writeTo(f"lake.bench.{name}").partitionedBy("part").create()
    return Base(name, scratch() / "warehouse" / "bench" / name, COLUMNS, "part")
