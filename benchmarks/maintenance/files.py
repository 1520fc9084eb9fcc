"""The files of tables, whoever keeps them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from benchmarks.data import spark
from benchmarks.peers.contest import Contender
from benchmarks.peers.delta_spark import DeltaSpark
from benchmarks.peers.duck import DuckDb, data_files
from benchmarks.peers.engine import Base
from benchmarks.peers.iceberg import Iceberg
from benchmarks.peers.ours import Ours
from benchmarks.peers.race import peer
from benchmarks.peers.statements import Query
from lakemend import Table


def in_bytes(base: Base) -> int:
    return sum(file.stat().st_size for file in data_files(base))


def files_now(contenders: Sequence[Contender]) -> Mapping[str, int]:
    """How many files the table has that each contender made last."""
    return {contender.name: _count(contender) for contender in contenders}


def _count(contender: Contender) -> int:
    if contender.name == DuckDb.name:
        return int(peer(DuckDb).files)
    if contender.name == Ours.name:
        return Table(spark(), contender.held.table).files().num_rows
    if contender.name == Iceberg.name:
        iceberg = peer(Iceberg)
        assert isinstance(iceberg, Iceberg)
        return int(iceberg.answer(contender.held.table, Query("SELECT count(*) FROM {table}.files", "")).rows[0][0])
    if contender.name == DeltaSpark.name:
        return Table(spark(), contender.held.table).files().num_rows  # a path, which both spell alike
    raise KeyError(contender.name)
