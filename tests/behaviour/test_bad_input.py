"""Bad input through every door: one typed error with problem, cause and remedy, and nothing is written.

The doors are the Python API, `spark.sql` and `spark.read`/`df.write`. What Spark's own parser or analyzer refuses
before a table is involved (a column named twice, say) stays Spark's error.
"""

from __future__ import annotations

import os
from pathlib import Path

import deltalake
import pytest
from pyspark.errors import AnalysisException, PySparkException
from pyspark.sql import SparkSession
from pyspark.sql import functions as F
from pyspark.sql import types as T

import lakemend
from lakemend.errors import (
    ConstraintViolationError,
    InvalidInputError,
    LakemendError,
    NotATableError,
    SchemaMismatchError,
    TableExistsError,
    TableNotFoundError,
)
from tests.behaviour.doors import CREATES, Door, assert_full, listing, made

# ---- what is not there, or is something else


def test_a_missing_path(spark: SparkSession, location: str, read: Door) -> None:
    with pytest.raises(TableNotFoundError) as caught:
        read(spark, location)
    assert_full(caught.value, location)
    assert not os.path.exists(location)


def test_a_table_the_catalog_does_not_have(spark: SparkSession, namespace: str) -> None:
    missing = f"{namespace}.missing"
    for look in (
        lambda: lakemend.table(spark, missing).to_df(),
        lambda: spark.table(missing),
        lambda: spark.sql(f"SELECT * FROM {missing}"),
        lambda: spark.sql(f"INSERT INTO {missing} VALUES (1)"),
        lambda: spark.sql(f"ALTER TABLE {missing} ADD COLUMN n int"),
        lambda: spark.sql(f"DROP TABLE {missing}"),
        lambda: spark.range(1).writeTo(missing).append(),
        lambda: spark.range(1).write.insertInto(missing),
    ):
        with pytest.raises(TableNotFoundError) as caught:
            look()
        assert_full(caught.value, "missing")
    spark.sql(f"DROP TABLE IF EXISTS {missing}")
    with pytest.raises(AnalysisException):
        spark.table("spark_catalog.default.missing")


def test_a_directory_that_is_no_table(spark: SparkSession, location: str, read: Door, create: Door) -> None:
    os.makedirs(location)
    Path(location, "notes.txt").write_text("mine")
    before = listing(location)
    with pytest.raises(NotATableError) as caught:
        read(spark, location)
    assert_full(caught.value, location)
    with pytest.raises(NotATableError) as caught:
        create(spark, spark.range(3), location)
    assert_full(caught.value, location)
    assert listing(location) == before


def test_a_file_in_place_of_the_directory(spark: SparkSession, location: str, read: Door, create: Door) -> None:
    Path(location).write_text("a file")
    with pytest.raises(NotATableError) as caught:
        read(spark, location)
    assert_full(caught.value, location)
    with pytest.raises(LakemendError):
        create(spark, spark.range(3), location)
    assert Path(location).read_text() == "a file"


def test_a_path_below_a_file(spark: SparkSession, tmp_path: Path, create: Door) -> None:
    (tmp_path / "file").write_text("a file")
    with pytest.raises(LakemendError):
        create(spark, spark.range(3), str(tmp_path / "file" / "table"))
    assert (tmp_path / "file").read_text() == "a file"


def test_a_table_is_not_made_twice(spark: SparkSession, location: str) -> None:
    made(spark, location)
    before = listing(location)
    for door in ("sql", "dataframe"):
        with pytest.raises((TableExistsError, AnalysisException)):
            CREATES[door](spark, spark.range(3), location)
    assert listing(location) == before


# ---- rows that do not fit

GOOD = "SELECT 1 AS id, 'x' AS s, named_struct('a', 1, 'b', array(named_struct('c', 2))) AS st"
NEVER_FIT = {
    "an extra column": (f"{GOOD}, 2 AS more", "more"),
    "an array for a number": ("SELECT array(1) AS id, 'x' AS s, NULL AS st", "id"),
    "text for a number": ("SELECT 'abc' AS id, 'x' AS s, NULL AS st", "id"),
    "a nested type": ("SELECT 1 AS id, 'x' AS s, named_struct('a', array(1), 'b', NULL) AS st", "a"),
    "an extra nested field": ("SELECT 1 AS id, 'x' AS s, named_struct('a', 1, 'b', NULL, 'z', 3) AS st", "z"),
    "a missing nested field": ("SELECT 1 AS id, 'x' AS s, named_struct('a', 1) AS st", "b"),
    "a field deep inside": (
        "SELECT 1 AS id, 'x' AS s, named_struct('a', 1, 'b', array(named_struct('c', date'2020-01-01'))) AS st",
        "c",
    ),
    "a column twice by case": (f"{GOOD}, 2 AS ID", "ID"),
}


@pytest.mark.parametrize("wrong", NEVER_FIT)
def test_rows_of_another_schema(spark: SparkSession, location: str, append: Door, wrong: str) -> None:
    spark.sql(GOOD).write.format("delta").save(location)
    before = listing(location)
    query, named = NEVER_FIT[wrong]
    with pytest.raises(SchemaMismatchError) as caught:
        append(spark, spark.sql(query), location)
    assert_full(caught.value, named, location)
    assert isinstance(caught.value.__cause__, AnalysisException)
    assert listing(location) == before


def test_rows_of_another_schema_in_a_catalog(spark: SparkSession, namespace: str) -> None:
    spark.sql(f"CREATE TABLE {namespace}.t AS {GOOD}")
    for statement in (
        f"INSERT INTO {namespace}.t SELECT 1",
        f"INSERT INTO {namespace}.t VALUES (1, 'x', NULL, 4)",
        f"INSERT INTO {namespace}.t VALUES (array(1), 'x', NULL)",
        f"INSERT OVERWRITE {namespace}.t VALUES (array(1), 'x', NULL)",
    ):
        with pytest.raises(SchemaMismatchError) as caught:
            spark.sql(statement)
        assert_full(caught.value, f"`{namespace.split('.')[1]}`.`t`")
    with pytest.raises(SchemaMismatchError):
        spark.sql("SELECT array(1) AS id").writeTo(f"{namespace}.t").overwrite(F.lit(True))
    with pytest.raises(SchemaMismatchError):
        spark.sql("SELECT array(1) AS id, 'x' AS s, NULL AS st").write.insertInto(f"{namespace}.t")
    assert lakemend.table(spark, f"{namespace}.t").version == 0


def test_tables_of_others_keep_sparks_errors(spark: SparkSession) -> None:
    spark.sql("CREATE TABLE spark_catalog.default.others (id int) USING parquet")
    try:
        with pytest.raises(AnalysisException) as caught:
            spark.sql("INSERT INTO spark_catalog.default.others SELECT 1, 2")
        assert not isinstance(caught.value, LakemendError)
    finally:
        spark.sql("DROP TABLE spark_catalog.default.others")


def test_missing_columns_are_null_and_case_does_not_matter(spark: SparkSession, location: str, append: Door) -> None:
    spark.sql(GOOD).write.format("delta").save(location)
    append(spark, spark.sql("SELECT 'y' AS S, 2 AS ID"), location)
    assert [tuple(r) for r in spark.read.format("delta").load(location).where("id = 2").collect()] == [(2, "y", None)]
    assert spark.read.format("delta").load(location).columns == ["id", "s", "st"]


def test_a_number_that_does_not_fit(spark: SparkSession, location: str, append: Door) -> None:
    spark.sql("SELECT 1 AS id").write.format("delta").save(location)
    before = listing(location)
    with pytest.raises(PySparkException, match="(?i)overflow"):
        append(spark, spark.sql("SELECT 5000000000 AS id"), location)
    assert listing(location) == before


@pytest.mark.parametrize(
    "row",
    [
        "NULL AS id, 'x' AS s, named_struct('a', 1) AS st",
        "1 AS id, 'x' AS s, named_struct('a', CAST(NULL AS int)) AS st",
    ],
)
def test_null_into_not_null(spark: SparkSession, location: str, append: Door, row: str) -> None:
    spark.sql(f"CREATE TABLE delta.`{location}` (id bigint NOT NULL, s string, st struct<a: int NOT NULL>) USING delta")
    before = listing(location)
    rows = spark.sql(f"SELECT {row} FROM range(1)")
    with pytest.raises((ConstraintViolationError, SchemaMismatchError)) as caught:
        append(spark, rows, location)
    assert_full(caught.value, "id" if "NULL AS id" in row else "a")
    with pytest.raises((ConstraintViolationError, SchemaMismatchError)):
        append(spark, spark.sql("SELECT 'no id' AS s, named_struct('a', 1) AS st"), location)
    assert listing(location) == before


def test_evolution_refuses_what_cannot_widen(spark: SparkSession, location: str) -> None:
    spark.sql(GOOD).write.format("delta").save(location)
    before = listing(location)
    rows = spark.sql("SELECT array(1) AS id, 'x' AS s, 5 AS more")
    for write in (
        lambda: lakemend.table(spark, location).append(rows, schema_evolution=True),
        lambda: rows.write.format("delta").mode("append").option("mergeSchema", "true").save(location),
    ):
        with pytest.raises(SchemaMismatchError) as caught:
            write()
        assert_full(caught.value, "id")
        assert listing(location) == before


# ---- definitions that cannot be


@pytest.mark.parametrize("name", ["a b", "a,b", "a;b", "{a}", "(a)", "a\nb", "a\tb", "a=b"])
def test_names_that_need_mapping(spark: SparkSession, location: str, create: Door, name: str) -> None:
    with pytest.raises(InvalidInputError) as caught:
        create(spark, spark.range(1).withColumnRenamed("id", name), location)
    assert_full(caught.value, repr(name), "delta.columnMapping.mode")
    assert not os.path.exists(location)


@pytest.mark.parametrize("name", ["a.b", "a`b", "😀", "_x", "_file", "_pos", "_partition", "Ünï", "a-b", "1", "'q\""])
def test_odd_names_are_kept(spark: SparkSession, location: str, create: Door, append: Door, name: str) -> None:
    rows = spark.range(3).select(F.col("id").alias(name), (F.col("id") * 10).alias("other"))
    create(spark, rows, location)
    append(spark, rows, location)
    table = spark.read.format("delta").load(location)
    column = F.col(f"`{name.replace('`', '``')}`")
    assert table.columns == [name, "other"]
    assert sorted(map(tuple, table.collect())) == sorted([(i, i * 10) for i in range(3)] * 2)
    assert sorted(map(tuple, table.where(column == 1).collect())) == [(1, 10)] * 2
    assert table.where(column.isin(0, 2)).count() == 4
    assert table.agg(F.min(column), F.max(column), F.count(column)).first() == (0, 2, 6)
    assert deltalake.DeltaTable(location).to_pyarrow_table().num_rows == 6


@pytest.mark.parametrize("name", ["p q", "p=q/%", "p,q", "p.q", "p`q", "p. q", "π"])
def test_odd_partition_columns_with_mapping(spark: SparkSession, location: str, name: str) -> None:
    rows = spark.range(4).select((F.col("id") % 2).alias(name), "id")
    # Spark parses what it is told to partition by.
    quoted = name if "." in name else f"`{name.replace('`', '``')}`"
    rows.write.format("delta").option("delta.columnMapping.mode", "name").partitionBy(quoted).save(location)
    lakemend.table(spark, location + "2").append(
        rows, partition_by=[name], properties={"delta.columnMapping.mode": "name"}
    )
    for place in (location, location + "2"):
        rows.write.format("delta").mode("append").save(place)
        table = spark.read.format("delta").load(place)
        assert lakemend.table(spark, place).detail()["partitioning"] == [name]
        assert sorted(map(tuple, table.collect())) == sorted([(i % 2, i) for i in range(4)] * 2)
        assert table.where(F.col(f"`{name.replace('`', '``')}`") == 1).count() == 4


def test_a_column_without_a_name(spark: SparkSession, location: str, create: Door) -> None:
    with pytest.raises(InvalidInputError) as caught:
        create(spark, spark.range(1).withColumnRenamed("id", ""), location)
    assert caught.value.problem and caught.value.remedy
    assert not os.path.exists(location)


def test_columns_that_differ_in_case_alone(spark: SparkSession, location: str, create: Door) -> None:
    with pytest.raises((InvalidInputError, AnalysisException), match="(?i)`?a`? already exists|differ"):
        create(spark, spark.sql("SELECT 1 AS a, 2 AS A"), location)
    with pytest.raises((InvalidInputError, AnalysisException)):
        create(spark, spark.sql("SELECT named_struct('x', 1, 'X', 2) AS s"), location)
    assert not os.path.exists(location)


def test_columns_that_differ_in_case_alone_where_case_matters(spark: SparkSession, location: str, create: Door) -> None:
    spark.conf.set("spark.sql.caseSensitive", "true")
    try:
        with pytest.raises(InvalidInputError) as caught:
            create(spark, spark.sql("SELECT 1 AS a, 2 AS A"), location)
        assert_full(caught.value, "a")
    finally:
        spark.conf.unset("spark.sql.caseSensitive")
    assert not os.path.exists(location)


def test_no_columns(spark: SparkSession, location: str, create: Door) -> None:
    with pytest.raises((InvalidInputError, AnalysisException)):
        create(spark, spark.createDataFrame([], T.StructType([])), location)
    with pytest.raises((InvalidInputError, AnalysisException)):
        spark.sql(f"CREATE TABLE delta.`{location}` USING delta")
    assert not os.path.exists(location)


@pytest.mark.parametrize(
    "value",
    ["array(1)", "map(1, 2)", "named_struct('a', 1)", "parse_json('1')"],
    ids=["array", "map", "struct", "variant"],
)
def test_types_nothing_is_partitioned_by(spark: SparkSession, location: str, create: Door, value: str) -> None:
    with pytest.raises(InvalidInputError) as caught:
        create(spark, spark.sql(f"SELECT {value} AS p, 1 AS x"), location, "p")
    assert_full(caught.value, "p")
    assert not os.path.exists(location)


def test_partitioning_by_everything(spark: SparkSession, location: str, create: Door) -> None:
    with pytest.raises(InvalidInputError) as caught:
        create(spark, spark.sql("SELECT 1 AS p, 2 AS q"), location, "p", "q")
    assert_full(caught.value)
    assert not os.path.exists(location)


@pytest.mark.parametrize("by", [("nope",), ("p", "p"), ("p", "P")])
def test_partitioning_by_what_is_not_a_column_once(
    spark: SparkSession, location: str, create: Door, by: tuple[str, ...]
) -> None:
    with pytest.raises((InvalidInputError, AnalysisException)):
        create(spark, spark.sql("SELECT 1 AS p, 2 AS x"), location, *by)
    assert not os.path.exists(location)


@pytest.mark.parametrize("value", ["x" * 256, "ü" * 128, "/" * 90])
def test_a_partition_value_too_long(spark: SparkSession, location: str, create: Door, append: Door, value: str) -> None:
    rows = spark.createDataFrame([(1, value)], "id int, p string")
    with pytest.raises(InvalidInputError) as caught:
        create(spark, rows, location, "p")
    assert_full(caught.value, "p", "255")
    assert not os.path.exists(location) or listing(location) == []
    create(spark, spark.createDataFrame([(1, "ok")], "id int, p string"), location, "p")
    before = listing(location)
    with pytest.raises(InvalidInputError) as caught:
        append(spark, rows, location)
    assert_full(caught.value, "p", "255")
    assert listing(location) == before


@pytest.mark.parametrize("name", ["t" * 300, "ü" * 130])
def test_a_table_name_too_long(spark: SparkSession, namespace: str, warehouse: Path, name: str) -> None:
    for make in (
        lambda: spark.sql(f"CREATE TABLE {namespace}.`{name}` (id int)"),
        lambda: spark.range(1).writeTo(f"{namespace}.`{name}`").create(),
        lambda: spark.range(1).write.saveAsTable(f"{namespace}.`{name}`"),
        lambda: lakemend.table(spark, f"{namespace}.`{name}`").append(spark.range(1)),
    ):
        with pytest.raises(InvalidInputError) as caught:
            make()
        assert_full(caught.value, "255")
    assert spark.sql(f"SHOW TABLES IN {namespace}").count() == 0


def test_a_path_too_long(spark: SparkSession, tmp_path: Path, create: Door) -> None:
    location = str(tmp_path / ("d" * 300))
    with pytest.raises(LakemendError) as caught:
        create(spark, spark.range(1), location)
    assert caught.value.problem and caught.value.remedy
    assert list(tmp_path.iterdir()) == []


def test_names_of_columns_may_be_long(spark: SparkSession, location: str) -> None:
    rows = spark.range(2).withColumnRenamed("id", "c" * 5000)
    rows.write.format("delta").save(location)
    assert spark.read.format("delta").load(location).columns == ["c" * 5000]


@pytest.mark.parametrize(
    ("value", "named"),
    [
        ("NULL", "void"),
        ("named_struct('a', NULL)", "void"),
        ("array()", "void"),
        ("INTERVAL '1' DAY", "interval"),
        ("INTERVAL '1' YEAR", "interval"),
        ("map('k', INTERVAL '1' YEAR)", "interval"),
        ("named_struct()", "struct"),
    ],
)
def test_types_delta_does_not_have(spark: SparkSession, location: str, create: Door, value: str, named: str) -> None:
    with pytest.raises(InvalidInputError) as caught:
        create(spark, spark.sql(f"SELECT {value} AS c, 1 AS x"), location)
    assert_full(caught.value, "c", named)
    assert not os.path.exists(location)


# ---- arguments of the Python API


def test_arguments(spark: SparkSession, location: str) -> None:
    made(spark, location)
    table = lakemend.table(spark, location)
    for wrong in ("", "  ", None, 7):
        with pytest.raises(InvalidInputError):
            lakemend.table(spark, wrong)  # type: ignore[arg-type]
    for rows in ([1, 2], "rows", None, {"id": 1}, 7):
        with pytest.raises(InvalidInputError):
            table.append(rows)
    with pytest.raises(InvalidInputError):
        table.append(spark.sql("SELECT 1L AS id, 'x' AS s"), partition_by="s")
    for version in (-1, True, "1", 1.5):
        with pytest.raises(InvalidInputError):
            table.as_of(version=version)  # type: ignore[arg-type]
    assert table.version == 0


def test_binary_partition_values_that_are_no_text(spark: SparkSession, location: str, create: Door) -> None:
    with pytest.raises(InvalidInputError) as caught:
        create(spark, spark.createDataFrame([(1, bytearray(b"\xff\x00\x80"))], "id int, p binary"), location, "p")
    assert_full(caught.value, "ff")
    assert not os.path.exists(location) or listing(location) == []


@pytest.mark.parametrize("mode", ["copy-on-write", "merge-on-read"])
def test_a_broken_constraint_names_its_table(spark: SparkSession, namespace: str, mode: str) -> None:
    name = f"{namespace}.t"
    verbs = ", ".join(f"'write.{verb}.mode' = '{mode}'" for verb in ("update", "merge"))
    spark.sql(f"CREATE TABLE {name} (id INT NOT NULL, CONSTRAINT positive CHECK (id > 0)) TBLPROPERTIES ({verbs})")
    spark.sql(f"INSERT INTO {name} VALUES (1), (2)")
    for value, told in (("nullif(id, 1)", "NULL"), ("id - 1", "positive")):
        for statement in (
            f"INSERT INTO {name} SELECT {value} FROM VALUES (1), (3) AS x(id)",
            f"UPDATE {name} SET id = {value}",
            f"MERGE INTO {name} t USING (SELECT 1 AS n) s ON t.id = s.n WHEN MATCHED THEN UPDATE SET id = {value}",
        ):
            with pytest.raises(ConstraintViolationError, match=told) as caught:
                spark.sql(statement)
            assert caught.value.table == name, statement
    assert sorted(row.id for row in spark.table(name).collect()) == [1, 2]
