"""Tables by path: every save mode on missing and existing paths, the `delta` alias, SQL on paths."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from itertools import product
from pathlib import Path

import pytest
from pyspark.errors import AnalysisException
from pyspark.sql import SparkSession

import lakemend
from lakemend.errors import NotATableError, SchemaMismatchError, TableNotFoundError


def ids(spark: SparkSession, location: str) -> list[int]:
    return sorted(r.id for r in spark.read.format("lakemend").load(location).collect())


@pytest.mark.parametrize("source", ["lakemend", "delta"])
@pytest.mark.parametrize("partitioned", [False, True])
@pytest.mark.parametrize(("mode", "exists"), list(product(["append", "overwrite", "error", "ignore"], [False, True])))
def test_save_modes(
    spark: SparkSession, location: str, source: str, partitioned: bool, exists: bool, mode: str
) -> None:
    def save(first: int, how: str) -> None:
        writer = spark.range(first, first + 3).selectExpr("id", "id % 2 AS p").write.format(source).mode(how)
        (writer.partitionBy("p") if partitioned else writer).save(location)

    if exists:
        save(0, "error")
    if exists and mode == "error":
        with pytest.raises((AnalysisException, lakemend.TableExistsError)):
            save(10, mode)
        assert ids(spark, location) == [0, 1, 2]
        return
    save(10, mode)
    expected = {"append": [0, 1, 2, 10, 11, 12], "overwrite": [10, 11, 12], "ignore": [0, 1, 2]}
    assert ids(spark, location) == (expected[mode] if exists else [10, 11, 12])
    detail = lakemend.table(spark, location).detail()
    assert detail["partitioning"] == (["p"] if partitioned else [])


def test_partition_by_that_does_not_fit(spark: SparkSession, location: str) -> None:
    spark.range(3).selectExpr("id", "id % 2 AS p").write.format("delta").save(location)
    with pytest.raises(SchemaMismatchError, match="partitionBy"):
        spark.range(3).selectExpr("id", "id % 2 AS p").write.format("delta").mode("append").partitionBy("p").save(
            location
        )
    assert ids(spark, location) == [0, 1, 2]


def test_overwrite_schema(spark: SparkSession, location: str) -> None:
    spark.range(3).write.format("delta").save(location)
    with pytest.raises((AnalysisException, SchemaMismatchError)):
        spark.sql("SELECT 'x' AS s").write.format("delta").mode("overwrite").save(location)
    spark.sql("SELECT 'x' AS s").write.format("delta").mode("overwrite").option("overwriteSchema", "true").save(
        location
    )
    assert spark.read.format("delta").load(location).collect() == [("x",)]
    assert spark.read.format("delta").option("versionAsOf", 0).load(location).count() == 3


def test_merge_schema(spark: SparkSession, location: str) -> None:
    spark.range(1).write.format("delta").save(location)
    spark.sql("SELECT 5L AS id, 'x' AS s").write.format("delta").mode("append").option("mergeSchema", "true").save(
        location
    )
    assert sorted(map(tuple, spark.read.format("delta").load(location).collect())) == [(0, None), (5, "x")]


def test_dynamic_overwrite_option(spark: SparkSession, location: str) -> None:
    spark.range(6).selectExpr("id", "id % 3 AS p").write.format("delta").partitionBy("p").save(location)
    spark.sql("SELECT 100L AS id, 1L AS p").write.format("delta").mode("overwrite").option(
        "partitionOverwriteMode", "dynamic"
    ).save(location)
    assert ids(spark, location) == [0, 2, 3, 5, 100]


def test_sql_on_paths(spark: SparkSession, location: str) -> None:
    spark.range(3).write.format("delta").save(location)
    for name in (f"lake.delta.`{location}`", f"delta.`{location}`", f"lakemend.`{location}`"):
        assert spark.sql(f"SELECT count(*) FROM {name}").first()[0] == 3
    spark.sql(f"INSERT INTO delta.`{location}` VALUES (7)")
    assert spark.sql(f"SELECT count(*) FROM delta.`{location}` VERSION AS OF 0").first()[0] == 3
    assert ids(spark, location) == [0, 1, 2, 7]


def test_missing_and_foreign_paths(spark: SparkSession, tmp_path: Path) -> None:
    with pytest.raises(TableNotFoundError):
        spark.read.format("lakemend").load(str(tmp_path / "missing"))
    (tmp_path / "foreign").mkdir()
    (tmp_path / "foreign" / "a.csv").write_text("1,2")
    with pytest.raises(NotATableError):
        spark.read.format("lakemend").load(str(tmp_path / "foreign"))
    with pytest.raises(NotATableError):
        spark.range(1).write.format("lakemend").mode("append").save(str(tmp_path / "foreign"))
    assert [p.name for p in (tmp_path / "foreign").iterdir()] == ["a.csv"]
    with pytest.raises(TableNotFoundError):
        lakemend.table(spark, str(tmp_path / "missing")).to_df()


@pytest.mark.parametrize("part", ["with space", "ünï", "a%20b", "a+b", "a=b", "#hash", "q?x", "[x]", "{y}"])
def test_odd_paths(spark: SparkSession, tmp_path: Path, part: str) -> None:
    location = str(tmp_path / part / "t")
    spark.range(3).selectExpr("id", "'v' AS p").write.format("delta").partitionBy("p").save(location)
    spark.range(10, 12).selectExpr("id", "'v' AS p").write.format("delta").mode("append").save(location)
    assert ids(spark, location) == [0, 1, 2, 10, 11]
    assert lakemend.table(spark, location).files().num_rows >= 2


def test_user_schema(spark: SparkSession, location: str) -> None:
    spark.range(3).write.format("delta").save(location)
    assert spark.read.schema("id BIGINT").format("delta").load(location).count() == 3
    with pytest.raises(SchemaMismatchError):
        spark.read.schema("id STRING").format("delta").load(location).collect()


def test_table_object_is_lazy(spark: SparkSession, location: str) -> None:
    table = lakemend.table(spark, location)
    assert not table.exists()
    report = table.append([{"id": 1, "p": "a"}, {"id": 2, "p": "b"}], partition_by="p")
    assert (report.version, report.inserted, report.total) == (0, 2, 2)
    report = table.append(spark.sql("SELECT 3L AS id, 'a' AS p"))
    assert (report.version, report.inserted, report.total, report.files_added) == (1, 1, 3, 1)
    report = table.overwrite_partitions(spark.sql("SELECT 9L AS id, 'a' AS p"))
    assert (report.inserted, report.deleted, report.total) == (1, 2, 2)
    report = table.overwrite(spark.sql("SELECT 0L AS id, 'z' AS p"))
    assert (report.version, report.inserted, report.deleted, report.total) == (3, 1, 2, 1)
    assert table.to_arrow(columns=["id"]).to_pylist() == [{"id": 0}]
    Path(location, "..", "loose").mkdir()
    Path(location, "..", "loose", "notes.txt").write_text("no table")
    assert not lakemend.table(spark, str(Path(location, "..", "loose"))).exists()
    with pytest.raises(lakemend.InvalidInputError):
        table.append(object())


@pytest.mark.parametrize(
    "change",
    [
        lambda old: old.append([{"id": 1}]),
        lambda old: old.replace_where([{"id": 1}], where="id = 1"),
        lambda old: old.update({"id": "id + 1"}),
        lambda old: old.update({"id": "id + 1"}, dry_run=True),
        lambda old: old.update().set("id", "7").execute(),
        lambda old: old.delete(),
        lambda old: old.delete("id = 1", dry_run=True),
    ],
)
def test_an_earlier_version_is_never_written(
    spark: SparkSession, location: str, change: Callable[[lakemend.Table], object]
) -> None:
    table = lakemend.table(spark, location)
    table.append([{"id": 1}])
    for old in (table.as_of(version=0), table.as_of(timestamp=datetime.now(UTC))):
        with pytest.raises(lakemend.TableError, match="read-only"):
            change(old)
    assert table.version == 0


def test_idempotent_writes(spark: SparkSession, location: str) -> None:
    table = lakemend.table(spark, location)
    table.append([{"id": 1}])
    for _ in range(2):
        table.append(spark.sql("SELECT 2L AS id"), options={"txnAppId": "job", "txnVersion": "5"})
    assert ids(spark, location) == [1, 2]
    table.append(spark.sql("SELECT 3L AS id"), options={"txnAppId": "job", "txnVersion": "6"})
    assert ids(spark, location) == [1, 2, 3]
