"""Statements that change next to nothing, in a warm session on a table in use: what a statement costs at least."""

from __future__ import annotations

from collections.abc import Iterator

from benchmarks.peers.engine import BOTH
from benchmarks.peers.race import race
from benchmarks.peers.statements import Delete, ReplaceWhere, Update
from benchmarks.ratio import Figure
from benchmarks.rows import tables

ROWS = 100_000
PARTITIONS = 1_000
ROUNDS = 7
WARM = 25


def run() -> Iterator[Figure]:
    few = tables.plain(ROWS, 4)
    for mode in BOTH:
        updates = race(
            few,
            mode,
            lambda round: Update("a", "a + 1", f"id = {(round * 1005) % ROWS}"),
            rounds=ROUNDS,
            warm=WARM,
            restore=False,
        )
        yield from updates.figures(
            f"UPDATE of 1 row of 100k, {mode}", seconds=0.25, against={"iceberg": 0.5, "delta-spark": 0.25}
        )

    many = tables.partitioned(ROWS * 10, PARTITIONS)
    deletes = race(
        many,
        "merge-on-read",
        lambda round: Delete(f"part = {round % PARTITIONS}"),
        rounds=ROUNDS,
        warm=WARM,
        restore=False,
    )
    targets = {"iceberg": 0.5, "delta-spark": 1 / 6}
    yield from deletes.figures("DELETE of 1 partition of 1,000", seconds=0.06, against=targets)

    def replacement(round: int) -> ReplaceWhere:
        part = round % PARTITIONS
        return ReplaceWhere(tables.partition(ROWS * 10, PARTITIONS, part), f"part = {part}")

    replaced = race(many, "merge-on-read", replacement, rounds=ROUNDS, warm=WARM, restore=False)
    yield from replaced.figures("replaceWhere of 1 partition of 1,000", seconds=0.06, against=targets)
