"""Tables written by Lakemend through Spark, read by deltalake, Polars and DuckDB over Arrow."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from pathlib import Path
from typing import Any

import deltalake
import pytest
from pyroaring import BitMap64
from pyspark.sql import SparkSession

import lakemend
from lakemend.brain import commit
from lakemend.formats.delta.table import DeltaTable
from lakemend.formats.format import Change, Masked
from lakemend.storage import open_store
from tests.interop.readers import FOLLOW_NO_MAPPING, assert_all_agree, by_lakemend, by_query, of_spark, query

AWKWARD = [
    "a b", "a/b", "100%", "a%20b", "ü☃𝄞", "x=y", "c:d", "'q\"", "back\\slash", "tab\there", "a+b?c#d", "..", "~", "*",
    "[x]", "{y}", "a\x7fb", "  ", "null", "__HIVE_DEFAULT_PARTITION", "1", "true", "é", "e\u0301",
]  # fmt: skip
EVERY_TYPE = """
    SELECT id, CAST(id AS tinyint) b, CAST(id AS smallint) s, CAST(id AS int) i, CAST(id AS float) / 2 f,
      CAST(id AS double) / 3 d, id % 2 = 0 yes, CAST(id AS decimal(5,2)) d5, CAST(id AS decimal(18,4)) d18,
      CAST(id AS decimal(38,10)) d38, concat('ü', id) str, CAST(concat('b', id) AS binary) bin,
      date_add(DATE'1969-12-30', CAST(id AS int)) day, timestamp_micros(id * 1000001 - 2000000) ts,
      TIMESTAMP_NTZ'2020-02-29 12:00:00.123456' ntz, array(id, NULL) arr, array(array('x'), NULL) arrs,
      map('k', id, 'n', NULL) m,
      named_struct('x', id, 'y', named_struct('z', 'deep', 'w', array(named_struct('v', id)))) st,
      IF(id = 0, NULL, id) some, CAST(NULL AS string) none, '' empty,
      IF(id = 1, NULL, named_struct('q', CAST(id AS decimal(9,3)))) maybe
    FROM range(5)"""


def mask(location: str, *dead: int) -> None:
    """Kills rows of the table's first file through the commit loop that row changes use."""
    table = DeltaTable(open_store(location))
    base = table.latest()
    masked = Masked(base.files["path"][0].as_py(), 0, BitMap64(dead).serialize())
    commit.commit(table, base, Change("delete", masked=[masked], read_predicate={"op": "ALWAYS_TRUE"}))


def test_every_type(spark: SparkSession, location: str) -> None:
    df = spark.sql(EVERY_TYPE)
    df.coalesce(1).write.format("delta").save(location)
    assert_all_agree(spark, location, of_spark(df))
    types = {f.name: str(f.type) for f in deltalake.DeltaTable(location).schema().fields}
    assert types["ntz"] == 'PrimitiveType("timestamp_ntz")' and types["ts"] == 'PrimitiveType("timestamp")'


def test_empty_tables(spark: SparkSession, location: str) -> None:
    spark.sql(EVERY_TYPE).limit(0).write.format("delta").save(location)
    assert_all_agree(spark, location, [])
    spark.sql(EVERY_TYPE).write.format("delta").mode("append").save(location)
    spark.sql(f"TRUNCATE TABLE lake.delta.`{location}`")
    assert_all_agree(spark, location, [])


@pytest.mark.parametrize("mapping", ["none", "name"])
def test_awkward_partition_values(spark: SparkSession, location: str, mapping: str) -> None:
    df = spark.createDataFrame(list(enumerate([*AWKWARD, None])), "id int, p string")
    df.write.format("delta").partitionBy("p").option("delta.columnMapping.mode", mapping).save(location)
    without = FOLLOW_NO_MAPPING if mapping == "name" else ()
    assert_all_agree(spark, location, of_spark(df), without=without)
    for i, value in enumerate(AWKWARD):
        literal = value.replace("'", "''")
        assert query(location, f"SELECT id FROM t WHERE p = '{literal}'")["id"].to_pylist() == [i], value


def test_an_empty_string_is_null(spark: SparkSession, location: str) -> None:
    spark.createDataFrame([(1, ""), (2, None)], "id int, p string").write.format("delta").partitionBy("p").save(
        location
    )
    expected = of_spark(spark.createDataFrame([(1, None), (2, None)], "id int, p string"))
    assert_all_agree(spark, location, expected)


TYPED: dict[str, list[Any]] = {
    "date": [dt.date(1200, 1, 1), dt.date(2024, 2, 29), None],
    "timestamp": [dt.datetime(2024, 2, 29, 12, 0, 0, 1), dt.datetime(1969, 12, 31, 23, 59, 59, 999999), None],
    "timestamp_ntz": [dt.datetime(2024, 2, 29, 12, 0, 0, 1), dt.datetime(2024, 3, 1), None],
    "decimal(10,3)": [Decimal("-1.500"), Decimal("1234567.001"), Decimal("0.000"), None],
    "boolean": [True, False, None],
    "tinyint": [-128, 9, 10, None],
    "smallint": [-300, 9, None],
    "int": [-(2**31), 9, 10, None],
    "bigint": [-(2**63), 2**63 - 1, None],
    "float": [-1.5, 0.25, None],
    "double": [-1.5, 1e300, None],
}


@pytest.mark.parametrize("type", TYPED)
def test_typed_partition_values(spark: SparkSession, location: str, type: str) -> None:
    df = spark.createDataFrame(list(enumerate(TYPED[type])), f"id int, p {type}")
    df.write.format("delta").partitionBy("p").save(location)
    # deltalake's Arrow reader spells the fraction of a negative decimal with a sign of its own.
    without = ("deltalake-arrow",) if type.startswith("decimal") else ()
    assert_all_agree(spark, location, of_spark(df), without=without)


@pytest.mark.parametrize("policy", ["classic", "v2"])
def test_many_commits_and_our_checkpoints(spark: SparkSession, location: str, policy: str) -> None:
    first = spark.range(3).selectExpr(
        "id", "CAST(id AS string) AS p", "named_struct('x', id) AS s", "current_timestamp() AS t"
    )
    writer = first.write.format("delta").partitionBy("p").option("delta.checkpointPolicy", policy)
    writer.option("delta.checkpointInterval", "4").save(location)
    for number in range(1, 11):
        rows = spark.range(number * 10, number * 10 + 3).coalesce(1)
        rows = rows.selectExpr("id", "'a b' AS p", "named_struct('x', id) AS s", "current_timestamp() AS t")
        rows.write.format("delta").mode("append").save(location)
    log = Path(location, "_delta_log")
    assert list(log.glob("*checkpoint*"))
    # From the checkpoint on: what lies before it is not needed.
    for version in range(6):
        (log / f"{version:020d}.json").unlink()
    expected = by_lakemend(spark, location)
    assert len(expected) == 33
    without = ("polars", "deltalake-arrow") if policy == "v2" else ()
    assert_all_agree(spark, location, expected, without=without)
    history = deltalake.DeltaTable(location).history(3)
    assert [h["version"] for h in history] == [10, 9, 8]


@pytest.mark.parametrize("mode", ["name", "id"])
def test_column_mapping(spark: SparkSession, namespace: str, location: str, mode: str) -> None:
    t = f"{namespace}.t"
    spark.sql(
        f"""CREATE TABLE {t} (`the id` bigint, st struct<x: int, `y z`: array<struct<v: string>>>, p string,
            m map<string, int>) USING delta PARTITIONED BY (p) LOCATION '{location}'
            TBLPROPERTIES ('delta.columnMapping.mode' = '{mode}')"""
    )
    row = "({0}, named_struct('x', {0}, 'y z', array(named_struct('v', 'v{0}'))), 'p{0}', map('k', {0}))"
    spark.sql(f"INSERT INTO {t} VALUES {row.format(1)}, {row.format(2)}")
    without = FOLLOW_NO_MAPPING
    assert_all_agree(spark, location, by_lakemend(spark, location), without=without)
    spark.sql(f"ALTER TABLE {t} RENAME COLUMN `the id` TO id")
    spark.sql(f"ALTER TABLE {t} RENAME COLUMN st.x TO xx")
    spark.sql(f"ALTER TABLE {t} DROP COLUMN m")
    spark.sql(f"ALTER TABLE {t} ADD COLUMN m string")
    spark.sql(f"INSERT INTO {t} VALUES (3, NULL, 'p3', 'new m')")
    expected = of_spark(spark.table(t))
    assert any("'new m'" in row for row in expected) and sum("('m', None)" in row for row in expected) == 2
    assert_all_agree(spark, location, expected, without=without)


def test_swapped_columns(spark: SparkSession, namespace: str, location: str) -> None:
    t = f"{namespace}.t"
    spark.sql(f"CREATE TABLE {t} (a int, b int) USING delta LOCATION '{location}'")
    spark.sql(f"INSERT INTO {t} VALUES (1, 2)")
    for old, new in (("a", "c"), ("b", "a"), ("c", "b")):
        spark.sql(f"ALTER TABLE {t} RENAME COLUMN {old} TO {new}")
    spark.sql(f"INSERT INTO {t} (a, b) VALUES (20, 10)")
    assert sorted(map(tuple, spark.sql(f"SELECT a, b FROM {t}").collect())) == [(2, 1), (20, 10)]
    assert spark.sql(f"SELECT a FROM {t} WHERE b = 1").collect() == [(2,)]
    assert_all_agree(spark, location, of_spark(spark.table(t)), without=FOLLOW_NO_MAPPING)


@pytest.mark.parametrize("rows", [10, 30_000])
@pytest.mark.parametrize("mapping", ["none", "name"])
def test_deletion_vectors(spark: SparkSession, location: str, rows: int, mapping: str) -> None:
    df = spark.range(0, rows, numPartitions=1).selectExpr(
        "id", "named_struct('x', id, 'l', array(id)) AS s", "concat('p', id % 1) AS p"
    )
    df.write.format("delta").option("delta.columnMapping.mode", mapping).partitionBy("p").save(location)
    dead = list(range(0, rows, 3))
    mask(location, *dead)
    mask(location, 1, 2)
    expected = of_spark(df.where("id % 3 <> 0 AND id > 2"))
    without = FOLLOW_NO_MAPPING if mapping == "name" else ("deltalake-arrow",)
    assert_all_agree(spark, location, expected, without=without)
    assert lakemend.table(spark, location).to_df().count() == len(expected)
    spark.sql("SELECT -1L AS id, NULL AS s, 'p0' AS p").write.format("delta").mode("append").save(location)
    assert len(by_query(location)) == len(expected) + 1


def test_evolution_and_replacement(spark: SparkSession, namespace: str, location: str) -> None:
    t = f"{namespace}.t"
    spark.sql(f"CREATE TABLE {t} USING delta LOCATION '{location}' AS SELECT 1 AS id, named_struct('a', 1) AS s")
    wider = spark.sql("SELECT 2 AS id, named_struct('a', 2, 'b', 'x') AS s, array(1.5D) AS more")
    lakemend.table(spark, t).append(wider, schema_evolution=True)
    assert_all_agree(spark, location, of_spark(spark.table(t)))
    spark.sql(
        f"CREATE OR REPLACE TABLE {t} USING delta PARTITIONED BY (day) AS SELECT DATE'2024-01-01' AS day, 'x' AS v"
    )
    assert_all_agree(spark, location, of_spark(spark.table(t)))
    assert by_query(location) == ["[('day', datetime.date(2024, 1, 1)), ('v', 'x')]"]
    old = deltalake.DeltaTable(location, version=1)
    assert old.to_pyarrow_table().num_rows == 2
    assert deltalake.DeltaTable(location).schema().fields[0].name == "day"


def test_statistics_are_used_by_others(spark: SparkSession, location: str) -> None:
    for start in (0, 10, 20):
        rows = spark.range(start, start + 10).coalesce(1)
        rows = rows.selectExpr(
            "id", "concat('s', id) AS s", "timestamp_micros(id * 999) AS t", "CAST(id AS decimal(9,2)) AS d"
        )
        rows.write.format("delta").mode("append").save(location)
    for where, count in {
        "id > 12": 17, "id = 25": 1, "s = 's13'": 1, "d >= 20.0": 10, "t > timestamp '1970-01-01T00:00:00.019'": 10,
    }.items():  # fmt: skip
        assert query(location, f"SELECT count(*) AS n FROM t WHERE {where}")["n"].to_pylist() == [count], where
    actions = deltalake.DeltaTable(location).get_add_actions(flatten=True)
    assert sorted(actions["max.id"].to_pylist()) == [9, 19, 29] and actions["num_records"].to_pylist() == [10, 10, 10]
