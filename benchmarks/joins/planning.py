"""How long it takes to plan an aligned join of many partitions, in a warm session; nothing is run."""

from __future__ import annotations

from collections.abc import Iterator

from benchmarks.data import settings, spark
from benchmarks.joins import tables
from benchmarks.joins.tables import Layout
from benchmarks.joins.turns import ALWAYS
from benchmarks.peers.race import ours
from benchmarks.ratio import Figure, measure

# Partitions and seconds.
TARGETS = {1_000: 0.5, 5_000: 2.0}
ROWS_EACH = 10


def run() -> Iterator[Figure]:
    for partitions, target in TARGETS.items():
        base = tables.table(Layout(f"planned_{partitions}", partitions * ROWS_EACH, f"id % {partitions}"), 1)
        # A copy is as good as another table: planning knows nothing of what is in the files.
        copy = ours().fresh(base, "merge-on-read")
        query = f"SELECT count(*), sum(t1.a + t2.a) FROM {tables.joined(2)}".format(
            None, f"lake.bench.{base.name}", copy
        )
        # `auto` would not even consider partitions as small as these.
        with settings(ALWAYS.without_broadcasts().settings):
            check_that_nothing_is_shuffled(query)
            yield measure(
                f"aligned join of tables with {partitions:,} partitions: planning",
                lambda query=query: plan(query),  # type: ignore[misc]
                target=target,
            )


def plan(query: str) -> str:
    return str(spark().sql(query)._jdf.queryExecution().executedPlan().toString())


def check_that_nothing_is_shuffled(query: str) -> None:
    if "hashpartitioning" in plan(query):
        raise AssertionError(f"the join is planned with a shuffle:\n{plan(query)[:5000]}")
