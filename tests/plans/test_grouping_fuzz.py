"""Random queries over random tables: the plan without a shuffle must give the rows of the plan with it."""

from __future__ import annotations

import random
import uuid
from collections.abc import Iterator

import pytest
from pyspark.sql import SparkSession

from tests.plans import queries
from tests.plans.exchanges import NO_BROADCAST, SWITCH, Ran, ran, settings

QUERIES = 14
# What decides how a query is planned and read.
CHOICES: list[list[dict[str, str]]] = [
    [{}, {"spark.sql.adaptive.enabled": "false"}],
    [NO_BROADCAST, NO_BROADCAST, {}],
    [{}, {}, {"spark.sql.sources.v2.bucketing.shuffle.enabled": "false"}],
    [{}, {}, {"spark.sql.requireAllClusterKeysForCoPartition": "true"}],
    [{}, {}, {"spark.sql.sources.v2.bucketing.allowKeysSubsetOfPartitionKeys.enabled": "false"}],
    [{}, {}, {}, {"spark.sql.sources.v2.bucketing.pushPartValues.enabled": "false"}],
    [{}, {}, {}, {"spark.sql.sources.v2.bucketing.partiallyClusteredDistribution.enabled": "true"}],
    [{}, {}, {"spark.sql.codegen.wholeStage": "false"}],
    [{}, {}, {"spark.sql.parquet.enableVectorizedReader": "false"}],
    [{}, {}, {"spark.sql.join.preferSortMergeJoin": "false"}],
    [{}, {"spark.sql.execution.useObjectHashAggregateExec": "false"}],
]


@pytest.fixture
def fresh(spark: SparkSession) -> Iterator[str]:
    name = f"lake.f{uuid.uuid4().hex[:10]}"
    spark.sql(f"CREATE NAMESPACE {name}")
    yield name
    spark.sql(f"DROP NAMESPACE {name} CASCADE")


def compare(spark: SparkSession, namespace: str, seed: int) -> list[Ran]:
    chance = random.Random(seed)
    layouts = queries.make_tables(spark, namespace, chance)
    done = []
    for number in range(QUERIES):
        text = queries.query(layouts, chance)
        conf: dict[str, str] = {}
        for options in CHOICES:
            conf |= chance.choice(options)
        with settings(spark, conf):
            with settings(spark, {SWITCH: "false"}):
                expected = ran(spark, text)
            with settings(spark, {SWITCH: "true"}):
                found = ran(spark, text)
        where = f"seed {seed}, query {number}, {conf}\n{layouts}\n{text}\n{found.plan}"
        assert found.rows == expected.rows, f"other rows without the shuffle: {where}"
        done.append(found)
    return done


@pytest.mark.parametrize("seed", range(5))
def test_some(spark: SparkSession, fresh: str, seed: int) -> None:
    compare(spark, fresh, seed)


def test_they_reach_what_they_are_for(spark: SparkSession, fresh: str) -> None:
    plans = [done.plan for done in compare(spark, fresh, 5)]
    assert any("CoalesceKeys" in plan for plan in plans)
    assert any("GroupPartitions" in plan for plan in plans)
    assert any("not read by" in plan for plan in plans)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(100, 220))
def test_many(spark: SparkSession, fresh: str, seed: int) -> None:
    compare(spark, fresh, seed)
