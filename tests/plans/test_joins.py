"""Joins, aggregates and windows on partition columns: no shuffle, and the same answer as with one."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from pyspark.sql import SparkSession

import lakemend
from tests.plans.exchanges import NO_BROADCAST, both, ran
from tests.settings import settings


@pytest.fixture(params=["adaptive", pytest.param("static", marks=pytest.mark.slow)], autouse=True)
def planner(request: pytest.FixtureRequest, spark: SparkSession) -> Iterator[None]:
    adaptive = str(request.param == "adaptive").lower()
    with settings(spark, {**NO_BROADCAST, "spark.sql.adaptive.enabled": adaptive}):
        yield


@pytest.fixture(scope="module")
def tables(spark: SparkSession) -> Iterator[str]:
    """`a` and `b` are partitioned by p, with a null and values that only one of them has; `c` by (p, q); `d` by q."""
    name = "lake.joins"
    spark.sql(f"CREATE NAMESPACE {name}")
    spark.sql(f"CREATE TABLE {name}.a (id BIGINT, p INT, x STRING) PARTITIONED BY (p)")
    spark.sql(f"CREATE TABLE {name}.b (id BIGINT, p INT, y STRING) PARTITIONED BY (p)")
    spark.sql(f"CREATE TABLE {name}.c (id BIGINT, p INT, q STRING, z INT) PARTITIONED BY (p, q)")
    spark.sql(f"CREATE TABLE {name}.d (id BIGINT, p INT, q STRING) PARTITIONED BY (q)")
    spark.sql(f"CREATE TABLE {name}.empty (id BIGINT, p INT, y STRING) PARTITIONED BY (p)")
    spark.sql(f"CREATE TABLE {name}.wide (id BIGINT, p BIGINT, y STRING) PARTITIONED BY (p)")
    part = "CASE WHEN id % 7 = 0 THEN NULL ELSE CAST(id % 7 AS INT) END"
    for shift in (0, 3):  # two files for most values
        spark.sql(f"INSERT INTO {name}.a SELECT id, {part}, 'x' || id FROM range({shift}, 60)")
        spark.sql(f"INSERT INTO {name}.b SELECT id, {part} + 1, 'y' || id FROM range({shift}, 60, 2)")
    q = "'q' || CAST(id % 3 AS STRING)"
    spark.sql(f"INSERT INTO {name}.c SELECT id, CAST(id % 4 AS INT), {q}, CAST(id AS INT) FROM range(80)")
    spark.sql(f"INSERT INTO {name}.d SELECT id, CAST(id % 4 AS INT), {q} FROM range(80)")
    spark.sql(f"INSERT INTO {name}.wide SELECT id, CAST({part} AS BIGINT), 'w' || id FROM range(40)")
    yield name
    spark.sql(f"DROP NAMESPACE {name} CASCADE")


JOINS = ["JOIN", "LEFT JOIN", "RIGHT JOIN", "FULL JOIN", "LEFT SEMI JOIN", "LEFT ANTI JOIN"]


@pytest.mark.parametrize("join", JOINS)
@pytest.mark.parametrize("on", ["a.p = b.p", "a.p = b.p AND a.id = b.id"])
def test_join(spark: SparkSession, tables: str, join: str, on: str) -> None:
    done = both(spark, f"SELECT * FROM {tables}.a {join} {tables}.b ON {on}")
    assert done.exchanges == 0, done.plan


@pytest.mark.parametrize("join", JOINS)
def test_nulls_that_are_to_meet(spark: SparkSession, tables: str, join: str) -> None:
    """Spark takes `<=>` for a comparison of two expressions, which no partitioning satisfies."""
    done = both(spark, f"SELECT * FROM {tables}.a {join} {tables}.b ON a.p <=> b.p AND a.id = b.id")
    assert done.exchanges == 2, done.plan


@pytest.mark.parametrize("hint", ["MERGE(a, b)", "SHUFFLE_HASH(b)", "SHUFFLE_HASH(a)"])
def test_join_by_hint(spark: SparkSession, tables: str, hint: str) -> None:
    query = f"SELECT /*+ {hint} */ * FROM {tables}.a JOIN {tables}.b ON a.p = b.p AND a.id = b.id"
    assert both(spark, query).exchanges == 0


@pytest.mark.parametrize(
    ("query", "exchanges"),
    [
        ("SELECT p, count(*), sum(id) FROM {t}.a GROUP BY p", 0),
        ("SELECT p, id, count(*) FROM {t}.a GROUP BY p, id", 0),
        ("SELECT DISTINCT p FROM {t}.a", 0),
        ("SELECT p, count(DISTINCT id) FROM {t}.a GROUP BY p", 0),
        ("SELECT id, row_number() OVER (PARTITION BY p ORDER BY id, x) FROM {t}.a", 0),
        ("SELECT p, q, count(*) FROM {t}.c GROUP BY p, q", 0),
        ("SELECT q, count(*) FROM {t}.c GROUP BY q", 0),
        ("SELECT id, count(*) FROM {t}.a GROUP BY id", 1),
    ],
)
def test_aggregates_and_windows(spark: SparkSession, tables: str, query: str, exchanges: int) -> None:
    done = both(spark, query.format(t=tables))
    assert done.exchanges == exchanges, done.plan


@pytest.mark.parametrize(
    ("query", "exchanges"),
    [
        ("SELECT * FROM {t}.c JOIN {t}.c AS o ON c.p = o.p AND c.q = o.q AND c.id = o.id", 0),
        ("SELECT * FROM {t}.c JOIN {t}.a ON c.p = a.p AND c.id = a.id", 0),
        ("SELECT * FROM {t}.c JOIN {t}.d ON c.q = d.q AND c.id = d.id", 0),
        ("SELECT c.id FROM {t}.c JOIN {t}.d ON c.p = d.p AND c.q = d.q AND c.id = d.id", 1),
        ("SELECT * FROM {t}.a JOIN {t}.b ON a.p = b.p AND a.id = b.id JOIN {t}.c ON c.p = a.p AND c.id = a.id", 0),
        ("SELECT * FROM {t}.a JOIN {t}.a o ON a.p = o.p AND a.id = o.id", 0),
        ("SELECT * FROM {t}.a LEFT JOIN {t}.b ON a.p = b.p AND a.id = b.id WHERE a.p > 2 AND a.id % 2 = 0", 0),
        ("SELECT * FROM {t}.a JOIN {t}.b ON a.p = b.p WHERE b.p IN (1, 2, 99)", 0),
        ("SELECT * FROM {t}.a VERSION AS OF 1 AS a JOIN {t}.b ON a.p = b.p AND a.id = b.id", 0),
        ("SELECT p, count(*) FROM (SELECT p FROM {t}.a UNION ALL SELECT p FROM {t}.b) GROUP BY p", None),
        ("SELECT a.p, count(*) FROM {t}.a JOIN {t}.b ON a.p = b.p AND a.id = b.id GROUP BY a.p", 0),
        # A side without rows has no values to be grouped by.
        ("SELECT * FROM {t}.a FULL JOIN {t}.empty ON a.p = empty.p", None),
        ("SELECT * FROM {t}.a LEFT JOIN {t}.b ON a.p = b.p WHERE a.p > 100", None),
        # Types that must be cast, columns that are no partition columns: Spark shuffles.
        ("SELECT * FROM {t}.a JOIN {t}.wide ON a.p = wide.p", None),
        ("SELECT * FROM {t}.a JOIN {t}.b ON a.id = b.id", 2),
    ],
)
def test_shapes(spark: SparkSession, tables: str, query: str, exchanges: int | None) -> None:
    done = both(spark, query.format(t=tables))
    if exchanges is not None:
        assert done.exchanges == exchanges, done.plan


def test_only_the_side_that_is_not_partitioned_is_shuffled(spark: SparkSession, tables: str) -> None:
    spark.range(0, 60).selectExpr("id", "CAST(id % 9 AS INT) AS p").createOrReplaceTempView("loose")
    for join in JOINS:
        done = both(spark, f"SELECT * FROM {tables}.a {join} loose ON a.p = loose.p AND a.id = loose.id")
        assert done.exchanges <= 1, done.plan


def test_spark_may_be_told_not_to(spark: SparkSession, tables: str) -> None:
    query = f"SELECT * FROM {tables}.a JOIN {tables}.b ON a.p = b.p"
    with settings(spark, {"spark.sql.sources.v2.bucketing.enabled": "false"}):
        assert both(spark, query).exchanges == 2


def test_the_switch_for_one_table_and_one_read(spark: SparkSession, tables: str) -> None:
    grouped = f"SELECT p, sum(id) FROM {tables}.a GROUP BY p"
    with settings(spark, {"spark.databricks.delta.planning.preserveDataGrouping": "true"}):
        assert ran(spark, grouped).exchanges == 0
        with settings(spark, {"spark.lakemend.planning.preserveDataGrouping": "false"}):
            assert ran(spark, grouped).exchanges == 1
    spark.sql(f"ALTER TABLE {tables}.a SET TBLPROPERTIES ('lakemend.planning.preserveDataGrouping' = 'false')")
    assert ran(spark, grouped).exchanges == 1
    assert ran(spark, grouped.replace(".a ", ".a WITH ('preserveDataGrouping' = 'true') ")).exchanges == 0
    spark.sql(f"ALTER TABLE {tables}.a UNSET TBLPROPERTIES ('lakemend.planning.preserveDataGrouping')")
    with (
        settings(spark, {"spark.lakemend.planning.preserveDataGrouping": "maybe"}),
        pytest.raises(lakemend.InvalidInputError, match="auto, true or false"),
    ):
        ran(spark, grouped)


def tasks(spark: SparkSession, query: str) -> int:
    return int(spark.sql(query)._jdf.queryExecution().toRdd().getNumPartitions())


def test_a_grouping_that_nothing_uses_costs_no_tasks(spark: SparkSession, tables: str) -> None:
    with settings(spark, {"spark.lakemend.planning.preserveDataGrouping": "true"}):
        assert tasks(spark, f"SELECT * FROM {tables}.a WHERE id > 3") < 7
        plan = ran(spark, f"SELECT id, count(*) FROM {tables}.a GROUP BY id").plan
    assert "PackedScan" not in plan


def test_a_cached_frame_is_not_taken_for_grouped(spark: SparkSession, tables: str) -> None:
    """What a cached plan says of itself before it has run must be true of it afterwards."""
    with settings(spark, {"spark.lakemend.planning.preserveDataGrouping": "true"}):
        a = spark.sql(f"SELECT * FROM {tables}.a WHERE id >= 0").cache()
        b = spark.sql(f"SELECT * FROM {tables}.b").cache()
        try:
            together = a.join(b, ["p", "id"])
            expected = ran(spark, f"SELECT a.p FROM {tables}.a JOIN {tables}.b ON a.p = b.p AND a.id = b.id").rows
            assert together.count() == len(expected)
            again = a.join(spark.table(f"{tables}.b"), ["p", "id"])
            assert again.count() == len(expected)
        finally:
            a.unpersist()
            b.unpersist()
