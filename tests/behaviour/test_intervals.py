"""Spark itself is asked what an interval says."""

from __future__ import annotations

from typing import Any

from py4j.java_gateway import get_field
from pyspark.errors import IllegalArgumentException
from pyspark.sql import SparkSession

from tests.unit.delta_write.test_intervals import DAY, SPELLINGS, UNEVEN, WRONG


def asked(spark: SparkSession, text: str) -> int | None:
    """Milliseconds as delta-spark counts them; None: Spark does not read it, or delta-spark refuses it."""
    jvm: Any = spark._jvm
    try:
        found = jvm.org.apache.spark.sql.catalyst.util.IntervalUtils.stringToInterval(
            jvm.org.apache.spark.unsafe.types.UTF8String.fromString(text)
        )
    except IllegalArgumentException:
        return None
    months, days, micros = (get_field(found, name) for name in ("months", "days", "microseconds"))
    micros += days * DAY * 1000
    return None if months or micros < 0 else int(micros // 1000)


def test_every_spelling(spark: SparkSession) -> None:
    told = [*SPELLINGS, *WRONG, *UNEVEN]
    assert {text: asked(spark, text) for text in told} == SPELLINGS | dict.fromkeys([*WRONG, *UNEVEN])
