"""Rows as people have them become a DataFrame: Spark, pandas, Polars and Arrow frames, and lists of dicts.

`Table` and the replacements call this. Columns are matched by name later, so their order does not matter here.

All but Spark's own frames go through one Arrow table, so that a value means the same whatever it came in: a time
without a zone is a local time of the session. Spark's own way for pandas frames would turn to another one where Arrow
cannot follow, in which such times are those of the machine and integers that are too large are NULL.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import date, datetime, time, timedelta
from numbers import Number
from typing import Any

import numpy as np
import pyarrow as pa
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructField, StructType

from lakemend.errors import InvalidInputError

_REMEDY = "pass a Spark DataFrame, a pandas or Polars frame, an Arrow table, or a list of dicts"
# Types that Spark lacks, as the next one that holds every value; of the largest, those that fit.
_STORED = {
    pa.uint8(): pa.int16(),
    pa.uint16(): pa.int32(),
    pa.uint32(): pa.int64(),
    pa.uint64(): pa.int64(),
    pa.float16(): pa.float32(),
    pa.string_view(): pa.string(),
    pa.binary_view(): pa.binary(),
}


def to_frame(spark: SparkSession, rows: Any, schema: Callable[[], StructType], or_else: str = "") -> DataFrame:
    """A DataFrame of the rows; an empty list has the columns of `schema`, the table's. `or_else` says what the caller
    takes besides."""
    if isinstance(rows, DataFrame):
        return rows
    if isinstance(rows, list) and not rows:
        return spark.createDataFrame([], StructType([StructField(f.name, f.dataType) for f in schema().fields]))
    table = to_arrow(rows, or_else)
    # Spark reads a table up to its first empty piece.
    table = pa.Table.from_batches([piece for piece in table.to_batches() if piece.num_rows], table.schema)
    try:
        return spark.createDataFrame(table)
    except (pa.ArrowException, PySparkException, TypeError, ValueError) as error:
        if isinstance(error, PySparkException) and not isinstance(error, TypeError | ValueError):
            raise
        raise _unreadable(rows, error) from error


def to_arrow(rows: Any, or_else: str = "") -> pa.Table:
    """The rows as an Arrow table of types that Spark knows, as far as there are such."""
    if hasattr(rows, "collect_schema") and hasattr(rows, "collect"):
        rows = rows.collect()
    try:
        if hasattr(rows, "to_arrow"):
            _require_values(rows)
            rows = rows.to_arrow()
        if isinstance(rows, pa.RecordBatch):
            rows = pa.table(rows)
        if isinstance(rows, pa.Table):
            return _stored(rows)
        if isinstance(rows, list) and all(isinstance(row, Mapping) for row in rows):
            return _stored(_of_dicts(rows))
        if type(rows).__module__.startswith("pandas") and hasattr(rows, "columns"):
            return _stored(_of_pandas(rows))
    except (pa.ArrowException, TypeError, ValueError, OverflowError) as error:
        raise _unreadable(rows, error) from error
    if isinstance(rows, pa.RecordBatchReader):  # what DuckDB gives, and datasets
        raise InvalidInputError(
            "cannot write a stream of Arrow",
            cause="it gives its rows once: one that was read, as by a dry run, cannot be told from an empty one",
            remedy="pass its table, reader.read_all()",
        )
    raise InvalidInputError(f"cannot write a {type(rows).__name__}", remedy=_REMEDY + or_else)


def _unreadable(rows: Any, error: Exception) -> InvalidInputError:
    return InvalidInputError(
        f"the {type(rows).__name__} cannot be read by Spark",
        cause=str(error).splitlines()[0],
        remedy="give each column one type, or pass a Spark DataFrame",
    )


def _of_dicts(rows: Sequence[Mapping[Any, Any]]) -> pa.Table:
    """The columns are all keys that occur, in the order they are met; a row without a key has NULL there."""
    names = list(dict.fromkeys(key for row in rows for key in row))
    odd = next((name for name in names if not isinstance(name, str)), None)
    if odd is not None:
        raise InvalidInputError(f"{odd!r} is not the name of a column", remedy="use strings as the keys of rows")
    if not names:
        raise InvalidInputError("the rows have no columns", cause="every dict is empty", remedy="name the columns")
    return pa.table({name: _column(name, [row.get(name) for row in rows]) for name in names})


def _column(name: str, values: list[Any]) -> pa.Array:
    try:
        found = pa.array(values)
    except (pa.ArrowException, TypeError, ValueError, OverflowError) as error:
        raise _not_one(name, str(error)) from error
    _require_same_values(name, values)
    _require_one_kind(name, values, found.type)
    return found


_APART = (("text", "bytes"), ("a truth value", "a number"), ("a duration", "a number"))


def _require_same_values(name: str, values: Iterable[Any]) -> None:
    """Raises where Arrow would take one kind of value for another, at any depth, and tell nobody."""
    types = {type(value) for value in values} - {type(None)}
    if len(types) < 2 and not any(issubclass(one, _HOLDING) for one in types):
        return
    found: dict[tuple[Any, ...], set[str]] = {}
    for value in values:
        for path, kind in _plain_kinds(value, (name,)):
            found.setdefault(path, set()).add(kind)
    for path, kinds in found.items():
        shown = ".".join(map(str, path))
        for one, other in _APART:
            if one in kinds and other in kinds:
                raise _not_one(shown, f"{one} and {other} are among them, and neither can stand for the other")
        if _MASKED in kinds:
            raise _not_one(shown, f"{_MASKED} is among them, and its masked values would be written")


_MASKED = "a masked array"
_HOLDING = (Mapping, list, tuple, set, frozenset, np.ndarray)
_KINDS = {"b": "a truth value", "i": "a number", "u": "a number", "f": "a number", "m": "a duration"}
_NAMED = (
    (str, "text"),
    (bytes | bytearray | memoryview, "bytes"),
    (bool | np.bool_, "a truth value"),
    (timedelta | np.timedelta64, "a duration"),
)


def _plain_kinds(value: Any, path: tuple[Any, ...]) -> Iterator[tuple[tuple[Any, ...], str]]:
    """Each plain value, with the column or field that it is in."""
    named = next((kind for type, kind in _NAMED if isinstance(value, type)), None)
    if named is not None:
        yield path, named
    elif isinstance(value, Number):
        if value == value:  # NaN stands for nothing
            yield path, "a number"
    elif isinstance(value, np.ma.MaskedArray):
        yield path, _MASKED
    elif isinstance(value, np.ndarray) and value.dtype.kind in _KINDS:
        yield path, _KINDS[value.dtype.kind]
    elif isinstance(value, Mapping):
        for key, inner in value.items():
            yield from _plain_kinds(inner, (*path, key))
    elif isinstance(value, _HOLDING):
        for inner in value:
            yield from _plain_kinds(inner, path)


def _require_values(frame: Any) -> None:
    """Raises for Polars' columns of Python objects: Arrow would get their addresses."""
    if type(frame).__module__.startswith("polars"):
        for name, kind in dict(getattr(frame, "schema", {})).items():
            if _holds_objects(kind):
                raise _not_one(name, f"they are of type {kind}, of which Polars knows no values")


def _holds_objects(type: Any) -> bool:
    inner = [getattr(type, "inner", None), *(field.dtype for field in getattr(type, "fields", ()))]
    return str(type) == "Object" or any(_holds_objects(part) for part in inner if part is not None)


def _with_index(frame: Any) -> Any:
    """The frame with the named levels of its index as columns: `groupby` and `set_index` put data there."""
    moved = []
    for level, name in enumerate(frame.index.names):
        if name is None:
            continue
        if name not in frame.columns:
            moved.append(level)
        elif list(frame.index.get_level_values(level)) != list(frame[name]):
            cause = "the index of the frame has that name as well, and other values"
            raise _not_one(str(name), cause)
    return frame.reset_index(level=moved) if moved else frame


def _of_pandas(frame: Any) -> pa.Table:
    frame = _with_index(frame)
    table = pa.Table.from_pandas(frame, preserve_index=False).replace_schema_metadata(None)
    for index, field in enumerate(table.schema):
        if frame.dtypes.iloc[index].kind == "O":
            _require_same_values(field.name, frame.iloc[:, index])
            _require_one_kind(field.name, frame.iloc[:, index], field.type)
    return table


def _stored(table: pa.Table) -> pa.Table:
    schema = pa.schema([field.with_type(_stored_type(field.type)) for field in table.schema])
    return table if schema.types == table.schema.types else table.cast(schema)


def _stored_type(type: pa.DataType) -> pa.DataType:
    """Of several types for the same values the plain one: Spark takes local times in all others for times of UTC."""
    if pa.types.is_struct(type):
        return pa.struct([field.with_type(_stored_type(field.type)) for field in type])
    if pa.types.is_list(type) or pa.types.is_large_list(type) or pa.types.is_fixed_size_list(type):
        return pa.list_(type.value_field.with_type(_stored_type(type.value_type)))
    if pa.types.is_map(type):
        key, value = (f.with_type(_stored_type(f.type)) for f in (type.key_field, type.item_field))
        return pa.map_(key, value, type.keys_sorted)
    if pa.types.is_dictionary(type):
        return _stored_type(type.value_type)
    return _STORED.get(type, type)


def _require_one_kind(name: str, values: Iterable[Any], type: pa.DataType) -> None:
    """Raises where days, local times, moments and numbers are mixed: Arrow makes one of all, and tells nobody."""
    if not _holds_times(type):
        return
    found: dict[tuple[Any, ...], str] = {}
    for value in values:
        for path, kind in _times(value, (name,)):
            if kind == _ZONED:
                raise _not_one(".".join(map(str, path)), f"{kind} is among them, and no column keeps the zone")
            if found.setdefault(path, kind) != kind:
                cause = f"{found[path]} and {kind} are among them, and neither can stand for the other"
                raise _not_one(".".join(map(str, path)), cause)


_ZONED = "a time of day with a zone"


def _holds_times(type: pa.DataType) -> bool:
    if pa.types.is_temporal(type):
        return True
    if pa.types.is_dictionary(type):
        return _holds_times(type.value_type)
    return any(_holds_times(type.field(i).type) for i in range(type.num_fields))


def _times(value: Any, path: tuple[Any, ...]) -> Iterable[tuple[tuple[Any, ...], str]]:
    """Each day, time and number in a value, with the column or field that it is in."""
    if isinstance(value, datetime):
        if value == value:  # pandas' NaT is no time, and equals nothing
            yield path, "a time without a zone" if value.tzinfo is None else "a time with a zone"
    elif isinstance(value, date):
        yield path, "a date"
    elif isinstance(value, time):
        yield path, "a time of day" if value.tzinfo is None else _ZONED
    elif isinstance(value, Number):
        if value == value:  # NaN stands for nothing, as NaT does
            yield path, "a number"
    elif isinstance(value, Mapping):
        for key, inner in value.items():
            yield from _times(inner, (*path, key))
    elif isinstance(value, list | tuple | set | frozenset) or type(value).__name__ == "ndarray":
        for inner in value:
            yield from _times(inner, path)


def _not_one(name: str, cause: str) -> InvalidInputError:
    return InvalidInputError(
        f"the values of {name} cannot be one column",
        cause=cause,
        remedy="give every row the same type of value, or pass a frame with a schema",
        column=name,
    )
