"""Runs in fsspeckit's own environment (`answers.py`).

{"merge": directory, "key", "path"}                   {"seconds": s}: its Parquet files are read and upserted
{"deduplicate": {arguments}, "path"}                  {"seconds": s}
{"checksum": [columns], "path"}                       {"sums": [rows, sum of each column]}
"""

from __future__ import annotations

import importlib.metadata
import time
from typing import Any

import fsspec
import pyarrow.compute as pc
import pyarrow.dataset
from fsspeckit.core.ext.dataset import deduplicate_parquet_dataset
from fsspeckit.datasets.pyarrow import PyarrowDatasetIO

from benchmarks.peers.answers import serve


def _started(first: dict[str, Any]) -> tuple[Any, str]:
    return fsspec.filesystem("file"), importlib.metadata.version("fsspeckit")


def _done(files: Any, command: dict[str, Any]) -> dict[str, Any]:
    if "checksum" in command:
        rows = pyarrow.dataset.dataset(command["path"], format="parquet").to_table(columns=command["checksum"])
        return {"sums": [rows.num_rows, *(pc.sum(rows[name]).as_py() for name in command["checksum"])]}
    started = time.perf_counter()
    if "merge" in command:
        rows = pyarrow.dataset.dataset(command["merge"], format="parquet").to_table()
        # Its limits are for small machines: more memory lets it take its shorter ways.
        PyarrowDatasetIO().merge(rows, command["path"], "upsert", command["key"], merge_max_memory_mb=8192)
    else:
        deduplicate_parquet_dataset(files, command["path"], **command["deduplicate"])
    return {"seconds": time.perf_counter() - started}


if __name__ == "__main__":
    serve(_started, _done)
