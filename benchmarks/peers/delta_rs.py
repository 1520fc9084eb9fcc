"""deltalake (delta-rs), in this process. It rewrites files only: it cannot write deletion vectors."""

from __future__ import annotations

import importlib.metadata

import pyarrow.compute as pc
import pyarrow.dataset
from deltalake import DeltaTable, write_deltalake

from benchmarks.data import scratch
from benchmarks.peers.engine import Base, Mode, link_tree
from benchmarks.peers.statements import Delete, Overwrite, ReplaceWhere, Statement, Update, Upsert
from benchmarks.ratio import seconds


class DeltaRs:
    name = "deltalake"
    modes: tuple[Mode, ...] = ("copy-on-write",)

    def __init__(self) -> None:
        self.version = importlib.metadata.version("deltalake")
        self._copies = 0
        self._open: dict[str, DeltaTable] = {}

    def fresh(self, base: Base, mode: Mode) -> str:
        self._copies += 1
        copy = scratch() / self.name / f"copy-{self._copies}"
        link_tree(base.directory, copy)
        self._open = {str(copy): DeltaTable(str(copy))}
        return str(copy)

    def run(self, table: str, statement: Statement) -> float:
        return seconds(lambda: self._run(self._open[table], statement))

    def checksum(self, table: str) -> list[float]:
        rows = self._open[table].to_pyarrow_table(columns=["id", "a", "b"])
        return [rows.num_rows, *(pc.sum(column).as_py() for column in rows.columns)]

    def _run(self, table: DeltaTable, statement: Statement) -> None:
        if isinstance(statement, Update):
            table.update(updates={statement.column: statement.value}, predicate=statement.where)
        elif isinstance(statement, Delete):
            table.delete(statement.where)
        elif isinstance(statement, Upsert):
            merge = table.merge(
                _rows(statement.source),
                f"t.{statement.key} = s.{statement.key}",
                source_alias="s",
                target_alias="t",
            )
            merge.when_matched_update_all().when_not_matched_insert_all().execute()
        elif isinstance(statement, ReplaceWhere):
            write_deltalake(table, _rows(statement.source), mode="overwrite", predicate=statement.where)
        elif isinstance(statement, Overwrite):
            write_deltalake(table, _rows(statement.source), mode="overwrite")
        else:
            raise NotImplementedError(f"{self.name} knows no SQL: {statement.text}")


def _rows(source: str) -> pyarrow.Table:
    return pyarrow.dataset.dataset(source, format="parquet").to_table()
