"""Planning on a table of 10,000 files in a warm session, and queries that must read no data file."""

from __future__ import annotations

import time
from collections.abc import Iterator

from benchmarks.data import spark
from benchmarks.ratio import Figure, measure

FILES = 10_000


def run() -> Iterator[Figure]:
    session = spark()
    session.range(0, FILES * 10, 1, 50).selectExpr("id", f"CAST(id % {FILES} AS INT) AS p", "id * 2 AS v").repartition(
        4, "p"
    ).writeTo("lake.bench.many").partitionedBy("p").create()

    def plan(query: str) -> None:
        session.sql(query)._jdf.queryExecution().executedPlan()

    yield measure(
        "selective query on 10k files: planning",
        lambda: plan("SELECT * FROM lake.bench.many WHERE p = 77 AND id > 5"),
        target=0.3,
    )
    yield measure(
        "the same by statistics of a data column",
        lambda: plan("SELECT * FROM lake.bench.many WHERE id = 123"),
        target=0.3,
    )
    for query in ("SELECT count(*) FROM lake.bench.many", "SELECT min(id), max(v), count(v) FROM lake.bench.many"):
        yield Figure(f"data files read by {query.split(' FROM')[0]}", files_read(session, query), 0, "", "")
    session.sql("DROP TABLE lake.bench.many")


def files_read(session: object, query: str) -> int:
    """Scans of data files in the executed plan: answered from statistics, it is a local table."""
    started = time.perf_counter()
    frame = session.sql(query)  # type: ignore[attr-defined]
    frame.collect()
    plan = frame._jdf.queryExecution().executedPlan().toString()
    assert time.perf_counter() - started < 60
    return plan.count("BatchScan")
