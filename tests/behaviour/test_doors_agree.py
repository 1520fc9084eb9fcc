"""What one door does, every other does too: saveAsTable and save, lists of dicts and frames, names and paths."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

import lakemend
from tests.settings import settings


def rows(frame: DataFrame) -> list[tuple[Any, ...]]:
    return sorted((tuple(row) for row in frame.collect()), key=repr)


# ---- saveAsTable


@pytest.fixture
def kept(spark: SparkSession, namespace: str) -> str:
    name = f"{namespace}.kept"
    spark.sql(
        f"CREATE TABLE {name} (id BIGINT NOT NULL, p STRING, CONSTRAINT small CHECK (id < 100)) PARTITIONED BY (p) "
        "TBLPROPERTIES ('delta.enableChangeDataFeed' = 'true', 'mine' = '1')"
    )
    spark.sql(f"INSERT INTO {name} VALUES (1, 'a'), (2, 'b')")
    return name


# Without a format Spark's writer names the default one.
SOURCES = ("delta", "parquet")


@pytest.mark.parametrize("source", SOURCES)
def test_save_as_table_keeps_the_table(spark: SparkSession, kept: str, source: str) -> None:
    table = lakemend.table(spark, kept)
    before = table.detail()
    spark.sql("SELECT 'c' AS p, 3L AS id").write.format(source).mode("overwrite").saveAsTable(kept)
    after = table.detail()
    assert rows(table.to_df()) == [(3, "c")]
    for part in ("schema", "partitioning", "properties", "checks"):
        assert after.get(part) == before.get(part), part
    with pytest.raises(lakemend.ConstraintViolationError):
        spark.sql("SELECT 300L AS id, 'c' AS p").write.format(source).mode("overwrite").saveAsTable(kept)
    assert rows(spark.sql(f"SELECT id, _change_type FROM {kept} CHANGES FROM VERSION 2 TO VERSION 2")) == [
        (1, "delete"),
        (2, "delete"),
        (3, "insert"),
    ]


@pytest.mark.parametrize("source", SOURCES)
def test_save_as_table_refuses_another_schema(spark: SparkSession, kept: str, source: str) -> None:
    other = spark.sql("SELECT 3L AS id, 'c' AS p, 1 AS more")
    with pytest.raises(lakemend.SchemaMismatchError):
        other.write.format(source).mode("overwrite").saveAsTable(kept)
    with pytest.raises(lakemend.SchemaMismatchError, match="partitionBy"):
        spark.sql("SELECT 3L AS id, 'c' AS p").write.format(source).mode("overwrite").partitionBy("id").saveAsTable(
            kept
        )
    assert rows(spark.table(kept)) == [(1, "a"), (2, "b")]
    other.write.format(source).mode("overwrite").option("mergeSchema", "true").saveAsTable(kept)
    assert rows(spark.table(kept)) == [(3, "c", 1)]
    other.drop("p").write.format(source).mode("overwrite").option("overwriteSchema", "true").saveAsTable(kept)
    assert rows(spark.table(kept)) == [(3, 1)]


@pytest.mark.parametrize("source", SOURCES)
def test_save_as_table_of_some_partitions(spark: SparkSession, kept: str, source: str) -> None:
    new = spark.sql("SELECT 3L AS id, 'a' AS p")
    new.write.format(source).mode("overwrite").option("partitionOverwriteMode", "dynamic").saveAsTable(kept)
    assert rows(spark.table(kept)) == [(2, "b"), (3, "a")]


def test_save_as_table_makes_a_table_that_is_missing(spark: SparkSession, namespace: str) -> None:
    spark.sql("SELECT 3L AS id, 'a' AS p").write.format("delta").mode("overwrite").partitionBy("p").saveAsTable(
        f"{namespace}.new"
    )
    assert lakemend.table(spark, f"{namespace}.new").to_df().count() == 1


# ---- rows as people have them


def test_rows_of_dicts_have_all_their_keys(spark: SparkSession, location: str) -> None:
    table = lakemend.table(spark, location)
    table.append([{"a": 1}, {"a": 2, "b": 3}])
    assert rows(table.to_df()) == [(1, None), (2, 3)]
    table.append([{"b": 5, "a": 4}, {"b": 6}])
    assert rows(table.to_df()) == [(1, None), (2, 3), (4, 5), (None, 6)]
    table.replace_where([{"a": 9}, {"a": 9, "b": 1}], "a = 9")
    table.replace_using([{"b": 7, "a": 1}], "a")
    assert rows(table.to_df()) == [(1, 7), (2, 3), (4, 5), (9, 1), (9, None), (None, 6)]


@pytest.mark.parametrize("make", [pa.Table.from_pylist, pd.DataFrame, pl.DataFrame], ids=["arrow", "pandas", "polars"])
def test_frames_in_another_order(spark: SparkSession, location: str, make: Callable[[Any], Any]) -> None:
    table = lakemend.table(spark, location)
    table.append([{"a": 1, "b": "x"}])
    table.append(make([{"b": "y", "a": 2}]))
    assert rows(table.to_df()) == [(1, "x"), (2, "y")]


@pytest.mark.parametrize(
    "bad", [[{"a": 1}, {"a": "x"}], [{1: 2}], [{}], [{"a": 1}, 2], "rows", pd.DataFrame({"a": [1, "x"]})]
)
def test_rows_that_are_no_rows(spark: SparkSession, location: str, bad: Any) -> None:
    table = lakemend.table(spark, location)
    table.append([{"a": 1}])
    with pytest.raises(lakemend.InvalidInputError):
        table.append(bad)
    assert table.version == 0


def test_no_rows(spark: SparkSession, location: str) -> None:
    table = lakemend.table(spark, location)
    with pytest.raises(lakemend.InvalidInputError, match="no rows"):
        table.append([])
    table.append([{"a": 1, "p": "x"}, {"a": 2, "p": "y"}], partition_by="p")
    report = table.append([])
    assert (report.version, report.inserted, report.total) == (None, 0, 2)
    assert table.overwrite_partitions([]).version is None
    assert table.replace_using([], "a").deleted == 0
    assert table.replace_where([], "a = 1").deleted == 1
    assert rows(table.to_df()) == [(2, "y")]
    assert table.overwrite([]).deleted == 1
    assert table.to_df().count() == 0


# ---- overwrite


def test_overwrite_replaces_every_row_whatever_the_session_says(spark: SparkSession, location: str) -> None:
    table = lakemend.table(spark, location)
    table.append([{"a": 1, "p": "x"}, {"a": 2, "p": "y"}], partition_by="p")
    with settings(spark, {"spark.sql.sources.partitionOverwriteMode": "dynamic"}):
        table.overwrite([{"a": 3, "p": "x"}])
    assert rows(table.to_df()) == [(3, "x")]
    with pytest.raises(lakemend.InvalidInputError, match="overwrite_partitions"):
        table.overwrite([{"a": 3, "p": "x"}], options={"partitionOverwriteMode": "dynamic"})


def test_a_partition_overwrite_with_no_rows_replaces_nothing(spark: SparkSession, namespace: str) -> None:
    spark.sql(f"CREATE TABLE {namespace}.plain AS SELECT 1 AS a")
    table = lakemend.table(spark, f"{namespace}.plain")
    none = spark.sql("SELECT 1 AS a WHERE false")
    none.writeTo(table.name).overwritePartitions()
    assert table.overwrite_partitions([]).version is None
    none.write.format("delta").mode("overwrite").option("partitionOverwriteMode", "dynamic").save(
        table.detail()["location"]
    )
    assert rows(table.to_df()) == [(1,)]
    table.overwrite_partitions([{"a": 2}])
    assert rows(table.to_df()) == [(2,)]


@pytest.mark.parametrize("words", ["", "BY NAME", "(a)"])
def test_an_insert_overwrite_leaves_what_it_selects(spark: SparkSession, namespace: str, words: str) -> None:
    """Single partitions are asked for by the session, and a table without partitions has none."""
    spark.sql(f"CREATE TABLE {namespace}.plain AS SELECT 1 AS a")
    spark.sql(f"CREATE TABLE {namespace}.parted PARTITIONED BY (p) AS SELECT 1 AS a, 2 AS p")
    with settings(spark, {"spark.sql.sources.partitionOverwriteMode": "dynamic"}):
        spark.sql(f"INSERT OVERWRITE {namespace}.plain {words} SELECT a FROM {namespace}.plain WHERE false")
        words = words.replace("(a)", "(a, p)")
        spark.sql(f"INSERT OVERWRITE {namespace}.parted {words} SELECT a, p FROM {namespace}.parted WHERE false")
        spark.sql(f"INSERT OVERWRITE {namespace}.parted {words} SELECT 2 AS a, 3 AS p")
    assert rows(spark.table(f"{namespace}.plain")) == []
    assert rows(spark.table(f"{namespace}.parted")) == [(1, 2), (2, 3)]


# ---- caches


CHANGES: dict[str, Callable[[SparkSession, str], object]] = {
    "insert": lambda spark, t: spark.sql(f"INSERT INTO {t} VALUES (9)"),
    "python": lambda spark, t: lakemend.table(spark, t).append([{"a": 9}]),
    "delete": lambda spark, t: spark.sql(f"DELETE FROM {t} WHERE a = 1"),
    "delete all": lambda spark, t: spark.sql(f"DELETE FROM {t}"),
    "overwrite": lambda spark, t: lakemend.table(spark, t).overwrite([{"a": 9}, {"a": 9}, {"a": 9}]),
    "replace": lambda spark, t: spark.sql(f"CREATE OR REPLACE TABLE {t} AS SELECT 9 AS a"),
    "alter": lambda spark, t: spark.sql(f"ALTER TABLE {t} ADD COLUMN b INT"),
}


@pytest.mark.parametrize("change", CHANGES)
def test_a_change_by_one_spelling_is_seen_by_all(
    spark: SparkSession, namespace: str, tmp_path: Path, change: str
) -> None:
    name = f"{namespace}.t"
    spark.sql(f"CREATE TABLE {name} AS SELECT explode(sequence(1, 2)) AS a")
    path = lakemend.table(spark, name).detail()["location"].removeprefix("file://")
    (tmp_path / "link").symlink_to(path)

    def read() -> list[list[tuple[Any, ...]]]:
        fresh = [
            spark.read.format("delta").load(path),
            spark.read.format("delta").load(str(tmp_path / "link")),
            spark.table(f"delta.`{path}`"),
            spark.table(f"lake.delta.`{path}`"),
            spark.table(name),
        ]
        return [rows(frame) for frame in fresh]

    cached = [
        spark.read.format("delta").load(path).cache(),
        spark.read.format("delta").load(str(tmp_path / "link")).cache(),
        spark.table(f"delta.`{path}`").cache(),
        spark.table(name).cache(),
        spark.read.format("delta").load(path).where(F.col("a") > 0).cache(),
    ]
    for frame in cached:
        assert frame.count() == 2
    try:
        CHANGES[change](spark, name)
        truth = rows(spark.newSession().read.option("versionAsOf", lakemend.table(spark, name).version).table(name))
        assert read() == [truth] * 5
        CHANGES["insert" if change != "alter" else "delete"](spark, f"delta.`{path}`")
        truth = rows(spark.newSession().read.option("versionAsOf", lakemend.table(spark, name).version).table(name))
        assert read() == [truth] * 5
    finally:
        for frame in cached:
            frame.unpersist()


def test_a_table_that_is_gone_is_not_read_from_a_cache(spark: SparkSession, namespace: str) -> None:
    name = f"{namespace}.t"
    spark.sql(f"CREATE TABLE {name} AS SELECT 1 AS a")
    path = lakemend.table(spark, name).detail()["location"]
    assert spark.read.format("delta").load(path).cache().count() == 1
    spark.sql(f"DROP TABLE {name}")
    with pytest.raises(lakemend.TableNotFoundError):
        spark.read.format("delta").load(path).count()


# ---- names and versions


def test_rename_with_the_name_of_the_catalog(spark: SparkSession, namespace: str) -> None:
    spark.sql(f"CREATE TABLE {namespace}.t AS SELECT 1 AS a")
    spark.sql(f"ALTER TABLE {namespace}.t RENAME TO {namespace}.u")
    assert rows(spark.table(f"{namespace}.u")) == [(1,)]
    spark.sql(f"ALTER TABLE {namespace}.u RENAME TO {namespace.split('.')[1]}.v")
    assert rows(spark.table(f"{namespace}.v")) == [(1,)]
    assert [row.tableName for row in spark.sql(f"SHOW TABLES IN {namespace}").collect()] == ["v"]


def test_a_table_is_not_moved_by_a_property(spark: SparkSession, namespace: str, tmp_path: Path) -> None:
    spark.sql(f"CREATE TABLE {namespace}.t AS SELECT 1 AS a")
    with pytest.raises(lakemend.InvalidInputError, match="cannot move"):
        spark.sql(f"ALTER TABLE {namespace}.t SET LOCATION '{tmp_path}'")
    assert "location" not in lakemend.table(spark, f"{namespace}.t").detail()["properties"]
    assert lakemend.table(spark, f"{namespace}.t").version == 0


def test_a_path_with_a_version(spark: SparkSession, location: str) -> None:
    table = lakemend.table(spark, location)
    for n in range(3):
        table.append([{"a": n}])
    read = spark.read.format("delta")
    assert [read.load(f"{location}@v{n}").count() for n in range(3)] == [1, 2, 3]
    with pytest.raises(lakemend.VersionNotFoundError):
        read.load(f"{location}@v7").count()
    with pytest.raises(lakemend.InvalidInputError):
        spark.read.format("delta").option("versionAsOf", 1).load(f"{location}@v0").count()
    odd = lakemend.table(spark, f"{location}@v0")
    odd.append([{"a": 1}, {"a": 2}])
    assert read.load(f"{location}@v0").count() == 2
    assert spark.sql(f"SELECT count(*) FROM delta.`{location}` TIMESTAMP AS OF current_timestamp()").first() == (3,)


def test_an_action_sees_one_version_the_newest(spark: SparkSession, namespace: str) -> None:
    spark.sql(f"CREATE TABLE {namespace}.t AS SELECT 1 AS a")
    frame, old = spark.table(f"{namespace}.t"), spark.read.option("versionAsOf", 0).table(f"{namespace}.t")
    by_path = spark.read.format("delta").load(lakemend.table(spark, f"{namespace}.t").detail()["location"])
    assert (frame.count(), old.count(), by_path.count()) == (1, 1, 1)
    spark.sql(f"INSERT INTO {namespace}.t VALUES (2)")
    assert (frame.count(), old.count(), by_path.count()) == (2, 1, 2)
    assert frame.join(by_path, "a").count() == 2


def test_show_create_table_makes_the_same_table(spark: SparkSession, namespace: str, tmp_path: Path) -> None:
    name = f"{namespace}.t"
    spark.sql(
        f"""CREATE TABLE {name} (id BIGINT NOT NULL COMMENT 'it''s \\\\ it', at TIMESTAMP,
        `p q` STRING DEFAULT 'x', v VARCHAR(5),
        n STRUCT<a: STRING, b: ARRAY<STRING>>, day DATE GENERATED ALWAYS AS (CAST(at AS DATE)),
        CONSTRAINT small CHECK (id < 100)) USING delta PARTITIONED BY (day, `p q`) COMMENT 'all of it'
        TBLPROPERTIES ('delta.columnMapping.mode' = 'name', 'mine' = 'a''b')"""
    )
    shown = spark.sql(f"SHOW CREATE TABLE {name}").first()[0]
    assert "LOCATION" not in shown and "COLLATE" not in shown
    before = lakemend.table(spark, name).detail()
    spark.sql(f"DROP TABLE {name}")
    spark.sql(shown)
    after = lakemend.table(spark, name).detail()
    for part in ("schema", "partitioning", "properties", "checks", "comment", "description"):
        assert after.get(part) == before.get(part), part
    assert spark.sql(f"SHOW CREATE TABLE {name}").first()[0] == shown
    spark.sql(f"CREATE TABLE {namespace}.away (a STRING COLLATE UTF8_BINARY) LOCATION '{tmp_path / 'away'}'")
    assert "LOCATION" in spark.sql(f"SHOW CREATE TABLE {namespace}.away").first()[0]


def test_columns_are_not_replaced_by_empty_ones(spark: SparkSession, namespace: str) -> None:
    spark.sql(f"CREATE TABLE {namespace}.t AS SELECT 1 AS a, 2 AS b")
    for columns in ("a INT, c STRING", "c INT", "c INT, d STRING, e STRING", "a INT, b INT, c INT"):
        with pytest.raises(lakemend.InvalidInputError, match="REPLACE COLUMNS"):
            spark.sql(f"ALTER TABLE {namespace}.t REPLACE COLUMNS ({columns})")
    assert rows(spark.table(f"{namespace}.t")) == [(1, 2)]


def test_partition_columns_with_odd_names(spark: SparkSession, namespace: str, tmp_path: Path) -> None:
    spark.sql(f"CREATE NAMESPACE IF NOT EXISTS {namespace}")
    frame = spark.sql("SELECT 1 AS id, 'a' AS `p-q`")
    name = f"{namespace}.odd"
    path = str(tmp_path / "odd")
    for door in (
        lambda: frame.write.format("delta").partitionBy("p-q").save(path),
        lambda: frame.write.format("delta").partitionBy("p-q").saveAsTable(name),
        lambda: frame.writeTo(name).partitionedBy(F.col("p-q")).create(),
    ):
        with pytest.raises(lakemend.InvalidInputError, match="p-q"):
            door()
    assert not spark.catalog.tableExists(name) and not lakemend.table(spark, path).exists()
    frame.write.format("delta").partitionBy("`p-q`").save(path)
    frame.write.format("delta").mode("append").partitionBy("`p-q`").save(path)
    frame.write.format("delta").partitionBy("`p-q`").saveAsTable(name)
    frame.write.format("delta").mode("overwrite").partitionBy("`p-q`").saveAsTable(name)
    frame.writeTo(f"{name}2").partitionedBy(F.col("```p-q```")).create()
    lakemend.table(spark, f"{name}3").append(frame, partition_by="p-q")
    for where in (path, name, f"{name}2", f"{name}3"):
        table = lakemend.table(spark, where)
        assert table.detail()["partitioning"] == ["p-q"] or "p-q" in str(table.detail()["partitioning"]), where
    assert rows(spark.read.format("delta").load(path)) == [(1, "a"), (1, "a")]
