"""The tables of these benchmarks: each made once, by us, and copied for every engine.

Keys of plain tables leave gaps: of five consecutive ids the table has four, so that any range or sample of ids is
80 % updates and 20 % inserts. Those of partitioned tables leave none, and a partition is a range of them.
"""

from __future__ import annotations

import os
from functools import cache

from pyspark.sql import DataFrame

from benchmarks.data import scratch, spark
from benchmarks.peers.engine import Base

MANY = int(os.environ.get("LAKEMEND_BENCH_ROWS", "10000000"))
FILES = 16
COLUMNS = "id BIGINT, part INT, a INT, b DOUBLE, s STRING"


def with_columns(ids: DataFrame, part: str = "id % 100") -> DataFrame:
    """Rows for a frame of ids: a partition, two numbers and a 45-character string."""
    return ids.selectExpr(
        "id",
        f"CAST({part} AS INT) AS part",
        "CAST(hash(id) AS INT) AS a",
        "CAST(id * 1.5 AS DOUBLE) AS b",
        "concat(sha1(CAST(id AS STRING)), 'fixed') AS s",
    )


@cache
def plain(count: int = MANY, files: int = FILES) -> Base:
    """Not partitioned; each file holds a range of ids."""
    name = f"plain_{count}"
    ids = spark().range(0, count, 1, files).selectExpr("id DIV 4 * 5 + id % 4 AS id")
    with_columns(ids).writeTo(f"lake.bench.{name}").create()
    return Base(name, scratch() / "warehouse" / "bench" / name, COLUMNS)


@cache
def partitioned(count: int, partitions: int) -> Base:
    """One file per partition."""
    name = f"parts_{partitions}_{count}"
    frame = with_columns(spark().range(0, count, 1, FILES), f"id DIV {count // partitions}").repartition(4, "part")
    frame.writeTo(f"lake.bench.{name}").partitionedBy("part").create()
    return Base(name, scratch() / "warehouse" / "bench" / name, COLUMNS, "part")


def source(name: str, ids: DataFrame) -> str:
    """Rows to merge into a plain table, as Parquet: their directory."""
    return _written(name, with_columns(ids))


def partition(count: int, partitions: int, number: int) -> str:
    """The rows of one partition of `partitioned(count, partitions)`, as Parquet: their directory."""
    size = count // partitions
    ids = spark().range(number * size, (number + 1) * size, 1, 1)
    return _written(f"part-{number}-of-{partitions}", with_columns(ids, f"id DIV {size}"))


def everything(base: Base) -> str:
    """All rows of a table, as Parquet: their directory."""
    return _written(f"all-of-{base.name}", spark().table(f"lake.bench.{base.name}"))


def _written(name: str, rows: DataFrame) -> str:
    directory = scratch() / "sources" / name
    if not directory.exists():
        rows.write.parquet(str(directory))
    return str(directory)
