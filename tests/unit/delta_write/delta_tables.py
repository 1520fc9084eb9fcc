"""Delta tables made without Spark: data files by pyarrow, commits by Lakemend.

`Lake` is a table on disk with the verbs the tests need; every file's statistics come from its footer,
as the connector hands them over.
"""

from __future__ import annotations

import json
import uuid
from pathlib import Path
from typing import Any

import deltalake
import pyarrow as pa
import pyarrow.parquet as pq
from pyroaring import BitMap64

from lakemend.formats.delta.mapping import partition_names
from lakemend.formats.delta.metadata import new_metadata
from lakemend.formats.delta.partition_values import format_value, partition_directory
from lakemend.formats.delta.table import DeltaTable
from lakemend.formats.format import Change, FooterStats, Masked, Metadata, NewFile, Removed, Snapshot
from lakemend.schema import find, struct, to_arrow, to_wire
from lakemend.storage import open_store

SCHEMA = struct(("id", "long"), ("p", "string"), ("x", "double"))
ALL = {"op": "ALWAYS_TRUE"}
ROWS = [{"id": 1, "p": "a", "x": 1.5}, {"id": 2, "p": "b", "x": None}, {"id": 3, "p": "c", "x": -1.0}]
PLAIN = {"delta.enableDeletionVectors": "false"}


def equals(column: str, value: Any, type: str = "long") -> dict[str, Any]:
    return {"op": "=", "args": [{"col": [column]}, {"lit": value, "type": type}]}


def positions(*rows: int) -> bytes:
    return bytes(BitMap64(rows).serialize())


def metadata(schema: Any = SCHEMA, partitioning: tuple[str, ...] = (), **request: Any) -> Metadata:
    parts = [{"transform": "identity", "source": [name]} for name in partitioning]
    return new_metadata({"schema": schema, "partitioning": parts, **request}, None)


def footer_stats(path: Path) -> tuple[FooterStats, ...]:
    footer = pq.ParquetFile(path).metadata
    found = []
    for index in range(footer.num_columns):
        name = tuple(footer.schema.column(index).path.split("."))
        chunks = [footer.row_group(group).column(index).statistics for group in range(footer.num_row_groups)]
        if any(chunk is None for chunk in chunks):
            continue
        low = min((c.min for c in chunks if c.has_min_max), default=None)
        high = max((c.max for c in chunks if c.has_min_max), default=None)
        found.append(FooterStats(name, to_wire(low), to_wire(high), sum(c.null_count for c in chunks)))
    return tuple(found)


class Lake:
    """A Delta table in a directory."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.table = DeltaTable(open_store(str(root)))

    def write(self, rows: list[dict[str, Any]], to: Metadata | None = None, partition: tuple[Any, ...] = ()) -> NewFile:
        """A data file of rows in logical names; partition values are wire values."""
        meta = to or self.table.latest().metadata
        parts = {field.source[0] for field in meta.partitioning}
        columns: dict[str, pa.Array] = {}
        for logical, physical in zip(meta.schema["fields"], meta.physical["fields"], strict=True):
            if logical["name"] not in parts:
                values = [row.get(logical["name"]) for row in rows]
                columns[physical["name"]] = pa.array(values, to_arrow(physical["type"]))
        names = partition_names(meta)
        types = [(find(meta.schema, field.source) or {})["type"] for field in meta.partitioning]
        strings = [format_value(v, t) for v, t in zip(partition, types, strict=True)]
        folder = partition_directory(names, strings)
        name = f"{folder}/part-{uuid.uuid4()}.parquet".lstrip("/")
        target = self.root / name
        target.parent.mkdir(parents=True, exist_ok=True)
        pq.write_table(pa.table(columns), target)
        info = target.stat()
        return NewFile(name, info.st_size, len(rows), int(info.st_mtime * 1000), partition, footer_stats(target))

    def create(self, definition: Metadata | None = None, rows: list[dict[str, Any]] | None = None) -> Snapshot:
        meta = definition or metadata()
        added = [self.write(rows, meta)] if rows else []
        change = Change("create_as" if rows else "create", metadata=meta, added=added)
        self.commit(None, change)
        return self.table.latest()

    def commit(self, base: Snapshot | None, change: Change) -> int:
        """A commit that meets no other writer, and what follows it."""
        version = self.table.try_commit(base, change)
        self.table.settle(version)
        return version

    def append(self, *files: NewFile, **options: Any) -> int:
        return self.commit(self.table.latest(), Change("append", added=list(files), **options))

    def append_rows(self, *rows: dict[str, Any], **options: Any) -> int:
        return self.append(self.write(list(rows)), **options)

    def removed(self, base: Snapshot, *rows: int) -> list[Removed]:
        return [Removed(base.files["path"][row].as_py(), row) for row in rows]

    def masked(self, base: Snapshot, row: int, *dead: int) -> Masked:
        return Masked(base.files["path"][row].as_py(), row, positions(*dead))


def actions(lake: Lake, version: int) -> list[dict[str, Any]]:
    """Of a version's commit, as the log has them."""
    text = (lake.root / "_delta_log" / f"{version:020d}.json").read_text()
    return [json.loads(line) for line in text.splitlines()]


def of_kind(lake: Lake, version: int, kind: str) -> list[dict[str, Any]]:
    return [action[kind] for action in actions(lake, version) if kind in action]


def rows(lake: Lake) -> list[int]:
    """Ids, as deltalake reads them."""
    theirs = deltalake.QueryBuilder().register("t", deltalake.DeltaTable(str(lake.root)))
    return sorted(theirs.execute("select id from t").read_all()["id"].to_pylist())
