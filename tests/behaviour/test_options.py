"""Options and properties with slips of the keyboard change nothing, through every door."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

import lakemend
from lakemend.errors import InvalidInputError
from tests.settings import settings

Door = Callable[[SparkSession, str, str], object]
DOORS: dict[str, Door] = {
    "overwrite a path": lambda spark, t, path: (
        spark.range(1)
        .selectExpr("id", "'x' p")
        .write.format("delta")
        .mode("overwrite")
        .option("partitionOverwriteMode", "dynmic")
        .save(path)
    ),
    "overwrite a name": lambda spark, t, path: (
        spark.range(1)
        .selectExpr("id", "'x' p")
        .write.mode("overwrite")
        .option("partitionOverwriteMod", "dynamic")
        .insertInto(t)
    ),
    "append": lambda spark, t, path: (
        spark.range(1).selectExpr("id", "'x' p").writeTo(t).option("userMetdata", "x").append()
    ),
    "replace": lambda spark, t, path: (
        spark.range(1).selectExpr("id", "'a' p").writeTo(t).option("txnAppIdd", "x").overwrite(F.col("p") == "a")
    ),
    "create": lambda spark, t, path: spark.range(1).writeTo(f"{t}_new").option("mergeShcema", "true").create(),
    "read a name": lambda spark, t, path: spark.read.option("versionsAsOf", 0).table(t).collect(),
    "read a path": lambda spark, t, path: spark.read.format("delta").option("versionsAsOf", 0).load(path).collect(),
    "python": lambda spark, t, path: lakemend.table(spark, t).append(
        [{"id": 1, "p": "x"}], options={"mergeShcema": "true"}
    ),
    "properties": lambda spark, t, path: spark.sql(f"ALTER TABLE {t} SET TBLPROPERTIES ('write.udpate.mode' = 'x')"),
    "new properties": lambda spark, t, path: spark.sql(
        f"CREATE TABLE {t}_new (id bigint) USING delta TBLPROPERTIES ('delta.apendOnly' = 'true')"
    ),
    "a path with properties": lambda spark, t, path: (
        spark.range(1).write.format("delta").option("write.udpate.mode", "copy-on-write").save(f"{path}_new")
    ),
}


@pytest.mark.parametrize("door", DOORS)
def test_a_slip_changes_nothing(spark: SparkSession, namespace: str, location: str, door: str) -> None:
    table = f"{namespace}.t"
    spark.sql(f"CREATE TABLE {table} (id bigint, p string) USING delta PARTITIONED BY (p) LOCATION '{location}'")
    spark.sql(f"INSERT INTO {table} VALUES (1, 'a'), (2, 'b')")
    with pytest.raises(InvalidInputError, match="did you mean|cannot be"):
        DOORS[door](spark, table, location)
    assert sorted(r.id for r in spark.table(table).collect()) == [1, 2]
    assert lakemend.table(spark, table).version == 1
    assert not spark.catalog.tableExists(f"{table}_new")


def test_options_of_spark_s_file_sources_work(spark: SparkSession, namespace: str) -> None:
    table = f"{namespace}.t"
    frame = spark.range(10).coalesce(1)
    frame.writeTo(table).option("MaxRecordsPerFile", 4).option("compression", "zstd").create()
    files = lakemend.table(spark, table).files().to_pylist()
    assert sorted(f["rows"] for f in files) == [2, 4, 4]
    assert all(f["path"].endswith(".zstd.parquet") for f in files)
    with settings(spark, {"spark.sql.files.maxRecordsPerFile": "3"}):
        frame.writeTo(f"{table}2").option("maxRecordsPerFile", " -1 ").create()
    assert [f["rows"] for f in lakemend.table(spark, f"{table}2").files().to_pylist()] == [10]
    with settings(spark, {"spark.sql.files.maxRecordsPerFile": "5"}):
        frame.writeTo(table).append()
        spark.sql(f"UPDATE {table} SET id = id + 100")
    assert max(f["rows"] for f in lakemend.table(spark, table).files().to_pylist()) <= 5
    assert sorted(r.id for r in spark.table(table).collect()) == sorted([*range(100, 110)] * 2)
