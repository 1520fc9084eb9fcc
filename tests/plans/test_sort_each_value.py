"""Rows of a partition value are sorted by themselves; what comes in order of the values is not sorted again."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from pyspark.sql import SparkSession

from tests.plans.exchanges import NO_BROADCAST, both
from tests.settings import settings

# A type of partition column, and an expression of id that has equal, extreme and (every seventh time) no values.
PARTITIONS = {
    "INT": "IF(id % 7 = 6, NULL, CAST(id % 7 - 3 AS INT))",
    "STRING": "IF(id % 7 = 6, NULL, element_at(array('', 'Z', 'a', 'ä', 'a b/c=%', '10'), CAST(id % 7 AS INT) + 1))",
    "DATE": "IF(id % 7 = 6, NULL, DATE'1969-12-30' + CAST(id % 7 AS INT))",
    "DECIMAL(38,2)": "IF(id % 7 = 6, NULL, CAST(id % 7 - 3 AS DECIMAL(38,2)) * 1000000000000000000000000000000.01BD)",
    "BOOLEAN": "IF(id % 7 = 6, NULL, id % 7 > 2)",
}
ROWS = "{part} AS p, IF(id % 11 = 0, NULL, id * 7919 % 53) AS id, 'v' || id AS v FROM range({count})"


@pytest.fixture(params=["adaptive", pytest.param("static", marks=pytest.mark.slow)], autouse=True)
def planner(request: pytest.FixtureRequest, spark: SparkSession) -> Iterator[None]:
    adaptive = str(request.param == "adaptive").lower()
    with settings(spark, {**NO_BROADCAST, "spark.sql.adaptive.enabled": adaptive}):
        yield


def tables(spark: SparkSession, namespace: str, part: str = PARTITIONS["INT"], kind: str = "INT") -> str:
    for name, count in (("a", 150), ("b", 90)):
        spark.sql(f"CREATE TABLE {namespace}.{name} (p {kind}, id BIGINT, v STRING) PARTITIONED BY (p)")
        spark.sql(f"INSERT INTO {namespace}.{name} SELECT {ROWS.format(part=part, count=count)}")
        spark.sql(f"INSERT INTO {namespace}.{name} SELECT {ROWS.format(part=part, count=20)}")
    return namespace


@pytest.mark.parametrize("kind", PARTITIONS)
def test_partition_columns_of_every_type(spark: SparkSession, namespace: str, kind: str) -> None:
    t = tables(spark, namespace, PARTITIONS[kind], kind)
    done = both(spark, f"SELECT * FROM {t}.a FULL JOIN {t}.b ON a.p = b.p AND a.id = b.id")
    assert done.exchanges == 0, done.plan
    assert done.plan.count("SortEachValue [id#") == 2, done.plan


@pytest.mark.parametrize("on", ["a.id = b.id AND a.p = b.p", "a.v > b.v AND b.id = a.id AND b.p = a.p"])
@pytest.mark.parametrize("kind", ["", "LEFT", "RIGHT", "LEFT ANTI"])
def test_partition_columns_come_first(spark: SparkSession, namespace: str, kind: str, on: str) -> None:
    t = tables(spark, namespace)
    done = both(spark, f"SELECT * FROM {t}.a {kind} JOIN {t}.b ON {on}")
    assert done.exchanges == 0, done.plan
    assert done.plan.count("SortEachValue [id#") == 2, done.plan


def test_columns_by_other_names(spark: SparkSession, namespace: str) -> None:
    t = tables(spark, namespace)
    side = "(SELECT id AS number, p AS part, p + 1 AS next FROM {}.{} WHERE id > 2)"
    on = "ON x.number = y.number AND x.part = y.part"
    done = both(spark, f"SELECT * FROM {side.format(t, 'a')} x LEFT JOIN {side.format(t, 'b')} y {on}")
    assert done.exchanges == 0, done.plan
    assert done.plan.count("SortEachValue [number#") == 2, done.plan


def test_an_order_of_partition_columns_needs_no_sort(spark: SparkSession, namespace: str) -> None:
    t = tables(spark, namespace)
    done = both(spark, f"SELECT a.v, b.v FROM {t}.a JOIN {t}.b ON a.p = b.p WHERE a.id < 3 AND b.id > 40")
    assert (done.exchanges, done.sorts) == (0, 0), done.plan
    assert done.plan.count("SortEachValue [] of [p#") == 2, done.plan


@pytest.mark.parametrize("order", ["id", "id DESC NULLS LAST, v", "v", "length(v), id DESC"])
def test_windows(spark: SparkSession, namespace: str, order: str) -> None:
    t = tables(spark, namespace)
    ranks = f"SELECT p, id, rank() OVER (PARTITION BY p ORDER BY {order}) AS rank FROM {t}.a"
    done = both(spark, ranks)
    assert done.exchanges == 0, done.plan
    assert "SortEachValue" in done.plan


@pytest.mark.parametrize("kind", ["INT", "STRING"])
def test_several_values_in_a_task(spark: SparkSession, namespace: str, kind: str) -> None:
    t = tables(spark, namespace, f"CAST(IF(id % 29 = 28, NULL, id % 29 - 9) AS {kind})", kind)
    done = both(spark, f"SELECT * FROM {t}.a FULL JOIN {t}.b ON a.p = b.p AND a.id = b.id")
    assert done.exchanges == 0, done.plan
    assert "CoalesceKeys 29 partition values" in done.plan
    assert done.plan.count("SortEachValue [id#") == 2, done.plan


def test_three_tables_and_two_partition_columns(spark: SparkSession, namespace: str) -> None:
    for name in ("a", "b", "c"):
        spark.sql(f"CREATE TABLE {namespace}.{name} (p INT, q STRING, id BIGINT) PARTITIONED BY (p, q)")
        spark.sql(
            f"INSERT INTO {namespace}.{name} SELECT id % 3, IF(id % 5 = 4, NULL, 'q' || id % 5), id FROM range(60)"
        )
    on = "{0}.id = {1}.id AND {0}.q = {1}.q AND {0}.p = {1}.p"
    done = both(
        spark,
        f"SELECT * FROM {namespace}.a JOIN {namespace}.b ON {on.format('a', 'b')} "
        f"LEFT JOIN {namespace}.c ON {on.format('b', 'c')}",
    )
    assert done.exchanges == 0, done.plan
    assert len([line for line in done.plan.splitlines() if "SortEachValue [id#" in line and "of [p#" in line]) == 3


def test_a_sort_that_nothing_groups_is_sparks(spark: SparkSession, namespace: str) -> None:
    t = tables(spark, namespace)
    done = both(spark, f"SELECT * FROM {t}.a SORT BY p, id")
    assert "SortEachValue" not in done.plan
