"""Rows of a data file as a query shows them, read by Arrow in this process.

`first_rows.py` and `every_row.py` call this. A row is what Spark would show: masked rows are left out, columns have
their names and types of now, partition values come from the log. What Arrow may see otherwise than Spark is refused.
"""

from __future__ import annotations

import io
from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyroaring import BitMap64

from lakemend.brain.predicates import partition_column
from lakemend.brain.tables import OpenTable
from lakemend.errors import CorruptTableError, UnsupportedFeatureError
from lakemend.formats.format import Snapshot
from lakemend.formats.masks import masked_positions
from lakemend.schema import Struct, is_struct, to_arrow
from lakemend.storage import Store, open_store

_FIELD_ID = b"PARQUET:field_id"
_OLD_CALENDAR = (b"org.apache.spark.legacyDateTime", b"org.apache.spark.legacyINT96")


def arrow_schema(snapshot: Snapshot) -> pa.Schema:
    """Every column, in the table's order."""
    return pa.schema([pa.field(f["name"], to_arrow(f["type"])) for f in snapshot.metadata.schema["fields"]])


def batches_of(
    opened: OpenTable, snapshot: Snapshot, row: int, columns: Sequence[int], size: int
) -> Iterator[pa.RecordBatch]:
    """The live rows of the file at this row of `Snapshot.files`; `columns` are places in the table's schema."""
    store, metadata = opened.table.store, snapshot.metadata
    path = snapshot.files["path"][row].as_py()
    schema = arrow_schema(snapshot)
    wanted = pa.schema([schema.field(index) for index in columns])
    parts = [field.source[0] for field in metadata.partitioning if field.transform == "identity"]
    constant = {name: partition_column(snapshot.files, name)[row] for name in parts}
    stored_columns = [index for index in columns if schema.field(index).name not in constant]
    dead = masked_positions(snapshot.mask(row), store)
    url, start = snapshot.url(path), 0
    try:
        stored = pq.ParquetFile(pa.PythonFile(_Ranges(store, url), mode="r"), coerce_int96_timestamp_unit="us")
        _refuse_old_calendar(stored, url)
        for batch in stored.iter_batches(
            size, columns=_read(stored, metadata.physical, metadata.by_id, stored_columns)
        ):
            alive = _alive(dead, start, batch.num_rows)
            start += batch.num_rows
            found = [
                _repeated(constant[schema.field(index).name], schema.field(index).type, batch.num_rows)
                if schema.field(index).name in constant
                else _column(batch, metadata.schema, metadata.physical, index, metadata.by_id)
                for index in columns
            ]
            fitted = pa.RecordBatch.from_arrays(found, schema=wanted)
            yield fitted if alive is None else fitted.filter(alive)
    except (pa.ArrowException, OSError) as error:
        raise CorruptTableError(
            f"the data file {url} cannot be read",
            cause=str(error),
            remedy="read it with Spark, or restore the table to a version before it",
            file=url,
        ) from error


def _read(stored: pq.ParquetFile, physical: Struct, by_id: bool, columns: Sequence[int]) -> list[str] | None:
    """Which columns of the file are fetched; None: all of them. One at least: only rows that are read are counted."""
    names = {str(_key(physical["fields"][index], by_id)) for index in columns}
    fields = stored.schema_arrow
    if not by_id:
        _refuse_other_case(names, fields.names)
    found = [field.name for field in fields if (_id(field) if by_id else field.name) in names]
    if not found:
        found = [fields.field(0).name] if len(fields) else []
    # A dot parts the names of a column and its fields.
    return None if any("." in field.name for field in fields) else found


def _refuse_other_case(names: Iterable[str], found: Collection[str]) -> None:
    """A column that Spark finds whatever the case of its letters: by a session's setting, it may not be the one."""
    exact, folded = set(found), {name.lower() for name in found}
    other = next((name for name in names if name not in exact and name.lower() in folded), None)
    if other is not None:
        raise UnsupportedFeatureError(
            f"the file spells the column {other} in another case",
            cause="another writer wrote it, and whether both are one column is a setting of the session",
            remedy="read the table with Spark",
            column=other,
        )


def _refuse_old_calendar(stored: pq.ParquetFile, url: str) -> None:
    """Days before October 1582 are others in files that say so: only Spark moves them."""
    said = stored.metadata.metadata or {}
    if any(key in said for key in _OLD_CALENDAR):
        raise UnsupportedFeatureError(
            f"the data file {url} counts days by the calendar before 1582",
            cause="Spark wrote it with the rebase mode LEGACY",
            remedy="read the table with Spark",
            file=url,
        )


def _alive(dead: BitMap64, start: int, count: int) -> pa.BooleanArray | None:
    if not dead:
        return None
    alive = np.ones(count, bool)
    gone = dead & BitMap64(range(start, start + count))
    alive[np.array(gone, np.int64) - start] = False
    return pa.array(alive)


def _repeated(value: pa.Scalar, type: pa.DataType, count: int) -> pa.Array:
    return pa.repeat(value, count).cast(type)


def _column(batch: pa.RecordBatch, schema: Struct, physical: Struct, index: int, by_id: bool) -> pa.Array:
    logical, stored = schema["fields"][index], physical["fields"][index]
    children = {field.name: batch.column(i) for i, field in enumerate(batch.schema)}
    if by_id:
        children = {_id(field): batch.column(i) for i, field in enumerate(batch.schema)}
    found = children.get(_key(stored, by_id))
    if found is None:
        return pa.nulls(batch.num_rows, to_arrow(logical["type"]))
    return _fitted(found, logical["type"], stored["type"], by_id)


def _id(field: pa.Field) -> str:
    return str((field.metadata or {}).get(_FIELD_ID, b"").decode())


def _key(field: dict[str, Any], by_id: bool) -> str:
    return str(field["metadata"].get("parquet.field.id")) if by_id else str(field["name"])


def _fitted(values: pa.Array, logical: Any, physical: Any, by_id: bool) -> pa.Array:
    """Values of a file under the names and with the types that the table has now."""
    target = to_arrow(logical)
    if is_struct(logical) and pa.types.is_struct(values.type):
        own = {(_id(f) if by_id else f.name): values.field(i) for i, f in enumerate(values.type)}
        children = []
        if not by_id:
            _refuse_other_case((field["name"] for field in physical["fields"]), own)
        for ours, theirs in zip(logical["fields"], physical["fields"], strict=True):
            found = own.get(_key(theirs, by_id))
            kind = to_arrow(ours["type"])
            children.append(
                pa.nulls(len(values), kind) if found is None else _fitted(found, ours["type"], theirs["type"], by_id)
            )
        fields = [pa.field(f["name"], child.type) for f, child in zip(logical["fields"], children, strict=True)]
        return pa.StructArray.from_arrays(children, fields=fields, mask=pc.is_null(values)).cast(target)
    if isinstance(logical, dict) and logical["type"] == "array":
        offsets, elements = _lists(values)
        element = _fitted(elements, logical["elementType"], physical["elementType"], by_id)
        return pa.ListArray.from_arrays(offsets, element, mask=pc.is_null(values)).cast(target)
    if isinstance(logical, dict) and logical["type"] == "map":
        keys = _fitted(values.keys, logical["keyType"], physical["keyType"], by_id)
        items = _fitted(values.items, logical["valueType"], physical["valueType"], by_id)
        return pa.MapArray.from_arrays(values.offsets, keys, items, mask=pc.is_null(values)).cast(target)
    if pa.types.is_timestamp(values.type) and values.type.tz and pa.types.is_timestamp(target) and not target.tz:
        raise pa.ArrowInvalid("it holds moments, and the column local times")
    # What would lose something is an error.
    return values.cast(target)


def _lists(values: pa.Array) -> tuple[pa.Array, pa.Array]:
    """Where each list begins, with the end of the last one, and the elements of all. Writers leave word in a file which
    of Arrow's five kinds of lists they had, and it is read as that."""
    if pa.types.is_list(values.type):
        return values.offsets, values.values
    lengths = pc.fill_null(pc.list_value_length(values), 0).cast(pa.int64())
    ends = np.cumsum(lengths.to_numpy(zero_copy_only=False), dtype=np.int64)
    return pa.array(np.concatenate([[0], ends])).cast(pa.int32()), values.flatten()


class _Ranges(io.RawIOBase):
    """A stored file, of which only what is asked for is fetched."""

    def __init__(self, store: Store, url: str) -> None:
        root = store.url.rstrip("/") + "/"
        folder, _, name = url.rpartition("/")
        self._store, self._path = (store, url[len(root) :]) if url.startswith(root) else (open_store(folder), name)
        entry = self._store.head(self._path)
        if entry is None:
            raise FileNotFoundError("the file does not exist; it may have been vacuumed")
        self._size, self._at = entry.size, 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._at

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        self._at = offset + (0, self._at, self._size)[whence]
        return self._at

    def read(self, size: int = -1) -> bytes:
        count = self._size - self._at if size < 0 else min(size, self._size - self._at)
        found = self._store.get_range(self._path, self._at, count) if count > 0 else b""
        self._at += len(found)
        return found
