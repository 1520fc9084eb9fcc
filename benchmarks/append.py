"""Writing, against `df.write.parquet` of the same rows."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

from benchmarks.data import rows, scratch, spark
from benchmarks.ratio import Figure, compare

MANY = 10_000_000


def run() -> Iterator[Figure]:
    session = spark()
    numbers = itertools.count()
    frame = rows(MANY).cache()
    frame.count()
    session.sql("CREATE TABLE lake.bench.sink (id BIGINT, part INT, a INT, b DOUBLE, s STRING)")
    yield compare(
        "append 10M rows",
        lambda: frame.writeTo("lake.bench.sink").append(),
        lambda: frame.write.parquet(str(scratch() / f"plain-{next(numbers)}")),
        target=1.1,
        rounds=5,
        warm=1,
    )
    frame.unpersist()
    session.sql("DROP TABLE lake.bench.sink")
