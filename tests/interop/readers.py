"""How other engines see a table, in values that compare.

Each reader gives a table's rows as sorted texts of `(column, value)` pairs, so that engines which differ in Arrow types
(large strings, time zones, views) are equal where their values are. `deltalake` answers through its query engine where
its Arrow reader cannot follow deletion vectors or column mapping; DuckDB reads what `deltalake` hands it as Arrow.
"""

from __future__ import annotations

from collections.abc import Callable

import deltalake
import duckdb
import polars
import pyarrow as pa
from pyspark.sql import SparkSession

from tests.interop.values import Rows, of_spark, plain


def of_arrow(table: pa.Table) -> Rows:
    return sorted(repr([(k, plain(v)) for k, v in sorted(row.items())]) for row in table.to_pylist())


def by_lakemend(spark: SparkSession, location: str) -> Rows:
    return of_spark(spark.read.format("lakemend").load(location))


def by_arrow(location: str) -> Rows:
    return of_arrow(deltalake.DeltaTable(location).to_pyarrow_table())


def by_query(location: str) -> Rows:
    return of_arrow(query(location, "SELECT * FROM t"))


def query(location: str, sql: str) -> pa.Table:
    """What deltalake's own engine answers; the table is named `t`."""
    return pa.table(deltalake.QueryBuilder().register("t", deltalake.DeltaTable(location)).execute(sql).read_all())


def by_polars(location: str) -> Rows:
    return of_arrow(polars.scan_delta(location).collect().to_arrow())


def by_duckdb(location: str) -> Rows:
    with duckdb.connect() as connection:
        connection.execute("SET TimeZone = 'UTC'")
        connection.register("t", query(location, "SELECT * FROM t"))
        found = connection.sql("SELECT * FROM t").to_arrow_table()
    return of_arrow(found)


READERS: dict[str, Callable[[str], Rows]] = {
    "deltalake": by_query,
    "deltalake-arrow": by_arrow,
    "polars": by_polars,
    "duckdb": by_duckdb,
}


# Polars and deltalake's Arrow reader refuse tables with column mapping.
FOLLOW_NO_MAPPING = ("deltalake-arrow", "polars")


def assert_all_agree(spark: SparkSession, location: str, expected: Rows, *, without: tuple[str, ...] = ()) -> None:
    """Lakemend and every reader but some see exactly these rows."""
    assert by_lakemend(spark, location) == expected
    for name, read in READERS.items():
        if name not in without:
            assert read(location) == expected, name
