"""What the values of a column may be, file by file: the numbers below `predicates.py`.

An `Operand` over-approximates the values one side of a comparison takes in each file: bounds, and
whether a null, a number or a NaN may occur. Every conversion here may widen and never narrow, so
an answer drawn from it ("no row can match", "every row matches") is certain. A literal is an operand
whose bounds are the value itself; a partition value likewise, once per file.

Values are compared the way Spark compares them: integers and decimals exactly, strings and binary
as unsigned bytes, NaN equal to itself and larger than every number, -0.0 equal to 0.0.
"""

from __future__ import annotations

import base64
import struct
from dataclasses import dataclass, replace
from decimal import Decimal
from typing import Any, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc

from lakemend.formats.format import ColumnStats
from lakemend.schema import DataType, decimal_of

# pyarrow has no types of its own for a checker.
Flags: TypeAlias = Any  # bool | pa.BooleanArray: one answer for all files, or one per file (never null)
Bounds: TypeAlias = Any  # pa.Array | pa.Scalar; null: not bounded

_INTEGER_DIGITS = {"byte": 3, "short": 5, "integer": 10, "long": 19}
_WIDE_DECIMAL = pa.decimal256(76, 38)  # holds every decimal(38, s) and every long exactly
_STORED: dict[str, pa.DataType] = {
    "integer": pa.int64(),
    "decimal": _WIDE_DECIMAL,
    "float": pa.float64(),
    "string": pa.large_binary(),
    "binary": pa.large_binary(),
    "boolean": pa.int64(),
    "date": pa.int64(),
    "timestamp": pa.int64(),
    "timestamp_ntz": pa.int64(),
}
_NUMERIC = ("integer", "decimal", "float")  # each is converted to the right-most of two that meet
_EXACT_IN_DOUBLE = 2**53


def either(a: Flags, b: Flags) -> Flags:
    if isinstance(a, bool):
        return True if a else b
    if isinstance(b, bool):
        return True if b else a
    return pc.or_(a, b)


def both(a: Flags, b: Flags) -> Flags:
    if isinstance(a, bool):
        return b if a else False
    if isinstance(b, bool):
        return a if b else False
    return pc.and_(a, b)


def negation(a: Flags) -> Flags:
    return (not a) if isinstance(a, bool) else pc.invert(a)


def possibly(answer: pa.Array | pa.Scalar) -> Flags:
    """A comparison of bounds as flags: where a bound is unknown the answer is "possibly"."""
    if isinstance(answer, pa.Scalar):
        return True if answer.as_py() is None else bool(answer.as_py())
    return pc.fill_null(answer, True)


def certainly(answer: pa.Array | pa.Scalar) -> Flags:
    """A comparison of bounds as flags: where a bound is unknown the answer is no."""
    if isinstance(answer, pa.Scalar):
        return bool(answer.as_py())
    return pc.fill_null(answer, False)


@dataclass(frozen=True)
class Operand:
    """The values one side of a comparison may take in each file. Without a kind nothing is known of them."""

    kind: str | None
    lo: Bounds = None  # of the numbers: a NaN lies outside
    hi: Bounds = None
    null: Flags = True  # may a row be null
    number: Flags = True  # may a row hold a value that is not NaN
    nan: Flags = False  # may a row be NaN

    @property
    def value(self) -> Flags:
        return either(self.number, self.nan)


UNKNOWN = Operand(None, nan=True)


def kind_of(type: DataType) -> str | None:
    """The family of types whose values compare with each other; None for what is never compared here."""
    if not isinstance(type, str):
        return None
    if type in _INTEGER_DIGITS:
        return "integer"
    if decimal_of(type):
        return "decimal"
    if type in ("float", "double"):
        return "float"
    if type in ("string", "binary", "boolean", "date", "timestamp", "timestamp_ntz"):
        return type
    if type.startswith(("char(", "varchar(")):
        return "string"
    return None  # collated strings, intervals, variants, void


def literal(value: Any, type: DataType) -> Operand:
    """An operand from a wire value."""
    kind = kind_of(type)
    if value is None:
        return Operand(kind or "integer", *_nulls(kind or "integer"), null=True, number=False)
    if kind is None:
        return UNKNOWN
    stored = python_value(value, type, kind)
    if kind == "float" and stored != stored:
        return Operand(kind, *_nulls(kind), null=False, number=False, nan=True)
    scalar = pa.scalar(stored, _STORED[kind])
    return Operand(kind, scalar, scalar, null=False)


def python_value(value: Any, type: DataType, kind: str) -> Any:
    """A wire value in the form it is compared in."""
    if kind == "string":
        return str(value).encode("utf-8", "surrogatepass")
    if kind == "binary":
        return base64.b64decode(value)
    if kind == "decimal":
        return Decimal(value)
    if kind == "float":
        number = float(value)
        # A float literal travels with fewer digits than its double has.
        return struct.unpack("f", struct.pack("f", number))[0] if type == "float" and abs(number) < 3.5e38 else number
    return int(value)


def stored_type(kind: str) -> pa.DataType:
    return _STORED[kind]


def _nulls(kind: str) -> tuple[pa.Scalar, pa.Scalar]:
    nothing = pa.scalar(None, _STORED[kind])
    return nothing, nothing


def _stored(array: pa.Array | pa.ChunkedArray, kind: str) -> pa.Array:
    if isinstance(array, pa.ChunkedArray):
        array = array.combine_chunks()
    if pa.types.is_dictionary(array.type):
        array = array.dictionary_decode()
    target = _STORED[kind]
    if array.type == target:
        return array
    if pa.types.is_date32(array.type):
        array = array.cast(pa.int32())
    elif pa.types.is_timestamp(array.type) and array.type.unit != "us":
        array = array.cast(pa.timestamp("us", array.type.tz))
    elif kind == "float" and not pa.types.is_floating(array.type):
        array = array.cast(pa.float64())
    return array.cast(target)


def of_partition(values: pa.Array | pa.ChunkedArray, type: DataType) -> Operand:
    """The operand of an identity partition column: each file has exactly one value."""
    kind = kind_of(type)
    null = pc.is_null(values)
    if isinstance(null, pa.ChunkedArray):
        null = null.combine_chunks()
    if kind is None:
        return replace(UNKNOWN, null=null, number=pc.invert(null), nan=False)
    array = _stored(values, kind)
    number, nan = pc.invert(null), False
    if kind == "float":
        nan = pc.fill_null(pc.is_nan(array), False)
        number = pc.and_not(number, nan)
        array = pc.if_else(nan, pa.scalar(None, pa.float64()), array)
    return Operand(kind, array, array, null=null, number=number, nan=nan)


def of_statistics(stats: ColumnStats, rows: pa.Array | pa.ChunkedArray, type: DataType) -> Operand:
    """The operand of a data column from its statistics.

    Null counts include masked rows: only "none" and "all" can be concluded from them.
    """
    if isinstance(rows, pa.ChunkedArray):
        rows = rows.combine_chunks()
    nulls = stats.nulls.combine_chunks() if isinstance(stats.nulls, pa.ChunkedArray) else stats.nulls
    null = possibly(pc.not_equal(nulls, 0))
    number = possibly(pc.not_equal(nulls, rows))
    kind = kind_of(type)
    if kind is None:
        return replace(UNKNOWN, null=null, number=number, nan=number)
    lo, hi = _stored(stats.min, kind), _stored(stats.max, kind)
    nan: Flags = False
    if kind == "float":
        # Bounds say nothing of NaN, and a NaN among them nothing at all.
        nan = number
        lo, hi = (pc.if_else(pc.fill_null(pc.is_nan(b), False), pa.scalar(None, pa.float64()), b) for b in (lo, hi))
    crossed = certainly(pc.greater(lo, hi))
    if pc.any(crossed).as_py():  # bounds that contradict each other bound nothing
        nothing = pa.scalar(None, _STORED[kind])
        lo, hi = pc.if_else(crossed, nothing, lo), pc.if_else(crossed, nothing, hi)
    return Operand(kind, lo, hi, null=null, number=number, nan=nan)


def cast(operand: Operand, source: DataType, target: DataType) -> Operand:
    """The operand under CAST, where the cast keeps every value and the order; else nothing is known."""
    if operand.kind is None or source == target:
        return operand if source == target else UNKNOWN
    kind = kind_of(target)
    digits = _INTEGER_DIGITS.get(source) if isinstance(source, str) else None
    if digits is not None:
        if isinstance(target, str) and target in _INTEGER_DIGITS:
            return operand if _INTEGER_DIGITS[target] >= digits else UNKNOWN
        if precision := decimal_of(target):
            return as_kind(operand, "decimal") if precision[0] - precision[1] >= digits else UNKNOWN
        if target == "double" or (target == "float" and digits <= 5):
            return as_kind(operand, "float")
        return UNKNOWN
    if (old := decimal_of(source)) and (new := decimal_of(target)):
        return operand if new[1] >= old[1] and new[0] - new[1] >= old[0] - old[1] else UNKNOWN
    if decimal_of(source) and target == "double":
        return as_kind(operand, "float")
    if source == "float" and target == "double":
        return operand
    if operand.kind == kind == "string" and target == "string":
        return operand
    return UNKNOWN


def as_kind(operand: Operand, kind: str) -> Operand:
    """The operand as decimals or floats; bounds a float cannot hold exactly are widened."""
    if operand.kind == kind or operand.kind is None:
        return operand
    if kind == "decimal":
        return replace(operand, kind=kind, lo=operand.lo.cast(_WIDE_DECIMAL), hi=operand.hi.cast(_WIDE_DECIMAL))
    if operand.kind == "integer":
        lo, hi = _integer_as_float(operand.lo, -1), _integer_as_float(operand.hi, 1)
    else:
        lo, hi = _widened(operand.lo.cast(pa.float64()), -1), _widened(operand.hi.cast(pa.float64()), 1)
    return replace(operand, kind=kind, lo=lo, hi=hi)


def _integer_as_float(bound: Bounds, direction: int) -> Bounds:
    exact = bound.cast(pa.float64(), safe=False) if isinstance(bound, pa.Array) else _float_scalar(bound)
    # Within ±2^53 the conversion is exact.
    if isinstance(bound, pa.Scalar):
        inside = bound.as_py() is None or abs(bound.as_py()) <= _EXACT_IN_DOUBLE
        return exact if inside else _widened(exact, direction)
    inside = pc.and_(pc.less_equal(bound, _EXACT_IN_DOUBLE), pc.greater_equal(bound, -_EXACT_IN_DOUBLE))
    return pc.if_else(inside, exact, _widened(exact, direction))


def _float_scalar(bound: pa.Scalar) -> pa.Scalar:
    value = bound.as_py()
    return pa.scalar(None if value is None else float(value), pa.float64())


def _widened(bound: Bounds, direction: int) -> Bounds:
    """A few units in the last place further out."""
    return pc.add(bound, pc.multiply(pc.abs(bound), direction * 2.0**-50))


def comparable(a: Operand, b: Operand) -> tuple[Operand, Operand] | None:
    """Both operands in one kind, or None where their values have no common order here."""
    if a.kind is None or b.kind is None:
        return None
    if a.kind == b.kind:
        return a, b
    if a.kind in _NUMERIC and b.kind in _NUMERIC:
        kind = _NUMERIC[max(_NUMERIC.index(a.kind), _NUMERIC.index(b.kind))]
        return as_kind(a, kind), as_kind(b, kind)
    return None


@dataclass(frozen=True)
class Order:
    """Whether a value of the left side may be less than, equal to or greater than one of the right side."""

    less: Flags
    equal: Flags
    greater: Flags


def order(a: Operand, b: Operand) -> Order:
    """How two operands of one kind may compare, nulls aside."""
    numbers = both(a.number, b.number)
    overlap = both(possibly(pc.less_equal(a.lo, b.hi)), possibly(pc.less_equal(b.lo, a.hi)))
    return Order(
        less=either(both(numbers, possibly(pc.less(a.lo, b.hi))), both(a.number, b.nan)),
        equal=either(both(numbers, overlap), both(a.nan, b.nan)),
        greater=either(both(numbers, possibly(pc.greater(a.hi, b.lo))), both(a.nan, b.number)),
    )
