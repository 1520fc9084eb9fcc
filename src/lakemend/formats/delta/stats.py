"""Statistics of data files: from the log's JSON, or a checkpoint's columns, to raw bounds.

The snapshot holds one `StatsSource` per place its files were read from and asks it for a leaf column
by physical path; nothing is parsed before. What comes back is raw (`RawStats`, as written);
`bounds.py` makes bounds of it that hold for every value of the column.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from functools import partial
from typing import Any, Protocol, TypeAlias

import numpy as np
import orjson
import pyarrow as pa
import pyarrow.compute as pc

from lakemend.formats.delta.bounds import INTEGERS, RawStats, convert, count_of, counts_of, has_bounds, to_column
from lakemend.formats.delta.json_lines import SLICE, NotAnObject, parse
from lakemend.formats.delta.replay import one_chunk
from lakemend.schema import DataType, Path, Struct, decimal_of, is_struct, to_arrow, to_wire

_ROWS_FIRST = r'^\s*\{\s*"numRecords"\s*:\s*(?P<n>\d{1,18})\s*[,}]'
_EPOCH_DAY = date(1970, 1, 1).toordinal()


class StatsSource(Protocol):
    """Statistics of some add actions, in their order; parsed when asked for."""

    def __len__(self) -> int: ...

    def rows(self) -> pa.Array:
        """numRecords, int64."""
        ...

    def tight(self) -> pa.Array:
        """tightBounds, null where the writer did not say."""
        ...

    def leaf(self, physical: Struct, path: Path, datatype: DataType) -> RawStats | None:
        """One leaf column by physical path; `physical` is the whole schema in data files."""
        ...

    def json(self) -> pa.Array:
        """The statistics as the log spells them."""
        ...


# Arrow's parser gives a table; where it cannot read a line, each is an object of its own.
_Parsed: TypeAlias = Any


class JsonStats:
    """Statistics as JSON strings, given or fetched from a checkpoint when first needed.

    Snapshots share it, and so do threads: what is kept is set in one step and read once.
    """

    def __init__(self, strings: pa.ChunkedArray | Callable[[], pa.Array], length: int) -> None:
        self._given = strings
        self._length = length
        self._strings: pa.ChunkedArray | None = None
        self._rows: pa.Array | None = None
        self._parsed: tuple[bytes, _Parsed] | None = None  # the schema it was parsed for, serialized

    def __len__(self) -> int:
        return self._length

    def json(self) -> pa.Array:
        strings = self._chunks()
        if strings.num_chunks != 1:
            self._strings = strings = pa.chunked_array([one_chunk(strings)])
        return strings.chunk(0)

    def _chunks(self) -> pa.ChunkedArray:
        if self._strings is None:
            found = self._given() if callable(self._given) else self._given
            self._strings = found if isinstance(found, pa.ChunkedArray) else pa.chunked_array([found])
            self._given = self._strings
        return self._strings

    def rows(self) -> pa.Array:
        if self._rows is None:
            strings = self._chunks()
            found = one_chunk(pc.struct_field(pc.extract_regex(strings, _ROWS_FIRST), ["n"]))
            if found.null_count > strings.null_count:
                # Another order of keys, or statistics without a count: a closer look at those.
                missing = pc.and_(found.is_null(), one_chunk(strings.is_valid())).to_numpy(zero_copy_only=False)
                counts = found.cast(pa.int64()).to_pylist()
                for row in np.flatnonzero(missing):
                    counts[row] = count_of((_loads(strings[row].as_py()) or {}).get("numRecords"))
                self._rows = pa.array(counts, pa.int64())
            else:
                self._rows = found.cast(pa.int64())
        return self._rows

    def tight(self) -> pa.Array:
        known = self._parsed
        parsed = known[1] if known is not None else self._parse({"type": "struct", "fields": []})
        if isinstance(parsed, pa.Table):
            return one_chunk(parsed.column("tightBounds"))
        flags = [(row or {}).get("tightBounds") for row in parsed]
        # What is no flag is taken for the careful answer.
        return pa.array([f if f is None else f is True for f in flags], pa.bool_())

    def leaf(self, physical: Struct, path: Path, datatype: DataType) -> RawStats | None:
        rows = self._parse(physical)
        if isinstance(rows, pa.Table):
            return leaf_of(rows, path, datatype)
        if not any(_at(row, "nullCount", path) is not None or _at(row, "minValues", path) is not None for row in rows):
            return None
        target = to_arrow(datatype)
        bounded = has_bounds(datatype)
        return RawStats(
            pa.array([convert(_at(r, "minValues", path), datatype, False) if bounded else None for r in rows], target),
            pa.array([convert(_at(r, "maxValues", path), datatype, True) if bounded else None for r in rows], target),
            pa.array([count_of(_at(r, "nullCount", path)) for r in rows], pa.int64()),
        )

    def _parse(self, physical: Struct) -> _Parsed:
        schema = parse_schema(physical)
        wanted = schema.serialize().to_pybytes()
        known = self._parsed
        if known is not None and known[0] == wanted:
            return known[1]
        strings = self._chunks()
        parsed = parse_json(strings, schema)
        if parsed is None:
            parsed = [_loads(text) for text in strings.to_pylist()]
        self._parsed = (wanted, parsed)
        return parsed


def _loads(text: str | None) -> dict[str, Any] | None:
    if not text:
        return None
    try:
        # Not orjson: decimals must keep every digit.
        found = json.loads(text, parse_float=Decimal)
    except (ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) else None


def _at(row: dict[str, Any] | None, kind: str, path: Path) -> Any:
    value: Any = (row or {}).get(kind)
    for name in path:
        if not isinstance(value, dict):
            return None
        value = value.get(name)
    return None if isinstance(value, dict | list) else value


def parse_json(strings: pa.ChunkedArray, schema: pa.Schema) -> pa.Table | None:
    """All statistics at once by Arrow's parser; None if a row does not fit the schema."""
    table = parse(_slices(strings), schema)
    return table if table is not None and table.num_rows == len(strings) else None


def _slices(strings: pa.ChunkedArray) -> Iterator[Callable[[], pa.Buffer]]:
    for chunk in strings.chunks:
        if len(chunk):
            rows = max(1, len(chunk) * SLICE // max(chunk.nbytes, 1))
            for start in range(0, len(chunk), rows):
                yield partial(_lines, chunk.slice(start, rows))


def _lines(part: pa.Array) -> pa.Buffer:
    """Strings as newline-delimited JSON; a missing one is an empty object."""
    part = part.cast(pa.string())
    if part.null_count or pc.min(pc.binary_length(part)).as_py() == 0:
        part = pc.if_else(pc.equal(pc.binary_length(pc.fill_null(part, "")), 0), "{}", part)
    if not pc.all(pc.starts_with(part, "{")).as_py():
        raise NotAnObject
    joined = _join(part)
    if np.count_nonzero(np.frombuffer(joined, np.uint8) == 10) >= len(part):
        joined = _join(pc.replace_substring(part, "\n", " "))
    return joined


def _join(part: pa.Array) -> pa.Buffer:
    return pc.binary_join(pa.ListArray.from_arrays([0, len(part)], part), "\n")[0].as_buffer()


def parse_schema(physical: Struct) -> pa.Schema:
    """What Arrow's parser is to look for in statistics of a table with this physical schema."""
    return pa.schema(
        [
            ("numRecords", pa.int64()),
            ("tightBounds", pa.bool_()),
            ("minValues", _parse_struct(physical, "min")),
            ("maxValues", _parse_struct(physical, "max")),
            ("nullCount", _parse_struct(physical, "null")),
        ]
    )


def _parse_struct(schema: Struct, kind: str) -> pa.StructType:
    fields = []
    for f in schema["fields"]:
        datatype = f["type"]
        if is_struct(datatype):
            fields.append(pa.field(f["name"], _parse_struct(datatype, kind)))
        elif kind == "null":
            fields.append(pa.field(f["name"], pa.int64()))
        # A float's maximum is never used, and is where writers put "NaN".
        elif has_bounds(datatype) and not (kind == "max" and datatype in ("float", "double")):
            fields.append(pa.field(f["name"], _parse_type(datatype)))
    return pa.struct(fields)


def _parse_type(datatype: DataType) -> pa.DataType:
    if datatype in INTEGERS:
        return pa.int64()
    if datatype in ("float", "double"):
        return pa.float64()
    if datatype == "boolean":
        return pa.bool_()
    if digits := decimal_of(datatype):
        return pa.decimal128(*digits)
    return pa.string()


def leaf_of(parsed: pa.Table, path: Path, datatype: DataType) -> RawStats | None:
    """One leaf column out of parsed statistics (of JSON, or a checkpoint's `stats_parsed`)."""
    length = parsed.num_rows
    low, high, nulls = (_descend(parsed, kind, path) for kind in ("minValues", "maxValues", "nullCount"))
    if low is None and high is None and nulls is None:
        return None
    if not has_bounds(datatype):
        low = high = None
    counts = pa.nulls(length, pa.int64()) if nulls is None else counts_of(nulls)
    return RawStats(to_column(low, datatype, False, length), to_column(high, datatype, True, length), counts)


def _descend(parsed: pa.Table, kind: str, path: Path) -> pa.ChunkedArray | None:
    if kind not in parsed.column_names:
        return None
    column = parsed.column(kind)
    for name in path:
        if not pa.types.is_struct(column.type) or column.type.get_field_index(name) < 0:
            return None
        column = pc.struct_field(column, [column.type.get_field_index(name)])
    return column


def to_json(parsed: pa.Table) -> pa.Array:
    """Parsed statistics as the log spells them, for checkpoints that carry no strings."""
    out: list[str | None] = []
    representable = pa.table([_representable(column) for column in parsed.columns], names=parsed.column_names)
    for row in representable.to_pylist():
        body = _without_nulls(row)
        out.append(orjson.dumps(body, default=str).decode() if body else None)
    return pa.array(out, pa.string())


def _representable(column: pa.Array | pa.ChunkedArray) -> pa.Array:
    """The column with nulls for the days and moments that neither Python nor the log's text can hold."""
    array = one_chunk(column)
    if pa.types.is_struct(array.type):
        names = [f.name for f in array.type]
        parts = [_representable(pc.struct_field(array, [i])) for i in range(len(names))]
        mask = array.is_null() if array.null_count else None
        return pa.StructArray.from_arrays(parts, names, mask=mask) if names else array
    if pa.types.is_timestamp(array.type) or pa.types.is_date32(array.type):
        if pa.types.is_timestamp(array.type):
            array = array.cast(pa.timestamp("us", array.type.tz), safe=False)
            least, most = datetime(1, 1, 1, tzinfo=UTC), datetime(9999, 12, 31, 23, 59, 59, 999999, UTC)
            lowest, highest = (to_wire(m) for m in (least, most))
            number = array.cast(pa.int64())
        else:
            lowest, highest = date.min.toordinal() - _EPOCH_DAY, date.max.toordinal() - _EPOCH_DAY
            number = array.cast(pa.int32())
        inside = pc.and_(pc.greater_equal(number, lowest), pc.less_equal(number, highest))
        return pc.if_else(inside, array, pa.scalar(None, array.type))
    return array


def _without_nulls(value: Any) -> Any:
    if isinstance(value, dict):
        kept = {k: _without_nulls(v) for k, v in value.items() if v is not None}
        return {k: v for k, v in kept.items() if v != {}}
    if isinstance(value, datetime):
        return value.isoformat(timespec="milliseconds").replace("+00:00", "Z")
    if isinstance(value, float) and (value != value or value in (float("inf"), float("-inf"))):
        return "NaN" if value != value else "Infinity" if value > 0 else "-Infinity"
    if isinstance(value, Decimal):
        return orjson.Fragment(format(value, "f"))
    if isinstance(value, timedelta | bytes):
        return None
    return value
