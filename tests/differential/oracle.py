"""The same table in DuckDB, and rows as values that can be compared.

`World` asks the mirror what Spark and deltalake must answer. Verbs change it with DuckDB's own
statements, so what a statement means is never computed twice by the same code.
"""

from __future__ import annotations

import datetime as dt
import math
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from decimal import Decimal
from typing import Any

import duckdb
import pyarrow as pa

from tests.differential.tables import Column, Row, to_arrow

Rows = Counter[tuple[Any, ...]]


def plain(value: Any, zeros_differ: bool = True) -> Any:
    """A hashable value, equal exactly where the two are the same to a user: NaN is NaN, -0.0 is not 0.0 (unless
    zeros do not matter), moments are UTC, decimals are numbers."""
    if isinstance(value, float):
        if math.isnan(value):
            return "NaN"
        return value if value != 0 else ("-0.0" if zeros_differ and math.copysign(1, value) < 0 else "0.0")
    if isinstance(value, dt.datetime):
        return ("moment", value.replace(tzinfo=None))
    if isinstance(value, Decimal):
        return ("decimal", value)
    if isinstance(value, bool):
        return ("boolean", value)
    if isinstance(value, dict):
        return tuple((name, plain(v, zeros_differ)) for name, v in value.items())
    if isinstance(value, list):
        return ("list", *(plain(v, zeros_differ) for v in value))
    return value


def multiset(table: pa.Table, same_zeros: Iterable[str] = ()) -> Rows:
    """The rows of a table, with how often each occurs. `same_zeros` names columns whose zeros are one value."""
    loose = set(same_zeros)
    columns = [
        [plain(v, table.schema.field(i).name not in loose) for v in table.column(i).to_pylist()]
        for i in range(table.num_columns)
    ]
    return Counter(zip(*columns, strict=True)) if columns else Counter()


def describe_difference(expected: Rows, actual: Rows) -> str:
    missing, extra = expected - actual, actual - expected
    lines = [f"{sum(expected.values())} rows expected, {sum(actual.values())} found"]
    lines += [f"  missing × {n}: {row!r}" for row, n in list(missing.items())[:5]]
    lines += [f"  extra   × {n}: {row!r}" for row, n in list(extra.items())[:5]]
    return "\n".join(lines)


class Mirror:
    """One table in DuckDB's memory, called `t`; `incoming` holds the rows of the statement at hand."""

    def __init__(self) -> None:
        self.connection = duckdb.connect()
        self.connection.execute("SET threads = 1")

    def close(self) -> None:
        self.connection.close()

    def create(self, columns: Sequence[Column], name: str = "t") -> None:
        listed = ", ".join(f"{column.duck} {column.kind.duck}" for column in columns)
        self.execute(f"CREATE OR REPLACE TABLE {name} ({listed})")

    def offer(self, columns: tuple[Column, ...], rows: list[Row], empty_is_null: Iterable[str] = ()) -> None:
        """Puts rows into `incoming`. An empty string in a partition column is null in the table."""
        blank = [i for i, column in enumerate(columns) if column.name in set(empty_is_null)]
        offered = [tuple(None if i in blank and v == "" else v for i, v in enumerate(row)) for row in rows]
        self.create(columns, "incoming")
        self.fill("incoming", columns, offered)

    def fill(self, name: str, columns: tuple[Column, ...], rows: list[Row]) -> None:
        self.connection.register("arrow_rows", to_arrow(columns, rows, mirror=True))
        self.execute(f"INSERT INTO {name} SELECT * FROM arrow_rows")
        self.connection.unregister("arrow_rows")

    @contextmanager
    def undone(self) -> Iterator[None]:
        """Whatever happens inside has not happened afterwards."""
        self.execute("BEGIN TRANSACTION")
        try:
            yield
        finally:
            self.execute("ROLLBACK")

    def insert(self) -> int:
        return self.change("INSERT INTO t BY NAME SELECT * FROM incoming")

    def change(self, sql: str) -> int:
        """Runs DML; how many rows it changed."""
        return self.number(sql)

    def execute(self, sql: str) -> None:
        self.connection.execute(sql).fetchall()

    def query(self, sql: str) -> pa.Table:
        return self.connection.sql(sql).to_arrow_table()

    def number(self, sql: str) -> int:
        ((value,),) = self.connection.execute(sql).fetchall()
        return int(value)

    def count(self) -> int:
        return self.number("SELECT count(*) FROM t")
