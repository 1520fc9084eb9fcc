"""The table that replaceWhere is tried on, and what is in it afterwards."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from lakemend import Table

MODES = ("copy-on-write", "merge-on-read")
COLUMNS = "id LONG, p LONG, s STRING, v LONG"
Make = Callable[..., Table]
Row = tuple[Any, ...]
Door = Callable[[Table, DataFrame, str], None]

ROWS = "SELECT id, id % 4 AS p, CAST(id AS STRING) AS s, IF(id % 5 = 0, NULL, id * 10) AS v FROM range(40)"
ALL: list[Row] = [(i, i % 4, str(i), None if i % 5 == 0 else i * 10) for i in range(40)]


def ordered(rows: list[Row]) -> list[Row]:
    return sorted(rows, key=lambda r: tuple((x is None, x) for x in r))


def content(table: Table) -> list[Row]:
    return ordered([tuple(r) for r in table.to_df().collect()])


def frame(spark: SparkSession, rows: list[Row], columns: str = COLUMNS) -> DataFrame:
    return spark.createDataFrame(rows, columns)


def on_disk(table: Table) -> set[str]:
    root = Path(table.detail()["location"].removeprefix("file://"))
    return {f"file://{path}" for path in root.rglob("*.parquet") if "_delta_log" not in path.parts}
