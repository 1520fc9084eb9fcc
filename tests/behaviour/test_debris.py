"""A job that died while it made a table can run again; data of others is still refused. Stores that are full."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession

from lakemend.errors import NotATableError, StorageError

Door = Callable[[SparkSession, DataFrame, str, str], None]


def ctas(spark: SparkSession, rows: DataFrame, name: str, path: str) -> None:
    rows.createOrReplaceTempView("debris_rows")
    spark.sql(f"CREATE TABLE {name} PARTITIONED BY (p) AS SELECT * FROM debris_rows")


def create(spark: SparkSession, rows: DataFrame, name: str, path: str) -> None:
    spark.sql(f"CREATE TABLE {name} (id BIGINT, p BIGINT) PARTITIONED BY (p)")
    rows.writeTo(name).append()


def save_as_table(spark: SparkSession, rows: DataFrame, name: str, path: str) -> None:
    rows.write.format("delta").partitionBy("p").saveAsTable(name)


def append_as_table(spark: SparkSession, rows: DataFrame, name: str, path: str) -> None:
    rows.write.format("delta").partitionBy("p").mode("append").saveAsTable(name)


def save(spark: SparkSession, rows: DataFrame, name: str, path: str) -> None:
    rows.write.format("lakemend").partitionBy("p").save(path)


def append(spark: SparkSession, rows: DataFrame, name: str, path: str) -> None:
    rows.write.format("lakemend").partitionBy("p").mode("append").save(path)


DOORS: list[Door] = [ctas, create, save_as_table, append_as_table, save, append]


@pytest.mark.parametrize("left", ["ours", "ours and foreign"])
@pytest.mark.parametrize("door", DOORS)
def test_a_table_that_was_never_finished(
    spark: SparkSession, namespace: str, warehouse: Path, tmp_path: Path, door: Door, left: str
) -> None:
    rows = spark.sql("SELECT id, id % 2 AS p FROM range(10)")
    name, path = f"{namespace}.t", str(tmp_path / "t")
    place = Path(path) if door in (save, append) else warehouse / namespace.removeprefix("lake.") / "t"
    # What is on the disk when the driver dies right before its commit: CREATE TABLE alone leaves nothing.
    (ctas if door is create else door)(spark, rows, name, path)
    shutil.copytree(place, tmp_path / "copy")
    if door in (save, append):
        shutil.rmtree(place)
    else:
        spark.sql(f"DROP TABLE {name}")
    shutil.copytree(tmp_path / "copy", place, ignore=shutil.ignore_patterns("_delta_log"))
    debris = [*place.rglob("*.parquet")]
    assert debris
    if left == "ours":
        door(spark, rows, name, path)
        found = spark.read.format("lakemend").load(str(place))
        assert sorted(row.id for row in found.collect()) == [*range(10)]
        return
    foreign = place / "p=0" / "data.parquet"
    foreign.parent.mkdir(exist_ok=True)
    shutil.copy(debris[0], foreign)
    with pytest.raises(NotATableError):
        door(spark, rows, name, path)
    assert foreign.exists() and not (place / "_delta_log").exists()
    shutil.rmtree(place)


@pytest.mark.parametrize("statement", ["append", "update", "delete"])
def test_a_store_that_cannot_be_written(spark: SparkSession, namespace: str, warehouse: Path, statement: str) -> None:
    """A file where the tasks need a directory: what a disk says that is full or read-only comes the same way."""
    name = f"{namespace}.t"
    spark.sql(f"CREATE TABLE {name} (id BIGINT, p BIGINT) PARTITIONED BY (p)")
    spark.sql(f"INSERT INTO {name} SELECT id, 0 FROM range(10)")
    place = warehouse / namespace.removeprefix("lake.") / "t"
    (place / "p=1").write_text("in the way")
    run = {
        "append": f"INSERT INTO {name} VALUES (1, 1)",
        "update": f"UPDATE {name} SET p = 1 WHERE id = 3",
        "delete": f"INSERT OVERWRITE {name} PARTITION (p = 1) SELECT id FROM range(3)",
    }[statement]
    before = sorted(str(p) for p in place.rglob("*"))
    with pytest.raises(StorageError) as caught:
        spark.sql(run)
    assert "could not be written" in caught.value.problem and caught.value.cause and caught.value.remedy
    assert spark.table(name).count() == 10
    assert sorted(str(p) for p in place.rglob("*")) == before
