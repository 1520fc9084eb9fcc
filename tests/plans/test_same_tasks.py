"""What a query says of a row by its task, every query says: the parts of a split have all rows between them, once."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from tests.plans.exchanges import NO_BROADCAST, SWITCH, ran
from tests.settings import settings

ROWS = 400
# A window would see the rows of its own query alone: only these tell rows by their task.
PARTS: dict[str, Callable[[DataFrame], list[DataFrame]]] = {
    "randomSplit": lambda frame: frame.randomSplit([0.5, 0.5], seed=3),
    "rand": lambda frame: [frame.withColumn("r", F.rand(5)).where(f"r {sign} 0.5") for sign in ("<", ">=")],
    "numbers": lambda frame: [
        frame.withColumn("n", F.monotonically_increasing_id()).where(f"n % 2 = {rest}") for rest in (0, 1)
    ],
}


@pytest.fixture
def frame(spark: SparkSession, namespace: str) -> DataFrame:
    rows = spark.range(ROWS).selectExpr("id", "CAST(id % 8 AS INT) AS p")
    rows.writeTo(f"{namespace}.t").partitionedBy("p").create()
    return spark.table(f"{namespace}.t")


@pytest.mark.parametrize("adaptive", ["true", "false"])
@pytest.mark.parametrize("by", PARTS)
def test_parts_of_a_split_have_every_row_once(spark: SparkSession, frame: DataFrame, by: str, adaptive: str) -> None:
    with settings(spark, {"spark.sql.adaptive.enabled": adaptive}):
        assert ids_of(*PARTS[by](frame)) == list(range(ROWS))


@pytest.mark.parametrize("by", PARTS)
@pytest.mark.either("by")
def test_it_is_so_of_joined_rows(spark: SparkSession, namespace: str, by: str) -> None:
    for name, rows in (("one", 300), ("other", 40)):
        made = spark.range(rows).selectExpr("id", "CAST(id % 40 AS INT) AS p").coalesce(1)
        made.writeTo(f"{namespace}.{name}").partitionedBy("p").create()
    with settings(spark, {SWITCH: "true", **NO_BROADCAST}):
        joined = spark.table(f"{namespace}.one").join(spark.table(f"{namespace}.other").drop("id"), "p")
        assert ids_of(*PARTS[by](joined)) == list(range(300))


@pytest.mark.parametrize("by", PARTS)
@pytest.mark.either("by")
def test_it_is_so_where_other_rows_are_sent_to_them(spark: SparkSession, frame: DataFrame, by: str) -> None:
    few = F.broadcast(spark.range(8).selectExpr("CAST(id AS INT) AS p", "-id AS q"))
    for on, how in (("p", "inner"), ("p", "left_semi"), (F.col("id") >= F.col("q"), "left_outer")):
        joined = frame.join(few, on, how).select("id", frame["p"])
        expected = sorted(row[0] for row in joined.collect())
        assert ids_of(*PARTS[by](joined)) == expected


def ids_of(one: DataFrame, other: DataFrame) -> list[int]:
    """Those of both parts, in two queries of different shapes."""
    grouped = one.groupBy("p").agg(F.collect_list("id").alias("ids")).select(F.explode("ids"))
    return sorted(row[0] for row in [*grouped.collect(), *other.select("id").collect()])


def test_lists_of_values_need_no_shuffle_for_all_that(spark: SparkSession, frame: DataFrame, namespace: str) -> None:
    assert ran(spark, f"SELECT p, collect_list(id) FROM {namespace}.t GROUP BY p").exchanges == 0
