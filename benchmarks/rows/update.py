"""UPDATE of 1 % of the rows, scattered over every file."""

from __future__ import annotations

from collections.abc import Iterator

from benchmarks.peers.race import race
from benchmarks.peers.statements import Update
from benchmarks.ratio import Figure
from benchmarks.rows import tables


def run() -> Iterator[Figure]:
    scattered = race(
        tables.plain(),
        "merge-on-read",
        lambda round: Update("b", "b + 1", f"id % 101 = {(round + 5) % 101}"),
        rounds=5,
        warm=2,
        warm_base=tables.plain(tables.MANY // 10),
    )
    yield from scattered.figures(
        "UPDATE of 1 % scattered rows, merge-on-read", against={"iceberg": 1.0, "delta-spark": 1 / 1.7}
    )
