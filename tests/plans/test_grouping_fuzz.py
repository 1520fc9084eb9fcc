"""Random queries over random tables: the plan without a shuffle must give the rows of the plan with it."""

from __future__ import annotations

import random

import pytest
from pyspark.sql import SparkSession

from tests.plans import queries
from tests.plans.exchanges import NO_BROADCAST, SWITCH, Ran, ran
from tests.settings import settings

QUERIES = 14
# What decides how a query is planned and read.
CHOICES: list[list[dict[str, str]]] = [
    [{}, {"spark.sql.adaptive.enabled": "false"}],
    [NO_BROADCAST, NO_BROADCAST, {}],
    [{}, {}, {"spark.sql.sources.v2.bucketing.shuffle.enabled": "false"}],
    [{}, {}, {"spark.sql.requireAllClusterKeysForCoPartition": "true"}],
    [{}, {}, {"spark.sql.sources.v2.bucketing.allowKeysSubsetOfPartitionKeys.enabled": "false"}],
    [{}, {}, {"spark.sql.sources.v2.bucketing.partition.filter.enabled": "false"}],
    [{}, {}, {}, {"spark.sql.sources.v2.bucketing.pushPartValues.enabled": "false"}],
    [{}, {}, {}, {"spark.sql.sources.v2.bucketing.partiallyClusteredDistribution.enabled": "true"}],
    [{}, {}, {"spark.sql.codegen.wholeStage": "false"}],
    [{}, {}, {"spark.sql.parquet.enableVectorizedReader": "false"}],
    [{}, {}, {"spark.sql.join.preferSortMergeJoin": "false"}],
    [{}, {"spark.sql.execution.useObjectHashAggregateExec": "false"}],
]


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


# 149: a filter by a broadcast of grouped rows, which are planned twice.
@pytest.mark.parametrize("seed", [149])
def test_some(spark: SparkSession, namespace: str, seed: int) -> None:
    compare(spark, namespace, seed)


def test_they_reach_what_they_are_for(spark: SparkSession, namespace: str) -> None:
    plans = [done.plan for done in compare(spark, namespace, 5)]
    assert any("CoalesceKeys" in plan for plan in plans)
    assert any("GroupPartitions" in plan for plan in plans)
    assert any("not read by" in plan for plan in plans)


@pytest.mark.slow
@pytest.mark.parametrize("seed", [0, 1, 2, 3, 4, *range(100, 149), *range(150, 220)])
def test_many(spark: SparkSession, namespace: str, seed: int) -> None:
    compare(spark, namespace, seed)
