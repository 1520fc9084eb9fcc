"""What is compared with the table is what the table would keep: by names in structs, by length in CHAR and VARCHAR, to
the last digit of a time."""

from __future__ import annotations

from collections.abc import Callable
from datetime import date

import pytest
from pyspark.sql import SparkSession

import lakemend
from lakemend import Report, SchemaMismatchError, Table
from tests.behaviour.strategies.conftest import rows

Merged = Callable[..., Report]
VERSIONS = "valid_from INT, valid_to INT, is_current BOOLEAN"
SETTING = "spark.sql.parser.escapedStringLiterals"


def made(spark: SparkSession, name: str, columns: str, rest: str = "") -> Table:
    spark.sql(f"CREATE TABLE {name} ({columns}) {rest}")
    return lakemend.table(spark, name)


@pytest.mark.parametrize("strategy", ["upsert", "full_merge", "deduplicate", "delete_insert"])
@pytest.mark.parametrize("type", ["CHAR(3)", "VARCHAR(3)"])
def test_blanks_that_a_key_loses(spark: SparkSession, namespace: str, merged: Merged, type: str, strategy: str) -> None:
    table = made(spark, f"{namespace}.t", f"k {type}, v INT")
    spark.sql(f"INSERT INTO {namespace}.t VALUES ('abc', 1)")
    stats = merged(table, spark.sql("SELECT 'abc  ' AS k, 2 AS v"), "k", strategy).stats
    assert stats is not None
    assert stats["total"] == 1
    assert rows(table, "k") == [("abc", 2)]


def test_keys_that_are_structs(spark: SparkSession, namespace: str, merged: Merged) -> None:
    spark.sql(f"CREATE TABLE {namespace}.t (k STRUCT<code: CHAR(3), n: INT>, v INT)")
    spark.sql(f"INSERT INTO {namespace}.t VALUES (named_struct('code', 'a', 'n', 1), 1)")
    table = lakemend.table(spark, f"{namespace}.t")
    # Fields that may be NULL in the table, and in the source by turns.
    for v, fields in enumerate(("'a' AS code, 1 AS n", "nullif('a', '') AS code, nullif(1, 0) AS n")):
        merged(table, spark.sql(f"SELECT struct({fields}) AS k, {v} AS v"), "k")
        assert rows(table, "v") == [(("a  ", 1), v)]


def test_a_flag_that_comes_with_the_source_is_no_change(spark: SparkSession, namespace: str, merged: Merged) -> None:
    spark.sql(f"CREATE TABLE {namespace}.t (id INT, v STRING, gone BOOLEAN)")
    table = lakemend.table(spark, f"{namespace}.t")
    how = {"soft_delete": "gone", "when_changed_only": True}
    for v, counts in (("a", (1, 0)), ("a", (0, 0)), ("b", (0, 1))):
        report = merged(table, [{"id": 1, "v": v, "gone": True}], "id", **how)
        assert (report.inserted, report.updated) == counts
    assert rows(table) == [(1, "b", False)]


def test_text_that_is_read_in_another_way(spark: SparkSession, namespace: str) -> None:
    table = made(spark, f"{namespace}.t", "k STRING, v INT")
    names = ["${spark.sql.shuffle.partitions}", "O'Brien", "a\\b"]
    spark.conf.set(SETTING, "true")
    try:
        for name in names * 2:
            table.merge(spark.createDataFrame([(name, 1)], "k STRING, v INT"), "k")
    finally:
        spark.conf.unset(SETTING)
    assert rows(table, "k") == [(name, 1) for name in names]


def test_fields_of_structs_go_by_their_names(spark: SparkSession, namespace: str, merged: Merged) -> None:
    table = made(spark, f"{namespace}.t", "id INT, s STRUCT<a: INT, b: INT>, l ARRAY<STRUCT<a: INT, b: INT>>")
    spark.sql(f"INSERT INTO {namespace}.t SELECT 1, named_struct('a', 1, 'b', 2), array(named_struct('a', 1, 'b', 2))")
    same = "named_struct('b', 2, 'a', 1L)"
    frame = spark.sql(f"SELECT 1 AS id, {same} AS s, array({same}) AS l")
    assert merged(table, frame, "id", when_changed_only=True).updated == 0
    other = "named_struct('b', 1, 'a', 2)"
    for columns in (f"{other} AS s", f"array({other}) AS l"):
        assert merged(table, spark.sql(f"SELECT 1 AS id, {columns}"), "id", when_changed_only=True).updated == 1
    assert rows(table) == [(1, (2, 1), [(2, 1)])]

    versions = made(spark, f"{namespace}.v", f"id INT, s STRUCT<a: INT, b: INT>, {VERSIONS}")
    turned = spark.sql("SELECT 1 AS id, named_struct('b', 2, 'a', 1) AS s, 1 AS at")
    merged(versions, turned, "id", "scd2", sequence_by="at")
    assert rows(versions) == [(1, (1, 2), 1, None, True)]
    half = spark.sql("SELECT 1 AS id, named_struct('a', 1) AS s, 2 AS at")
    with pytest.raises(SchemaMismatchError, match="s lacks the field b"):
        versions.merge(half, "id", "scd2", sequence_by="at")


def test_changes_that_json_does_not_show(spark: SparkSession, namespace: str, merged: Merged) -> None:
    table = made(spark, f"{namespace}.t", "id INT, m STRUCT<a: MAP<STRING, TIMESTAMP>>, v VARIANT")
    before = """1 AS id, named_struct('a', map('x', timestamp'2026-01-01 00:00:00.123456')) AS m,
                to_variant_object(named_struct('a', date'2026-01-01')) AS v"""
    table.append(spark.sql(f"SELECT {before}"))
    assert merged(table, spark.sql(f"SELECT {before}"), "id", when_changed_only=True).updated == 0
    for one, other in (("123456", "123457"), ("date'2026-01-01'", "'2026-01-01'")):
        after = spark.sql(f"SELECT {before.replace(one, other)}")
        assert merged(table, after, "id", when_changed_only=True).updated == 1
        before = before.replace(one, other)


def test_what_stays_the_same_opens_no_version(spark: SparkSession, namespace: str) -> None:
    columns = f"id INT, p STRING, c CHAR(5), w VARCHAR(3), {VERSIONS}"
    table = made(spark, f"{namespace}.t", columns, "PARTITIONED BY (p)")
    for at in range(2):
        frame = spark.sql(f"SELECT 1 AS id, '' AS p, 'ab' AS c, 'abc  ' AS w, {at} AS at")
        table.merge(frame, "id", "scd2", sequence_by="at")
    assert rows(table) == [(1, None, "ab   ", "abc", 0, None, True)]


def test_values_that_do_not_fit_are_never_cut(spark: SparkSession, namespace: str) -> None:
    table = made(spark, f"{namespace}.t", f"id INT, v INT, {VERSIONS}")
    spark.sql(f"INSERT INTO {namespace}.t VALUES (1, 1, 1, NULL, true)")
    spark.conf.set("spark.sql.ansi.enabled", "false")
    try:
        for id, v in (("4294967297L", "2"), ("1", "4294967297L")):
            with pytest.raises(Exception, match="no value of"):
                table.merge(spark.sql(f"SELECT {id} AS id, {v} AS v, 5 AS at"), "id", "scd2", sequence_by="at")
        with pytest.raises(Exception, match="no value of"):
            table.merge(spark.sql("SELECT 1 AS id, 4294967297L AS v"), "id", when_changed_only=True)
    finally:
        spark.conf.unset("spark.sql.ansi.enabled")
    assert rows(table) == [(1, 1, 1, None, True)]


ROUNDED = {
    "DATE": "timestamp'2026-01-01 12:00:00'",
    "INT": "1.8D",
    "DECIMAL(5,1)": "1.25",
    "STRING": "7",
    "FLOAT": "1D",
    "TIMESTAMP_NTZ": "timestamp_ltz'2026-01-01 12:00:00'",
}


@pytest.mark.parametrize(("own", "incoming"), ROUNDED.items())
def test_a_sequence_that_the_table_would_round(spark: SparkSession, namespace: str, own: str, incoming: str) -> None:
    source = spark.sql(f"SELECT 1 AS id, 'a' AS v, {incoming} AS at")
    table = made(spark, f"{namespace}.t", f"id INT, v STRING, at {own}")
    versions = made(spark, f"{namespace}.v", f"id INT, v STRING, valid_from {own}, valid_to {own}, is_current BOOLEAN")
    for one, strategy in ((table, "upsert"), (versions, "scd2")):
        with pytest.raises(SchemaMismatchError, match="at"):
            one.merge(source, "id", strategy, sequence_by="at")


def test_times_that_are_one_to_the_table(spark: SparkSession, namespace: str) -> None:
    types = "valid_from TIMESTAMP, valid_to TIMESTAMP, is_current BOOLEAN"
    table = made(spark, f"{namespace}.t", f"id INT, v STRING, {types}")
    events = "('a', '2026-01-01'), ('b', '2026-01-01 00:00:00')"
    twice = spark.sql(f"SELECT 1 AS id, v, at FROM VALUES {events} AS t (v, at)")
    with pytest.raises(ValueError, match="more than once"):
        table.merge(twice, "id", "scd2", sequence_by="at")


def test_keys_that_come_back(spark: SparkSession, namespace: str) -> None:
    """Key 1 at the very time at which its version ended; key 2 after a version that ended as it began."""
    table = made(spark, f"{namespace}.t", "id INT, v STRING, valid_from DATE, valid_to DATE, is_current BOOLEAN")
    days = [date(2026, 1, day) for day in range(1, 8)]
    table.append(
        spark.createDataFrame([(1, "a", days[0], days[4], False), (2, "a", days[0], days[0], False)], table.schema)
    )
    for batch in ([(1, "a", days[4], "D"), (2, "a", days[2], "U")], [(1, "a", days[4], "U"), (2, "b", days[3], "U")]):
        frame = spark.createDataFrame(batch, "id INT, v STRING, at DATE, op STRING")
        table.merge(frame, "id", "scd2", sequence_by="at", delete_when="op = 'D'")
    assert rows(table, "id", "valid_from") == [
        (1, "a", days[0], days[4], False),
        (1, "a", days[4], None, True),
        (2, "a", days[0], days[0], False),
        (2, "a", days[2], days[3], False),
        (2, "b", days[3], None, True),
    ]
