"""MERGE of 1 % of the rows, four fifths of them updates: scattered over every file, or clustered by key."""

from __future__ import annotations

from collections.abc import Iterator

from benchmarks.data import spark
from benchmarks.peers.engine import BOTH
from benchmarks.peers.race import race
from benchmarks.peers.statements import Upsert
from benchmarks.ratio import Figure
from benchmarks.rows import tables

ROUNDS = 3
# Clustered ones take a second, of which a session that has merged before spends less on compiling.
WARM = {"scattered": 1, "clustered": 6}


def run() -> Iterator[Figure]:
    # deltalake joins the whole target in memory here, and would take most of the run's time.
    for name, statement, best in (("scattered", scattered, 1 / 1.5), ("clustered", clustered, 1 / 4)):
        for mode in BOTH:
            merges = race(
                tables.plain(),
                mode,
                statement,
                rounds=ROUNDS if name == "scattered" else 5,
                warm=WARM[name],
                warm_base=tables.plain(tables.MANY // 10),
                without=("deltalake",),
            )
            yield from merges.figures(f"MERGE of 1 % {name}, {mode}", best=best)


def scattered(round: int) -> Upsert:
    """Every 125th id or so, over the whole table."""
    count = tables.MANY // 100
    shift = round % 100
    ids = spark().range(0, count, 1, 2).selectExpr(f"id * 125 + id % 5 + {shift} AS id")
    return Upsert(tables.source(f"scattered-{shift}", ids))


def clustered(round: int) -> Upsert:
    """Consecutive ids, another stretch each round."""
    count = tables.MANY // 100
    start = (round * 31 + 7) % 90 * count
    return Upsert(tables.source(f"clustered-{start}", spark().range(start, start + count, 1, 2)))
