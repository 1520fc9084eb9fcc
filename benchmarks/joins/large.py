"""For the record: 100M × 100M rows in 1,000 partitions. It takes some 5 GB of disk and many minutes."""

from __future__ import annotations

from collections.abc import Iterator

from benchmarks.data import settings, spark
from benchmarks.joins import tables
from benchmarks.joins.tables import Layout
from benchmarks.joins.turns import AUTO, SHUFFLED_200
from benchmarks.ratio import Figure, measure
from benchmarks.rows.tables import MANY

THOUSAND = Layout("thousand", MANY * 10, "id % 1000")
SIZE = f"{THOUSAND.count / 1e6:g}M"


def run() -> Iterator[Figure]:
    query = tables.total(THOUSAND)
    mine, theirs = (way.without_broadcasts() for way in (AUTO, SHUFFLED_200))
    with settings(mine.settings):
        yield measure(
            f"join {SIZE} × {SIZE}, 1,000 partitions: planning",
            lambda: spark().sql(query)._jdf.queryExecution().executedPlan(),
            target=0.5,
            rounds=5,
        )
    # Once: a round takes minutes, and what a first one costs is lost in it.
    ours, other = mine.answer(query), theirs.answer(query)
    if ours.rows != other.rows:
        raise AssertionError(f"{mine.name} answers {ours.rows}, {theirs.name} answers {other.rows}")
    yield Figure(
        f"join {SIZE} × {SIZE}, 1,000 partitions, against shuffled into 200",
        ours.seconds / other.seconds,
        0.5,
        "×",
        f"{ours.seconds:.1f} s against {other.seconds:.1f} s, once",
    )
