"""Upsert of 1 % into a large table of a hundred files: scattered over all of them, or within one.

delta-spark merges with deletion vectors, as we do: it takes longer without.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator

from pyspark.sql import DataFrame

from benchmarks.data import spark
from benchmarks.peers.contest import contest, of_engine, of_ours
from benchmarks.peers.delta_spark import DeltaSpark
from benchmarks.peers.duck import DuckDb, data_files, upserted
from benchmarks.peers.engine import Base
from benchmarks.peers.race import Race, peer
from benchmarks.peers.statements import Upsert
from benchmarks.ratio import Figure
from benchmarks.rows.replace import copy_with
from benchmarks.rows.tables import MANY
from benchmarks.strategies import tables
from lakemend import Table

ROWS = MANY // 100
SIZE = f"{tables.size(ROWS)} into {tables.size(MANY)} rows"
Source = Callable[[int], str]


def run() -> Iterator[Figure]:
    base = tables.keyed()

    def scattered(round: int) -> str:
        return tables.scattered(MANY, ROWS, round)

    def clustered(round: int) -> str:
        return tables.clustered(MANY, ROWS, round)

    yield from against(base, scattered, 3, 2).figures(
        f"upsert of {SIZE}, scattered", against={DuckDb.name: 1.0, DeltaSpark.name: 0.5}
    )
    yield from against(base, clustered, 7, 8, duck=False).figures(
        f"upsert of {SIZE}, within one file of {tables.FILES}", against={DeltaSpark.name: 0.2}
    )
    yield share_read(base, clustered(3))


def against(base: Base, source: Source, rounds: int, warm: int, duck: bool = True) -> Race:
    contenders = [of_ours(base, upsert(source))]
    if duck and (found := peer(DuckDb)):
        rewriting = found.rewriting(
            lambda round: upserted(base, source(round)), rows=MANY + ROWS // 5, files=len(data_files(base))
        )
        contenders.append(rewriting)
    delta = peer(DeltaSpark)
    if delta is not None:
        contenders.append(of_engine(delta, base, lambda round: Upsert(source(round)), "merge-on-read"))
    return contest(contenders, rounds=rounds, warm=warm)


def upsert(source: Source) -> Callable[[Table, int], Callable[[], object]]:
    return upsert_of(lambda round: spark().read.parquet(source(round)))


def upsert_of(rows: Callable[[int], DataFrame]) -> Callable[[Table, int], Callable[[], object]]:
    def ready(table: Table, round: int) -> Callable[[], object]:
        coming = rows(round)
        return lambda: table.merge(coming, "id", "upsert")

    return ready


def share_read(base: Base, source: str) -> Figure:
    """Of a copy that has no file but those that the merge must touch, the others cannot be read."""
    touched = {os.path.basename(file) for file in _planned(base, source)}
    kept = [file for file in data_files(base) if file.name in touched]
    name = copy_with(base.directory, kept, "with_touched_files")
    Table(spark(), name).merge(spark().read.parquet(source), "id", "upsert")
    share = sum(file.stat().st_size for file in kept) / sum(file.stat().st_size for file in data_files(base))
    note = f"{len(kept)} of {len(data_files(base))} files; on a copy of the table that has no other data file"
    return Figure("the same: bytes of the table read", 100 * share, 2, " %", note)


def _planned(base: Base, source: str) -> list[str]:
    plan = (
        Table(spark(), f"lake.bench.{base.name}").merge(spark().read.parquet(source), "id", "upsert", dry_run=True).plan
    )
    assert plan is not None
    return list(plan["files"])
