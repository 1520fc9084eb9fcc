"""Strings that are not UTF-8, with NUL or under a collation: no file and no row group that holds a match is skipped."""

from __future__ import annotations

import pytest
from pyspark.sql import DataFrame, SparkSession

import lakemend
from tests.conditions import wrongly

# One file each: bytes of a string.
VALUES = ["61", "41", "6100", "610062", "EFBFBE", "EFBFBD", "FF", "FF41", "C3", "EDA080", "F09F9880", "7A"]
CONDITIONS = [
    "s = {x'FF'}", "s <=> {x'FF41'}", "s < {x'F0'}", "s <= {x'F0'}", "s > {x'C3'}", "s >= {x'EDA080'}", "s <> {x'FF'}",
    "s IN ({x'C3'}, 'z')", "s NOT IN ({x'FF'}, 'a')", "NOT s = {x'EDA080'}", "startswith(s, {x'FF'})",
    "contains(s, {x'41'})",
    "endswith(s, {x'A080'})", "s = {x'EFBFBD'}", "s = {x'610062'}", "s > {x'6100'}", "s < {x'6100'}", "s LIKE 'a%'",
    "s BETWEEN {x'C3'} AND {x'EE'}", "s COLLATE UTF8_LCASE = 'A'", "s COLLATE UTF8_LCASE IN ('A', 'Z')",
    "s = 'A' COLLATE UTF8_LCASE", "CAST(s AS BINARY) = x'FF'", "b = x'FF41'", "b > x'F0'", "b < x'EF'",
]  # fmt: skip


def spelled(condition: str) -> str:
    return condition.replace("{", "CAST(").replace("}", " AS STRING)")


def rows(spark: SparkSession) -> DataFrame:
    listed = ", ".join(f"({i}, CAST(x'{v}' AS STRING), x'{v}')" for i, v in enumerate(VALUES))
    return spark.sql(f"SELECT * FROM VALUES {listed} AS t(id, s, b)")


@pytest.fixture(params=["copy-on-write", "merge-on-read"])
def table(request: pytest.FixtureRequest, spark: SparkSession, namespace: str) -> str:
    name = f"{namespace}.t"
    verbs = ", ".join(f"'write.{verb}.mode' = '{request.param}'" for verb in ("update", "delete", "merge"))
    spark.sql(f"CREATE TABLE {name} (id INT, s STRING, b BINARY) TBLPROPERTIES ({verbs})")
    rows(spark).repartitionByRange(len(VALUES), "id").writeTo(name).append()
    return name


def ids(frame: DataFrame) -> list[int]:
    return sorted(row.id for row in frame.select("id").collect())


@pytest.mark.either("table")
def test_no_file_is_skipped(spark: SparkSession, table: str) -> None:
    """The mode of changes has no part in reads: it is one of them."""
    known = spark.createDataFrame([(i, bytearray.fromhex(v)) for i, v in enumerate(VALUES)], "id INT, b BINARY")
    known = known.selectExpr("id", "CAST(b AS STRING) AS s", "b")
    wrong = wrongly(spark.table(table), known, [*map(spelled, CONDITIONS)])
    assert not wrong, "\n".join(wrong)


def test_changes_find_every_row(spark: SparkSession, table: str) -> None:
    spark.sql(f"DELETE FROM {table} WHERE s = CAST(x'FF' AS STRING)")
    spark.sql(f"UPDATE {table} SET id = id + 100 WHERE s < CAST(x'F0' AS STRING) AND s > CAST(x'EFBFBD' AS STRING)")
    two = "SELECT CAST(v AS STRING) AS s FROM VALUES (x'FF41'), (x'EDA080') AS x(v)"
    spark.sql(
        f"""MERGE INTO {table} t USING ({two}) s ON t.s = s.s
        WHEN MATCHED THEN UPDATE SET id = id + 200 WHEN NOT MATCHED THEN INSERT (id) VALUES (-1)"""
    )
    assert ids(spark.table(table)) == [0, 1, 2, 3, 5, 8, 10, 11, 104, 207, 209]
    bytes_of = spark.sql(f"SELECT id, CAST(s AS BINARY) AS b FROM {table}").collect()
    found = {row.id: row.b.hex().upper() for row in bytes_of}
    assert found == {i + (100 if i == 4 else 200 if i in (7, 9) else 0): v for i, v in enumerate(VALUES) if i != 6}


def test_a_partition_value_that_is_not_utf_8_is_refused(spark: SparkSession, namespace: str) -> None:
    spark.sql(f"CREATE TABLE {namespace}.p (id INT, s STRING) PARTITIONED BY (s)")
    with pytest.raises(lakemend.InvalidInputError, match="not UTF-8"):
        spark.sql(f"INSERT INTO {namespace}.p VALUES (1, CAST(x'FF' AS STRING))")
    assert spark.table(f"{namespace}.p").count() == 0
