"""Tables of 2,000 partitions of a few rows each: where a task for each of them would cost most."""

from __future__ import annotations

import math
from collections.abc import Iterator

from benchmarks.joins import tables
from benchmarks.joins.tables import TINY
from benchmarks.joins.turns import ALWAYS, AUTO, SHUFFLED, compare_plans
from benchmarks.ratio import Figure

# These have no use for the grouping of their tables.
INDIFFERENT = {
    "sum": "SELECT count(*), sum(a), sum(b) FROM {1}",
    "GROUP BY another column": "SELECT a % 1000, count(*), sum(b) FROM {1} GROUP BY 1",
    "UNION ALL": "SELECT count(*), sum(a), sum(b) FROM (SELECT * FROM {1} UNION ALL SELECT * FROM {2})",
    "join by id alone": "SELECT count(*), sum(t1.a), sum(t2.b) FROM {1} t1 JOIN {2} t2 ON t1.id = t2.id",
}


def run() -> Iterator[Figure]:
    names = [tables.sql_name(TINY, number) for number in (1, 2)]
    auto, always, never = (way.without_broadcasts() for way in (AUTO, ALWAYS, SHUFFLED))
    for what, query in INDIFFERENT.items():
        name = f"2,000 tiny partitions, {what}: reported against not"
        yield compare_plans(name, query.format(None, *names), always, never, target=1.05, most=8)
    aligned = tables.total(TINY)
    yield compare_plans(
        "2,000 tiny partitions, aligned join: auto against shuffled", aligned, auto, never, target=1.0, most=8
    )
    yield compare_plans(
        "2,000 tiny partitions, aligned join: reported against shuffled",
        aligned,
        always,
        never,
        target=math.inf,
        most=8,
    )
