"""What the random statements found, as the shortest statements that show it."""

from __future__ import annotations

import threading
from decimal import Decimal

import pytest
from pyspark.sql import SparkSession

import lakemend


@pytest.fixture
def table(namespace: str) -> str:
    return f"{namespace}.t"


def rows(spark: SparkSession, table: str) -> list[tuple[object, ...]]:
    return sorted((tuple(row) for row in spark.table(table).collect()), key=repr)


def test_a_partition_value_may_have_38_digits(spark: SparkSession, table: str) -> None:
    spark.sql(f"CREATE TABLE {table} (id int, p decimal(38,10)) PARTITIONED BY (p)")
    most = Decimal("9999999999999999999999999999.9999999999")
    spark.sql(f"INSERT INTO {table} VALUES (1, {most}), (2, -{most})")
    assert rows(spark, table) == [(1, most), (2, most.copy_negate())]


@pytest.mark.parametrize("value", ["true", "false"])
def test_a_boolean_partition_is_overwritten(spark: SparkSession, table: str, value: str) -> None:
    spark.sql(f"CREATE TABLE {table} (id int, p boolean) PARTITIONED BY (p)")
    spark.sql(f"INSERT INTO {table} VALUES (1, true), (2, false), (3, NULL)")
    spark.sql(f"INSERT OVERWRITE {table} PARTITION (p = {value}) SELECT 4")
    kept = (2, False) if value == "true" else (1, True)
    assert rows(spark, table) == sorted([kept, (3, None), (4, value == "true")], key=repr)


def test_a_table_without_partitions_is_overwritten_by_nothing(spark: SparkSession, table: str) -> None:
    spark.sql(f"CREATE TABLE {table} AS SELECT 1 AS id")
    spark.conf.set("spark.sql.sources.partitionOverwriteMode", "dynamic")
    try:
        spark.sql(f"INSERT OVERWRITE {table} SELECT 1 AS id WHERE false")
    finally:
        spark.conf.unset("spark.sql.sources.partitionOverwriteMode")
    assert rows(spark, table) == []


def test_a_check_that_rows_break_already_is_a_typed_error(spark: SparkSession, table: str) -> None:
    spark.sql(f"CREATE TABLE {table} AS SELECT 1 AS id")
    with pytest.raises(lakemend.ConstraintViolationError):
        spark.sql(f"ALTER TABLE {table} ADD CONSTRAINT big CHECK (id > 10)")
    assert lakemend.table(spark, table).version == 0


@pytest.mark.parametrize("mode", ["copy-on-write", "merge-on-read"])
def test_a_merge_counts_a_row_that_several_source_rows_delete_once(spark: SparkSession, table: str, mode: str) -> None:
    spark.sql(f"CREATE TABLE {table} TBLPROPERTIES ('write.merge.mode' = '{mode}') AS SELECT id FROM range(4)")
    source = "SELECT * FROM VALUES (1), (1), (2), (7) AS v(id)"
    spark.sql(f"MERGE INTO {table} t USING ({source}) s ON t.id = s.id WHEN MATCHED THEN DELETE")
    assert rows(spark, table) == [(0,), (3,)]
    assert lakemend.table(spark, table).history(1)[0]["metrics"]["numTargetRowsDeleted"] == 2


@pytest.mark.parametrize("mode", ["copy-on-write", "merge-on-read"])
@pytest.mark.parametrize("insert", ["", "WHEN NOT MATCHED THEN INSERT *"])
@pytest.mark.parametrize("threshold", ["32m", "0"])
def test_a_merge_without_matched_keeps_rows_that_match_several_times(
    spark: SparkSession, table: str, mode: str, insert: str, threshold: str
) -> None:
    spark.sql(f"CREATE TABLE {table} TBLPROPERTIES ('write.merge.mode' = '{mode}') AS SELECT id FROM range(4)")
    source = "SELECT * FROM VALUES (1L), (1L), (1L), (2L), (7L), (7L) AS v(id)"
    spark.conf.set("spark.lakemend.merge.broadcastThreshold", threshold)
    try:
        spark.sql(
            f"MERGE INTO {table} t USING ({source}) s ON t.id = s.id {insert} "
            "WHEN NOT MATCHED BY SOURCE AND t.id = 0 THEN DELETE"
        )
    finally:
        spark.conf.unset("spark.lakemend.merge.broadcastThreshold")
    assert rows(spark, table) == [(1,), (2,), (3,), *([(7,), (7,)] if insert else [])]


def test_reading_leaves_no_thread_behind(spark: SparkSession, table: str) -> None:
    spark.sql(f"CREATE TABLE {table} AS SELECT 1 AS id")
    spark.table(table).toArrow()
    before = threading.active_count()
    for _ in range(5):
        spark.table(table).toArrow()
    assert threading.active_count() <= before


@pytest.mark.parametrize("mode", ["copy-on-write", "merge-on-read"])
@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE {t} AS t SET v = 9 WHERE t.id = (SELECT max(o.id) FROM {t}_o o WHERE o.id = t.id)",
        "INSERT INTO {t} SELECT id, count(*) FROM {t}_o GROUP BY id HAVING min(id) < 100",
    ],
)
def test_a_check_meets_only_rows_that_are_written(spark: SparkSession, table: str, mode: str, statement: str) -> None:
    spark.sql(f"CREATE TABLE {table}_o AS SELECT * FROM VALUES (5), (500) AS v(id)")
    spark.sql(f"CREATE TABLE {table} (id int, v int) TBLPROPERTIES ('write.update.mode' = '{mode}')")
    spark.sql(f"INSERT INTO {table} VALUES (5, 1), (7, 2)")
    spark.sql(f"ALTER TABLE {table} ADD CONSTRAINT small CHECK (id < 100)")
    spark.sql(statement.format(t=table))
    assert rows(spark, table) == ([(5, 9), (7, 2)] if "UPDATE" in statement else [(5, 1), (5, 1), (7, 2)])
    with pytest.raises(lakemend.ConstraintViolationError):
        spark.sql(f"UPDATE {table} SET id = 100 WHERE id = 7")


@pytest.mark.parametrize("adaptive", ["true", "false"])
@pytest.mark.parametrize("mode", ["copy-on-write", "merge-on-read"])
@pytest.mark.parametrize(
    ("statement", "left"),
    [
        ("UPDATE {t} AS t SET v = -1 WHERE NOT EXISTS (SELECT 1 FROM {t}_o o WHERE o.id = t.id)", 12),
        ("UPDATE {t} AS t SET v = -1 WHERE EXISTS (SELECT 1 FROM {t}_o o WHERE o.id = t.id)", 12),
        ("DELETE FROM {t} AS t WHERE NOT EXISTS (SELECT 1 FROM {t}_o o WHERE o.id = t.id)", 1),
        ("DELETE FROM {t} AS t WHERE EXISTS (SELECT 1 FROM {t}_o o WHERE o.id = t.id)", 11),
    ],
)
def test_a_subquery_decides_over_every_file(
    spark: SparkSession, table: str, adaptive: str, mode: str, statement: str, left: int
) -> None:
    verb = statement.split()[0].lower()
    spark.sql(f"CREATE TABLE {table} (id int, v int) TBLPROPERTIES ('write.{verb}.mode' = '{mode}')")
    for first in range(0, 12, 4):
        spark.sql(f"INSERT INTO {table} SELECT CAST(id AS int), 1 FROM range({first}, {first + 4})")
    spark.sql(f"CREATE TABLE {table}_o AS SELECT 5 AS id")
    spark.conf.set("spark.sql.adaptive.enabled", adaptive)
    try:
        spark.sql(statement.format(t=table))
    finally:
        spark.conf.unset("spark.sql.adaptive.enabled")
    found = rows(spark, table)
    assert len(found) == len({i for i, _ in found}) == left
    if verb == "update":
        assert {i for i, v in found if v == -1} == ({5} if "WHERE EXISTS" in statement else set(range(12)) - {5})
    else:
        assert (5 in {i for i, _ in found}) == ("NOT EXISTS" in statement)
