"""Persisted rows are what later queries and statements get; a change of a persisted table finds the table."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

import lakemend

MODES = ("copy-on-write", "merge-on-read")
MAPPED = "TBLPROPERTIES ('delta.columnMapping.mode' = 'name')"


def named(spark: SparkSession, name: str) -> DataFrame:
    return spark.table(name)


def by_path(spark: SparkSession, name: str) -> DataFrame:
    return spark.read.format("delta").load(lakemend.table(spark, name).detail()["location"])


def older(spark: SparkSession, name: str) -> DataFrame:
    return spark.read.option("versionAsOf", 1).table(name)


DOORS = {"name": named, "path": by_path, "version": older}
SHAPES: dict[str, Callable[[DataFrame], DataFrame]] = {
    "all": lambda f: f,
    "some": lambda f: f.where("id > 0"),
    "counts": lambda f: f.groupBy("id").count(),
}


# One of every kind; `./run test-long` runs all.
TELLING = (("name", "counts"), ("path", "some"), ("version", "all"))


def rows(spark: SparkSession, query: str) -> list[tuple[object, ...]]:
    return sorted(map(tuple, spark.sql(query).collect()), key=repr)


def is_cached(frame: DataFrame) -> bool:
    return "InMemoryTableScan" in frame._jdf.queryExecution().executedPlan().toString()


@pytest.fixture
def t(spark: SparkSession, namespace: str) -> Iterator[str]:
    spark.sql(f"CREATE TABLE {namespace}.t (id INT, v STRING)")
    spark.sql(f"INSERT INTO {namespace}.t VALUES (1, 'a'), (2, 'b')")
    yield f"{namespace}.t"
    spark.catalog.clearCache()


@pytest.mark.parametrize(
    ("door", "shape"),
    [
        pytest.param(door, shape, marks=[] if (door, shape) in TELLING else [pytest.mark.slow])
        for door in DOORS
        for shape in SHAPES
    ],
)
def test_the_same_query_finds_the_persisted_rows(spark: SparkSession, t: str, door: str, shape: str) -> None:
    frame = SHAPES[shape](DOORS[door](spark, t)).persist()
    frame.count()
    assert is_cached(frame.where("id < 5"))
    assert is_cached(SHAPES[shape](DOORS[door](spark, t)))


def test_an_older_version_is_not_taken_for_the_table(spark: SparkSession, t: str) -> None:
    """What is read of it can not be in conflict; what is read of the table can."""
    older(spark, t).persist().count()
    assert not is_cached(named(spark, t))
    spark.catalog.clearCache()
    named(spark, t).persist().count()
    assert not is_cached(older(spark, t))


@pytest.mark.parametrize("door", ["name", *(pytest.param(d, marks=pytest.mark.slow) for d in ("path", "version"))])
def test_keys_that_were_made_once_stay_the_same(spark: SparkSession, namespace: str, t: str, door: str) -> None:
    key = F.expr("reflect('java.util.UUID', 'randomUUID')")
    frame = DOORS[door](spark, t).select(key.alias("k"), "id", "v").persist()
    shown = sorted(map(tuple, frame.collect()))
    spark.sql(f"CREATE TABLE {namespace}.parents (k STRING, id INT)")
    spark.sql(f"CREATE TABLE {namespace}.children (k STRING, id INT, v STRING)")
    frame.select("k", "id").writeTo(f"{namespace}.parents").append()
    lakemend.table(spark, f"{namespace}.children").append(frame)
    assert rows(spark, f"SELECT * FROM {namespace}.children") == shown
    assert spark.sql(f"SELECT * FROM {namespace}.parents JOIN {namespace}.children USING (k)").count() == 2


CHANGED = (("delete all", MODES[0]), ("update", MODES[0]), ("merge of itself", MODES[1]), ("overwrite", MODES[0]))
CHANGES: dict[str, tuple[str, list[tuple[object, ...]]]] = {
    "delete all": ("DELETE FROM {t}", []),
    "truncate": ("TRUNCATE TABLE {t}", []),
    "delete": ("DELETE FROM {t} WHERE id = 1", [(2, "b")]),
    "delete by itself": ("DELETE FROM {t} WHERE id IN (SELECT max(id) FROM {t})", [(1, "a")]),
    "update": ("UPDATE {t} SET v = 'c' WHERE id = 1", [(1, "c"), (2, "b")]),
    "merge of itself": (
        """MERGE INTO {t} USING (SELECT id + 1 AS id, v FROM {t}) s ON {t}.id = s.id
        WHEN MATCHED THEN UPDATE SET v = s.v WHEN NOT MATCHED THEN INSERT *""",
        [(1, "a"), (2, "a"), (3, "b")],
    ),
    "replace": ("INSERT INTO {t} REPLACE WHERE id = 1 SELECT 1, v FROM {t} WHERE id = 2", [(1, "b"), (2, "b")]),
    "overwrite": ("INSERT OVERWRITE {t} SELECT id + 1, v FROM {t}", [(2, "a"), (3, "b")]),
    "insert": ("INSERT INTO {t} SELECT id + 5, v FROM {t} WHERE id = 1", [(1, "a"), (2, "b"), (6, "a")]),
}


@pytest.mark.parametrize(
    ("change", "mode"),
    [
        pytest.param(change, mode, marks=[] if (change, mode) in CHANGED else [pytest.mark.slow])
        for change in CHANGES
        for mode in MODES
    ],
)
def test_a_persisted_table_is_changed(spark: SparkSession, t: str, change: str, mode: str) -> None:
    changes = ", ".join(f"'write.{kind}.mode' = '{mode}'" for kind in ("delete", "update", "merge"))
    spark.sql(f"ALTER TABLE {t} SET TBLPROPERTIES ({changes})")
    whole, some = named(spark, t).persist(), named(spark, t).where("id = 1").persist()
    assert (whole.count(), some.count()) == (2, 1)
    statement, expected = CHANGES[change]
    spark.sql(statement.format(t=t))
    assert rows(spark, f"SELECT * FROM {t}") == expected
    assert sorted(map(tuple, whole.select("*").collect())) == expected
    assert some.select("*").count() == sum(row[0] == 1 for row in expected)


# ---- columns that are others by now


def swap(spark: SparkSession, name: str) -> None:
    for change in ("a TO c", "b TO a", "c TO b"):
        spark.sql(f"ALTER TABLE {name} RENAME COLUMN {change}")


def add_again(spark: SparkSession, name: str) -> None:
    spark.sql(f"ALTER TABLE {name} DROP COLUMN a")
    spark.sql(f"ALTER TABLE {name} ADD COLUMN A STRING")


def swap_fields(spark: SparkSession, name: str) -> None:
    for old, new in (("s.a", "c"), ("s.b", "a"), ("s.c", "b")):
        spark.sql(f"ALTER TABLE {name} RENAME COLUMN {old} TO {new}")


def lengthen(spark: SparkSession, name: str) -> None:
    spark.sql(f"ALTER TABLE {name} ALTER COLUMN d TYPE STRING")


@pytest.mark.parametrize(
    "change", [swap, *(pytest.param(change, marks=pytest.mark.slow) for change in (add_again, swap_fields, lengthen))]
)
def test_a_frame_never_shows_another_column(
    spark: SparkSession, namespace: str, change: Callable[[SparkSession, str], None]
) -> None:
    name = f"{namespace}.t"
    spark.sql(f"CREATE TABLE {name} (a STRING, b STRING, s STRUCT<a: STRING, b: STRING>, d CHAR(3)) {MAPPED}")
    spark.sql(f"INSERT INTO {name} VALUES ('A', 'B', named_struct('a', 'A', 'b', 'B'), 'D')")
    spark.sql(f"CREATE TABLE {namespace}.x (a STRING, s STRUCT<a: STRING, b: STRING>)")
    frame = spark.table(name).select("a", "s")
    change(spark, name)
    with pytest.raises(AnalysisException, match="re-create DataFrame"):
        frame.writeTo(f"{namespace}.x").append()
    with pytest.raises(AnalysisException, match="re-create DataFrame"):
        frame.count()
    again = spark.table(name).select("a", "s")
    again.writeTo(f"{namespace}.x").append()
    assert spark.table(f"{namespace}.x").select("a", "s.a").collect() == again.select("a", "s.a").collect()


def test_a_frame_outlives_columns_that_are_added(spark: SparkSession, namespace: str) -> None:
    name = f"{namespace}.t"
    spark.sql(f"CREATE TABLE {name} (a STRING, b STRING) {MAPPED}")
    spark.sql(f"INSERT INTO {name} VALUES ('A', 'B')")
    frame = spark.table(name).select("a")
    spark.sql(f"ALTER TABLE {name} ADD COLUMN c STRING")
    spark.sql(f"INSERT INTO {name} VALUES ('D', 'E', 'F')")
    assert sorted(row[0] for row in frame.collect()) == ["A", "D"]


def test_schemas_say_nothing_of_it(spark: SparkSession, namespace: str) -> None:
    spark.sql(f"CREATE TABLE {namespace}.t (a STRING, s STRUCT<a: STRING>) {MAPPED}")
    assert all(field.metadata == {} for field in spark.table(f"{namespace}.t").schema.fields)
