"""`to_arrow`: the same rows and types whether Arrow reads the files or Spark does."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession

import lakemend
from lakemend import InvalidInputError
from tests.settings import settings


@pytest.fixture
def without_spark(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    def fails(_: DataFrame) -> pa.Table:
        raise AssertionError("Spark was asked for rows")

    monkeypatch.setattr("pyspark.sql.classic.dataframe.DataFrame.toArrow", fails)
    return monkeypatch


def rows(table: pa.Table) -> list[str]:
    """Sorted by `repr`, which tells NaN from NULL and 0.0 from -0.0."""
    return sorted(map(repr, table.to_pylist()))


def by_spark(frame: DataFrame) -> pa.Table:
    return frame.toArrow()


def same(found: pa.Table, frame: DataFrame) -> None:
    wanted = by_spark(frame)
    if wanted.schema.names[-1] == "_file":
        last = wanted.schema.field("_file")
        wanted = wanted.set_column(wanted.num_columns - 1, last.remove_metadata(), wanted["_file"])
    assert found.schema.equals(wanted.schema, check_metadata=True), (found.schema, wanted.schema)
    assert rows(found) == rows(wanted)


@pytest.mark.parametrize("mapping", ["none", "name", "id"])
def test_every_type(spark: SparkSession, namespace: str, mapping: str, without_spark: pytest.MonkeyPatch) -> None:
    t = f"{namespace}.t"
    spark.sql(f"""
        CREATE TABLE {t} (
            id BIGINT NOT NULL COMMENT 'key', y TINYINT, h SMALLINT, i INT, f FLOAT, d DOUBLE, e DECIMAL(12, 3),
            g DECIMAL(38, 0), o BOOLEAN, t STRING, v VARCHAR(9), b BINARY, a DATE, ts TIMESTAMP, n TIMESTAMP_NTZ,
            s STRUCT<a: INT, b: ARRAY<STRUCT<x: INT, y: STRING>>>, m MAP<STRING, STRUCT<z: DATE>>,
            p TIMESTAMP, q DECIMAL(5, 2), r STRING)
        PARTITIONED BY (p, q, r) TBLPROPERTIES ('delta.columnMapping.mode' = '{mapping}')""")
    spark.sql(f"""
        INSERT INTO {t} SELECT id, id % 100, -id, id, IF(id % 4 = 0, CAST('NaN' AS FLOAT), id / 3), -0.0D, id / 7,
            CAST('99999999999999999999999999999999999999' AS DECIMAL(38, 0)), id % 2 = 0, IF(id % 3 = 0, NULL, 'ä'),
            'v', unhex('00ff'), DATE'0001-01-01', TIMESTAMP'1890-01-02 03:04:05.678901',
            TIMESTAMP_NTZ'1500-01-02 03:04:05',
            IF(id % 5 = 0, NULL, named_struct('a', CAST(id AS INT), 'b', array(named_struct('x', 1, 'y', 'q'), NULL))),
            IF(id % 7 = 0, NULL, map('k', named_struct('z', DATE'2026-01-01'))),
            IF(id % 2 = 0, NULL, TIMESTAMP'2026-03-29 02:30:00'), id % 2, IF(id % 2 = 0, '', 'x/ %=ü')
        FROM range(60)""")
    spark.sql(f"ALTER TABLE {t} ADD COLUMNS (late INT, s.more STRING)")
    if mapping != "none":
        spark.sql(f"ALTER TABLE {t} RENAME COLUMN s.b TO c")
        spark.sql(f"ALTER TABLE {t} DROP COLUMN f")
        spark.sql(f"ALTER TABLE {t} ADD COLUMN f STRING")
    spark.sql(f"DELETE FROM {t} WHERE id % 4 = 1")
    spark.sql(f"UPDATE {t} SET late = 7, s.more = 'x' WHERE id = 8")
    table = lakemend.table(spark, t)
    with settings(spark, {"spark.sql.session.timeZone": "Europe/Berlin"}):
        found = table.to_arrow(include_file_path=True)
        some = table.to_arrow(["s", "q", "id"])
        constant = table.to_arrow("q")
        earlier = table.as_of(version=1).to_arrow()
        by_time = table.as_of(timestamp="2200-01-01").to_arrow("id")
        without_spark.undo()
        same(found, table.to_df().select("*", "_file"))
        same(some, table.to_df().select("s", "q", "id"))
        same(constant, table.to_df().select("q"))
        same(earlier, table.as_of(version=1).to_df())
        same(by_time, table.to_df().select("id"))
    assert {*found["_file"].to_pylist()} == {*table.files()["path"].to_pylist()}


def test_an_empty_table_and_widened_columns(
    spark: SparkSession, location: str, without_spark: pytest.MonkeyPatch
) -> None:
    table = lakemend.table(spark, location)
    spark.sql(f"CREATE TABLE {table.name} (i INT, e DECIMAL(5, 1)) TBLPROPERTIES ('delta.enableTypeWidening' = 'true')")
    empty = table.to_arrow(include_file_path=True)
    table.append([{"i": 1, "e": 2}])
    spark.sql(f"ALTER TABLE {table.name} ALTER COLUMN i TYPE BIGINT")
    spark.sql(f"ALTER TABLE {table.name} ALTER COLUMN e TYPE DECIMAL(12, 3)")
    table.append([{"i": 1 << 40, "e": 3}])
    wide = table.to_arrow()
    without_spark.undo()
    assert empty.num_rows == 0 and empty.schema.names == ["i", "e", "_file"]
    same(wide, table.to_df())


def test_where_spark_reads(spark: SparkSession, location: str) -> None:
    """A condition, an expression, or a type that Spark gives a form of its own."""
    table = lakemend.table(spark, location)
    frame = spark.sql(
        "SELECT id, parse_json(concat('{\"a\":', id, '}')) AS v, named_struct('a', id) AS s FROM range(3)"
    )
    table.append(frame)
    same(table.to_arrow(), table.to_df())
    same(table.to_arrow(["s.a", "ID"]), table.to_df().select("s.a", "ID"))
    same(table.to_arrow(["id", "id"]), table.to_df().select("id", "id"))
    same(table.to_arrow("id", "id > 1", include_file_path=True), table.to_df().where("id > 1").select("id", "_file"))
    spark.sql(f"CREATE TABLE delta.`{location}2` (c CHAR(4), n INT)")
    spark.sql(f"INSERT INTO delta.`{location}2` VALUES ('a', 1)")
    chars = lakemend.table(spark, f"{location}2")
    same(chars.to_arrow(), chars.to_df())
    assert chars.to_arrow("n").to_pylist() == [{"n": 1}]


def test_a_column_that_has_its_name(spark: SparkSession, location: str) -> None:
    table = lakemend.table(spark, location)
    table.append(spark.sql("SELECT 1 AS id, 'mine' AS `_FILE`"))
    with pytest.raises(InvalidInputError, match="own column _FILE"):
        table.to_arrow(include_file_path=True)
    assert table.to_arrow().to_pylist() == [{"id": 1, "_FILE": "mine"}]


def test_a_file_that_is_gone(spark: SparkSession, location: str) -> None:
    """The error is Spark's, as for every other read."""
    table = lakemend.table(spark, location)
    table.append([{"id": 1}])
    (path,) = table.files()["path"].to_pylist()
    Path(path.removeprefix("file://")).unlink()
    with pytest.raises(Exception, match=path.rpartition("/")[2]):
        table.to_arrow()
