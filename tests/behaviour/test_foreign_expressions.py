"""Expressions that come with a table: those of others run no code of theirs in our session."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import AnalysisException
from pyspark.sql import SparkSession

import lakemend
from lakemend.errors import ConstraintViolationError, InvalidInputError, UnsupportedFeatureError

MARK = "lakemend.test.run"


@pytest.fixture
def untouched(spark: SparkSession) -> Any:
    """Fails if an expression of a table has set the system property."""
    system = spark._jvm.java.lang.System
    system.clearProperty(MARK)
    yield
    assert system.getProperty(MARK) is None


def side_effect(function: str) -> str:
    return f"{function}('java.lang.System', 'setProperty', '{MARK}', 'yes')"


def planted(location: str, *, check: str | None = None, type: Any = None, **metadata: str) -> str:
    """A table of (id, v) with one row, whose log somebody has edited."""
    log = Path(location) / "_delta_log" / "00000000000000000000.json"
    lines = [json.loads(line) for line in log.read_text().splitlines()]
    for action in lines:
        if "metaData" in action:
            schema = json.loads(action["metaData"]["schemaString"])
            schema["fields"][1]["metadata"] = metadata
            schema["fields"][1]["type"] = type or schema["fields"][1]["type"]
            action["metaData"]["schemaString"] = json.dumps(schema)
            if check:
                action["metaData"]["configuration"]["delta.constraints.planted"] = check
        if "protocol" in action:
            action["protocol"] = {"minReaderVersion": 1, "minWriterVersion": 4}
            if "CURRENT_DEFAULT" in metadata:
                features = ["allowColumnDefaults", "checkConstraints", "generatedColumns"]
                action["protocol"] = {"minReaderVersion": 1, "minWriterVersion": 7, "writerFeatures": features}
    log.write_text("".join(json.dumps(action) + "\n" for action in lines))
    return location


@pytest.fixture
def foreign(spark: SparkSession, location: str) -> str:
    spark.sql("SELECT 1 AS id, 'x' AS v").write.format("lakemend").save(location)
    return location


WRITES = (
    "INSERT INTO {t} (id) VALUES (2)",
    "INSERT INTO {t} (id, v) VALUES (2, 'y')",
    "UPDATE {t} SET id = 5",
    "MERGE INTO {t} USING (SELECT 1 AS k) ON id = k WHEN MATCHED THEN UPDATE SET id = 7",
    "INSERT OVERWRITE {t} SELECT 1, 'x'",
)


@pytest.mark.parametrize("function", ["java_method", "reflect", "try_reflect", "SYSTEM.BUILTIN.reflect"])
@pytest.mark.parametrize("where", ["check", "delta.generationExpression", "CURRENT_DEFAULT"])
def test_reflection(spark: SparkSession, foreign: str, untouched: None, where: str, function: str) -> None:
    call = side_effect(function)
    planted(foreign, **{where: f"{call} IS NULL" if where == "check" else call})
    t = f"lake.delta.`{foreign}`"
    assert spark.table(t).collect() == [(1, "x")]
    assert "v" in spark.sql(f"DESCRIBE TABLE EXTENDED {t}").toPandas().to_string()
    for statement in WRITES:
        # Spark refuses some by itself: it lets nothing that is not deterministic be a default.
        with pytest.raises((UnsupportedFeatureError, AnalysisException), match=f"{function}|UPDATE|MERGE"):
            spark.sql(statement.format(t=t)).collect()
    with pytest.raises(UnsupportedFeatureError, match=function):
        spark.sql("SELECT 2 AS id, 'y' AS v").write.format("delta").mode("append").save(foreign)
    assert lakemend.table(spark, foreign).version == 0


def test_a_default_that_readers_evaluate(spark: SparkSession, foreign: str, untouched: None) -> None:
    planted(foreign, CURRENT_DEFAULT="'a'", EXISTS_DEFAULT=side_effect("java_method"))
    for read in (lambda: spark.table(f"lake.delta.`{foreign}`"), lambda: spark.read.format("delta").load(foreign)):
        with pytest.raises(UnsupportedFeatureError, match="java_method"):
            read().collect()


def test_a_harmless_default_of_older_rows_is_read(spark: SparkSession, foreign: str) -> None:
    planted(foreign, CURRENT_DEFAULT="upper('a')", EXISTS_DEFAULT="'b'")
    assert spark.table(f"lake.delta.`{foreign}`").collect() == [(1, "x")]
    spark.sql(f"INSERT INTO lake.delta.`{foreign}` (id) VALUES (2)")
    assert sorted(spark.table(f"lake.delta.`{foreign}`").collect()) == [(1, "x"), (2, "A")]


@pytest.mark.parametrize(
    ("sql", "named"),
    [
        ("mine(id) > 0", "mine"),
        ("session.mine(id) > 0", "session.mine"),
        ("id IN (SELECT id FROM range(3))", "subquery"),
        ("EXISTS (SELECT 1)", "subquery"),
        ("rand() < 2", "rand"),
        ("uuid() <> ''", "uuid"),
        ("input_file_name() = ''", "input_file_name"),
        ("current_user() <> 'somebody'", "current_user"),
        ("current_user <> 'somebody'", "current_user"),
        ("a_variable > 0", "a_variable, which is no column"),
        ("IDENTIFIER('java_method')('java.lang.System', 'gc') IS NULL", ""),
        ("from_xml(v, 'a INT', map('rowValidationXSDPath', '/etc/passwd')) IS NULL", "from_xml"),
        ("raise_error('x') IS NULL", "raise_error"),
        ("transform(array(id), x -> mine(x))[0] > 0", "mine"),
    ],
)
def test_a_check_may_use_built_in_functions_of_columns_only(
    spark: SparkSession, foreign: str, sql: str, named: str
) -> None:
    spark.udf.register("mine", lambda x: x, "int")
    spark.sql("DECLARE OR REPLACE VARIABLE a_variable INT DEFAULT 3")
    try:
        planted(foreign, check=sql)
        with pytest.raises(UnsupportedFeatureError if named else Exception, match=named or "java_method|IDENTIFIER"):
            spark.sql(f"INSERT INTO lake.delta.`{foreign}` VALUES (2, 'y')")
        assert lakemend.table(spark, foreign).version == 0
    finally:
        spark.sql("DROP TEMPORARY VARIABLE a_variable")
        spark.sql("DROP TEMPORARY FUNCTION mine")


@pytest.mark.parametrize("order", ["first", "second", "last"])
def test_a_function_of_the_session_does_not_stand_in_for_a_built_in_one(
    spark: SparkSession, foreign: str, order: str
) -> None:
    planted(foreign, check="abs(id) > 0")
    spark.udf.register("abs", lambda x: -1, "int")
    spark.conf.set("spark.sql.functionResolution.sessionOrder", order)
    try:
        if order == "first":
            with pytest.raises(UnsupportedFeatureError, match="abs, which in this session is not the built-in one"):
                spark.sql(f"INSERT INTO lake.delta.`{foreign}` VALUES (2, 'y')")
        else:
            spark.sql(f"INSERT INTO lake.delta.`{foreign}` VALUES (2, 'y')")
    finally:
        spark.conf.unset("spark.sql.functionResolution.sessionOrder")
        spark.sql("DROP TEMPORARY FUNCTION abs")


@pytest.mark.parametrize(
    "sql",
    [
        "abs(id) + 1 > 0 AND length(v) < 10",
        "v LIKE 'x%' OR v RLIKE '^y' OR v IS NULL",
        "CAST(v AS STRING) = concat(v, '') AND id BETWEEN 0 AND 100",
        "CASE WHEN id > 0 THEN true ELSE false END",
        "current_date() > DATE'2020-01-01' AND current_timestamp > TIMESTAMP'2020-01-01'",
        "exists(array(id), x -> x > 0)",
        "named_struct('a', id).a > 0",
        "system.builtin.abs(ID) > 0",
        "date_trunc('month', TIMESTAMP'2020-02-03') IS NOT NULL AND extract(YEAR FROM DATE'2020-01-01') = 2020",
        "sha2(v, 256) IS NOT NULL AND from_json('{\"a\":1}', 'a INT').a = id % 1 + 1",
    ],
)
def test_what_a_check_may_say(spark: SparkSession, foreign: str, sql: str) -> None:
    planted(foreign, check=sql)
    spark.sql(f"INSERT INTO lake.delta.`{foreign}` VALUES (2, 'y')")
    assert spark.table(f"lake.delta.`{foreign}`").count() == 2


def test_our_own_statements_are_held_to_it(spark: SparkSession, namespace: str, untouched: None) -> None:
    t = f"{namespace}.t"
    call = side_effect("reflect")
    for columns in (
        f"id INT, CONSTRAINT c CHECK ({call} IS NULL)",
        f"id INT, v STRING DEFAULT {call}",
        f"id INT, v STRING GENERATED ALWAYS AS ({call})",
    ):
        with pytest.raises(Exception, match="(?i)reflect|deterministic"):
            spark.sql(f"CREATE TABLE {t} ({columns})")
        assert not spark.catalog.tableExists(t)
    spark.sql(
        f"CREATE TABLE {t} (id INT, made TIMESTAMP DEFAULT current_timestamp(), key STRING DEFAULT current_user())"
    )
    spark.sql(f"INSERT INTO {t} (id) VALUES (1)")
    with pytest.raises(Exception, match="reflect"):
        spark.sql(f"ALTER TABLE {t} ALTER COLUMN key SET DEFAULT {call}")
    with pytest.raises(Exception, match="(?i)reflect|deterministic"):
        spark.sql(f"ALTER TABLE {t} ADD CONSTRAINT c CHECK ({call} IS NULL)")
    assert lakemend.table(spark, t).version == 1
    spark.udf.register("mine", lambda x: x, "int")
    for statement in (
        f"CREATE TABLE {t}2 (id INT, CONSTRAINT c CHECK (mine(id) > 0))",
        f"CREATE TABLE {t}2 (id INT, v INT GENERATED ALWAYS AS (mine(id)))",
    ):
        with pytest.raises((InvalidInputError, AnalysisException), match="mine"):
            spark.sql(statement)
    for check, named in (("id > 0 AND mine(id) > 0", "mine"), ("id IN (SELECT 1)", "a subquery"), (call, "reflect")):
        for statement in (
            f"ALTER TABLE {t} ADD CONSTRAINT c CHECK ({check})",
            f"CREATE TABLE {t}2 (id INT, CONSTRAINT c CHECK ({check}))",
            f"CREATE OR REPLACE TABLE {t}2 (id INT, CONSTRAINT c CHECK ({check}))",
        ):
            with pytest.raises(InvalidInputError, match=named):
                spark.sql(statement)
    assert not spark.catalog.tableExists(f"{t}2")
    assert lakemend.table(spark, t).version == 1
    spark.sql("DROP TEMPORARY FUNCTION mine")


def test_invariants_of_old_tables_are_kept(spark: SparkSession, foreign: str, untouched: None) -> None:
    expression = {"expression": {"expression": "v <> 'bad'"}}
    planted(foreign, **{"delta.invariants": json.dumps(expression)})
    t = f"lake.delta.`{foreign}`"
    spark.sql(f"INSERT INTO {t} VALUES (2, 'good')")
    with pytest.raises(ConstraintViolationError):
        spark.sql(f"INSERT INTO {t} VALUES (3, 'bad')")


@pytest.mark.parametrize("wrap", [lambda t: t, lambda t: {"type": "array", "elementType": t, "containsNull": True}])
def test_a_type_that_names_a_class_is_not_loaded(spark: SparkSession, foreign: str, wrap: Any) -> None:
    """As a map it has all the keys that a map needs, too."""
    maps = {"keyType": "string", "valueType": "string", "valueContainsNull": True}
    for udt in (
        {"type": "udt", "class": "java.util.ArrayList", "pyClass": None, "sqlType": "string"},
        {"type": "udt", "pyClass": "os.abort", "serializedClass": "", "sqlType": "string", **maps},
    ):
        planted(foreign, type=wrap(udt))
        for read in (
            lambda: spark.table(f"lake.delta.`{foreign}`"),
            lambda: spark.read.format("delta").load(foreign),
            lambda: lakemend.table(spark, foreign).schema,
        ):
            with pytest.raises(UnsupportedFeatureError, match="udt"):
                read()
