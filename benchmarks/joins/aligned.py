"""Tables partitioned alike and joined by partition and id, against the same join with a shuffle, which is adaptive."""

from __future__ import annotations

from collections.abc import Iterator

from benchmarks.data import consume, settings, spark
from benchmarks.joins import tables
from benchmarks.joins.stages import Work, work_of
from benchmarks.joins.tables import FOUR, HUNDRED, SKEWED, SORTED
from benchmarks.joins.turns import AUTO, SHUFFLED, SHUFFLED_200, Way, compare_plans
from benchmarks.ratio import Figure
from benchmarks.rows.tables import MANY

MINE, THEIRS, THEIRS_200 = (way.without_broadcasts() for way in (AUTO, SHUFFLED, SHUFFLED_200))
SIZE = f"{MANY / 1e6:g}M"


def run() -> Iterator[Figure]:
    yield compare_plans(
        f"join {SIZE} × {SIZE}, 100 partitions, against shuffled (the better of 8 and 200)",
        tables.total(HUNDRED),
        MINE,
        THEIRS,
        THEIRS_200,
        target=0.5,
    )
    mine, theirs = work(MINE), work(THEIRS)
    yield Figure("the same: bytes shuffled", mine.shuffled, 0, " B", f"against {theirs.shuffled:,} B")
    yield Figure(
        "the same: most memory of a task, to sort and to join, against shuffled into 8",
        mine.peak / theirs.peak,
        0.7,
        "×",
        f"{mine.peak / 2**20:.1f} MiB against {theirs.peak / 2**20:.1f} MiB",
    )
    yield compare_plans("the same, three tables", tables.total(HUNDRED, 3), MINE, THEIRS, target=0.4)
    yield compare_plans("the same, files sorted by id", tables.total(SORTED), MINE, THEIRS, target=1 / 3)
    yield compare_plans("one partition with 80 % of the rows", tables.total(SKEWED), MINE, THEIRS, target=1.05)
    yield compare_plans("four huge partitions", tables.total(FOUR), MINE, THEIRS, target=1.05)


def work(way: Way) -> Work:
    """The join alone: a total of it would send a row of every task to the last."""
    names = [tables.sql_name(HUNDRED, number) for number in (1, 2)]
    query = f"SELECT t1.*, t2.a AS a2, t2.b AS b2 FROM {tables.joined(2)}".format(None, *names)
    with settings(way.settings):
        return work_of(lambda: consume(spark().sql(query)))
