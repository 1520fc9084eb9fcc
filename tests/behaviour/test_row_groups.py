"""What row groups are asked: a condition must not skip one that holds a row for it, however the file stores the values.

Each file here has one row group of one value, so that whatever is asked wrongly loses the row.
"""

from __future__ import annotations

import json
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

COMPARISONS = ("=", "<", "<=", ">", ">=", "<>", "<=>")


def _conditions(column: str, literals: list[str]) -> list[str]:
    plain = [f"{column} {op} {literal}" for literal in literals for op in COMPARISONS]
    listed = [f"{column} IN ({', '.join(literals)})", f"{column} IN (NULL, {literals[0]}, {literals[-1]})"]
    return [c for asked in (*plain, *listed) for c in (asked, f"NOT ({asked})")]


def _require_same_rows(spark: SparkSession, table: str, rows: str, column: str, literals: list[str]) -> None:
    """The table keeps what Spark keeps of the same rows where they were never in a table."""
    asked = _conditions(column, literals)
    queries = [
        " UNION ALL ".join(f"SELECT {i} AS asked, id FROM {name} WHERE {c}" for i, c in enumerate(asked))
        for name in (table, rows)
    ]
    found, wanted = ({tuple(row) for row in spark.sql(query).collect()} for query in queries)
    assert not found ^ wanted, [(asked[i], id) for i, id in found ^ wanted]


@pytest.mark.parametrize(
    ("type", "word", "time"), [("date", "DATE", ""), ("timestamp", "TIMESTAMP", " 12:00:00")], ids=["date", "timestamp"]
)
def test_days_that_the_older_calendar_lacks(
    spark: SparkSession, namespace: str, type: str, word: str, time: str
) -> None:
    days = ["1582-10-04", "1582-10-10", "1582-10-14", "1582-10-15"]
    literals = [f"{word}'{day}{time}'" for day in days]
    spark.sql(f"CREATE TABLE {namespace}.t (id int, v {type})")
    rows = " UNION ALL ".join(f"SELECT {i} AS id, {v} AS v" for i, v in enumerate(literals))
    spark.sql(f"INSERT INTO {namespace}.t {rows}")
    _require_same_rows(spark, f"{namespace}.t", f"({rows})", "v", literals[1:3])


def test_a_row_that_only_its_day_names_is_changed(spark: SparkSession, namespace: str) -> None:
    t = f"{namespace}.t"
    spark.sql(f"CREATE TABLE {t} (id int, v date) TBLPROPERTIES ('delta.enableDeletionVectors' = 'true')")
    spark.sql(f"INSERT INTO {t} VALUES (1, DATE'1582-10-10')")
    spark.sql(f"INSERT INTO {t} VALUES (2, DATE'1582-10-11'), (3, DATE'2024-01-01')")
    spark.sql(f"UPDATE {t} SET id = 10 WHERE v = DATE'1582-10-10'")
    spark.sql(f"DELETE FROM {t} WHERE v = DATE'1582-10-11'")
    assert sorted(row.id for row in spark.table(t).collect()) == [3, 10]


def test_moments_finer_than_a_file_stores(spark: SparkSession, namespace: str, tmp_path: Path) -> None:
    location = tmp_path / "t"
    moments = ["2024-01-01 00:00:00.001", "1969-12-31 23:59:59.999"]
    rows = " UNION ALL ".join(f"SELECT {i} AS id, TIMESTAMP'{m}' AS v" for i, m in enumerate(moments))
    spark.sql(f"CREATE TABLE {namespace}.t (id int, v timestamp) LOCATION '{location}'")
    spark.sql(f"INSERT INTO {namespace}.t {rows}")
    _store_milliseconds(location)
    finer = [f"TIMESTAMP'{m}{more}'" for m in moments for more in ("", "5")]
    _require_same_rows(spark, f"{namespace}.t", f"({rows})", "v", finer)


def _store_milliseconds(location: Path) -> None:
    """The table's files as a writer that keeps milliseconds would have left them."""
    log = location / "_delta_log" / f"{1:020}.json"
    actions = [json.loads(line) for line in log.read_text().splitlines()]
    for action in actions:
        if "add" in action:
            file = location / action["add"]["path"]
            table = pq.read_table(file)
            pq.write_table(table.cast(table.schema.set(1, pa.field("v", pa.timestamp("ms", "UTC")))), file)
            assert "milliseconds" in str(pq.ParquetFile(file).schema)
            action["add"]["size"] = file.stat().st_size
    log.write_text("".join(json.dumps(action) + "\n" for action in actions))


@pytest.mark.parametrize(
    ("column", "old", "new"), [("v", "5,2", "20,2"), ("v", "20,2", "38,2"), ("s.v", "15,2", "38,2")]
)
def test_decimals_with_more_digits_than_a_file_stores(
    spark: SparkSession, namespace: str, column: str, old: str, new: str
) -> None:
    t, values = f"{namespace}.t", ["1.50", "-1.50"]
    one = "CAST({} AS decimal({}))" if column == "v" else "named_struct('v', CAST({} AS decimal({})))"

    def rows(type: str) -> str:
        return " UNION ALL ".join(
            f"SELECT {i} AS id, {one.format(v, type)} AS {column[0]}" for i, v in enumerate(values)
        )

    field = f"v decimal({old})" if column == "v" else f"s struct<v: decimal({old})>"
    spark.sql(f"CREATE TABLE {t} (id int, {field})")
    spark.sql(f"INSERT INTO {t} {rows(old)}")
    spark.sql(f"ALTER TABLE {t} ALTER COLUMN {column} TYPE decimal({new})")
    # Their lower 32 or 64 bits are other numbers: a negative one, and one that the table holds.
    unscaled = [3 * 10**9, 2**32 + 150] if old == "5,2" else [10**19, 2**64 + 150, 2**80]
    literals = [f"CAST('{Decimal(n).scaleb(-2):f}' AS decimal({new}))" for n in unscaled]
    _require_same_rows(spark, t, f"({rows(new)})", column, literals)
