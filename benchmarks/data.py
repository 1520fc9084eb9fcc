"""Data for benchmarks, made once per run in a scratch directory (`LAKEMEND_BENCH_DIR`, else a temporary one)."""

from __future__ import annotations

import atexit
import os
import shutil
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import cache
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession

import lakemend


@cache
def scratch() -> Path:
    chosen = os.environ.get("LAKEMEND_BENCH_DIR")
    directory = Path(tempfile.mkdtemp(prefix="lakemend-bench-", dir=chosen))
    atexit.register(shutil.rmtree, directory, ignore_errors=True)
    return directory


# Every engine on Spark has these, ours and the peers (`peers/process.py`).
SETTINGS = {
    "spark.master": "local[2]",
    "spark.driver.memory": "4g",
    "spark.ui.enabled": "false",
    "spark.sql.shuffle.partitions": "8",
    "spark.log.level": "ERROR",
}


@cache
def spark() -> SparkSession:
    session = lakemend.session(warehouse=str(scratch() / "warehouse"), conf=SETTINGS)
    session.sql("CREATE NAMESPACE IF NOT EXISTS lake.bench")
    return session


@contextmanager
def settings(values: Mapping[str, str]) -> Iterator[None]:
    """Our session with these settings; afterwards they are what they were."""
    conf = spark().conf
    before = {key: conf.get(key, None) for key in values}
    try:
        for key, value in values.items():
            conf.set(key, value)
        yield
    finally:
        for key, old in before.items():
            if old is None:
                conf.unset(key)
            else:
                conf.set(key, old)


def rows(count: int) -> DataFrame:
    """id, a partition-like column, two numbers and a 45-character string."""
    return (
        spark()
        .range(0, count, 1, 16)
        .selectExpr(
            "id",
            "CAST(id % 100 AS INT) AS part",
            "CAST(hash(id) AS INT) AS a",
            "CAST(id * 1.5 AS DOUBLE) AS b",
            "concat(sha1(CAST(id AS STRING)), 'fixed') AS s",
        )
    )


def consume(frame: DataFrame) -> None:
    """Runs a query to its end without collecting it."""
    frame.write.format("noop").mode("overwrite").save()
