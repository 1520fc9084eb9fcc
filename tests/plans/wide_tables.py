"""Targets of every layout and sources of every shape, the same rows in Spark and in DuckDB.

For `wide_merges.py` and `wide_changes.py`, which draw statements over them. The target `t` has the columns (id, k, j,
v, p, st), the source `s` (n, k, j, lo, hi, w, p); k is of one of `KINDS`, and may be of another type in the source.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import date, datetime, timedelta
from decimal import Decimal
from typing import Any

import duckdb
import pyarrow as pa
from pyspark.sql import SparkSession

import lakemend
from lakemend import Table
from tests.differential.oracle import Rows, multiset

TARGET = ("id", "k", "j", "v", "p", "st")
MODES = ("copy-on-write", "merge-on-read")


@dataclass(frozen=True)
class Kind:
    """A type for keys: `value` makes the same of the same number in target and source."""

    target: pa.DataType
    source: pa.DataType
    sql: str
    value: Callable[[int], Any]
    partitions: bool = True

    @property
    def source_sql(self) -> str:
        other = {
            pa.float64(): "DOUBLE",
            pa.int64(): "BIGINT",
            pa.int32(): "INT",
            pa.decimal128(12, 3): "DECIMAL(12, 3)",
        }
        return other.get(self.source, self.sql)


def _text(n: int) -> str:
    return ["a", "A", "é", "ab", "Ab", "b ", "\U0001f600"][n % 7] + (str(n // 7) if n >= 7 else "")


def _double(n: int) -> float:
    return {0: 0.0, 1: -0.0, 2: float("nan"), 3: float("inf"), 4: -1.5}.get(n, n / 4)


_DAY, _MOMENT = date(1999, 12, 25), datetime(1969, 12, 31, 23, 59, 59, 999990)
KINDS: dict[str, Kind] = {
    "bigint": Kind(pa.int64(), pa.int64(), "BIGINT", lambda n: n),
    "int of bigint": Kind(pa.int32(), pa.int64(), "INT", lambda n: n - 3),
    "bigint of int": Kind(pa.int64(), pa.int32(), "BIGINT", lambda n: n - 3),
    "bigint of double": Kind(pa.int64(), pa.float64(), "BIGINT", lambda n: n),
    "string": Kind(pa.string(), pa.string(), "STRING", _text),
    "double": Kind(pa.float64(), pa.float64(), "DOUBLE", _double, partitions=False),
    "float of double": Kind(pa.float32(), pa.float64(), "FLOAT", _double, partitions=False),
    "date": Kind(pa.date32(), pa.date32(), "DATE", lambda n: _DAY + timedelta(n)),
    "timestamp": Kind(pa.timestamp("us", "UTC"), pa.timestamp("us", "UTC"), "TIMESTAMP",
                      lambda n: _MOMENT + timedelta(microseconds=n)),
    "decimal": Kind(pa.decimal128(10, 2), pa.decimal128(10, 2), "DECIMAL(10, 2)", lambda n: Decimal(n - 5) / 4),
    "decimal of decimal": Kind(pa.decimal128(10, 2), pa.decimal128(12, 3), "DECIMAL(10, 2)",
                               lambda n: Decimal(n - 5) / 4),
    "binary": Kind(pa.binary(), pa.binary(), "BINARY", lambda n: _text(n).encode(), partitions=False),
    "boolean": Kind(pa.bool_(), pa.bool_(), "BOOLEAN", lambda n: n % 2 == 0),
}  # fmt: skip
_NESTED = pa.struct([("a", pa.int64()), ("b", pa.string())])


@dataclass(frozen=True)
class Layout:
    """How the target lies in its files."""

    mode: str = "copy-on-write"
    feed: bool = False
    by: tuple[str, ...] = ()
    parts: int = 1  # appends, of `files` each
    files: int = 1
    masked: bool = False
    mapped: bool = False
    sorted: bool = False
    groups: bool = False

    @classmethod
    def drawn(cls, chance: random.Random, kind: Kind) -> Layout:
        by = chance.choice([(), (), (), ("p",), ("p",), ("p", "j"), ("k",) if kind.partitions else ("p",)])
        return cls(
            chance.choice(MODES), chance.random() < 0.4, by, chance.choice([1, 1, 3]), chance.choice([1, 2, 9]),
            chance.random() < 0.35, chance.random() < 0.2, chance.random() < 0.2, chance.random() < 0.2,
        )  # fmt: skip

    @property
    def properties(self) -> dict[str, str]:
        found = {f"write.{verb}.mode": self.mode for verb in ("merge", "update", "delete")}
        if self.feed:
            found["delta.enableChangeDataFeed"] = "true"
        if self.mapped:
            found["delta.columnMapping.mode"] = "name"
        if self.sorted:
            found["write.sort-columns"] = "id" if "j" in self.by else "j, id"
        if self.groups:
            found |= {"write.parquet.row-group-size-bytes": "2048", "write.parquet.page-size-bytes": "512"}
        return found


@dataclass(frozen=True)
class Numbers:
    """The rows before their keys have a type."""

    target: Sequence[tuple[Any, ...]] = field(repr=False)
    source: Sequence[tuple[Any, ...]] = field(repr=False)

    @classmethod
    def drawn(cls, chance: random.Random, groups: bool) -> Numbers:
        size = chance.choice([0, 1, 12, 40, 40, 90, 90]) * (10 if groups else 1)
        spread = chance.choice([3, 20, 200])
        target = [_old(chance, i, spread) for i in range(size)]
        known = sorted({row[1] for row in target if row[1] is not None}) or [1]
        count = chance.choice([0, 1, 8, 40, 40, 120])
        shape = chance.choice(["once", "once", "once", "some twice", "any"])
        keys = (
            [*known, *range(300, 300 + count)] if shape != "any" else [chance.randrange(spread) for _ in range(count)]
        )
        if shape != "any":
            keys = chance.sample(keys, min(count, len(keys)))
        if shape == "some twice" and keys:
            keys += [chance.choice(keys) for _ in range(3)]
        return cls(target, [_new(chance, i, key, size) for i, key in enumerate(keys)])


def _old(chance: random.Random, i: int, spread: int) -> tuple[Any, ...]:
    nested = None if chance.random() < 0.1 else {"a": chance.choice([None, i, 3]), "b": chance.choice([None, "b"])}
    key = None if chance.random() < 0.06 else chance.randrange(spread)
    return i, key, _some(chance, 4), chance.choice(["x", "y", None]), _some(chance, 3), nested


def _new(chance: random.Random, n: int, key: int, size: int) -> tuple[Any, ...]:
    lo = n * 2 if chance.random() < 0.6 else chance.randrange(size + 5)
    key_or_none = None if chance.random() < 0.04 else key
    return (
        n,
        key_or_none,
        _some(chance, 4),
        lo,
        lo + chance.choice([0, 0, 1, 6]),
        chance.choice("abc"),
        _some(chance, 3),
    )


def _some(chance: random.Random, below: int) -> int | None:
    return None if chance.random() < 0.1 else chance.randrange(below)


@dataclass(frozen=True)
class Setting:
    """What the statements of one seed find."""

    key: str
    layout: Layout
    numbers: Numbers
    lake_source: str  # a table of ours, partitioned by these columns; "": a view
    tasks: int

    @classmethod
    def drawn(cls, chance: random.Random) -> Setting:
        key = chance.choice(list(KINDS))
        layout = Layout.drawn(chance, KINDS[key])
        lakes = ["", "", "", "", "", "plain", "p", "p j", "k" if KINDS[key].partitions else "p"]
        lake = chance.choice(lakes)
        if layout.by in (("p",), ("p", "j"), ("k",)) and chance.random() < 0.4:
            lake = " ".join(layout.by)
        return cls(key, layout, Numbers.drawn(chance, layout.groups), lake, chance.choice([1, 4, 50]))

    @property
    def is_alike(self) -> bool:
        return bool(self.layout.by) and self.lake_source == " ".join(self.layout.by)

    @property
    def kind(self) -> Kind:
        return KINDS[self.key]


class Tables:
    """`t` and `s` of one seed."""

    def __init__(self, spark: SparkSession, namespace: str, setting: Setting) -> None:
        self.spark, self.kind, self.layout = spark, setting.kind, setting.layout
        self.setting = setting
        lake_source, numbers, tasks = setting.lake_source, setting.numbers, setting.tasks
        self.duck = duckdb.connect()
        self.duck.execute("SET TimeZone = 'UTC'")
        self.target: Table = lakemend.table(spark, f"{namespace}.t")
        self.source = f"{namespace}.s" if lake_source else "wide_source"
        self._make_target(self._old_rows(numbers.target))
        self._make_source(self._new_rows(numbers.source), lake_source, tasks)

    def close(self) -> None:
        self.duck.close()

    def _old_rows(self, rows: Sequence[tuple[Any, ...]]) -> pa.Table:
        types = [pa.int64(), self.kind.target, pa.int32(), pa.string(), pa.int32(), _NESTED]
        return _arrow(TARGET, types, rows, self.kind.value)

    def _new_rows(self, rows: Sequence[tuple[Any, ...]]) -> pa.Table:
        names = ("n", "k", "j", "lo", "hi", "w", "p")
        types = [pa.int64(), self.kind.source, pa.int32(), pa.int64(), pa.int64(), pa.string(), pa.int32()]
        return _arrow(names, types, rows, self.kind.value)

    def _make_target(self, rows: pa.Table) -> None:
        spark, layout, name = self.spark, self.layout, self.target.name
        by = f"PARTITIONED BY ({', '.join(layout.by)})" if layout.by else ""
        properties = ", ".join(f"'{key}' = '{value}'" for key, value in layout.properties.items())
        called = "old_v" if layout.mapped else "v"
        spark.sql(
            f"CREATE TABLE {name} (id BIGINT NOT NULL, k {self.kind.sql}, j INT, {called} STRING, p INT, "
            f"st STRUCT<a: BIGINT, b: STRING>) {by} TBLPROPERTIES ({properties})"
        )
        if layout.mapped:
            spark.sql(f"ALTER TABLE {name} RENAME COLUMN old_v TO v")
        dead = rows.slice(0, rows.num_rows // 3).set_column(
            0, "id", pa.array(range(5000, 5000 + rows.num_rows // 3), pa.int64())
        )
        written = pa.concat_tables([rows, dead]) if layout.masked else rows
        for part in range(layout.parts):
            some = written.take(pa.array(range(part, written.num_rows, layout.parts), pa.int64()))
            if some.num_rows:
                self.target.append(spark.createDataFrame(some).repartition(layout.files))
        if layout.masked and dead.num_rows:
            spark.sql(f"DELETE FROM {name} WHERE id >= 5000")
        self._into_duck("t", rows)

    def _make_source(self, rows: pa.Table, lake_source: str, tasks: int) -> None:
        frame = self.spark.createDataFrame(rows).repartition(tasks)
        if lake_source:
            by = lake_source.split() if set(lake_source.split()) <= {"p", "k", "j"} else ()
            lakemend.table(self.spark, self.source).append(frame, partition_by=by)
        else:
            frame.createOrReplaceTempView(self.source)
        self._into_duck("s", rows)

    def _into_duck(self, name: str, rows: pa.Table) -> None:
        self.duck.register("copied", rows)
        self.duck.execute(f"CREATE TABLE {name} AS SELECT * FROM copied")
        self.duck.unregister("copied")

    def found(self) -> Rows:
        return multiset(self.target.to_df().select(*TARGET).toArrow(), same_zeros=["k"])

    def expected(self) -> Rows:
        return multiset(self.duck.sql(f"SELECT {', '.join(TARGET)} FROM t").to_arrow_table(), same_zeros=["k"])

    def feed(self, version: int) -> tuple[Rows, Rows, Counter[str]]:
        """Rows that a version took away and brought, and how many changes of each kind it tells of."""
        text = f"SELECT {', '.join(TARGET)}, _change_type FROM {self.target.name} CHANGES FROM VERSION {version}"
        rows = self.spark.sql(text).toArrow()
        kinds = rows.column("_change_type").to_pylist()
        gone = pa.array([kind in ("delete", "update_preimage") for kind in kinds], pa.bool_())
        came = pa.array([kind in ("insert", "update_postimage") for kind in kinds], pa.bool_())
        taken, brought = (multiset(rows.select(TARGET).filter(those), same_zeros=["k"]) for those in (gone, came))
        return taken, brought, Counter(kinds)


def _arrow(
    names: Sequence[str], types: Sequence[pa.DataType], rows: Sequence[tuple[Any, ...]], key: Callable[[int], Any]
) -> pa.Table:
    columns = list(zip(*rows, strict=True)) if rows else [()] * len(names)
    made = [
        pa.array([None if v is None else key(v) for v in column] if name == "k" else list(column), type_)
        for name, type_, column in zip(names, types, columns, strict=True)
    ]
    return pa.table(dict(zip(names, made, strict=True)))
