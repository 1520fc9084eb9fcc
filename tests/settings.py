"""Settings of the shared session, for as long as a test needs them, and what it keeps."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from pyspark.sql import SparkSession


@contextmanager
def settings(spark: SparkSession, values: Mapping[str, str]) -> Iterator[None]:
    before = {key: spark.conf.get(key, None) for key in values}
    for key, value in values.items():
        spark.conf.set(key, value)
    try:
        yield
    finally:
        for key, old in before.items():
            spark.conf.unset(key) if old is None else spark.conf.set(key, old)


def kept_rows(spark: SparkSession) -> set[str]:
    """What Spark keeps in memory or on disk at the moment, for this test and for those before it."""
    return set(spark._jsc.sc().getPersistentRDDs().keys().mkString(" ").split())
