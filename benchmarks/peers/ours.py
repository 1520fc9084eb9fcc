"""Lakemend as one of the engines, in this process."""

from __future__ import annotations

import time
from collections.abc import Mapping
from contextlib import AbstractContextManager

from benchmarks.data import scratch, settings, spark
from benchmarks.peers.engine import BOTH, Base, Mode, checksum_sql, link_tree
from benchmarks.peers.statements import Query, Statement, view
from benchmarks.ratio import Answer, seconds
from lakemend import __version__

_VERBS = ("update", "delete", "merge")


class Ours:
    name = "lakemend"
    modes = BOTH
    version = __version__

    def __init__(self) -> None:
        self._copies = 0
        self._views: set[str] = set()

    def fresh(self, base: Base, mode: Mode) -> str:
        self._copies += 1
        name = f"copy_{self._copies}"
        link_tree(base.directory, scratch() / "warehouse" / "bench" / name)
        table = f"lake.bench.{name}"
        if mode == "copy-on-write":
            modes = ", ".join(f"'write.{verb}.mode' = '{mode}'" for verb in _VERBS)
            spark().sql(f"ALTER TABLE {table} SET TBLPROPERTIES ({modes})")
        spark().sql(f"SELECT count(*) FROM {table}").collect()
        return table

    def run(self, table: str, statement: Statement) -> float:
        make_view = view(statement)
        if make_view and make_view not in self._views:
            spark().sql(make_view)
            self._views.add(make_view)
        return seconds(lambda: spark().sql(statement.sql(table)))

    def answer(self, table: str, query: Query) -> Answer:
        text = query.sql(table)
        started = time.perf_counter()
        rows = spark().sql(text).collect()
        return Answer(time.perf_counter() - started, [list(row) for row in rows])

    def settings(self, values: Mapping[str, str]) -> AbstractContextManager[None]:
        return settings(values)

    def checksum(self, table: str) -> list[float]:
        return list(spark().sql(checksum_sql(table)).collect()[0])
