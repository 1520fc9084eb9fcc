"""What Spark is told about the size of a table, which decides what it broadcasts: never less than its rows take."""

from __future__ import annotations

import json

from pyspark.sql import SparkSession

import lakemend
from lakemend.brain.row_sizes import row_bytes
from lakemend.replace import kept
from tests.plans.exchanges import ran
from tests.settings import settings

TYPES = """b BOOLEAN, t TINYINT, s SMALLINT, i INT, l BIGINT, f FLOAT, d DOUBLE, m DECIMAL(18,2), n DECIMAL(19,2),
    c STRING, v VARCHAR(3), x BINARY, day DATE, at TIMESTAMP, local TIMESTAMP_NTZ, a ARRAY<INT>, k MAP<STRING, BIGINT>,
    r STRUCT<a: INT, b: ARRAY<STRUCT<c: DOUBLE, d: STRING>>>"""


def size(spark: SparkSession, query: str) -> int:
    return int(str(spark.sql(query)._jdf.queryExecution().optimizedPlan().stats().sizeInBytes()))


def test_rows_of_every_type(spark: SparkSession, namespace: str) -> None:
    spark.sql(f"CREATE TABLE {namespace}.t ({TYPES})")
    nulls = ", ".join("NULL" for _ in spark.table(f"{namespace}.t").columns)
    spark.sql(f"INSERT INTO {namespace}.t SELECT {nulls} FROM range(2000)")
    schema = json.loads(spark.table(f"{namespace}.t").schema.json())
    assert size(spark, f"SELECT * FROM {namespace}.t") == 2000 * row_bytes(schema)
    assert size(spark, f"SELECT i, l FROM {namespace}.t") == 2000 * (8 + 4 + 8)
    spark.sql(f"ALTER TABLE {namespace}.t SET TBLPROPERTIES ('write.delete.mode' = 'merge-on-read')")
    spark.sql(f"INSERT INTO {namespace}.t (i) SELECT CAST(id AS INT) FROM range(100)")
    spark.sql(f"DELETE FROM {namespace}.t WHERE i < 50")
    assert size(spark, f"SELECT i FROM {namespace}.t") == 2050 * (8 + 4)


def test_long_text_is_as_large_as_its_files(spark: SparkSession, namespace: str) -> None:
    rows = spark.sql("SELECT concat_ws(',', transform(sequence(1, 200), n -> hash(id, n))) AS s FROM range(20)")
    rows.coalesce(1).writeTo(f"{namespace}.t").create()
    assert size(spark, f"SELECT * FROM {namespace}.t") == lakemend.table(spark, f"{namespace}.t").detail()["bytes"]


def test_many_rows_in_a_small_file_are_not_broadcast(spark: SparkSession, namespace: str) -> None:
    for name in ("a", "b"):
        spark.range(20_000).selectExpr("id DIV 100 AS id").coalesce(1).writeTo(f"{namespace}.{name}").create()
    a = lakemend.table(spark, f"{namespace}.a")
    stored, rows = a.detail()["bytes"], 20_000 * (8 + 8)
    assert stored < rows
    for threshold, expected in ((stored, False), (rows - 1, False), (rows, True)):
        switched = {"spark.sql.autoBroadcastJoinThreshold": f"{threshold}b", "spark.sql.adaptive.enabled": "false"}
        with settings(spark, switched):
            plan = ran(spark, f"SELECT count(*) FROM {namespace}.a JOIN {namespace}.b USING (id)").plan
            assert ("BroadcastHashJoin" in plan) == expected == bool(a.join_advice(f"{namespace}.b", on="id").broadcast)


def test_rows_that_are_kept_for_a_statement_are_as_large_as_they_turned_out(spark: SparkSession) -> None:
    expected_large = spark.range(1_000_000).where("id % 100000 = 0")
    with kept(spark, expected_large) as rows:
        assert 0 < int(str(rows._jdf.queryExecution().optimizedPlan().stats().sizeInBytes())) < 10_000
        assert rows.count() == 10
