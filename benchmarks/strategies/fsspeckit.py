"""Upsert and deduplication against fsspeckit, which takes minutes for what others do in seconds: one round."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from benchmarks.maintenance import dedup
from benchmarks.peers.contest import Contender, contest, of_ours
from benchmarks.peers.fsspeckit import Fsspeckit
from benchmarks.peers.race import peer
from benchmarks.ratio import Figure
from benchmarks.rows.tables import MANY
from benchmarks.strategies import tables
from benchmarks.strategies.upsert import ROWS, SIZE, upsert


def run() -> Iterator[Figure]:
    found = peer(Fsspeckit)
    if found is None:
        return
    base = tables.keyed()

    def source(round: int) -> str:
        return tables.scattered(MANY, ROWS, round)

    theirs = found.doing(base, lambda round: {"merge": source(round), "key": "id"})
    yield from figures(f"upsert of {SIZE}, scattered", [of_ours(base, upsert(source)), theirs], 1 / 20)
    twice = dedup.base()
    arguments = {"key_columns": ["id"], "dedup_order_by": ["a"]}
    # Of a key it keeps the lowest row where we keep the highest: the tables differ.
    theirs = replace(found.doing(twice, lambda round: {"deduplicate": arguments}), checksum=None)
    yield from figures(dedup.NAME, [dedup.ours_deduplicating(), theirs], 1 / 5)


def figures(name: str, contenders: list[Contender], target: float) -> Iterator[Figure]:
    yield from contest(contenders, rounds=1, warm=1).figures(name, against={Fsspeckit.name: target})
