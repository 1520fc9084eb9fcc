"""Random queries over tables that are partitioned by columns of different types or values: the rows of plain views.

`LAKEMEND_FUZZ_QUERIES` is how many seeds the slow run takes, `LAKEMEND_FUZZ_FIRST` the first of them.
"""

from __future__ import annotations

import os
import random
from collections import Counter
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

from tests.plans.exchanges import SWITCH
from tests.plans.mixed_queries import CHOICES, make_tables, query
from tests.settings import settings

QUERIES = 12
LARGEST = 200_000  # rows that fit in the driver
MANY = int(os.environ.get("LAKEMEND_FUZZ_QUERIES", "100"))
FIRST = int(os.environ.get("LAKEMEND_FUZZ_FIRST", "1000"))


def rows_of(frame: DataFrame) -> Counter[Any]:
    return Counter(tuple(_plain(value) for value in row) for row in frame.collect())


def _plain(value: Any) -> Any:
    """NaN is one value, and so are the two zeros."""
    return ("NaN" if value != value else value + 0.0) if isinstance(value, float) else value


def compare(spark: SparkSession, namespace: str, seed: int, queries: int = QUERIES) -> None:
    chance = random.Random(seed)
    tables = make_tables(spark, namespace, chance)
    for number in range(queries):
        text = query(chance)
        conf: dict[str, str] = {}
        for options in CHOICES:
            conf |= chance.choice(options)
        conf |= chance.choice([{SWITCH: "true"}, {SWITCH: "true"}, {}])
        expected = rows_of(spark.sql(text.format(*(table.view for table in tables))).limit(LARGEST + 1))
        if expected.total() > LARGEST:
            continue
        with settings(spark, conf):
            frame = spark.sql(text.format(*(table.name for table in tables)))
            found = rows_of(frame)
        plan = frame._jdf.queryExecution().executedPlan().toString()
        where = f"seed {seed}, query {number}, {conf}\n{tables}\n{text}\n{plan}"
        assert found == expected, f"missing {expected - found}\nextra {found - expected}\n{where}"


@pytest.mark.parametrize("seed", range(1))
def test_some(spark: SparkSession, namespace: str, seed: int) -> None:
    compare(spark, namespace, seed, queries=8)


def test_a_scan_in_two_plans_that_the_first_has_filtered(spark: SparkSession, namespace: str) -> None:
    """The second query has a broadcast whose keys a filter asks for: its plan stands there again, over the same scans.
    By which values they are grouped may not depend on what is left of them."""
    compare(spark, namespace, 111, queries=2)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(FIRST, FIRST + MANY))
def test_many(spark: SparkSession, namespace: str, seed: int) -> None:
    compare(spark, namespace, seed)
