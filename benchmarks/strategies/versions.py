"""scd2 against an upsert of the same rows into the same table: a table of versions, each key's one current."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cache

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from benchmarks.data import scratch, spark
from benchmarks.peers.contest import Contender, contest, of_ours
from benchmarks.peers.engine import Base
from benchmarks.ratio import Figure
from benchmarks.rows.tables import COLUMNS, MANY, with_columns
from benchmarks.strategies import tables
from benchmarks.strategies.upsert import upsert_of
from lakemend import Table

ROWS = MANY // 100
SINCE = "TIMESTAMP'2026-01-01 00:00:00'"


def run() -> Iterator[Figure]:
    base = versions()
    ways = [of_ours(base, _versioning), of_ours(base, upsert_of(_source), name="upsert")]
    both = [Contender(way.name, way.prepare) for way in ways]
    race = contest(both, rounds=3, warm=2)
    name = f"scd2 of {tables.size(ROWS)} changes into {tables.size(MANY)} rows, against a plain upsert of them"
    note = f"{race.median(both[0].name):.3f} s against {race.median('upsert'):.3f} s; 3 rounds"
    yield Figure(name, race.ratio("upsert"), 1.3, "×", note)


def _versioning(table: Table, round: int) -> Callable[[], object]:
    rows = _source(round)

    def merge() -> None:
        report = table.merge(rows, "id", "scd2")
        assert report.stats is not None
        assert report.stats["inserted"] == ROWS, report.stats

    return merge


def _source(round: int) -> DataFrame:
    """Every row differs from the table's."""
    return spark().read.parquet(tables.scattered(MANY, ROWS, round)).withColumn("a", F.expr("a ^ 1"))


@cache
def versions() -> Base:
    """As `tables.keyed`, with the columns of scd2; every row is valid since the same moment."""
    name = f"versions_{MANY}"
    ids = spark().range(0, MANY, 1, tables.FILES).selectExpr("id DIV 4 * 5 + id % 4 AS id")
    rows = with_columns(ids).selectExpr(
        "*", f"{SINCE} AS valid_from", "CAST(NULL AS TIMESTAMP) AS valid_to", "true AS is_current"
    )
    rows.writeTo(f"lake.bench.{name}").create()
    columns = f"{COLUMNS}, valid_from TIMESTAMP, valid_to TIMESTAMP, is_current BOOLEAN"
    return Base(name, scratch() / "warehouse" / "bench" / name, columns)
