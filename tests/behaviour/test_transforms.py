"""The functions behind partition transforms, with the values that Iceberg's specification gives."""

from __future__ import annotations

import datetime
from decimal import Decimal

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession


@pytest.mark.parametrize(
    ("value", "hashed"),
    [
        ("34", 2017239379),
        ("34L", 2017239379),
        ("14.20BD", -500754589),
        ("DATE'2017-11-16'", -653330422),
        ("TIMESTAMP'2017-11-16 22:31:08'", -2047944441),
        ("TIMESTAMP_NTZ'2017-11-16 22:31:08'", -2047944441),
        ("'iceberg'", 1210000089),
        ("X'00010203'", -188683207),
    ],
)
def test_bucket(spark: SparkSession, value: str, hashed: int) -> None:
    for count in (1, 16, 1000):
        (found,) = spark.sql(f"SELECT lake.system.bucket({count}, {value})").first()
        assert found == (hashed & 0x7FFFFFFF) % count


@pytest.mark.parametrize(
    ("call", "expected"),
    [
        ("truncate(10, 1)", 0),
        ("truncate(10, -1)", -10),
        ("truncate(10, -10L)", -10),
        ("truncate(50, 10.65BD)", Decimal("10.50")),
        ("truncate(3, 'iceberg')", "ice"),
        ("truncate(2, 'äöü')", "äö"),
        ("truncate(1, X'0102')", bytearray(b"\x01")),
        ("years(DATE'2017-11-16')", 47),
        ("years(DATE'1969-12-31')", -1),
        ("months(DATE'2017-11-16')", 574),
        ("months(DATE'1969-12-31')", -1),
        ("days(DATE'2017-11-16')", datetime.date(2017, 11, 16)),
        ("days(TIMESTAMP'1969-12-31 23:00:00')", datetime.date(1969, 12, 31)),
        ("hours(TIMESTAMP'2017-11-16 22:31:08')", 419686),
        ("hours(TIMESTAMP'1969-12-31 23:59:59')", -1),
        ("bucket(4, CAST(NULL AS INT))", None),
        ("years(CAST(NULL AS DATE))", None),
    ],
)
def test_values(spark: SparkSession, call: str, expected: object) -> None:
    assert spark.sql(f"SELECT lake.system.{call}").first()[0] == expected


def test_they_are_listed_and_take_what_they_can(spark: SparkSession) -> None:
    listed = {row[0].rpartition(".")[2] for row in spark.sql("SHOW USER FUNCTIONS IN lake.system").collect()}
    assert {"bucket", "truncate", "years", "months", "days", "hours"} <= listed
    for wrong in (
        "bucket(4, true)",
        "bucket('a', 1)",
        "truncate(4, DATE'2020-01-01')",
        "hours(DATE'2020-01-01')",
        "nope(1)",
    ):
        with pytest.raises(PySparkException):
            spark.sql(f"SELECT lake.system.{wrong}").collect()


@pytest.mark.parametrize(("one", "other", "reduced"), [(8, 12, 4), (12, 8, 4), (16, 4, 4), (4, 16, None), (3, 4, None)])
def test_bucket_counts_are_reduced(spark: SparkSession, one: int, other: int, reduced: int | None) -> None:
    """Buckets of 8 and of 12 meet in 4; of 4 and 16, only the 16 are reduced."""
    joins, types = spark._jvm.lakemend.joins, spark._jvm.org.apache.spark.sql.types
    bucket = joins.BoundBucket(types.DataTypes.LongType)
    found = bucket.reducer(one, joins.BoundBucket(types.DataTypes.LongType), other)
    if reduced is None:
        assert found is None
    else:
        assert [found.reduce(n) for n in range(one)] == [n % reduced for n in range(one)]
    assert bucket.reducer(one, joins.BoundBucket(types.DataTypes.StringType), other) is None
