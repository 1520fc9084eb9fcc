"""Runs in PyIceberg's own environment (`answers.py`): one table at a time.

first line                       {"warehouse": directory}
{"fresh": [Parquet files]}       a new table that holds their rows, in as many files
{"upsert": directory, "key"}     {"seconds": s}: its Parquet files are read and merged into the table
{"checksum": [columns]}          {"sums": [rows, sum of each column]}
"""

from __future__ import annotations

import importlib.metadata
import time
from typing import Any

import pyarrow.compute as pc
import pyarrow.dataset
import pyarrow.parquet
from pyiceberg.catalog import load_catalog

from benchmarks.peers.answers import serve

_NAME = "db.table"


class Open:
    def __init__(self, warehouse: str) -> None:
        uri = f"sqlite:///{warehouse}/catalog.db"
        self.catalog = load_catalog("bench", type="sql", uri=uri, warehouse=f"file://{warehouse}")
        self.catalog.create_namespace("db")
        self.table: Any = None

    def make(self, files: list[str]) -> None:
        if self.catalog.table_exists(_NAME):
            self.catalog.drop_table(_NAME)
        schema = pyarrow.dataset.dataset(files[0], format="parquet").schema.remove_metadata()
        self.table = self.catalog.create_table(_NAME, schema)
        for file in files:
            self.table.append(pyarrow.parquet.read_table(file).cast(schema))


def _started(first: dict[str, Any]) -> tuple[Open, str]:
    return Open(first["warehouse"]), importlib.metadata.version("pyiceberg")


def _done(open: Open, command: dict[str, Any]) -> dict[str, Any]:
    if "fresh" in command:
        open.make(command["fresh"])
        return {}
    if "upsert" in command:
        started = time.perf_counter()
        open.table.upsert(_rows(command["upsert"]), join_cols=[command["key"]])
        return {"seconds": time.perf_counter() - started}
    rows = open.table.scan(selected_fields=tuple(command["checksum"])).to_arrow()
    return {"sums": [rows.num_rows, *(pc.sum(rows[name]).as_py() for name in command["checksum"])]}


def _rows(directory: str) -> pyarrow.Table:
    rows = pyarrow.dataset.dataset(directory, format="parquet").to_table()
    return rows.cast(rows.schema.remove_metadata())


if __name__ == "__main__":
    serve(_started, _done)
