"""CHAR columns hold their values filled up with blanks; every statement compares them as SELECT does."""

from __future__ import annotations

import pytest
from pyspark.sql import SparkSession

import lakemend
from lakemend import Table
from tests.behaviour.replace.doors import KINDS_OF_DOOR

MODES = ("copy-on-write", "merge-on-read")
ROWS = "SELECT * FROM VALUES (1L, 'a', 'x'), (2L, 'b', 'y'), (3L, 'bb', 'y'), (4L, NULL, NULL) AS v(id, c, p)"


def make(spark: SparkSession, namespace: str, mode: str, feed: bool = False) -> Table:
    name = f"{namespace}.t"
    spark.sql(
        f"CREATE OR REPLACE TABLE {name} (id BIGINT, c CHAR(3), p CHAR(2)) PARTITIONED BY (p) TBLPROPERTIES "
        f"('write.delete.mode' = '{mode}', 'delta.enableChangeDataFeed' = '{str(feed).lower()}')"
    )
    table = lakemend.table(spark, name)
    table.append(spark.sql(ROWS))
    return table


def ids(table: Table) -> list[int]:
    return sorted(r.id for r in table.to_df().select("id").collect())


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("statement", ["DELETE FROM {t}", "DELETE FROM {t} AS x WHERE true", "TRUNCATE TABLE {t}"])
def test_all_rows_are_deleted(spark: SparkSession, namespace: str, mode: str, statement: str) -> None:
    table = make(spark, namespace, mode)
    spark.sql(statement.format(t=table.name))
    assert ids(table) == []


@pytest.mark.parametrize("door", KINDS_OF_DOOR)
def test_a_replacement_takes_the_rows_that_select_finds(spark: SparkSession, namespace: str, door: str) -> None:
    for mode, feed, where, gone in (
        (MODES[0], False, "c = 'b'", [2]),
        (MODES[1], True, "c IN ('b', 'zz')", [2]),
        (MODES[1], False, "c > 'b' OR c = 'b   '", [2, 3]),
        (MODES[0], True, "p = 'y'", [2, 3]),
    ):
        table = make(spark, namespace, mode, feed)
        assert sorted(r.id for r in spark.sql(f"SELECT id FROM {table.name} WHERE {where}").collect()) == gone
        KINDS_OF_DOOR[door](table, spark.sql("SELECT 102L AS id, 'b' AS c, 'y' AS p"), where)
        assert ids(table) == [i for i in (1, 2, 3, 4) if i not in gone] + [102]


def test_a_replacement_by_a_condition_on_both_sides(spark: SparkSession, namespace: str) -> None:
    table = make(spark, namespace, MODES[0])
    table.replace_on(spark.sql("SELECT 102L AS id, 'b' AS c, 'y' AS p"), "t.c = 'b' AND t.p = s.p")
    assert ids(table) == [1, 3, 4, 102]
