"""Options that name table properties, and the session's defaults: all doors that make a table agree."""

from __future__ import annotations

import logging
from collections.abc import Callable

import pytest
from pyspark.sql import DataFrame, SparkSession

import lakemend
from lakemend.errors import InvalidInputError
from tests.settings import settings

MAPPED = {"delta.columnMapping.mode": "name", "write.update.mode": "copy-on-write", "delta.appendOnly": "true"}
SQL = ", ".join(f"'{key}' = '{value}'" for key, value in MAPPED.items())
Door = Callable[[SparkSession, DataFrame, str, str], object]
CREATES: dict[str, Door] = {
    "save": lambda s, rows, t, path: rows.write.format("delta").options(**MAPPED).save(path),
    "save append": lambda s, rows, t, path: rows.write.format("lakemend").mode("append").options(**MAPPED).save(path),
    "saveAsTable": lambda s, rows, t, path: rows.write.format("delta").options(**MAPPED).saveAsTable(t),
    "saveAsTable lakemend": lambda s, rows, t, path: rows.write.format("lakemend").options(**MAPPED).saveAsTable(t),
    "saveAsTable append": lambda s, rows, t, path: (
        rows.write.format("delta").mode("append").options(**MAPPED).saveAsTable(t)
    ),
    "saveAsTable overwrite": lambda s, rows, t, path: (
        rows.write.format("delta").mode("overwrite").options(**MAPPED).saveAsTable(t)
    ),
    "saveAsTable at a path": lambda s, rows, t, path: (
        rows.write.format("delta").options(**MAPPED).option("path", path).saveAsTable(t)
    ),
    "writeTo option": lambda s, rows, t, path: rows.writeTo(t).options(**MAPPED).create(),
    "writeTo createOrReplace": lambda s, rows, t, path: rows.writeTo(t).options(**MAPPED).createOrReplace(),
    "writeTo tableProperty": lambda s, rows, t, path: (
        rows.writeTo(t)
        .tableProperty("delta.appendOnly", "true")
        .option("DELTA.appendonly", "true")
        .option("delta.columnMapping.mode", "name")
        .option("write.update.mode", "copy-on-write")
        .create()
    ),
    "CTAS": lambda s, rows, t, path: s.sql(f"CREATE TABLE {t} TBLPROPERTIES ({SQL}) AS SELECT 1L AS id"),
    "CTAS with OPTIONS": lambda s, rows, t, path: s.sql(
        f"CREATE TABLE {t} USING delta OPTIONS ({SQL}) AS SELECT 1L AS id"
    ),
    "CREATE with OPTIONS": lambda s, rows, t, path: s.sql(f"CREATE TABLE {t} (id BIGINT) USING delta OPTIONS ({SQL})"),
    "python": lambda s, rows, t, path: lakemend.table(s, t).append(rows, options=MAPPED),
}


def properties(spark: SparkSession, door: str, table: str, path: str) -> dict[str, str]:
    name = f"delta.`{path}`" if door.startswith("save") and "Table" not in door else table
    return {row.key: row.value for row in spark.sql(f"SHOW TBLPROPERTIES {name}").collect()}


@pytest.mark.parametrize(
    "statement", ["CREATE TABLE {} (id INT) USING {}", "CREATE OR REPLACE TABLE {} USING {} AS SELECT 1"]
)
def test_a_format_that_a_statement_names(spark: SparkSession, namespace: str, statement: str) -> None:
    """Also where it is Spark's default source, which its writers name where the program names none."""
    table = f"{namespace}.t"
    for name in ("parquet", "PARQUET", "csv"):
        with pytest.raises(InvalidInputError, match=f"there is no table format '{name}'"):
            spark.sql(statement.format(table, name))
    assert not spark.catalog.tableExists(table)
    spark.sql(statement.format(table, "delta"))
    assert "lakemend.format" not in {row.key for row in spark.sql(f"SHOW TBLPROPERTIES {table}").collect()}


@pytest.mark.parametrize("door", CREATES)
def test_properties_given_as_options(spark: SparkSession, namespace: str, location: str, door: str) -> None:
    CREATES[door](spark, spark.range(3), f"{namespace}.t", location)
    found = properties(spark, door, f"{namespace}.t", location)
    assert {key: found.get(key) for key in MAPPED} == MAPPED
    assert not [key for key in found if key.startswith("option.")]


@pytest.mark.parametrize("door", ["saveAsTable", "writeTo option", "CTAS with OPTIONS", "save"])
def test_defaults_of_the_session(spark: SparkSession, namespace: str, location: str, door: str) -> None:
    prefix = "spark.databricks.delta.properties.defaults."
    wanted = {
        f"{prefix}enableChangeDataFeed": "true",
        f"{prefix}appendOnly": "false",
        f"{prefix}checkpointInterval": "7",
    }
    with settings(spark, wanted):
        CREATES[door](spark, spark.range(3), f"{namespace}.t", location)
    found = properties(spark, door, f"{namespace}.t", location)
    given = MAPPED | {"delta.enableChangeDataFeed": "true", "delta.checkpointInterval": "7"}
    assert {key: found.get(key) for key in given} == given


def test_defaults_are_for_new_tables(spark: SparkSession, namespace: str) -> None:
    table = f"{namespace}.t"
    spark.range(3).writeTo(table).create()
    setting = "spark.databricks.delta.properties.defaults.checkpointInterval"
    with settings(spark, {setting: "7"}):
        spark.range(3).writeTo(table).append()
        spark.range(3).write.format("delta").mode("overwrite").saveAsTable(table)
        spark.sql(f"ALTER TABLE {table} SET TBLPROPERTIES ('mine' = 'x')")
        assert "delta.checkpointInterval" not in properties(spark, "", table, "")
        spark.range(3).writeTo(table).createOrReplace()
        assert properties(spark, "", table, "")["delta.checkpointInterval"] == "7"
    for value in ("many", "0"):
        with settings(spark, {setting: value}), pytest.raises(InvalidInputError, match="defaults.checkpointInterval"):
            spark.range(3).writeTo(f"{table}2").create()
    with (
        settings(spark, {"spark.databricks.delta.properties.defaults.apendOnly": "true"}),
        pytest.raises(InvalidInputError, match=r"did you mean delta\.appendOnly"),
    ):
        spark.sql(f"CREATE TABLE {table}2 (id BIGINT)")
    assert not spark.catalog.tableExists(f"{table}2")


def test_a_property_twice(spark: SparkSession, namespace: str) -> None:
    writer = spark.range(3).writeTo(f"{namespace}.t").tableProperty("delta.appendOnly", "true")
    with pytest.raises(InvalidInputError, match="given twice"):
        writer.option("delta.appendOnly", "false").create()
    assert not spark.catalog.tableExists(f"{namespace}.t")


@pytest.mark.parametrize("door", ["save append", "saveAsTable append", "saveAsTable overwrite"])
def test_a_table_that_is_there_keeps_its_properties(
    spark: SparkSession, namespace: str, location: str, door: str, caplog: pytest.LogCaptureFixture
) -> None:
    table = f"{namespace}.t"
    spark.range(3).writeTo(table).tableProperty("write.update.mode", "merge-on-read").create()
    spark.range(3).write.format("delta").option("write.update.mode", "merge-on-read").save(location)
    before = properties(spark, door, table, location)
    with caplog.at_level(logging.WARNING, "lakemend"):
        CREATES[door](spark, spark.range(3), table, location)
    assert properties(spark, door, table, location) == before
    assert "write.update.mode=copy-on-write: the table has merge-on-read" in caplog.text.replace(
        "update.Mode", "update.mode"
    )
    assert "the table does not have it" in caplog.text and "ALTER TABLE" in caplog.text


def test_no_word_where_the_table_has_it(spark: SparkSession, namespace: str, caplog: pytest.LogCaptureFixture) -> None:
    table = f"{namespace}.t"
    for _ in range(2):
        with caplog.at_level(logging.WARNING, "lakemend"):
            writer = spark.range(3).write.format("delta").mode("append").option("delta.columnMapping.mode", "name")
            writer.option("write.distribution-mode", "hash").saveAsTable(table)
    assert "is ignored" not in caplog.text


def test_a_name_for_a_table_with_other_properties(spark: SparkSession, namespace: str, location: str) -> None:
    spark.range(3).write.format("delta").option("delta.appendOnly", "true").save(location)
    create = f"CREATE TABLE {namespace}.t USING delta LOCATION '{location}' TBLPROPERTIES "
    for told in ("'delta.appendOnly' = 'false'", "'delta.checkpointInterval' = '7'"):
        with pytest.raises(InvalidInputError, match="the table that lies there"):
            spark.sql(f"{create} ({told})")
    spark.sql(f"{create} ('Delta.AppendOnly' = 'true', 'delta.minReaderVersion' = '1')")
    assert spark.table(f"{namespace}.t").count() == 3


def test_partitioned_by_a_field_of_a_struct(spark: SparkSession, namespace: str, location: str) -> None:
    rows, table = spark.sql("SELECT 1L AS id, named_struct('y', 2) AS x"), f"{namespace}.t"
    for door in (
        lambda: rows.write.format("delta").partitionBy("x.y").saveAsTable(table),
        lambda: rows.write.format("delta").partitionBy("x.y").save(location),
        lambda: spark.sql(f"CREATE TABLE {table} PARTITIONED BY (x.y) AS SELECT named_struct('y', 2) AS x"),
    ):
        with pytest.raises(InvalidInputError, match="partition columns are top-level columns"):
            door()
    assert not spark.catalog.tableExists(table)
    spark.sql("SELECT 1L AS id, 2 AS `x.y`").write.format("delta").partitionBy("`x.y`").save(location)
    assert spark.read.format("delta").load(location).count() == 1
