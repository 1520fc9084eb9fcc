"""PyIceberg, in an environment of its own: a catalog in SQLite, tables made of the base's Parquet files."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from benchmarks.data import scratch
from benchmarks.peers.contest import Clocked, Contender
from benchmarks.peers.duck import data_files
from benchmarks.peers.engine import Base
from benchmarks.peers.process import Worker

PACKAGE = "pyiceberg[pyarrow,sql-sqlite]~=0.12.0"


class PyIceberg:
    name = "pyiceberg"

    def __init__(self) -> None:
        warehouse = scratch() / "pyiceberg-warehouse"
        warehouse.mkdir()
        self._worker = Worker(self.name, PACKAGE, "benchmarks.peers.py_iceberg_server", {"warehouse": str(warehouse)})
        self.version = self._worker.version

    def upserting(self, base: Base, source: Callable[[int], str], key: str = "id") -> Contender:
        def prepare(round: int) -> Clocked:
            self._worker.ask({"fresh": [str(file) for file in data_files(base)]})
            command = {"upsert": source(round), "key": key}
            return lambda: float(self._worker.ask(command)["seconds"])

        return Contender(self.name, prepare, self._checksum)

    def _checksum(self) -> list[Any]:
        return list(self._worker.ask({"checksum": ["id", "a", "b"]})["sums"])
