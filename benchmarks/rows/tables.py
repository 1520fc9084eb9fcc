"""The tables of these benchmarks: each made once, by us, and copied for every engine.

Keys of plain tables leave gaps: of five consecutive ids the table has four, so that any range or sample of ids is
80 % updates and 20 % inserts. Those of partitioned tables leave none.
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


def with_columns(ids: DataFrame, partitions: int = 100) -> DataFrame:
    """Rows for a frame of ids: a partition, two numbers and a 45-character string."""
    return ids.selectExpr(
        "id",
        f"CAST(id % {partitions} AS INT) AS part",
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
    frame = with_columns(spark().range(0, count, 1, FILES), partitions).repartition(4, "part")
    frame.writeTo(f"lake.bench.{name}").partitionedBy("part").create()
    return Base(name, scratch() / "warehouse" / "bench" / name, COLUMNS, "part")


def source(name: str, ids: DataFrame, partitions: int = 100) -> str:
    """Rows to merge or insert, as Parquet: its directory."""
    directory = scratch() / "sources" / name
    if not directory.exists():
        with_columns(ids, partitions).write.parquet(str(directory))
    return str(directory)
