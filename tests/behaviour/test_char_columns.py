"""CHAR columns hold their values filled up with blanks; every statement compares them as SELECT does."""

from __future__ import annotations

import uuid
from collections.abc import Callable

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

import lakemend
from lakemend import Table
from tests.behaviour.replace.doors import KINDS_OF_DOOR
from tests.copies import copied

MODES = ("copy-on-write", "merge-on-read")
ROWS = "SELECT * FROM VALUES (1L, 'a', 'x'), (2L, 'b', 'y'), (3L, 'bb', 'y'), (4L, NULL, NULL) AS v(id, c, p)"


def make(spark: SparkSession, namespace: str, mode: str, feed: bool = False) -> Table:
    """A new one each time."""
    name = f"{namespace}.t{uuid.uuid4().hex}"
    return copied(spark, (__name__, mode, feed), name, lambda path: make_at(spark, path, mode, feed))


def make_at(spark: SparkSession, path: str, mode: str, feed: bool) -> None:
    spark.sql(
        f"CREATE TABLE lake.delta.`{path}` (id BIGINT, c CHAR(3), p CHAR(2)) PARTITIONED BY (p) TBLPROPERTIES "
        f"('write.delete.mode' = '{mode}', 'delta.enableChangeDataFeed' = '{str(feed).lower()}')"
    )
    lakemend.table(spark, path).append(spark.sql(ROWS))


def ids(table: Table) -> list[int]:
    return sorted(r.id for r in table.to_df().select("id").collect())


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("statement", ["DELETE FROM {t}", "DELETE FROM {t} AS x WHERE true", "TRUNCATE TABLE {t}"])
def test_all_rows_are_deleted(spark: SparkSession, namespace: str, mode: str, statement: str) -> None:
    table = make(spark, namespace, mode)
    spark.sql(statement.format(t=table.name))
    assert ids(table) == []


@pytest.mark.sampled
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


@pytest.mark.parametrize("mode", MODES)
def test_rows_are_found_by_char_columns(spark: SparkSession, namespace: str, mode: str) -> None:
    other = f"{namespace}.other"
    spark.sql(f"CREATE TABLE {other} (c CHAR(5))")
    spark.sql(f"INSERT INTO {other} VALUES ('b')")
    for where in (
        "c = 'b'",
        "c IN ('b', 'zz') AND id > 0",
        "EXISTS (SELECT 1 FROM {o} o WHERE o.c = {t}.c)",
        "rtrim(c) = 'b'",
    ):
        table = make(spark, namespace, mode)
        spark.sql(f"DELETE FROM {table.name} WHERE {where.format(t=table.name, o=other)}")
        assert ids(table) == [1, 3, 4], where


# ---- inside of arrays, maps and structs

INSIDE = """id BIGINT, a ARRAY<CHAR(3)>, m MAP<VARCHAR(2), CHAR(3)>,
    s STRUCT<x: CHAR(3), y: STRUCT<`z z`: VARCHAR(2)>, n: INT>, q ARRAY<STRUCT<v: VARCHAR(2)>>"""
SHORT = {
    "a": "array('a', NULL)",
    "m": "map('k', 'v')",
    "s": "named_struct('x', 'x', 'y', named_struct('z z', 'zz'), 'n', 1)",
    "q": "array(named_struct('v', 'vv'))",
}
LONG = {
    "a": "array('a', 'aaaa')",
    "m": "map('kkk', 'v')",
    "m ": "map('k', 'vvvv')",
    "s": "named_struct('x', 'xxxx', 'y', named_struct('z z', 'zz'), 'n', 1)",
    "s ": "named_struct('x', 'x', 'y', named_struct('z z', 'zzz'), 'n', 1)",
    "q": "array(named_struct('v', 'vv'), named_struct('v', 'vvv'))",
}
MAPPED = "'delta.columnMapping.mode' = 'name'"


def row(id: int, **other: str) -> str:
    values = ", ".join(f"{value} AS {name}" for name, value in {**SHORT, **other}.items())
    return f"SELECT {id}L AS id, {values}"


def refused(write: Callable[[], object]) -> None:
    with pytest.raises(PySparkException, match="(?i)exceed"):
        write()


@pytest.mark.parametrize("mode", MODES)
def test_lengths_hold_at_any_depth(spark: SparkSession, namespace: str, mode: str) -> None:
    name = f"{namespace}.t"
    spark.sql(
        f"CREATE TABLE {name} ({INSIDE}) TBLPROPERTIES ({MAPPED}, "
        f"'write.update.mode' = '{mode}', 'write.merge.mode' = '{mode}')"
    )
    table = lakemend.table(spark, name)
    spark.sql(f"INSERT INTO {name} {row(1)}")
    table.append(spark.sql(row(2)))
    version = table.version
    for column, value in LONG.items():
        refused(lambda text=f"UPDATE {name} SET {column} = {value} WHERE id = 1": spark.sql(text))
    longer = row(3, a=LONG["a"], m=LONG["m"])
    for write in (
        lambda: spark.sql(f"INSERT INTO {name} {longer}"),
        lambda: table.append(spark.sql(longer)),
        lambda: spark.sql(longer).write.insertInto(name),
        lambda: table.replace_where(spark.sql(longer), "id = 3"),
        lambda: spark.sql(
            f"MERGE INTO {name} t USING ({longer}) s ON t.id = s.id WHEN NOT MATCHED THEN INSERT *",
        ),
        lambda: spark.sql(
            f"MERGE INTO {name} t USING ({longer}) s ON t.id = s.id - 1 WHEN MATCHED THEN UPDATE SET *",
        ),
    ):
        refused(write)
    refused(lambda: spark.sql(f"UPDATE {name} SET s.x = 'xxxx'"))
    refused(lambda: spark.sql(f"UPDATE {name} SET s.y.`z z` = 'xxxx'"))
    assert table.version == version


@pytest.mark.parametrize("mode", MODES)
def test_values_inside_are_filled_up_with_blanks(spark: SparkSession, namespace: str, mode: str) -> None:
    """As Spark's own tables have it: filled when written and when read, and compared as they are then."""
    name = f"{namespace}.t"
    spark.sql(
        f"CREATE TABLE {name} ({INSIDE}) TBLPROPERTIES ({MAPPED}, "
        f"'write.update.mode' = '{mode}', 'write.delete.mode' = '{mode}')"
    )
    spark.sql(f"CREATE OR REPLACE TEMPORARY VIEW short AS {row(1)} UNION ALL {row(2)}")
    spark.sql(f"INSERT INTO {name} TABLE short")
    spark.sql(f"UPDATE {name} SET s.x = 'y', a = array('b') WHERE id = 2")
    asked = "id, a, m, s.x, s.y.`z z`, q, concat(a[0], '|', s.x, '|', map_values(m)[0], '|')"
    assert [list(r) for r in spark.sql(f"SELECT {asked} FROM {name} ORDER BY id").collect()] == [
        [1, ["a  ", None], {"k": "v  "}, "x  ", "zz", [("vv",)], "a  |x  |v  |"],
        [2, ["b  "], {"k": "v  "}, "y  ", "zz", [("vv",)], "b  |y  |v  |"],
    ]
    spark.sql(f"DELETE FROM {name} WHERE s.x = 'y  ' AND a = array('b  ')")
    assert [r.id for r in spark.sql(f"SELECT id FROM {name}").collect()] == [1]
    spark.sql(f"ALTER TABLE {name} RENAME COLUMN s.x TO x2")
    spark.sql(f"ALTER TABLE {name} DROP COLUMN s.y")
    spark.sql(f"ALTER TABLE {name} ADD COLUMN s.w VARCHAR(1)")
    assert [r[0] for r in spark.sql(f"SELECT s FROM {name}").collect()] == [("x  ", 1, None)]
    refused(lambda: spark.sql(f"UPDATE {name} SET s.x2 = 'xxxx'"))
    refused(lambda: spark.sql(f"UPDATE {name} SET s.w = 'ww'"))
    spark.sql(f"CREATE TABLE {namespace}.copy AS SELECT * FROM {name}")
    refused(lambda: spark.sql(f"UPDATE {namespace}.copy SET s.x2 = 'xxxx'"))


# ---- values that another writer stored without blanks

AS_STRINGS = "spark.sql.legacy.charVarcharAsString"


def make_bare(spark: SparkSession, namespace: str, mode: str, feed: bool = False, by: str = "") -> Table:
    """A new one each time. Rows 1, 2 and 3 have the same CHAR as SELECT reads it; row 1 lies in a file of its own."""
    name, kind = f"{namespace}.bare{uuid.uuid4().hex}", (__name__, "bare", mode, feed, by)
    return copied(spark, kind, name, lambda path: make_bare_at(spark, path, mode, feed, by))


def make_bare_at(spark: SparkSession, path: str, mode: str, feed: bool, by: str) -> None:
    name = f"lake.delta.`{path}`"
    modes = ", ".join(f"'write.{verb}.mode' = '{mode}'" for verb in ("update", "delete", "merge"))
    spark.sql(
        f"CREATE TABLE {name} (id BIGINT, c CHAR(3)) {by and f'PARTITIONED BY ({by})'} "
        f"TBLPROPERTIES ({modes}, 'delta.enableChangeDataFeed' = '{str(feed).lower()}')"
    )
    spark.conf.set(AS_STRINGS, "true")
    try:
        spark.sql(f"INSERT INTO {name} VALUES (1, 'b')")
        spark.sql(f"INSERT INTO {name} VALUES (2, 'b '), (3, 'b  '), (4, 'bb'), (5, NULL)")
    finally:
        spark.conf.set(AS_STRINGS, "false")


CHANGES = {
    "update": "UPDATE {t} SET id = -id WHERE c = 'b'",
    "update exists": "UPDATE {t} SET id = -id WHERE EXISTS (SELECT 1 FROM {o} WHERE k = c)",
    "delete": "DELETE FROM {t} WHERE c = 'b'",
    "delete in": "DELETE FROM {t} WHERE c IN (SELECT k FROM {o})",
    "merge": "MERGE INTO {t} t USING {o} o ON t.c = o.k WHEN MATCHED THEN UPDATE SET id = -id",
    "merge delete": "MERGE INTO {t} t USING {o} o ON t.c = o.k WHEN MATCHED THEN DELETE",
    "static": "INSERT OVERWRITE {t} PARTITION (c = 'b') SELECT 9L",
}
REPLACEMENTS: dict[str, Callable[[Table, DataFrame], object]] = {
    "replace": lambda t, rows: t.replace_where(rows, "c = 'b'"),
    "using": lambda t, rows: t.replace_using(rows, "c"),
    "on": lambda t, rows: t.replace_on(rows, "t.c = s.c"),
    "dynamic": lambda t, rows: t.overwrite_partitions(rows),
    "only": lambda t, rows: t.replace_where(rows, "c = 'b'", partitions_only=True),
}
EVERYWHERE = "update,update exists,delete,delete in,merge,merge delete,replace,using,on"


@pytest.mark.sampled
@pytest.mark.parametrize(
    ("mode", "feed", "by", "changes"),
    [
        (MODES[0], False, "", EVERYWHERE),
        (MODES[1], False, "", EVERYWHERE),
        (MODES[0], False, "c", "update,delete,merge,replace,using,dynamic,static,only"),
        (MODES[1], False, "c", "update,delete,merge,replace,using,dynamic"),
        (MODES[0], True, "", "update,merge,replace"),
        (MODES[1], True, "c", "update,delete"),
    ],
)
def test_values_without_blanks_are_found_as_select_finds_them(
    spark: SparkSession, namespace: str, mode: str, feed: bool, by: str, changes: str
) -> None:
    spark.sql(f"CREATE TABLE {namespace}.other (k CHAR(3))")
    spark.sql(f"INSERT INTO {namespace}.other VALUES ('b')")
    rows = spark.sql("SELECT 9L AS id, 'b' AS c")
    for name in changes.split(","):
        table = make_bare(spark, namespace, mode, feed, by)
        if name in CHANGES:
            spark.sql(CHANGES[name].format(t=table.name, o=f"{namespace}.other"))
        else:
            REPLACEMENTS[name](table, rows)
        assert [i for i in ids(table) if 0 < i < 9] == [4, 5], name


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("threshold", ["32m", "-1"])
def test_a_merge_inserts_what_no_filled_value_matches(
    spark: SparkSession, namespace: str, mode: str, threshold: str
) -> None:
    spark.conf.set("spark.lakemend.merge.broadcastThreshold", threshold)
    try:
        for when, matched in (("", 0), ("WHEN MATCHED THEN UPDATE SET id = t.id + 10", 1)):
            for key, found in (("'b  '", True), ("'b'", False)):
                table = make_bare(spark, namespace, mode)
                spark.sql(f"DELETE FROM {table.name} WHERE id IN (2, 3)")
                spark.sql(
                    f"MERGE INTO {table.name} t USING (SELECT {key} AS k) s ON t.c = s.k {when} "
                    "WHEN NOT MATCHED THEN INSERT (id, c) VALUES (20, k)"
                )
                first = 11 if found and matched else 1
                assert ids(table) == sorted([first, 4, 5] + ([] if found else [20])), (when, key)
    finally:
        spark.conf.unset("spark.lakemend.merge.broadcastThreshold")


@pytest.mark.parametrize(("mode", "by"), [(MODES[0], ""), (MODES[1], "c")])
def test_rows_of_the_table_itself_replace_those_of_a_char_value(
    spark: SparkSession, namespace: str, mode: str, by: str
) -> None:
    doors: dict[str, Callable[[Table, DataFrame], object]] = {
        "where": lambda t, rows: t.replace_where(rows, "c = 'b'"),
        "option": lambda t, rows: rows.write.mode("overwrite").option("replaceWhere", "c = 'b'").insertInto(t.name),
        "on": lambda t, rows: t.replace_on(rows, "t.c = s.c AND t.id < 9"),
    }
    for name, replace in doors.items():
        table = make_bare(spark, namespace, mode, by=by)
        replace(table, table.to_df().where("c = 'b'").withColumn("id", F.col("id") + 10))
        assert ids(table) == [4, 5, 11, 12, 13], name


def test_a_session_that_takes_chars_for_strings_compares_strings(spark: SparkSession, namespace: str) -> None:
    table = make_bare(spark, namespace, MODES[1], by="c")
    spark.conf.set(AS_STRINGS, "true")
    try:
        assert [r.id for r in spark.sql(f"SELECT id FROM {table.name} WHERE c = 'b'").collect()] == [1]
        spark.sql(f"UPDATE {table.name} SET id = 11 WHERE c = 'b'")
        table.replace_where(spark.sql("SELECT 12L AS id, 'b ' AS c"), "c = 'b '")
        assert ids(table) == [3, 4, 5, 11, 12]
    finally:
        spark.conf.set(AS_STRINGS, "false")
