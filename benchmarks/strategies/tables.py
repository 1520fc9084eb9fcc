"""The tables that are merged into, and the rows that come: as in `rows/tables.py`, but in any number of files.

Of five consecutive ids the table has four, so that a range or a sample of ids is 80 % updates and 20 % inserts.
"""

from __future__ import annotations

from functools import cache

from pyspark.sql import DataFrame

from benchmarks.data import scratch, spark
from benchmarks.peers.engine import Base
from benchmarks.rows.tables import COLUMNS, MANY, source, with_columns

FILES = 100


@cache
def keyed(count: int = MANY, files: int = FILES) -> Base:
    """Not partitioned; each file holds a range of ids."""
    name = f"keyed_{count}_{files}"
    ids = spark().range(0, count, 1, files).selectExpr("id DIV 4 * 5 + id % 4 AS id")
    with_columns(ids).writeTo(f"lake.bench.{name}").create()
    return Base(name, scratch() / "warehouse" / "bench" / name, COLUMNS)


def scattered(count: int, rows: int, round: int) -> str:
    """Rows of ids all over a table of `count` rows, other ones in each round."""
    step = count // rows // 4 * 5
    shift = round % max(step // 5, 1) * 5
    return source(f"of-{count}-scattered-{rows}-{shift}", _ids(rows, f"id * {step} + id % 5 + {shift}"))


def clustered(count: int, rows: int, round: int, files: int = FILES) -> str:
    """Rows of consecutive ids within one file, another one in each round."""
    start = (round * 31 + 7) % files * (count // files // 4 * 5)
    return source(f"of-{count}-clustered-{rows}-{start}", _ids(rows, f"id + {start}"))


def _ids(rows: int, id: str) -> DataFrame:
    return spark().range(0, rows, 1, 2).selectExpr(f"{id} AS id")


def size(rows: int) -> str:
    return f"{rows // 1_000_000}M" if rows >= 1_000_000 else f"{rows // 1000}k"
