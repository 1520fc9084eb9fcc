"""Reading a journaled table on Spark against the plain table with the same rows, before and after archival.

The journal was loaded by one INSERT, and a tenth of its rows, all over the table, were updated by one UPDATE.
`LAKEMEND_BENCH_JOURNAL_ROWS` sets how many rows (10 million).
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator

from pyspark.sql import DataFrame

from benchmarks.data import consume, spark
from benchmarks.ratio import Figure, compare
from lakemend.journal import JournalSession

ROWS = int(os.environ.get("LAKEMEND_BENCH_JOURNAL_ROWS", "10000000"))
COLUMNS = "id BIGINT, part INT, a BIGINT, b DOUBLE, s STRING"
GENERATED = (
    "SELECT id, CAST(id % 100 AS INT) AS part, CAST(xxhash64(id) % 1000000 AS BIGINT) AS a, id / 7 AS b, "
    f"concat('text ', id % 100000) AS s FROM range({ROWS})"
)
UPDATE = "SET a = a + 1, s = concat(s, '!') WHERE xxhash64(id) % 10 = 0"
PLACES = {"lake": "lake.bench", "plain Parquet": "spark_catalog.bench"}
# What is done with the rows; every column is read by the first one.
QUERIES: dict[str, str] = {
    "every column of every row": "SELECT * FROM {}",
    "sum of a column": "SELECT sum(a) AS x FROM {}",
    "aggregate by a column": "SELECT part, count(*) AS n, sum(a) AS a, avg(b) AS b FROM {} GROUP BY part",
}


def run() -> Iterator[Figure]:
    session = spark()
    session.sql("CREATE NAMESPACE IF NOT EXISTS lake.bench")
    session.sql("CREATE DATABASE IF NOT EXISTS spark_catalog.bench")
    for storage, namespace in PLACES.items():
        plain = f"{namespace}.plain"
        using = "delta" if storage == "lake" else "parquet"
        session.sql(f"CREATE TABLE {plain} ({COLUMNS}) USING {using}")
        session.sql(f"INSERT INTO {plain} {GENERATED}")
        if storage == "lake":
            session.sql(f"UPDATE {plain} {UPDATE}")
        else:
            _update_by_copy(session.table(plain), plain)
        journals = JournalSession(
            session, {"journalTables": {"facts": "id"}, "journalVersionType": "BIGINT"}, namespace=namespace
        )
        journals.init({"facts": COLUMNS})
        journals.sql(f"INSERT INTO facts {GENERATED}")
        journals.sql(f"UPDATE facts {UPDATE}")
        yield from _compared(journals, plain, f"{storage}, before archival", 2.5)
        journals.archive("facts")
        yield from _compared(journals, plain, f"{storage}, archived", 1.2)
        for table in ("plain", "facts_journal", "facts_archive"):
            session.sql(f"DROP TABLE IF EXISTS {namespace}.{table}")


def _compared(journals: JournalSession, plain: str, moment: str, target: float) -> Iterator[Figure]:
    spark = journals.spark
    wanted = spark.sql(f"SELECT count(*), sum(a), max(s) FROM {plain}").collect()
    found = journals.sql("SELECT count(*), sum(a), max(s) FROM facts").collect()  # type: ignore[union-attr]
    assert found == wanted, (found, wanted)
    for name, query in QUERIES.items():
        yield compare(
            f"{moment}: {name}, {ROWS:,} rows",
            _consumed(lambda query=query: journals.sql(query.format("facts"))),  # type: ignore[misc]
            _consumed(lambda query=query: spark.sql(query.format(plain))),  # type: ignore[misc]
            target=target,
            rounds=5,
            warm=1,
        )


def _consumed(query: Callable[[], DataFrame]) -> Callable[[], object]:
    return lambda: consume(query())


def _update_by_copy(rows: DataFrame, name: str) -> None:
    changed = rows.selectExpr(
        "id",
        "part",
        "IF(xxhash64(id) % 10 = 0, a + 1, a) AS a",
        "b",
        "IF(xxhash64(id) % 10 = 0, concat(s, '!'), s) AS s",
    )
    changed.write.saveAsTable(f"{name}_updated", format="parquet")
    rows.sparkSession.sql(f"DROP TABLE {name}")
    rows.sparkSession.sql(f"ALTER TABLE {name}_updated RENAME TO {name.split('.', 1)[1]}")
