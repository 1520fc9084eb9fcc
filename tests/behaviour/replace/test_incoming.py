"""What comes in the place of the rows that go: its schema, its checks, several parts in one version."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from pyspark.sql import SparkSession

import lakemend
from lakemend import Table
from lakemend.errors import (
    InvalidInputError,
    InvalidPredicateError,
    RowsOutsidePredicateError,
    SchemaMismatchError,
)
from tests.behaviour.replace.doors import REFUSED
from tests.behaviour.replace.rows import ALL, Make, content, frame, ordered


def test_the_incoming_schema_must_fit(spark: SparkSession, make: Make, unchanged: Callable[[Table], None]) -> None:
    table = make()
    # Promotion as in every other write: INT goes into LONG, columns are matched by name.
    promoted = spark.sql("SELECT 'x' AS s, 1 AS p, 5 AS id, CAST(NULL AS INT) AS v")
    assert table.replace_where(promoted, "id = 5 OR p = 1").inserted == 1
    assert table.replace_where(promoted, "p = 1").inserted == 1
    unchanged(table)
    with pytest.raises(SchemaMismatchError):
        table.replace_where(spark.sql("SELECT 5L AS id, 1L AS p, 'x' AS s, 1L AS v, 2 AS extra"), "p = 1")
    with pytest.raises(SchemaMismatchError):
        table.replace_where(spark.sql("SELECT 'five' AS id, 1L AS p, 'x' AS s, 1L AS v"), "id = 5")


def test_columns_may_come_with_the_rows(spark: SparkSession, make: Make) -> None:
    table = make()
    wider = spark.sql("SELECT 5L AS id, 1L AS p, 'x' AS s, 1L AS v, 'more' AS extra")
    report = table.replace_where(wider, "id = 5", schema_evolution=True)
    assert (report.deleted, report.inserted) == (1, 1)
    assert table.schema.names == ["id", "p", "s", "v", "extra"]
    again = spark.sql("SELECT 7L AS id, 1L AS p, 'x' AS s, 1L AS v, 'more' AS extra, 1 AS yet")
    again.write.format("delta").mode("overwrite").option("mergeSchema", "true").option("replaceWhere", "p = 1").save(
        table.detail()["location"]
    )
    assert table.schema.names[-1] == "yet"
    assert sorted(r.id for r in table.to_df().where("extra IS NOT NULL").collect()) == [7]


def test_constraints_hold_for_what_comes(spark: SparkSession, make: Make, unchanged: Callable[[Table], None]) -> None:
    table = make()
    spark.sql(f"ALTER TABLE {table.name} ADD CONSTRAINT small CHECK (id < 1000)")
    assert table.replace_where(frame(spark, [(1, 1, "x", 1)]), "p = 1").inserted == 1
    unchanged(table)
    for predicate in ("p = 1", "id = 5000 OR id = 2"):
        with pytest.raises(lakemend.ConstraintViolationError):
            table.replace_where(frame(spark, [(5000, 1, "x", 1)]), predicate)


def test_rows_read_from_the_table_itself(spark: SparkSession, make: Make) -> None:
    table = make()
    spark.sql(f"INSERT INTO {table.name} REPLACE WHERE p = 1 SELECT id, p, 'again', v FROM {table.name} WHERE p = 1")
    spark.sql(f"INSERT INTO {table.name} REPLACE WHERE id < 7 SELECT id, p, 'self', v FROM {table.name} WHERE id < 7")
    expected = [(i, p, "self" if i < 7 else "again" if p == 1 else s, v) for i, p, s, v in ALL]
    assert content(table) == ordered(expected)


def test_several_predicates_in_one_version(spark: SparkSession, make: Make) -> None:
    table = make()
    shuffled = spark.sql("SELECT 'two' AS s, 2L AS p, 2L AS id, 2L AS v")
    report = table.replace_where([(frame(spark, [(1, 1, "one", 1)]), "p = 1"), (shuffled, "p = 2 AND id < 20")])
    left = [r for r in ALL if not (r[1] == 1 or (r[1] == 2 and r[0] < 20))]
    assert content(table) == ordered([*left, (1, 1, "one", 1), (2, 2, "two", 2)])
    assert (report.version, report.deleted, report.inserted) == (1, 15, 2)


def test_each_frame_has_its_own_predicate(spark: SparkSession, make: Make, unchanged: Callable[[Table], None]) -> None:
    table = make()
    unchanged(table)
    with pytest.raises(RowsOutsidePredicateError) as caught:
        table.replace_where(
            [(frame(spark, [(1, 1, "one", 1)]), "p = 1"), (frame(spark, [(1, 1, "wrong", 1)]), "p = 2")]
        )
    assert (caught.value.count, caught.value.predicate) == (1, "(p = 2)")
    for one, other in (("p = 1", "p < 2"), ("id < 10", "p = 1"), ("p = 1", "length(s) = 2")):
        with pytest.raises(InvalidPredicateError, match="overlap|both"):
            table.replace_where([(frame(spark, []), one), (frame(spark, []), other)])
    with pytest.raises(InvalidInputError):
        table.replace_where([])
    with pytest.raises(InvalidInputError):
        table.replace_where(frame(spark, []))


def test_dry_runs_change_nothing(spark: SparkSession, make: Make, unchanged: Callable[[Table], None]) -> None:
    table = make()
    unchanged(table)
    new = frame(spark, [(1, 1, "x", 1)])
    report = table.replace_where(new, "p = 1 AND id < 20", dry_run=True)
    assert (report.dry_run, report.version, report.deleted, report.inserted) == (True, None, 5, 1)
    assert report.plan is not None and sum(report.plan["files"].values()) == 5
    assert table.replace_using(frame(spark, [(3, 3, "x", 1)]), ["id"], dry_run=True).deleted == 1
    assert table.replace_on(new, "t.p = s.p", dry_run=True).deleted == 10
    with pytest.raises(RowsOutsidePredicateError):
        table.replace_where(new, "p = 2", dry_run=True)
    for where, error in REFUSED.items():
        with pytest.raises(error):
            table.replace_where(new, where, dry_run=True)
