"""Grouped scans of which filters that are known at run time leave some partition values, planned more than once.

A filter by a broadcast holds the broadcast's plan a second time, over the same scans: what the first of them has
filtered must not change by which values the second is grouped.
"""

from __future__ import annotations

from collections import Counter

import pytest
from pyspark.sql import SparkSession

from tests.plans.exchanges import SWITCH
from tests.settings import settings


@pytest.fixture
def tables(spark: SparkSession, namespace: str) -> list[str]:
    """`a` and `b` with the values 0 to 5 of p, `d` in no groups; `c` in several files that have other ids."""
    names = [f"{namespace}.{name}" for name in "abcd"]
    rows = "SELECT id, CAST(id % 6 AS INT) AS p, CAST(id % 6 AS INT) AS v FROM range(24)"
    for name in names[:2]:
        spark.sql(f"CREATE TABLE {name} PARTITIONED BY (p) AS {rows}")
    spark.sql(f"CREATE TABLE {names[2]} (id BIGINT, w INT)")
    for part in range(3):
        spark.sql(f"INSERT INTO {names[2]} SELECT id, 1 FROM range({part * 8}, {part * 8 + 8})")
    spark.sql(f"CREATE TABLE {names[3]} AS SELECT id, CAST(id % 6 AS SMALLINT) AS p FROM range(24)")
    return names


INNER = "(SELECT * FROM {0} WHERE p IN (SELECT p FROM {0} WHERE v IN ({1})))"


def _agrees(spark: SparkSession, text: str) -> None:
    with settings(spark, {SWITCH: "false", "spark.sql.optimizer.dynamicPartitionPruning.enabled": "false"}):
        expected = Counter(map(tuple, spark.sql(text).collect()))
    assert expected
    with settings(spark, {SWITCH: "true"}):
        frame = spark.sql(text)
        found = Counter(map(tuple, frame.collect()))
    assert found == expected, frame._jdf.queryExecution().executedPlan().toString()


@pytest.mark.sampled
@pytest.mark.parametrize("join", ["JOIN", "LEFT JOIN", "LEFT ANTI JOIN", "LEFT SEMI JOIN"])
@pytest.mark.parametrize("hint", ["SHUFFLE_HASH(b)", "MERGE(b)"])
@pytest.mark.parametrize("left", ["a", "d"])
def test_a_broadcast_of_joined_groups(spark: SparkSession, tables: list[str], join: str, hint: str, left: str) -> None:
    a, b, c, d = tables
    one = INNER.format(a, "1, 2") if left == "a" else d
    text = (
        f"SELECT c.id FROM (SELECT /*+ {hint} */ a.id FROM {one} a {join} {INNER.format(b, '2, 3')} b "
        f"ON a.p = b.p AND a.id = b.id) x JOIN {c} c ON x.id = c.id"
    )
    _agrees(spark, text)


@pytest.mark.parametrize("hint", ["SHUFFLE_HASH(b)", "MERGE(b)"])
def test_groups_beside_rows_that_are_brought_to_them(spark: SparkSession, tables: list[str], hint: str) -> None:
    a, b, c, d = tables
    groups = f"{INNER.format(a, '1, 2')} a JOIN {INNER.format(b, '2, 3')} b ON a.p = b.p AND a.id = b.id"
    brought = f"SELECT /*+ SHUFFLE_HASH(e) */ d.id FROM {d} d JOIN {INNER.format(b, '1, 2')} e ON d.p = e.p"
    _agrees(
        spark,
        f"SELECT c.id FROM (SELECT /*+ {hint} */ a.id FROM {groups}) x JOIN ({brought}) y ON x.id = y.id "
        f"JOIN {c} c ON x.id = c.id",
    )


def test_a_plan_is_run_by_the_groups_it_was_made_for(spark: SparkSession, namespace: str) -> None:
    """What decides whether a scan is grouped, such as the number of cores, may change until its stage is run."""
    spark.sql(f"CREATE TABLE {namespace}.t (id BIGINT, p INT) PARTITIONED BY (p)")
    for _ in range(3):
        spark.sql(f"INSERT INTO {namespace}.t SELECT id, CAST(id % 5 AS INT) FROM range(50)")
    spark.sql(f"CREATE TABLE {namespace}.d AS SELECT * FROM VALUES (1), (3) AS v(p)")
    text = f"SELECT t.p, count(*) FROM {namespace}.t JOIN {namespace}.d ON t.p = d.p GROUP BY t.p"
    # A task for each file, unless they are grouped.
    apart = {"spark.sql.files.openCostInBytes": "1", "spark.sql.files.maxPartitionBytes": "1000"}
    with settings(spark, {SWITCH: "true", **apart}):
        frame = spark.sql(text)
        assert "dynamicpruning" in frame._jdf.queryExecution().executedPlan().toString()
        with settings(spark, {"spark.sql.sources.v2.bucketing.enabled": "false"}):
            found = sorted(map(tuple, frame.collect()))
    assert found == [(1, 30), (3, 30)]
