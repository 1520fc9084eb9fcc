"""Namespaces, CREATE/REPLACE/DROP/ALTER, CTAS and RTAS, SHOW and DESCRIBE, through plain Spark SQL."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.errors import AnalysisException
from pyspark.sql import SparkSession

import lakemend
from lakemend.errors import InvalidInputError, SchemaMismatchError


def rows(spark: SparkSession, query: str) -> list[tuple]:
    return sorted(tuple(r) for r in spark.sql(query).collect())


def test_namespaces(spark: SparkSession) -> None:
    spark.sql("CREATE NAMESPACE lake.inventory COMMENT 'what is there'")
    assert ("inventory",) in rows(spark, "SHOW NAMESPACES IN lake")
    described = dict(rows(spark, "DESCRIBE NAMESPACE EXTENDED lake.inventory"))
    assert described["Comment"] == "what is there"
    with pytest.raises(AnalysisException, match="SCHEMA_ALREADY_EXISTS"):
        spark.sql("CREATE NAMESPACE lake.inventory")
    spark.sql("CREATE NAMESPACE IF NOT EXISTS lake.inventory")
    spark.sql("CREATE TABLE lake.inventory.t (id INT)")
    with pytest.raises(AnalysisException):
        spark.sql("DROP NAMESPACE lake.inventory")
    assert rows(spark, "SHOW TABLES IN lake.inventory") == [("inventory", "t", False)]
    spark.sql("DROP NAMESPACE lake.inventory CASCADE")
    assert ("inventory",) not in rows(spark, "SHOW NAMESPACES IN lake")
    with pytest.raises(AnalysisException):
        spark.sql("SHOW TABLES IN lake.inventory").collect()


def test_create_describe_drop(spark: SparkSession, namespace: str) -> None:
    spark.sql(
        f"CREATE TABLE {namespace}.t (id BIGINT NOT NULL COMMENT 'key', s STRUCT<a: INT, b: ARRAY<STRING>>, day DATE) "
        "PARTITIONED BY (day) COMMENT 'a table' TBLPROPERTIES ('lakemend.note' = 'x', 'delta.appendOnly' = 'false')"
    )
    described = {r[0]: r[1] for r in spark.sql(f"DESCRIBE TABLE EXTENDED {namespace}.t").collect()}
    assert described["id"] == "bigint"
    assert described["Provider"] == "delta"
    assert described["Comment"] == "a table"
    assert spark.table(f"{namespace}.t").schema["id"].nullable is False
    properties = dict(rows(spark, f"SHOW TBLPROPERTIES {namespace}.t"))
    assert properties["lakemend.note"] == "x"
    assert "PARTITIONED BY (day)" in spark.sql(f"SHOW CREATE TABLE {namespace}.t").first()[0]
    assert rows(spark, f"SHOW COLUMNS IN {namespace}.t") == [("day",), ("id",), ("s",)]
    spark.sql(f"DROP TABLE {namespace}.t")
    with pytest.raises(lakemend.TableNotFoundError):
        spark.table(f"{namespace}.t").collect()
    spark.sql(f"DROP TABLE IF EXISTS {namespace}.t")


def test_create_twice(spark: SparkSession, namespace: str) -> None:
    spark.sql(f"CREATE TABLE {namespace}.t (id INT)")
    with pytest.raises(AnalysisException, match="ALREADY_EXISTS"):
        spark.sql(f"CREATE TABLE {namespace}.t (id INT)")
    spark.sql(f"CREATE TABLE IF NOT EXISTS {namespace}.t (other INT)")
    assert spark.table(f"{namespace}.t").columns == ["id"]


def test_create_as_select_is_one_version(spark: SparkSession, namespace: str) -> None:
    spark.sql(f"CREATE TABLE {namespace}.t PARTITIONED BY (p) AS SELECT id, id % 3 AS p FROM range(10)")
    table = lakemend.table(spark, f"{namespace}.t")
    assert [h["operation"] for h in table.history()] == ["CREATE TABLE AS SELECT"]
    assert table.to_df().count() == 10


def test_failed_create_as_select_leaves_nothing(spark: SparkSession, namespace: str, warehouse: Path) -> None:
    with pytest.raises(Exception, match="DIVIDE_BY_ZERO|divide"):
        spark.sql(f"CREATE TABLE {namespace}.t AS SELECT 1 / (id - 5) AS x FROM range(10)")
    assert rows(spark, f"SHOW TABLES IN {namespace}") == []
    left = [p for p in (warehouse / namespace.split(".")[1]).rglob("*") if p.is_file() and "namespace" not in p.name]
    assert left == []


def test_replace_as_select_is_atomic(spark: SparkSession, namespace: str) -> None:
    spark.sql(f"CREATE TABLE {namespace}.t AS SELECT id FROM range(10)")
    with pytest.raises(Exception, match="DIVIDE_BY_ZERO|divide"):
        spark.sql(f"REPLACE TABLE {namespace}.t AS SELECT 1 / (id - 5) AS x FROM range(10)")
    assert spark.table(f"{namespace}.t").columns == ["id"]
    assert spark.table(f"{namespace}.t").count() == 10
    # Reading the table it replaces.
    spark.sql(
        f"CREATE OR REPLACE TABLE {namespace}.t PARTITIONED BY (p) "
        f"AS SELECT id + 1 AS x, id % 2 AS p FROM {namespace}.t"
    )
    assert rows(spark, f"SELECT sum(x), count(*) FROM {namespace}.t") == [(55, 10)]
    assert rows(spark, f"SELECT count(*) FROM {namespace}.t VERSION AS OF 0") == [(10,)]
    assert spark.sql(f"SELECT * FROM {namespace}.t VERSION AS OF 0").columns == ["id"]
    with pytest.raises(AnalysisException):
        spark.sql(f"REPLACE TABLE {namespace}.missing AS SELECT 1 AS x")


def test_external_table(spark: SparkSession, namespace: str, tmp_path: Path) -> None:
    place = tmp_path / "far away" / "t%20x"
    spark.sql(f"CREATE TABLE {namespace}.t (id INT) LOCATION '{place}'")
    spark.sql(f"INSERT INTO {namespace}.t VALUES (1), (2)")
    assert spark.read.format("lakemend").load(str(place)).count() == 2
    spark.sql(f"DROP TABLE {namespace}.t")
    assert (place / "_delta_log").is_dir()
    spark.sql(f"CREATE TABLE {namespace}.again USING delta LOCATION '{place}'")
    assert spark.table(f"{namespace}.again").count() == 2


def test_rename_table(spark: SparkSession, namespace: str) -> None:
    spark.sql(f"CREATE TABLE {namespace}.old AS SELECT 1 AS x")
    spark.sql(f"ALTER TABLE {namespace}.old RENAME TO {namespace.split('.')[1]}.new")
    assert rows(spark, f"SELECT * FROM {namespace}.new") == [(1,)]
    assert rows(spark, f"SHOW TABLES IN {namespace}") == [(namespace.split(".")[1], "new", False)]


@pytest.mark.parametrize("name", ["with space", "ünïcode ☃", "a.b", "100%", "semi;colon", "quote'd", "`tick`", "UPPER"])
def test_odd_names(spark: SparkSession, namespace: str, name: str) -> None:
    quoted = f"{namespace}.`{name.replace('`', '``')}`"
    spark.sql(f"CREATE TABLE {quoted} AS SELECT id FROM range(3)")
    spark.sql(f"INSERT INTO {quoted} VALUES (7)")
    assert rows(spark, f"SELECT sum(id) FROM {quoted}") == [(10,)]
    assert [r[1] for r in rows(spark, f"SHOW TABLES IN {namespace}")] == [name]


@pytest.mark.parametrize("name", ["..", "x" * 300, "a\x00b"])
def test_impossible_names(spark: SparkSession, namespace: str, name: str) -> None:
    with pytest.raises(InvalidInputError):
        spark.range(1).writeTo(f"{namespace}.`{name}`").create()


def test_alter_columns(spark: SparkSession, namespace: str) -> None:
    t = f"{namespace}.t"
    spark.sql(f"CREATE TABLE {t} (id INT, s STRUCT<a: INT>, p STRING) PARTITIONED BY (p)")
    spark.sql(f"INSERT INTO {t} VALUES (1, named_struct('a', 10), 'x')")
    spark.sql(f"ALTER TABLE {t} ADD COLUMNS (note STRING COMMENT 'free text' AFTER id, s.b STRING)")
    spark.sql(f"INSERT INTO {t} VALUES (2, 'n', named_struct('a', 20, 'b', 'bb'), 'y')")
    assert rows(spark, f"SELECT id, note, s.a, s.b, p FROM {t}") == [(1, None, 10, None, "x"), (2, "n", 20, "bb", "y")]
    spark.sql(f"ALTER TABLE {t} RENAME COLUMN note TO remark")
    spark.sql(f"ALTER TABLE {t} RENAME COLUMN s.a TO alpha")
    spark.sql(f"ALTER TABLE {t} RENAME COLUMN p TO part")
    assert rows(spark, f"SELECT id, remark, s.alpha, part FROM {t} WHERE part = 'y'") == [(2, "n", 20, "y")]
    spark.sql(f"ALTER TABLE {t} DROP COLUMN remark")
    spark.sql(f"ALTER TABLE {t} ADD COLUMN remark INT")
    assert rows(spark, f"SELECT id, remark FROM {t}") == [(1, None), (2, None)]
    spark.sql(f"INSERT INTO {t} (id, remark, part) VALUES (3, 33, 'x')")
    assert rows(spark, f"SELECT id, remark FROM {t} WHERE remark = 33") == [(3, 33)]
    spark.sql(f"ALTER TABLE {t} ALTER COLUMN id TYPE BIGINT")
    spark.sql(f"INSERT INTO {t} (id, part) VALUES (5000000000, 'x')")
    assert rows(spark, f"SELECT id FROM {t} WHERE id > 2") == [(3,), (5000000000,)]
    assert rows(spark, f"SELECT sum(id) FROM {t}") == [(5000000006,)]
    with pytest.raises(AnalysisException, match="NOT_SUPPORTED_CHANGE_COLUMN"):
        spark.sql(f"ALTER TABLE {t} ALTER COLUMN id TYPE INT")
    with pytest.raises(lakemend.InvalidInputError, match="part"):
        spark.sql(f"ALTER TABLE {t} DROP COLUMN part")
    with pytest.raises(AnalysisException):
        spark.sql(f"ALTER TABLE {t} ADD COLUMN ID INT")
    spark.sql(f"ALTER TABLE {t} SET TBLPROPERTIES ('lakemend.x' = '1')")
    spark.sql(f"ALTER TABLE {t} UNSET TBLPROPERTIES ('lakemend.x')")
    assert "lakemend.x" not in dict(rows(spark, f"SHOW TBLPROPERTIES {t}"))


def test_defaults_and_generated_columns(spark: SparkSession, namespace: str) -> None:
    t = f"{namespace}.t"
    spark.sql(
        f"CREATE TABLE {t} (id INT, kind STRING DEFAULT 'new', at TIMESTAMP, "
        "day DATE GENERATED ALWAYS AS (CAST(at AS DATE))) PARTITIONED BY (day)"
    )
    spark.sql(f"INSERT INTO {t} (id, at) VALUES (1, TIMESTAMP'2026-01-02 03:04:05')")
    assert rows(spark, f"SELECT id, kind, CAST(day AS STRING) FROM {t}") == [(1, "new", "2026-01-02")]
    with pytest.raises(lakemend.ConstraintViolationError):
        spark.sql(f"INSERT INTO {t} (id, at, day) VALUES (2, TIMESTAMP'2026-01-02 03:04:05', DATE'2020-01-01')")
    # Other engines would read NULL in the rows that are there already.
    with pytest.raises(lakemend.InvalidInputError, match="(?i)default"):
        spark.sql(f"ALTER TABLE {t} ADD COLUMN score INT DEFAULT 7")
    spark.sql(f"ALTER TABLE {t} ADD COLUMN score INT")
    spark.sql(f"ALTER TABLE {t} ALTER COLUMN score SET DEFAULT 8")
    spark.sql(f"INSERT INTO {t} (id, at) VALUES (3, TIMESTAMP'2026-01-02 03:04:05')")
    assert rows(spark, f"SELECT id, score FROM {t}") == [(1, None), (3, 8)]


def test_checks(spark: SparkSession, namespace: str) -> None:
    t = f"{namespace}.t"
    spark.sql(f"CREATE TABLE {t} (id INT NOT NULL, price INT, CONSTRAINT positive CHECK (price > 0))")
    spark.sql(f"INSERT INTO {t} VALUES (1, 1), (2, 2)")
    before = lakemend.table(spark, t).version
    with pytest.raises(lakemend.ConstraintViolationError, match="positive"):
        spark.sql(f"INSERT INTO {t} VALUES (3, -1)")
    with pytest.raises(lakemend.ConstraintViolationError, match="positive"):
        spark.sql(f"INSERT INTO {t} VALUES (3, NULL)")
    with pytest.raises(lakemend.ConstraintViolationError):
        spark.sql(f"INSERT INTO {t} VALUES (NULL, 1)")
    with pytest.raises(lakemend.ConstraintViolationError, match="big|price > 10"):
        spark.sql(f"ALTER TABLE {t} ADD CONSTRAINT big CHECK (price > 10)")
    assert lakemend.table(spark, t).version == before
    spark.sql(f"ALTER TABLE {t} ADD CONSTRAINT small CHECK (price < 100)")
    with pytest.raises(lakemend.ConstraintViolationError, match="small"):
        spark.sql(f"INSERT INTO {t} VALUES (3, 1000)")
    spark.sql(f"ALTER TABLE {t} DROP CONSTRAINT small")
    spark.sql(f"INSERT INTO {t} VALUES (3, 1000)")
    assert rows(spark, f"SELECT count(*) FROM {t}") == [(3,)]


def test_time_travel(spark: SparkSession, namespace: str) -> None:
    t = f"{namespace}.t"
    spark.sql(f"CREATE TABLE {t} AS SELECT id FROM range(3)")
    spark.sql(f"INSERT INTO {t} VALUES (10)")
    table = lakemend.table(spark, t)
    first = table.history()[1]["timestamp"]
    assert rows(spark, f"SELECT count(*) FROM {t} VERSION AS OF 0") == [(3,)]
    assert spark.read.option("versionAsOf", 0).table(t).count() == 3
    assert table.as_of(version=0).to_df().count() == 3
    seconds = f"timestamp_millis({first})"
    assert rows(spark, f"SELECT count(*) FROM {t} TIMESTAMP AS OF {seconds}") == [(3,)]
    assert rows(spark, f"SELECT count(*) FROM {t} TIMESTAMP AS OF current_timestamp()") == [(4,)]
    for query in (f"SELECT * FROM {t} VERSION AS OF 7", f"SELECT * FROM {t} TIMESTAMP AS OF '2001-01-01'"):
        with pytest.raises(lakemend.VersionNotFoundError):
            spark.sql(query).collect()
    with pytest.raises(lakemend.VersionNotFoundError):
        table.as_of(version=7).to_df()


def test_insert_of_a_wrong_schema(spark: SparkSession, namespace: str) -> None:
    t = f"{namespace}.t"
    spark.sql(f"CREATE TABLE {t} (id INT, s STRING)")
    table = lakemend.table(spark, t)
    for frame in (
        spark.sql("SELECT 1 AS id, 'x' AS s, 2 AS extra"),
        spark.sql("SELECT array(1) AS id, 'x' AS s"),
        spark.sql("SELECT 1 AS id, 'x' AS t"),
    ):
        with pytest.raises((AnalysisException, SchemaMismatchError)):
            table.append(frame)
    with pytest.raises(Exception, match="(?i)overflow"):
        table.append(spark.sql("SELECT 5000000000 AS id, 'x' AS s"))
    assert table.version == 0


def test_schema_evolution_makes_no_column_narrower(spark: SparkSession, namespace: str) -> None:
    """Rows of narrower types are cast, as they are without being asked for new columns."""
    t, columns = f"{namespace}.t", "id BIGINT, d DECIMAL(10, 2), s STRUCT<a: DOUBLE>, l ARRAY<BIGINT>"
    spark.sql(f"CREATE TABLE {t} ({columns})")
    table = lakemend.table(spark, t)
    values = "1 AS d, struct(float(1) AS A) AS s, array(1S) AS l"
    table.append(spark.sql(f"SELECT 1 AS id, {values}"), schema_evolution=True)
    spark.sql(f"INSERT WITH SCHEMA EVOLUTION INTO {t} BY NAME SELECT 2 AS id, {values}, 'x' AS extra")
    table.merge(spark.sql(f"SELECT 3 AS id, {values}"), "id", schema_evolution=True)
    assert table.schema.simpleString() == (
        "struct<id:bigint,d:decimal(10,2),s:struct<a:double>,l:array<bigint>,extra:string>"
    )
    assert rows(spark, f"SELECT id, d, s.a, l FROM {t}") == [(i, 1, 1.0, [1]) for i in (1, 2, 3)]
    with pytest.raises(Exception, match="(?i)overflow"):
        table.append([{"id": 4, "d": 10**8}], schema_evolution=True)


def test_schema_evolution_on_append_is_one_version(spark: SparkSession, namespace: str) -> None:
    t = f"{namespace}.t"
    spark.sql(f"CREATE TABLE {t} AS SELECT 1 AS id")
    table = lakemend.table(spark, t)
    report = table.append(spark.sql("SELECT 2 AS id, 'x' AS extra"), schema_evolution=True)
    assert report.version == 1 and table.version == 1
    assert rows(spark, f"SELECT id, extra FROM {t}") == [(1, None), (2, "x")]
    with pytest.raises(Exception, match="DIVIDE_BY_ZERO|divide"):
        table.append(
            spark.sql("SELECT 3 AS id, 'x' AS extra, 1 / (id - 1) AS more FROM range(2)").drop("x"),
            schema_evolution=True,
        )
    assert table.version == 1 and "more" not in table.schema.names
