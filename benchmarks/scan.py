"""Reading, against `spark.read.parquet` on the very same files."""

from __future__ import annotations

from collections.abc import Iterator

from benchmarks.data import consume, rows, spark
from benchmarks.ratio import Figure, compare

MANY = 20_000_000
SMALL_FILES = 2_000


def run() -> Iterator[Figure]:
    session = spark()
    rows(MANY).writeTo("lake.bench.wide").create()
    location = (
        session.sql("DESCRIBE TABLE EXTENDED lake.bench.wide").where("col_name = 'Location'").first()["data_type"]
    )
    plain = session.read.parquet(location)
    lake = session.table("lake.bench.wide")
    yield compare("full scan, 20M rows", lambda: consume(lake), lambda: consume(plain), target=1.05)
    condition = "a > 1000000000 AND part < 50"
    yield compare(
        "filtered scan, 20M rows",
        lambda: consume(lake.where(condition).select("id", "b")),
        lambda: consume(plain.where(condition).select("id", "b")),
        target=1.05,
        rounds=15,
        warm=5,
    )
    session.sql("DROP TABLE lake.bench.wide")

    rows(1_000_000).selectExpr("id", f"CAST(id % {SMALL_FILES} AS INT) AS p", "a", "b", "s").repartition(
        2, "p"
    ).writeTo("lake.bench.small").partitionedBy("p").create()
    location = (
        session.sql("DESCRIBE TABLE EXTENDED lake.bench.small").where("col_name = 'Location'").first()["data_type"]
    )
    count = session.table("lake.bench.small").select("_file").distinct().count()
    assert count >= SMALL_FILES, count
    yield compare(
        f"{count:,} small partitioned files, open and scan",
        lambda: consume(session.table("lake.bench.small")),
        lambda: consume(session.read.parquet(location)),
        target=1.0,
        rounds=5,
    )
    session.sql("DROP TABLE lake.bench.small")
