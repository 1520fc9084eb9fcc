"""Tables that have something to be done about them, and what lies below them."""

from __future__ import annotations

import hashlib
import shutil
from pathlib import Path

from pyspark.sql import SparkSession

import lakemend
from lakemend import Table
from tests.copies import copied

MODES = ["merge-on-read", "copy-on-write"]


def make(spark: SparkSession, where: str, mode: str = "merge-on-read") -> Table:
    """Six small files in two partitions, a deletion, an update; 59 rows at version 4."""
    return copied(spark, (__name__, mode), where, lambda path: _made(spark, path, mode))


def _made(spark: SparkSession, where: str, mode: str) -> Table:
    table = lakemend.table(spark, where)
    properties = {f"write.{verb}.mode": mode for verb in ("delete", "update", "merge")}
    for number in range(3):
        rows = spark.sql(f"SELECT id, id % 2 AS p, concat('v', id) AS v FROM range({20 * number}, {20 * number + 20})")
        more = {"partition_by": "p", "properties": properties} if number == 0 else {}
        table.append(rows.coalesce(1), **more)
    table.delete("id = 3")
    table.update({"v": "'new'"}, "id = 4")
    return table


def copy(table: Table, to: Path) -> Table:
    """The same table at another place."""
    shutil.copytree(place(table), to)
    return lakemend.table(table.spark, str(to))


def place(table: Table) -> Path:
    return Path(table.detail()["location"].removeprefix("file://"))


def below(table: Table) -> dict[str, str]:
    """What lies below a table, byte for byte."""
    root = place(table)
    files = (path for path in root.rglob("*") if path.is_file())
    return {str(path.relative_to(root)): hashlib.sha256(path.read_bytes()).hexdigest() for path in files}


def rows(table: Table) -> list[str]:
    return sorted(map(str, table.to_df().collect()))
