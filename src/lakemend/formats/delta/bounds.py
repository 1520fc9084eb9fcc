"""Bounds as a writer left them → bounds that hold for every value of a column.

The sources of statistics (`stats.py`, `checkpoint.py`) hand in raw values; `column_stats` makes bounds of them that
may prune and cover, by these rules:

    strings     a bound may be a cut-off prefix: the maximum is raised past every string that begins with it;
                from U+FFFD on a bound stands for something else
    timestamps  are cut to milliseconds: the maximum is raised by one; without a zone they bound nothing. Older
                delta-spark spells them in the session's zone and cuts its offset to minutes, and until 1972 some
                offsets had seconds: up to there both bounds are widened by a minute, typed ones of checkpoints too
    floats      NaN is never in the bounds but sorts above all: there is no maximum
    decimals    with more than 15 digits some writers round through doubles: both bounds are widened; the largest and
                the smallest LONG stand for everything beyond them
    longs       that were spelled as doubles beyond 2^53 bound nothing
    arrays, maps, variants: some writers count the nulls inside of them, so that only a count of 0 says something
    integers, dates, booleans, short decimals: exact, unless the file's bounds are not tight
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from decimal import ROUND_CEILING, ROUND_FLOOR, Context, Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakemend.formats.delta.partition_values import parse_date, parse_timestamp
from lakemend.formats.delta.replay import one_chunk
from lakemend.formats.format import ColumnStats
from lakemend.schema import DataType, decimal_of, to_arrow

INTEGERS = ("byte", "short", "integer", "long")
_EXACT = (*INTEGERS, "date", "boolean")
_DOUBLE_DIGITS = 15
_EXACT_IN_DOUBLE = 2**53
_LONGS = (-(2**63), 2**63 - 1)
_WIDE = Context(prec=80)
_REPLACEMENT = "\ufffd"
# In microseconds. From 1973 on every zone's offset is of whole minutes.
_WHOLE_OFFSETS = 94_694_400_000_000
_MINUTE = 60_000_000


@dataclass(frozen=True, slots=True)
class RawStats:
    """One leaf column as written: bounds in the column's Arrow type (null: none or unreadable), null counts."""

    min: pa.Array
    max: pa.Array
    nulls: pa.Array


def column_stats(raw: RawStats, datatype: DataType, tight: pa.Array) -> ColumnStats:
    """Bounds that hold for every value; `tight` is true where the writer's bounds are the values themselves."""
    low, high = raw.min, raw.max
    if datatype in ("float", "double"):
        # A minimum of NaN means that every value is NaN: it bounds nothing below it.
        low = pc.if_else(pc.fill_null(pc.is_nan(low), True), pa.scalar(None, low.type), low)
        high = pa.nulls(len(low), low.type)
    elif isinstance(datatype, str) and datatype.startswith(("string", "char(", "varchar(")):
        low, high = _genuine(low), raise_strings(_genuine(high, cut_half=True))
    elif datatype in ("timestamp", "timestamp_ntz"):
        if datatype == "timestamp":
            low, high = _off_by_seconds(low, -1), _off_by_seconds(high, 1)
        high = _later(high)
    elif (digits := decimal_of(datatype)) and digits[0] > _DOUBLE_DIGITS:
        low, high = _widen(low, ROUND_FLOOR), _widen(high, ROUND_CEILING)
    nulls = raw.nulls
    if isinstance(datatype, dict) or datatype == "variant":
        nulls = pc.if_else(pc.equal(nulls, 0), nulls, pa.scalar(None, nulls.type))
    exact = pc.and_(pc.fill_null(tight, False), pc.and_(low.is_valid(), high.is_valid()))
    if not _is_exact(datatype):
        exact = pa.array(np.zeros(len(low), bool))
    return ColumnStats(low, high, nulls, exact)


def _is_exact(datatype: DataType) -> bool:
    digits = decimal_of(datatype)
    return datatype in _EXACT or (digits is not None and digits[0] <= _DOUBLE_DIGITS)


def _genuine(values: pa.Array, cut_half: bool = False) -> pa.Array:
    """Strings up to the first U+FFFD, which stands for bytes that are no UTF-8.

    Older delta-spark cuts a maximum in UTF-16 and puts U+FFFD behind it: a character that it cut in half is then a
    question mark before the U+FFFD, and characters beyond U+FFFF sort above it.
    """
    values = one_chunk(values).cast(pa.string())
    doubtful = pc.fill_null(pc.match_substring(values, _REPLACEMENT), False)
    if not pc.any(doubtful).as_py():
        return values
    out = values.to_pylist()
    for row in pc.indices_nonzero(doubtful).to_pylist():
        text = out[row].split(_REPLACEMENT, 1)[0]
        out[row] = text.removesuffix("?") if cut_half else text
    return pa.array(out, pa.string())


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


def _off_by_seconds(values: pa.Array, direction: int) -> pa.Array:
    """Moments when some zone's offset had seconds, a minute further out; null where there is no such moment."""
    micros = values.cast(pa.int64())
    early = pc.fill_null(pc.less(micros, _WHOLE_OFFSETS), False)
    if not pc.any(early).as_py():
        return values
    held = pc.max_element_wise(micros, -(2**63) + _MINUTE, skip_nulls=False)
    moved = pc.if_else(pc.equal(held, micros), pc.add(held, direction * _MINUTE), pa.scalar(None, pa.int64()))
    return pc.if_else(early, moved, micros).cast(values.type)


def _later(values: pa.Array) -> pa.Array:
    micros = values.cast(pa.int64())
    raised = pc.if_else(pc.less(micros, 2**63 - 2000), pc.add(pc.min_element_wise(micros, 2**63 - 2000), 1000), None)
    return raised.cast(pa.int64()).cast(values.type)


def _widen(values: pa.Array, rounding: str) -> pa.Array:
    """Decimals moved outward by more than a double's rounding error; null where the type cannot hold it."""
    precision, scale = values.type.precision, values.type.scale
    unit, limit = Decimal(1).scaleb(-scale), Decimal(10) ** (precision - scale)
    sign, furthest = (-1, _LONGS[0]) if rounding == ROUND_FLOOR else (1, _LONGS[1])

    def moved(value: Decimal | None) -> Decimal | None:
        if value is None or value == furthest:
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
        if pa.types.is_timestamp(array.type) and pa.types.is_timestamp(target):
            return array.cast(target, safe=False)  # nanoseconds are cut, as milliseconds are by writers
        if pa.types.is_floating(array.type) and pa.types.is_floating(target):
            return array.cast(target, safe=False)
        if not pa.types.is_floating(array.type):
            return array.cast(target)
    except (pa.ArrowException, ValueError):
        pass
    try:
        return pa.array([convert(v, datatype, high) for v in array.to_pylist()], target)
    except (pa.ArrowException, ValueError, OverflowError):
        return pa.nulls(length, target)


def convert(value: Any, datatype: DataType, high: bool) -> Any:
    """One bound of any spelling as the Python value for the type; None if it cannot be understood."""
    try:
        return _present(value, datatype, high)
    except (ValueError, TypeError, AttributeError, ArithmeticError):
        return None


def _present(value: Any, datatype: DataType, high: bool) -> Any:
    if value is None:
        return None
    if isinstance(value, bool) != (datatype == "boolean"):
        return None
    if digits := decimal_of(datatype):
        number = value if isinstance(value, Decimal) else Decimal(str(value))
        if number.adjusted() > digits[0]:
            return None
        rounding = ROUND_CEILING if high else ROUND_FLOOR
        rounded = number.quantize(Decimal(1).scaleb(-digits[1]), rounding=rounding, context=_WIDE)
        if rounded != number and digits[0] <= _DOUBLE_DIGITS:
            return None  # no value of the column, and short decimals are taken at their word
        return rounded if abs(rounded) < Decimal(10) ** (digits[0] - digits[1]) else None
    if datatype in INTEGERS:
        if isinstance(value, float):
            value = Decimal(value)
        if isinstance(value, Decimal) and not abs(value) <= _EXACT_IN_DOUBLE:
            return None
        whole = int(value)
        if whole != value and str(whole) != value:
            return None
        bits = {"byte": 8, "short": 16, "integer": 32, "long": 64}[str(datatype)]
        return whole if -(1 << bits - 1) <= whole < 1 << bits - 1 else None
    if datatype in ("float", "double"):
        return float(value)
    if datatype == "date":
        return parse_date(value)
    if datatype in ("timestamp", "timestamp_ntz"):
        moment: datetime = value if isinstance(value, datetime) else parse_timestamp(value)
        if datatype == "timestamp" and moment.tzinfo is None:
            return None
        return moment.replace(tzinfo=None) if datatype == "timestamp_ntz" else moment
    if datatype == "boolean":
        return value
    return value if isinstance(value, str) else None


def has_bounds(datatype: DataType) -> bool:
    """Whether bounds of the type are understood; null counts are for every leaf."""
    if isinstance(datatype, dict) or datatype in ("binary", "variant", "void") or datatype.startswith("interval"):
        return False
    return not datatype.startswith("string ")  # a collation orders strings in its own way


def count_of(value: Any) -> int | None:
    if isinstance(value, bool) or not isinstance(value, int | Decimal) or not 0 <= value < 2**63:
        return None
    return int(value) if value == int(value) else None


def counts_of(values: pa.Array | pa.ChunkedArray) -> pa.Array:
    """A column of counts as int64; what is no count is unknown."""
    array = one_chunk(values)
    if not pa.types.is_integer(array.type):
        if not pa.types.is_floating(array.type):
            return pa.nulls(len(array), pa.int64())
        whole = pc.and_(pc.equal(array, pc.floor(array)), pc.less(array, 2.0**63))
        array = pc.if_else(whole, array, pa.scalar(None, array.type))
    if pa.types.is_uint64(array.type):
        array = pc.if_else(pc.less(array, 2**63), array, pa.scalar(None, array.type))
    if pc.any(pc.less(array, 0)).as_py():
        array = pc.if_else(pc.less(array, 0), pa.scalar(None, array.type), array)
    return array.cast(pa.int64())
