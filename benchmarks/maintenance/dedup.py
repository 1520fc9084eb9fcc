"""Of twelve rows in ten keys one of each key is left: the one with the highest `a`."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache

from benchmarks.data import scratch, spark
from benchmarks.peers.contest import Contender, contest, of_ours
from benchmarks.peers.duck import DuckDb, data_files, parquet
from benchmarks.peers.engine import Base
from benchmarks.peers.race import peer
from benchmarks.ratio import Figure
from benchmarks.rows.tables import COLUMNS, MANY, with_columns
from benchmarks.strategies.tables import size

FILES = 16
ROWS = MANY // 5 * 6
NAME = f"deduplicate of {size(ROWS)} rows with {size(MANY)} keys"


def run() -> Iterator[Figure]:
    contenders = [ours_deduplicating()]
    if duck := peer(DuckDb):
        contenders.append(duck.rewriting(lambda round: query(), rows=MANY, files=FILES))
    yield from contest(contenders, rounds=3, warm=1).figures(NAME, against={DuckDb.name: 1.5})


def ours_deduplicating() -> Contender:
    return of_ours(base(), lambda table, round: lambda: table.deduplicate("id", "a"))


def query() -> str:
    """The quickest of the ways that DuckDB has: the whole row that is the highest by `a` of each key."""
    rows = parquet(data_files(base()))
    return f"SELECT * FROM {rows} QUALIFY row_number() OVER (PARTITION BY id ORDER BY a DESC) = 1"


@cache
def base() -> Base:
    """Every fifth id comes again, in files of its own; of the two rows the first is the one to stay in one half."""
    name = f"twice_{MANY}"
    whole = with_columns(spark().range(0, MANY, 1, FILES))
    again = with_columns(spark().range(0, MANY // 5, 1, FILES // 4).selectExpr("id * 5 AS id"))
    again = again.withColumn("a", (again["a"] + again["id"] % 2 * 2 - 1).cast("int"))
    whole.unionByName(again).writeTo(f"lake.bench.{name}").create()
    return Base(name, scratch() / "warehouse" / "bench" / name, COLUMNS)
