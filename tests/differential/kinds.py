"""Column types with their spelling in Spark, DuckDB and Arrow, and values worth trying.

`tables.py` draws columns and rows from these; `queries.py` and `verbs.py` spell literals with them. A
value is what Python has for it: int, float, Decimal, str, bool, date, datetime without zone (UTC is
meant), bytes, dict (struct), list (array), and None anywhere.
"""

from __future__ import annotations

import datetime as dt
import math
from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

import pyarrow as pa
from hypothesis import strategies as st

Value = Any
_NO_ZONE = pa.timestamp("us")


@dataclass(frozen=True)
class Kind:
    """A type. `mirror` is Arrow's type in DuckDB, where moments have no zone."""

    spark: str
    duck: str
    arrow: pa.DataType
    mirror: pa.DataType
    values: st.SearchStrategy[Value]
    spell: tuple[Callable[[Value], str], Callable[[Value], str]]  # a value that is not None: for Spark, for DuckDB
    orderable: bool = True
    partitions: bool = True
    fields: tuple[tuple[str, Kind], ...] = ()
    wider: tuple[str, ...] = ()

    def __repr__(self) -> str:
        return self.spark

    @property
    def exact(self) -> bool:
        """Whether equal values are the same: floating-point numbers have two zeros."""
        return self.spark not in ("double", "float")

    @property
    def integral(self) -> bool:
        return self.spark in ("tinyint", "smallint", "int", "bigint")

    def for_spark(self, value: Value) -> str:
        return f"CAST({'NULL' if value is None else self.spell[0](value)} AS {self.spark})"

    def for_duck(self, value: Value) -> str:
        return f"CAST({'NULL' if value is None else self.spell[1](value)} AS {self.duck})"


def _scalar(
    spark: str,
    duck: str,
    arrow: pa.DataType,
    values: st.SearchStrategy[Value],
    spell: Callable[[Value], str],
    spell_duck: Callable[[Value], str] | None = None,
    mirror: pa.DataType | None = None,
    **rest: Any,
) -> Kind:
    return Kind(spark, duck, arrow, mirror or arrow, values, (spell, spell_duck or spell), **rest)


def _integer(spark: str, duck: str, arrow: pa.DataType, bits: int, *wider: str) -> Kind:
    low, high = -(2 ** (bits - 1)), 2 ** (bits - 1) - 1
    values = st.one_of(st.integers(-3, 12), st.sampled_from([low, high, 0]), st.integers(low, high))
    # The lowest long has no literal of its own.
    return _scalar(spark, duck, arrow, values, lambda v: f"'{v}'", wider=wider)


def _floating(spark: str, duck: str, arrow: pa.DataType, width: int, *wider: str) -> Kind:
    special = [math.nan, math.inf, -math.inf, 0.0, -0.0, 1.5, -2.25]
    values = st.one_of(st.sampled_from(special), st.floats(width=width))  # type: ignore[arg-type]
    return _scalar(spark, duck, arrow, values, lambda v: f"'{_number(v)}'", wider=wider)


def _number(value: float) -> str:
    return "NaN" if math.isnan(value) else repr(value).replace("inf", "Infinity")


def _decimal(precision: int, scale: int, *wider: str) -> Kind:
    most = 10**precision - 1
    values = st.one_of(st.integers(-500, 500), st.sampled_from([-most, most]), st.integers(-most, most)).map(
        lambda unscaled: Decimal((unscaled < 0, tuple(map(int, str(abs(unscaled)))), -scale))
    )
    name = f"decimal({precision},{scale})"
    return _scalar(name, name, pa.decimal128(precision, scale), values, lambda v: f"'{v:f}'", wider=wider)


def _text(value: str) -> str:
    return "'" + value.replace("\\", "\\\\").replace("'", "\\'") + "'"


def _duck_text(value: str) -> str:
    return "'" + value.replace("'", "''") + "'"


AWKWARD = [
    "",
    "a",
    "A",
    "a b",
    "a/b",
    "100%",
    "a%20b",
    "ü☃𝄞",
    "x=y",
    "'q\"",
    "back\\slash",
    "line\nbreak",
    ".",
    "é",
    "é",
]
_SOME_DATES = [
    dt.date(1970, 1, 1),
    dt.date(1582, 10, 10),
    dt.date(1, 1, 1),
    dt.date(9999, 12, 31),
    dt.date(2024, 2, 29),
]
_SOME_MOMENTS = [
    dt.datetime(1969, 12, 31, 23, 59, 59, 999999),
    dt.datetime(1200, 1, 1, 0, 0, 0, 1),
    dt.datetime(2024, 2, 29, 12, 0, 0, 123456),
    dt.datetime(2024, 2, 29, 12, 0, 0, 123999),
    dt.datetime(9999, 12, 31, 23, 59, 59, 999999),
]
_moments = st.one_of(st.sampled_from(_SOME_MOMENTS), st.datetimes(dt.datetime(1, 1, 2), dt.datetime(9999, 12, 30)))
_long_text = st.sampled_from(["x" * 40, "x" * 31 + "y", "x" * 32 + "ü", "\U0010ffff" * 33, "𝄞" * 40])
_words = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\x00"), max_size=6)

TINYINT = _integer("tinyint", "TINYINT", pa.int8(), 8, "smallint", "int", "bigint", "double")
SMALLINT = _integer("smallint", "SMALLINT", pa.int16(), 16, "int", "bigint", "double")
INT = _integer("int", "INTEGER", pa.int32(), 32, "bigint", "double")
BIGINT = _integer("bigint", "BIGINT", pa.int64(), 64)
FLOAT = _floating("float", "FLOAT", pa.float32(), 32, "double")
DOUBLE = _floating("double", "DOUBLE", pa.float64(), 64)
BOOLEAN = _scalar("boolean", "BOOLEAN", pa.bool_(), st.booleans(), lambda v: str(v).lower())
DATE = _scalar(
    "date", "DATE", pa.date32(), st.one_of(st.sampled_from(_SOME_DATES), st.dates()),
    lambda v: f"'{v.isoformat()}'", wider=("timestamp_ntz",),
)  # fmt: skip
TIMESTAMP = _scalar(
    "timestamp", "TIMESTAMP", pa.timestamp("us", "UTC"), _moments,
    lambda v: f"'{v.isoformat(sep=' ')}+00:00'", lambda v: f"'{v.isoformat(sep=' ')}'", mirror=_NO_ZONE,
)  # fmt: skip
TIMESTAMP_NTZ = _scalar(
    "timestamp_ntz", "TIMESTAMP", _NO_ZONE, _moments, lambda v: f"'{v.isoformat(sep=' ')}'", mirror=_NO_ZONE
)
STRING = _scalar(
    "string", "VARCHAR", pa.string(), st.one_of(st.sampled_from(AWKWARD), _words, _long_text), _text, _duck_text
)
BINARY = _scalar(
    "binary", "BLOB", pa.binary(), st.one_of(st.sampled_from([b"", b"\x00", b"\xff", b"a"]), st.binary(max_size=5)),
    lambda v: f"X'{v.hex()}'", lambda v: f"unhex('{v.hex()}')", partitions=False,
)  # fmt: skip
DECIMAL_5 = _decimal(5, 2, "decimal(10,4)", "decimal(38,10)")
DECIMAL_10_4 = _decimal(10, 4)
DECIMAL_20 = _decimal(20, 4)
DECIMAL_38 = _decimal(38, 10)

SCALARS = (
    TINYINT, SMALLINT, INT, BIGINT, FLOAT, DOUBLE, BOOLEAN, DATE, TIMESTAMP, TIMESTAMP_NTZ, STRING, BINARY,
    DECIMAL_5, DECIMAL_20, DECIMAL_38,
)  # fmt: skip
PARTITION_KINDS = tuple(kind for kind in SCALARS if kind.partitions)
BY_NAME = {kind.spark: kind for kind in (*SCALARS, DECIMAL_10_4)}


def nullable(kind: Kind) -> st.SearchStrategy[Value]:
    return st.one_of(st.none(), kind.values, kind.values, kind.values)


def struct_of(*fields: tuple[str, Kind]) -> Kind:
    def spelled(value: dict[str, Value]) -> str:
        return "named_struct(" + ", ".join(f"'{n}', {k.for_spark(value[n])}" for n, k in fields) + ")"

    def spelled_duck(value: dict[str, Value]) -> str:
        return "{" + ", ".join(f"'{n}': {k.for_duck(value[n])}" for n, k in fields) + "}"

    return Kind(
        "struct<" + ", ".join(f"{n}: {k.spark}" for n, k in fields) + ">",
        "STRUCT(" + ", ".join(f'"{n}" {k.duck}' for n, k in fields) + ")",
        pa.struct([(n, k.arrow) for n, k in fields]),
        pa.struct([(n, k.mirror) for n, k in fields]),
        st.fixed_dictionaries({n: nullable(k) for n, k in fields}),
        (spelled, spelled_duck),
        orderable=False,
        partitions=False,
        fields=fields,
    )


def array_of(element: Kind) -> Kind:
    return Kind(
        f"array<{element.spark}>",
        f"{element.duck}[]",
        pa.list_(element.arrow),
        pa.list_(element.mirror),
        st.lists(nullable(element), max_size=3),
        (
            lambda v: "array(" + ", ".join(element.for_spark(e) for e in v) + ")",
            lambda v: "[" + ", ".join(element.for_duck(e) for e in v) + "]",
        ),
        orderable=False,
        partitions=False,
    )


def nested_kinds() -> st.SearchStrategy[Kind]:
    leaf = st.sampled_from((INT, DOUBLE, STRING, TIMESTAMP, DATE, DECIMAL_5))
    structs = st.tuples(leaf, leaf).map(lambda pair: struct_of(("x", pair[0]), ("y", pair[1])))
    arrays = leaf.map(array_of)
    return st.one_of(structs, arrays, structs.map(array_of), arrays.map(lambda a: struct_of(("l", a), ("x", INT))))
