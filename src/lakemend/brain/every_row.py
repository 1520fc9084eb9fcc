"""Every row of a version in Arrow, read in this process: `Table.to_arrow` where nothing needs Spark.

The service calls this. Files are read side by side, and rows come in the order of the log. None is the answer where
Spark might show a value otherwise than Arrow: then Spark reads.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import Any

import pyarrow as pa

from lakemend.brain.file_rows import arrow_schema, batches_of
from lakemend.brain.plan import file_urls
from lakemend.brain.tables import OpenTable
from lakemend.errors import CorruptTableError, UnsupportedFeatureError
from lakemend.formats.char_types import holds_char
from lakemend.formats.format import Snapshot
from lakemend.formats.zone import in_zone
from lakemend.schema import DataType, decimal_of
from lakemend.storage import ObjectStore

_BATCH = 1 << 16
_EXISTING = "EXISTS_DEFAULT"  # Spark's
# Not so: CHAR, which a session may pad; columns that files may lack and that have a value there; variants, intervals
# and whatever else Spark gives a form of its own in Arrow.
_ALIKE = (
    *("boolean", "byte", "short", "integer", "long", "float", "double"),
    *("string", "binary", "date", "timestamp", "timestamp_ntz"),
)


def every_row(
    opened: OpenTable, snapshot: Snapshot, columns: Sequence[str], file_column: str | None, zone: str
) -> pa.Table | None:
    """`columns` as the table spells them; `file_column`: the name of one more, with the location of each row's file."""
    fields = snapshot.metadata.schema["fields"]
    places = {field["name"]: index for index, field in enumerate(fields)}
    if not isinstance(opened.table.store, ObjectStore) or not all(name in places for name in columns):
        return None
    chosen = [places[name] for name in columns]
    if not all(_shown_alike(fields[index]) for index in chosen):
        return None
    if any(field.transform != "identity" for field in snapshot.metadata.partitioning):
        return None
    urls = file_urls(snapshot, snapshot.files["path"])
    schema = arrow_schema(snapshot)
    wanted = pa.schema([schema.field(index) for index in chosen])
    if file_column is not None:
        wanted = wanted.append(pa.field(file_column, pa.string(), nullable=False))

    def read(row: int) -> list[pa.RecordBatch]:
        with in_zone(zone):
            batches = list(batches_of(opened, snapshot, row, chosen, _BATCH))
        if file_column is None:
            return batches
        return [
            pa.RecordBatch.from_arrays([*batch.columns, pa.repeat(urls[row], batch.num_rows)], schema=wanted)
            for batch in batches
        ]

    # A damaged file has its error from Spark, as every other read of it.
    with suppress(CorruptTableError, UnsupportedFeatureError, NotImplementedError):
        with ThreadPoolExecutor(os.cpu_count() or 1) as readers:
            found = [batch for batches in readers.map(read, range(len(urls))) for batch in batches]
        return pa.Table.from_batches(found, wanted)
    return None


def _alike(type: DataType) -> bool:
    if not isinstance(type, dict):
        return type in _ALIKE or decimal_of(type) is not None
    inner = {"array": ("elementType",), "map": ("keyType", "valueType")}.get(str(type["type"]))
    if inner is None:
        return type["type"] == "struct" and all(map(_shown_alike, type["fields"]))
    return all(_alike(type[name]) for name in inner)


def _shown_alike(field: dict[str, Any]) -> bool:
    return _alike(field["type"]) and not holds_char(field) and _EXISTING not in (field.get("metadata") or {})
