"""Partition values whose text in the log is not the value: empty strings, local times, odd numbers."""

from __future__ import annotations

import datetime as dt
import json
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

import lakemend
from lakemend.errors import ConstraintViolationError, RowsOutsidePredicateError
from tests.settings import settings

UTC = dt.UTC
MODES = ["copy-on-write", "merge-on-read"]


def rows_of(df: DataFrame) -> list[tuple[Any, ...]]:
    return sorted((tuple(row) for row in df.collect()), key=repr)


@pytest.fixture
def table(namespace: str) -> str:
    return f"{namespace}.t"


# ---- an empty string is NULL


def frame(spark: SparkSession, id: int = 1, p: str | None = "") -> DataFrame:
    return spark.createDataFrame([(id, p)], "id bigint, p string")


WRITES = {
    "insert": lambda spark, t: spark.sql(f"INSERT INTO {t} VALUES (1, '')"),
    "static partition": lambda spark, t: spark.sql(f"INSERT INTO {t} PARTITION (p = '') SELECT 1"),
    "writeTo": lambda spark, t: frame(spark).writeTo(t).append(),
    "insertInto": lambda spark, t: frame(spark).write.insertInto(t),
    "dynamic": lambda spark, t: frame(spark).writeTo(t).overwritePartitions(),
    "overwrite": lambda spark, t: frame(spark).write.mode("overwrite").insertInto(t),
    "append": lambda spark, t: lakemend.table(spark, t).append([{"id": 1, "p": ""}]),
    "merge": lambda spark, t: spark.sql(
        f"MERGE INTO {t} t USING (SELECT 1 id, '' p) s ON t.id = s.id WHEN NOT MATCHED THEN INSERT *"
    ),
}


@pytest.mark.parametrize("write", WRITES)
def test_an_empty_string_becomes_null_through_every_door(spark: SparkSession, table: str, write: str) -> None:
    spark.sql(f"CREATE TABLE {table} (id bigint, p string) USING delta PARTITIONED BY (p)")
    WRITES[write](spark, table)
    assert rows_of(spark.table(table)) == [(1, None)]
    assert spark.sql(f"SELECT count(*) FROM {table} WHERE p = ''").first()[0] == 0
    spark.sql(f"DELETE FROM {table} WHERE p = ''")
    assert spark.sql(f"SELECT count(*) FROM {table} WHERE p IS NULL").first()[0] == 1
    spark.sql(f"CREATE OR REPLACE TABLE {table} USING delta PARTITIONED BY (p) AS SELECT 1L id, '' p")
    assert rows_of(spark.table(table)) == [(1, None)]


def test_what_replaces_an_empty_string_is_told(spark: SparkSession, table: str) -> None:
    """It is no row of `p = ''`: NULL is what it becomes, and what it replaces."""
    spark.sql(f"CREATE TABLE {table} (id bigint, p string) USING delta PARTITIONED BY (p)")
    for _ in range(2):
        with pytest.raises(RowsOutsidePredicateError):
            frame(spark).write.mode("overwrite").option("replaceWhere", "p = ''").insertInto(table)
        with pytest.raises(RowsOutsidePredicateError):
            frame(spark).writeTo(table).overwrite(F.col("p") == "")
        with pytest.raises(RowsOutsidePredicateError):
            spark.sql(f"INSERT INTO {table} REPLACE WHERE p = '' SELECT 1, ''")
        with pytest.raises(RowsOutsidePredicateError):
            lakemend.table(spark, table).replace_where(frame(spark), "p = ''")
    assert rows_of(spark.table(table)) == []
    for _ in range(2):
        frame(spark).write.mode("overwrite").option("replaceWhere", "p IS NULL").insertInto(table)
        spark.sql(f"INSERT INTO {table} REPLACE WHERE p IS NULL SELECT 1, ''")
        frame(spark).writeTo(table).overwritePartitions()
        with settings(spark, {"spark.sql.sources.partitionOverwriteMode": "dynamic"}):
            spark.sql(f"INSERT OVERWRITE {table} VALUES (1, '')")
        assert rows_of(spark.table(table)) == [(1, None)]


def test_a_static_partition_of_an_empty_string_is_refused(spark: SparkSession, table: str) -> None:
    """There is no such partition: the row would lie in that of NULL, and be there twice after the next such write."""
    spark.sql(f"CREATE TABLE {table} (id bigint, p string) USING delta PARTITIONED BY (p)")
    spark.sql(f"INSERT INTO {table} VALUES (7, 'x')")
    with pytest.raises(RowsOutsidePredicateError):
        spark.sql(f"INSERT OVERWRITE {table} PARTITION (p = '') SELECT 1")
    for _ in range(2):
        spark.sql(f"INSERT OVERWRITE {table} PARTITION (p = NULL) SELECT 1")
        assert rows_of(spark.table(table)) == [(1, None), (7, "x")]


@pytest.mark.parametrize("feed", [False, True])
@pytest.mark.parametrize("mode", MODES)
def test_row_changes_to_an_empty_string(spark: SparkSession, table: str, mode: str, feed: bool) -> None:
    spark.sql(
        f"CREATE TABLE {table} (id bigint, p string, CONSTRAINT told CHECK (p IS NULL OR length(p) > 0)) USING delta "
        f"PARTITIONED BY (p) TBLPROPERTIES ('write.update.mode' = '{mode}', 'write.merge.mode' = '{mode}', "
        f"'delta.enableChangeDataFeed' = '{str(feed).lower()}')"
    )
    spark.sql(f"INSERT INTO {table} VALUES (1, 'a'), (2, 'b'), (3, '')")
    spark.sql(f"UPDATE {table} SET p = '' WHERE id = 1")
    spark.sql(
        f"MERGE INTO {table} t USING (SELECT 2 id UNION ALL SELECT 4) s ON t.id = s.id "
        "WHEN MATCHED THEN UPDATE SET p = '' WHEN NOT MATCHED THEN INSERT (id, p) VALUES (s.id, '')"
    )
    assert rows_of(spark.table(table)) == [(1, None), (2, None), (3, None), (4, None)]
    changes = spark.sql(f"SELECT * FROM {table} CHANGES FROM VERSION 2 TO VERSION 3")
    assert changes.filter("p = ''").count() == 0
    assert changes.filter("p IS NULL").count() == 3


def test_constraints_see_null(spark: SparkSession, table: str) -> None:
    spark.sql(
        f"CREATE TABLE {table} (id bigint, p string NOT NULL, q string, CONSTRAINT known CHECK (q IS NOT NULL)) "
        "USING delta PARTITIONED BY (p, q)"
    )
    spark.sql(f"INSERT INTO {table} VALUES (1, 'a', 'b')")
    for bad in ("(2, '', 'b')", "(2, 'a', '')"):
        with pytest.raises((ConstraintViolationError, PySparkException)):
            spark.sql(f"INSERT INTO {table} VALUES {bad}")
    for column in "pq":
        with pytest.raises((ConstraintViolationError, PySparkException)):
            spark.sql(f"UPDATE {table} SET {column} = ''")
        with pytest.raises((ConstraintViolationError, PySparkException)):
            spark.sql(
                f"MERGE INTO {table} t USING (SELECT 1 id, '' v) s ON t.id = s.id "
                f"WHEN MATCHED THEN UPDATE SET {column} = v"
            )
    assert rows_of(spark.table(table)) == [(1, "a", "b")]


def test_only_what_has_no_byte_is_empty(spark: SparkSession, table: str) -> None:
    spark.sql(f"CREATE TABLE {table} (id bigint, s string, b binary) USING delta PARTITIONED BY (s, b)")
    values = [(1, " ", b" "), (2, "__HIVE_DEFAULT_PARTITION__", b"null"), (3, "", b""), (4, "null", b"\x00")]
    spark.createDataFrame(values, "id bigint, s string, b binary").writeTo(table).append()
    found = [(i, s, None if b is None else bytes(b)) for i, s, b in rows_of(spark.table(table))]
    assert found == [(i, s or None, b or None) for i, s, b in values]
    assert [r.id for r in spark.sql(f"SELECT id FROM {table} WHERE s = ' '").collect()] == [1]
    spark.sql(f"CREATE TABLE {table}2 (id bigint, s string) USING delta")
    spark.sql(f"INSERT INTO {table}2 VALUES (1, '')")
    assert rows_of(spark.table(f"{table}2")) == [(1, "")]  # in a column that is no partition column it stays


def test_odd_numbers_as_partition_values(spark: SparkSession, table: str) -> None:
    spark.sql(f"CREATE TABLE {table} (id bigint, f double, d decimal(38,18)) USING delta PARTITIONED BY (f, d)")
    spark.sql(
        f"""INSERT INTO {table} VALUES (1, double('NaN'), 99999999999999999999.999999999999999999),
            (2, double('-Infinity'), -0.000000000000000001), (3, double('-0.0'), 0), (4, double('0.0'), 0)"""
    )
    conditions = {
        "f = double('NaN')": [1],
        "f > 0": [1],
        "f < -1e308": [2],
        "f = 0": [3, 4],
        "d > 99999999999999999999": [1],
        "d < 0": [2],
    }
    for condition, ids in conditions.items():
        assert sorted(r.id for r in spark.table(table).where(condition).collect()) == ids, condition
    spark.sql("SELECT 5L id, double('NaN') f, 1.5 d UNION ALL SELECT 6, double('0.0'), 0").writeTo(
        table
    ).overwritePartitions()
    assert sorted(r.id for r in spark.table(table).collect()) == [1, 2, 5, 6]


def test_days_the_log_cannot_spell_are_refused(spark: SparkSession, table: str) -> None:
    spark.sql(f"CREATE TABLE {table} (id bigint, d date, t timestamp) USING delta PARTITIONED BY (d, t)")
    for bad in ("DATE'+10000-01-01', NULL", "NULL, TIMESTAMP'+12000-01-01 00:00:00'"):
        with pytest.raises(lakemend.errors.InvalidInputError, match="years 1 to 9999"):
            spark.sql(f"INSERT INTO {table} SELECT 1, {bad}")
    assert spark.table(table).count() == 0


# ---- local times


def with_local_time(spark: SparkSession, table: str, location: str, type: str = "timestamp") -> None:
    """A table of one row at 12:34:56 on 1 July 2026, written as older delta-spark spells it: without a zone."""
    spark.sql(
        f"CREATE TABLE {table} (id bigint, t {type}) USING delta PARTITIONED BY (t) LOCATION '{location}' "
        "TBLPROPERTIES ('write.update.mode' = 'copy-on-write')"
    )
    spark.sql(f"INSERT INTO {table} VALUES (1, {type}'2026-07-01 12:34:56')")
    commit = Path(location, "_delta_log", f"{1:020d}.json")
    lines = [json.loads(line) for line in commit.read_text().splitlines()]
    for line in lines:
        if "add" in line:
            line["add"]["partitionValues"]["t"] = "2026-07-01 12:34:56"
    commit.write_text("".join(json.dumps(line) + "\n" for line in lines))


def test_timestamps_without_a_zone_are_local_to_the_session(spark: SparkSession, table: str, location: str) -> None:
    with_local_time(spark, table, location)
    fresh = f"{table}2"  # the log was changed under the first name
    spark.sql(f"CREATE TABLE {fresh} USING delta LOCATION '{location}'")

    def shown() -> list[str]:
        return [r.s for r in spark.sql(f"SELECT CAST(t AS string) s FROM {fresh}").collect()]

    for zone in ("America/Los_Angeles", "+02:00", "UTC", "Asia/Kolkata"):
        with settings(spark, {"spark.sql.session.timeZone": zone}):
            assert shown() == ["2026-07-01 12:34:56"]
            assert spark.table(fresh).where("t = TIMESTAMP'2026-07-01 12:34:56'").count() == 1
            assert spark.table(fresh).where("t > TIMESTAMP'2026-07-01 12:34:56'").count() == 0
    with settings(spark, {"spark.sql.session.timeZone": "America/Los_Angeles"}):
        files = lakemend.table(spark, fresh).files().to_pylist()
        assert files[0]["partition"]["t"] == dt.datetime(2026, 7, 1, 19, 34, 56, tzinfo=UTC)
        spark.sql(f"UPDATE {fresh} SET id = 2 WHERE t = TIMESTAMP'2026-07-01 12:34:56'")
        assert shown() == ["2026-07-01 12:34:56"]
    assert spark.table(fresh).first().id == 2
    assert shown() == ["2026-07-01 19:34:56"]  # an instant since it was written again


def test_a_plan_reads_local_times_as_it_was_made(spark: SparkSession, table: str, location: str) -> None:
    """What a join's filter asks when the plan is run, it asks of the same values."""
    with_local_time(spark, table, location)
    fresh = f"{table}2"
    spark.sql(f"CREATE TABLE {fresh} USING delta LOCATION '{location}'")
    spark.sql(f"INSERT INTO {fresh} VALUES (2, TIMESTAMP'2026-07-02 12:34:56')")
    spark.sql(f"CREATE TABLE {table}d AS SELECT t FROM {fresh} WHERE id = 1")
    frame = spark.sql(f"SELECT f.id FROM {fresh} f JOIN {table}d d ON f.t = d.t")
    assert "dynamicpruning" in frame._jdf.queryExecution().executedPlan().toString()
    with settings(spark, {"spark.sql.session.timeZone": "Asia/Tokyo"}):
        assert rows_of(frame) == [(1,)]


def test_persisted_local_times_are_those_of_their_own_session(spark: SparkSession, table: str, location: str) -> None:
    with_local_time(spark, table, location)
    fresh = f"{table}2"
    spark.sql(f"CREATE TABLE {fresh} USING delta LOCATION '{location}'")
    other, query = spark.newSession(), f"SELECT unix_timestamp(t) FROM {fresh}"
    other.conf.set("spark.sql.session.timeZone", "Asia/Tokyo")
    expected = other.sql(query).collect()
    kept = spark.table(fresh).persist()
    try:
        assert kept.count() == 1
        assert other.sql(query).collect() == expected != spark.sql(query).collect()
    finally:
        kept.unpersist()


def test_timestamps_that_never_have_a_zone_stay(spark: SparkSession, table: str, location: str) -> None:
    with_local_time(spark, table, location, "timestamp_ntz")
    with settings(spark, {"spark.sql.session.timeZone": "America/Los_Angeles"}):
        assert spark.sql(f"SELECT CAST(t AS string) s FROM {table}").first().s == "2026-07-01 12:34:56"
