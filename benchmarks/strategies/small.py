"""Upsert of 1 % into a table of a million rows, against engines without Spark; scattered, or within one file."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from benchmarks.peers.contest import contest, of_engine, of_ours
from benchmarks.peers.delta_rs import DeltaRs
from benchmarks.peers.duck import DuckDb, data_files, upserted
from benchmarks.peers.py_iceberg import PyIceberg
from benchmarks.peers.race import peer
from benchmarks.peers.statements import Upsert
from benchmarks.ratio import Figure
from benchmarks.rows.tables import MANY
from benchmarks.strategies import tables
from benchmarks.strategies.upsert import upsert

COUNT = MANY // 10
ROWS = COUNT // 100
FILES = 16
SIZE = f"{tables.size(ROWS)} into {tables.size(COUNT)} rows"
TARGETS = {DeltaRs.name: 1.0, PyIceberg.name: 1.0, DuckDb.name: 2.0}


def run() -> Iterator[Figure]:
    sources: dict[str, Callable[[int], str]] = {
        "scattered": lambda round: tables.scattered(COUNT, ROWS, round),
        "clustered": lambda round: tables.clustered(COUNT, ROWS, round, FILES),
    }
    base = tables.keyed(COUNT, FILES)
    for name, source in sources.items():
        contenders = [of_ours(base, upsert(source))]
        delta = peer(DeltaRs)
        contenders.append(of_engine(delta, base, lambda round, source=source: Upsert(source(round))))  # type: ignore[misc]
        if iceberg := peer(PyIceberg):
            contenders.append(iceberg.upserting(base, source))
        if duck := peer(DuckDb):
            query = lambda round, source=source: upserted(base, source(round))  # noqa: E731
            contenders.append(duck.rewriting(query, rows=COUNT + ROWS // 5, files=len(data_files(base))))
        yield from contest(contenders, rounds=5, warm=6).figures(f"upsert of {SIZE}, {name}", against=TARGETS)
