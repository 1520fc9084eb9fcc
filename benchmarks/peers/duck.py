"""DuckDB, in this process and with as many threads as the others have cores: Parquet read, and written to a directory.

It keeps no table, no versions and no statistics of rows: what it takes is what reading and writing alone cost.
"""

from __future__ import annotations

import importlib.metadata
import math
import shutil
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import duckdb

from benchmarks.data import scratch
from benchmarks.peers.contest import Clocked, Contender
from benchmarks.peers.engine import Base
from benchmarks.ratio import seconds

# DuckDB's own default, a multiple of its vectors.
_ROW_GROUP, _VECTOR = 122_880, 2_048


class DuckDb:
    name = "duckdb"

    def __init__(self) -> None:
        self.version = importlib.metadata.version("duckdb")
        self._connection = duckdb.connect(config={"threads": 2, "memory_limit": "4GB"})
        # It is faster when it may write rows in any order.
        self._connection.execute("SET preserve_insertion_order = false")
        self._copies = 0
        self.directory = Path()

    def rewriting(self, query: Callable[[int], str], *, rows: int, files: int) -> Contender:
        """Writes the result of a query, of about so many rows, into about so many files."""
        each = math.ceil(rows / files)
        groups = math.ceil(each / _ROW_GROUP)
        size = math.ceil(each / groups / _VECTOR) * _VECTOR

        def prepare(round: int) -> Clocked:
            shutil.rmtree(self.directory, ignore_errors=True) if self._copies else None
            self._copies += 1
            self.directory = scratch() / self.name / f"copy-{self._copies}"
            self.directory.parent.mkdir(exist_ok=True)
            options = f"FORMAT parquet, COMPRESSION snappy, ROW_GROUP_SIZE {size}, ROW_GROUPS_PER_FILE {groups}"
            copy = f"COPY ({query(round)}) TO '{self.directory}' ({options})"
            return lambda: seconds(lambda: self._connection.execute(copy))

        return Contender(self.name, prepare, self.checksum)

    def checksum(self) -> list[Any]:
        found = self._connection.execute(
            f"SELECT count(*), sum(id), sum(a), sum(b) FROM read_parquet('{self.directory}/**/*.parquet')"
        ).fetchone()
        assert found is not None
        return list(found)

    @property
    def files(self) -> int:
        return len(list(self.directory.rglob("*.parquet")))


def parquet(files: Sequence[Path]) -> str:
    """A table function over these files."""
    return f"read_parquet([{', '.join(repr(str(file)) for file in files)}])"


def data_files(base: Base) -> list[Path]:
    """Of a base that has nothing but live files."""
    return sorted(file for file in base.directory.rglob("*.parquet") if "_delta_log" not in file.parts)


def upserted(base: Base, source: str, key: str = "id") -> str:
    """The base's rows but for those of the source's keys, and the source's."""
    rows = f"read_parquet('{source}/*.parquet')"
    kept = f"SELECT t.* FROM {parquet(data_files(base))} t ANTI JOIN {rows} s USING ({key})"
    return f"SELECT * FROM {rows} UNION ALL BY NAME {kept}"
