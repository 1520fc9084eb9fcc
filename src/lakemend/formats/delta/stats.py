"""Statistics of data files: from the log's JSON, or a checkpoint's columns, to bounds that may prune.

The snapshot holds one `StatsSource` per place its files were read from and asks it for a leaf column
by physical path; nothing is parsed before. What comes back is raw (`RawStats`, as written);
`column_stats` makes bounds of it that hold for every value of the column, by these rules:

    strings     a bound may be a cut-off prefix: the maximum is raised past every string that begins with it
    timestamps  are cut to milliseconds: the maximum is raised by one
    floats      NaN is never in the bounds but sorts above all: there is no maximum
    decimals    with more than 15 digits some writers round through doubles: both bounds are widened
    integers, dates, booleans, short decimals: exact, unless the file's bounds are not tight
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from decimal import ROUND_CEILING, ROUND_FLOOR, Context, Decimal
from functools import partial
from typing import Any, Protocol, TypeAlias

import numpy as np
import orjson
import pyarrow as pa
import pyarrow.compute as pc

from lakemend.formats.delta.json_lines import SLICE, NotAnObject, parse
from lakemend.formats.delta.partition_values import parse_date, parse_timestamp
from lakemend.formats.delta.replay import one_chunk
from lakemend.formats.format import ColumnStats
from lakemend.schema import DataType, Path, Struct, decimal_of, is_struct, to_arrow

_ROWS_FIRST = r'^\s*\{\s*"numRecords"\s*:\s*(?P<n>\d{1,18})\s*[,}]'
_INTEGERS = ("byte", "short", "integer", "long")
_EXACT = (*_INTEGERS, "date", "boolean")
_DOUBLE_DIGITS = 15
_WIDE = Context(prec=80)


@dataclass(frozen=True, slots=True)
class RawStats:
    """One leaf column as written: bounds in the column's Arrow type (null: none or unreadable), null counts."""

    min: pa.Array
    max: pa.Array
    nulls: pa.Array


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


def column_stats(raw: RawStats, datatype: DataType, tight: pa.Array) -> ColumnStats:
    """Bounds that hold for every value; `tight` is true where the writer's bounds are the values themselves."""
    low, high = raw.min, raw.max
    if datatype in ("float", "double"):
        # A minimum of NaN means that every value is NaN: it bounds nothing below it.
        low = pc.if_else(pc.fill_null(pc.is_nan(low), True), pa.scalar(None, low.type), low)
        high = pa.nulls(len(low), low.type)
    elif isinstance(datatype, str) and datatype.startswith(("string", "char(", "varchar(")):
        high = raise_strings(high)
    elif datatype in ("timestamp", "timestamp_ntz"):
        high = _later(high)
    elif (digits := decimal_of(datatype)) and digits[0] > _DOUBLE_DIGITS:
        low, high = _widen(low, ROUND_FLOOR), _widen(high, ROUND_CEILING)
    exact = pc.and_(pc.fill_null(tight, False), pc.and_(low.is_valid(), high.is_valid()))
    if not _is_exact(datatype):
        exact = pa.array(np.zeros(len(low), bool))
    return ColumnStats(low, high, raw.nulls, exact)


def _is_exact(datatype: DataType) -> bool:
    digits = decimal_of(datatype)
    return datatype in _EXACT or (digits is not None and digits[0] <= _DOUBLE_DIGITS)


def raise_strings(values: pa.Array) -> pa.Array:
    """For each string the least string that is greater than everything beginning with it; null if there is none.

    The order is that of UTF-8 bytes, so adding one to the last byte will do wherever the result is UTF-8 again.
    """
    values = one_chunk(values).cast(pa.string())
    if not len(values) or values.null_count == len(values):
        return values
    filled = pc.fill_null(values, "")
    if filled.offset:
        filled = pa.concat_arrays([filled, pa.array([], pa.string())])
    offsets = np.frombuffer(filled.buffers()[1], np.int32)[filled.offset : filled.offset + len(filled) + 1]
    data = np.frombuffer(filled.buffers()[2] or b"", np.uint8).copy()
    last = offsets[1:] - 1
    present = offsets[1:] > offsets[:-1]
    simple = present.copy()
    simple[present] = ~np.isin(data[last[present]], (0x7F, 0xBF))
    data[last[simple]] += 1
    raised = pa.StringArray.from_buffers(len(filled), pa.py_buffer(offsets.copy()), pa.py_buffer(data))
    raised = pc.if_else(pa.array(simple), raised, pa.scalar(None, pa.string()))
    hard = np.flatnonzero(~simple & present)
    if len(hard):
        out = raised.to_pylist()
        for row in hard:
            out[row] = _raise_string(values[row].as_py())
        raised = pa.array(out, pa.string())
    return raised


def _raise_string(text: str) -> str | None:
    while text:
        point = ord(text[-1]) + 1
        if point == 0xD800:
            point = 0xE000
        if point <= 0x10FFFF:
            return text[:-1] + chr(point)
        text = text[:-1]
    return None


def _later(values: pa.Array) -> pa.Array:
    micros = values.cast(pa.int64())
    raised = pc.if_else(pc.less(micros, 2**63 - 2000), pc.add(pc.min_element_wise(micros, 2**63 - 2000), 1000), None)
    return raised.cast(pa.int64()).cast(values.type)


def _widen(values: pa.Array, rounding: str) -> pa.Array:
    """Decimals moved outward by more than a double's rounding error; null where the type cannot hold it."""
    precision, scale = values.type.precision, values.type.scale
    unit, limit = Decimal(1).scaleb(-scale), Decimal(10) ** (precision - scale)
    sign = -1 if rounding == ROUND_FLOOR else 1

    def moved(value: Decimal | None) -> Decimal | None:
        if value is None:
            return None
        step = _WIDE.multiply(abs(value), Decimal(2) ** -50)
        result = _WIDE.add(value, step * sign).quantize(unit, rounding=rounding, context=_WIDE)
        return result if abs(result) < limit else None

    return pa.array([moved(v) for v in values.to_pylist()], values.type)


# Raw values as the sources spell them → the column's Arrow type.


def to_column(values: pa.Array | pa.ChunkedArray | None, datatype: DataType, high: bool, length: int) -> pa.Array:
    """Bounds as parsed, in the column's own type; what does not fit is unknown."""
    target = to_arrow(datatype)
    if values is None:
        return pa.nulls(length, target)
    array = one_chunk(values)
    if array.type == target:
        return array
    try:
        if pa.types.is_floating(array.type) or pa.types.is_timestamp(array.type):
            return array.cast(target, safe=False)
        return array.cast(target)
    except (pa.ArrowException, ValueError):
        return pa.array([_convert(v, datatype, high) for v in array.to_pylist()], target)


def _convert(value: Any, datatype: DataType, high: bool) -> Any:
    """One bound of any spelling as the Python value for the type; None if it cannot be understood."""
    try:
        return _convert_present(value, datatype, high)
    except (ValueError, TypeError, ArithmeticError):
        return None


def _convert_present(value: Any, datatype: DataType, high: bool) -> Any:
    if value is None:
        return None
    if digits := decimal_of(datatype):
        number = value if isinstance(value, Decimal) else Decimal(str(value))
        rounding = ROUND_CEILING if high else ROUND_FLOOR
        rounded = number.quantize(Decimal(1).scaleb(-digits[1]), rounding=rounding, context=_WIDE)
        return rounded if abs(rounded) < Decimal(10) ** (digits[0] - digits[1]) else None
    if datatype in _INTEGERS:
        whole = int(value)
        if isinstance(value, bool) or (whole != value and str(whole) != value):
            return None
        bits = {"byte": 8, "short": 16, "integer": 32, "long": 64}[str(datatype)]
        return whole if -(1 << bits - 1) <= whole < 1 << bits - 1 else None
    if datatype in ("float", "double"):
        return float(value)
    if datatype == "date":
        return parse_date(value)
    if datatype in ("timestamp", "timestamp_ntz"):
        moment: datetime = value if isinstance(value, datetime) else parse_timestamp(value)
        return moment.replace(tzinfo=None) if datatype == "timestamp_ntz" else moment
    if datatype == "boolean":
        return value if isinstance(value, bool) else None
    return value if isinstance(value, str) else None


def has_bounds(datatype: DataType) -> bool:
    """Whether bounds of the type are understood; null counts are for every leaf."""
    if isinstance(datatype, dict) or datatype in ("binary", "variant", "void") or datatype.startswith("interval"):
        return False
    return not datatype.startswith("string ")  # a collation orders strings in its own way


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
                    counts[row] = _count((_loads(strings[row].as_py()) or {}).get("numRecords"))
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
        return pa.array([f if isinstance(f, bool) else None for f in flags], pa.bool_())

    def leaf(self, physical: Struct, path: Path, datatype: DataType) -> RawStats | None:
        rows = self._parse(physical)
        if isinstance(rows, pa.Table):
            return leaf_of(rows, path, datatype)
        if not any(_at(row, "nullCount", path) is not None or _at(row, "minValues", path) is not None for row in rows):
            return None
        target = to_arrow(datatype)
        bounded = has_bounds(datatype)
        return RawStats(
            pa.array([_convert(_at(r, "minValues", path), datatype, False) if bounded else None for r in rows], target),
            pa.array([_convert(_at(r, "maxValues", path), datatype, True) if bounded else None for r in rows], target),
            pa.array([_count(_at(r, "nullCount", path)) for r in rows], pa.int64()),
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
    except ValueError:
        return None
    return found if isinstance(found, dict) else None


def _at(row: dict[str, Any] | None, kind: str, path: Path) -> Any:
    value: Any = (row or {}).get(kind)
    for name in path:
        if not isinstance(value, dict):
            return None
        value = value.get(name)
    return None if isinstance(value, dict | list) else value


def _count(value: Any) -> int | None:
    return int(value) if isinstance(value, int | Decimal) and not isinstance(value, bool) and value >= 0 else None


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
    if datatype in _INTEGERS:
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
    counts = pa.nulls(length, pa.int64()) if nulls is None else one_chunk(nulls).cast(pa.int64())
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
    for row in parsed.to_pylist():
        body = _without_nulls(row)
        out.append(orjson.dumps(body, default=str).decode() if body else None)
    return pa.array(out, pa.string())


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
