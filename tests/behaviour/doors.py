"""The ways to a table: the Python API, `spark.sql` and `spark.read`/`df.write`."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession

import lakemend
from lakemend.errors import (
    LakemendError,
)

Door = Callable[..., Any]


def _columns(names: tuple[str, ...]) -> str:
    return ", ".join("`" + name.replace("`", "``") + "`" for name in names)


def _sql_insert(spark: SparkSession, rows: DataFrame, location: str) -> None:
    rows.createOrReplaceTempView("bad_input")
    spark.sql(f"INSERT INTO delta.`{location}` BY NAME SELECT * FROM bad_input")


def _sql_create(spark: SparkSession, rows: DataFrame, location: str, *partition_by: str) -> None:
    rows.createOrReplaceTempView("bad_input")
    partitioned = f"PARTITIONED BY ({_columns(partition_by)})" if partition_by else ""
    spark.sql(f"CREATE TABLE delta.`{location}` {partitioned} AS SELECT * FROM bad_input")


READS: dict[str, Door] = {
    "api": lambda spark, location: lakemend.table(spark, location).to_df().collect(),
    "sql": lambda spark, location: spark.sql(f"SELECT * FROM delta.`{location}`").collect(),
    "dataframe": lambda spark, location: spark.read.format("delta").load(location).collect(),
}
APPENDS: dict[str, Door] = {
    "api": lambda spark, rows, location: lakemend.table(spark, location).append(rows),
    "sql": _sql_insert,
    "dataframe": lambda spark, rows, location: rows.write.format("delta").mode("append").save(location),
}
CREATES: dict[str, Door] = {
    "api": lambda spark, rows, location, *by: lakemend.table(spark, location).append(rows, partition_by=by),
    "sql": _sql_create,
    "dataframe": lambda spark, rows, location, *by: rows.write.format("delta").partitionBy(*by).save(location),
}


def listing(location: str) -> list[tuple[str, int]]:
    """Every file below a place, with its size."""
    return sorted((str(p.relative_to(location)), p.stat().st_size) for p in Path(location).rglob("*") if p.is_file())


def assert_full(error: LakemendError, *mentioned: str) -> None:
    """Problem, cause and remedy are all told, with the values that matter."""
    assert error.problem and error.cause and error.remedy, error
    for text in mentioned:
        assert text in str(error), f"{text!r} is not in: {error}"


def made(spark: SparkSession, location: str, versions: int = 1) -> str:
    """A table of some versions, five rows in each."""
    for version in range(versions):
        rows = spark.range(version * 5, version * 5 + 5).selectExpr("id", "concat('v', id) AS s")
        rows.coalesce(1).write.format("delta").mode("append").save(location)
    return location


def commit_file(location: str, version: int) -> Path:
    return Path(location, "_delta_log", f"{version:020d}.json")


def data_file(location: str) -> Path:
    return next(Path(location).glob("*.parquet"))


def edit_log(location: str, version: int, change: Callable[[dict[str, Any]], None]) -> None:
    """Rewrites the actions of a commit."""
    actions = [json.loads(line) for line in commit_file(location, version).read_text().splitlines()]
    for action in actions:
        change(action)
    commit_file(location, version).write_text("".join(json.dumps(a) + "\n" for a in actions))
