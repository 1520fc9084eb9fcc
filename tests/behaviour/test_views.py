"""Views and named queries over a table: rows are changed in tables alone."""

from __future__ import annotations

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from lakemend.errors import InvalidInputError

VIEWS = {
    "some rows": "SELECT * FROM {t} WHERE id > 5",
    "some columns": "SELECT id FROM {t}",
    "all": "SELECT * FROM {t}",
    "two rows": "SELECT * FROM {t} LIMIT 2",
    "joined": "SELECT a.* FROM {t} a JOIN {t} b ON a.id = b.id + 8",
}
STATEMENTS = (
    "DELETE FROM {v}",
    "DELETE FROM {v} WHERE true",
    "DELETE FROM {v} WHERE id = 7",
    "UPDATE {v} SET id = 0",
    "MERGE INTO {v} USING (SELECT 7 AS k) ON id = k WHEN MATCHED THEN DELETE",
    "INSERT OVERWRITE {v} SELECT 1, 'a'",
    "TRUNCATE TABLE {v}",
)


@pytest.fixture(params=["string", "char(3)"])
def table(request: pytest.FixtureRequest, spark: SparkSession, namespace: str) -> str:
    spark.sql(f"CREATE TABLE {namespace}.t (id bigint, c {request.param})")
    spark.sql(f"INSERT INTO {namespace}.t SELECT id, 'c' FROM range(10)")
    return f"{namespace}.t"


@pytest.mark.parametrize("view", VIEWS)
def test_no_statement_changes_the_table_below_a_view(spark: SparkSession, table: str, view: str) -> None:
    spark.sql(f"CREATE OR REPLACE TEMPORARY VIEW seen AS {VIEWS[view].format(t=table)}")
    try:
        for statement in STATEMENTS:
            with pytest.raises((PySparkException, InvalidInputError)):
                spark.sql(statement.format(v="seen"))
            assert spark.table(table).count() == 10, statement
    finally:
        spark.catalog.dropTempView("seen")


def test_a_frame_and_a_query_with_a_name_are_no_tables(spark: SparkSession, table: str) -> None:
    spark.table(table).where("id > 5").createOrReplaceTempView("seen")
    try:
        for statement in ("DELETE FROM seen", f"WITH seen AS (SELECT * FROM {table}) DELETE FROM seen"):
            with pytest.raises(InvalidInputError, match="takes a table"):
                spark.sql(statement)
    finally:
        spark.catalog.dropTempView("seen")
    assert spark.table(table).count() == 10


@pytest.mark.parametrize("statement", ["DELETE FROM {t}", "DELETE FROM {t} AS x", "DELETE FROM {t} x WHERE 1 = 1"])
def test_a_table_under_another_name_is_emptied(spark: SparkSession, table: str, statement: str) -> None:
    spark.sql(statement.format(t=table))
    assert spark.table(table).count() == 0
