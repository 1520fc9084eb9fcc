"""What a table demands of its rows is kept by both engines; what we cannot keep, we refuse by name."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest

from lakemend.errors import UnsupportedFeatureError
from tests.interop.delta_spark.engines import Engine, Ours, Theirs, newest, rows

pytestmark = pytest.mark.interop


def refused(engine: Engine, statement: str, message: str) -> None:
    with pytest.raises(Exception, match=f"(?is){message}"):
        engine.sql(statement)


def test_constraints(engines: tuple[Engine, Engine], ours: Ours, theirs: Theirs, location: str) -> None:
    first, second = engines
    t = f"delta.`{location}`"
    first.sql(f"CREATE TABLE {t} (id bigint NOT NULL, v string, s struct<x: int NOT NULL>) USING delta")
    first.sql(f"ALTER TABLE {t} ADD CONSTRAINT positive CHECK (id > 0)")
    second.sql(f"ALTER TABLE {t} ADD CONSTRAINT short CHECK (length(v) < 5)")
    for engine in (first, second):
        engine.sql(f"INSERT INTO {t} VALUES ({len(engine.name)}, 'ok', named_struct('x', 1))")
        before = newest(location)
        refused(engine, f"INSERT INTO {t} VALUES (-1, 'ok', NULL)", "positive|id > 0")
        refused(engine, f"INSERT INTO {t} VALUES (1, 'too long', NULL)", "short|length")
        refused(engine, f"INSERT INTO {t} VALUES (NULL, 'ok', NULL)", "null")
        refused(engine, f"UPDATE {t} SET id = id - 100", "positive|id > 0")
        assert newest(location) == before
    assert rows(ours, location) == rows(theirs, location) and len(rows(ours, location)) == 2
    second.sql(f"ALTER TABLE {t} DROP CONSTRAINT positive")
    first.sql(f"INSERT INTO {t} VALUES (-1, 'ok', named_struct('x', 2))")
    assert len(rows(theirs, location)) == 3


def test_generated_columns_of_theirs(ours: Ours, theirs: Theirs, location: str) -> None:
    theirs.python(f"""
tables = spark._jvm.io.delta.tables.DeltaTable
def generated(name, kind, expression):
    return tables.columnBuilder(spark._jsparkSession, name).dataType(kind).generatedAlwaysAs(expression).build()
builder = tables.create(spark._jsparkSession).location({location!r})
builder = builder.addColumn("id", "bigint").addColumn("at", "timestamp")
builder = builder.addColumn(generated("day", "date", "CAST(at AS DATE)"))
builder = builder.addColumn(generated("twice", "bigint", "id * 2"))
parts = spark._jvm.java.util.ArrayList()
parts.add("day")
builder.partitionedBy(spark._jvm.org.apache.spark.api.python.PythonUtils.toSeq(parts)).execute()""")
    t = f"delta.`{location}`"
    theirs.sql(f"INSERT INTO {t} (id, at) VALUES (1, TIMESTAMP'2024-02-29 12:00:00')")
    ours.sql(f"INSERT INTO {t} (id, at) VALUES (2, TIMESTAMP'2024-03-01 12:00:00')")
    ours.sql(f"INSERT INTO {t} VALUES (3, TIMESTAMP'2024-03-01 12:00:00', DATE'2024-03-01', 6)")
    refused(ours, f"INSERT INTO {t} VALUES (3, TIMESTAMP'2024-03-01 12:00:00', DATE'2024-03-01', 7)", "twice|generat")
    found = rows(ours, location)
    assert rows(theirs, location) == found and len(found) == 3
    assert all(re.search(r"'twice', (2|4|6)\b", row) for row in found)
    theirs.sql(f"UPDATE {t} SET id = 10 WHERE id = 2")
    ours.sql(f"DELETE FROM {t} WHERE id = 3")
    assert rows(ours, location) == rows(theirs, location) and len(rows(ours, location)) == 2


def test_defaults(engines: tuple[Engine, Engine], ours: Ours, theirs: Theirs, location: str) -> None:
    first, second = engines
    t = f"delta.`{location}`"
    first.sql(
        f"""CREATE TABLE {t} (id bigint, v string DEFAULT 'none', n int DEFAULT 1 + 1) USING delta
            TBLPROPERTIES ('delta.feature.allowColumnDefaults' = 'supported')"""
    )
    for number, engine in enumerate((first, second)):
        engine.sql(f"INSERT INTO {t} (id) VALUES ({number})")
        engine.sql(f"INSERT INTO {t} VALUES ({number}, 'some', DEFAULT)")
    second.sql(f"ALTER TABLE {t} ALTER COLUMN v SET DEFAULT 'other'")
    first.sql(f"INSERT INTO {t} (id) VALUES (9)")
    found = rows(ours, location)
    assert rows(theirs, location) == found and len(found) == 5
    assert sum("'none'" in row for row in found) == 2 and sum("'other'" in row for row in found) == 1


def test_append_only(engines: tuple[Engine, Engine], ours: Ours, theirs: Theirs, location: str) -> None:
    first, second = engines
    t = f"delta.`{location}`"
    first.sql(f"CREATE TABLE {t} USING delta TBLPROPERTIES ('delta.appendOnly' = 'true') AS SELECT id FROM range(3)")
    for engine in (first, second):
        engine.sql(f"INSERT INTO {t} VALUES (7)")
        refused(engine, f"DELETE FROM {t} WHERE id = 7", "append")
    assert rows(ours, location) == rows(theirs, location) and len(rows(ours, location)) == 5


FEATURES: dict[str, tuple[str, Callable[[str], str]]] = {
    "rowTracking": (
        "rowTracking",
        lambda t: f"CREATE TABLE {t} (id bigint) USING delta TBLPROPERTIES ('delta.enableRowTracking' = 'true')",
    ),
    "clustering": ("clustering", lambda t: f"CREATE TABLE {t} (id bigint) USING delta CLUSTER BY (id)"),
    "icebergCompatV2": (
        "icebergCompatV2",
        lambda t: (
            f"""CREATE TABLE {t} (id bigint) USING delta TBLPROPERTIES ('delta.enableIcebergCompatV2' = 'true',
            'delta.columnMapping.mode' = 'name', 'delta.enableDeletionVectors' = 'false')"""
        ),
    ),
}


@pytest.mark.parametrize("feature", FEATURES)
def test_features_we_lack_are_refused_by_name(ours: Ours, theirs: Theirs, location: str, feature: str) -> None:
    """For writes; the table is read."""
    name, create = FEATURES[feature]
    t = f"delta.`{location}`"
    theirs.sql(create(t))
    theirs.sql(f"INSERT INTO {t} VALUES (1), (2)")
    expected = rows(theirs, location)
    before = newest(location)
    assert rows(ours, location) == expected
    for statement in (
        f"INSERT INTO {t} VALUES (3)", f"DELETE FROM {t} WHERE id = 1", f"UPDATE {t} SET id = 9 WHERE id = 1",
        f"ALTER TABLE {t} SET TBLPROPERTIES ('k' = 'v')",
    ):  # fmt: skip
        with pytest.raises(UnsupportedFeatureError, match=name):
            ours.sql(statement)
    assert newest(location) == before
    theirs.sql(f"UPDATE {t} SET id = 5 WHERE id = 1")
    assert rows(ours, location) == rows(theirs, location) != expected


def test_in_commit_timestamps_and_widened_types(
    engines: tuple[Engine, Engine], ours: Ours, theirs: Theirs, location: str
) -> None:
    first, second = engines
    t = f"delta.`{location}`"
    first.sql(
        f"""CREATE TABLE {t} (id int, f float) USING delta TBLPROPERTIES ('delta.enableInCommitTimestamps' = 'true',
            'delta.enableTypeWidening' = 'true')"""
    )
    first.sql(f"INSERT INTO {t} VALUES (1, 0.1), (2, 0.3)")
    second.sql(f"ALTER TABLE {t} ALTER COLUMN id TYPE bigint")
    first.sql(f"ALTER TABLE {t} ALTER COLUMN f TYPE double")
    for number, engine in enumerate((first, second)):
        engine.sql(f"INSERT INTO {t} VALUES ({10**12 + number}, 0.1)")
    second.sql(f"DELETE FROM {t} WHERE id = 2")
    found = rows(ours, location)
    assert rows(theirs, location) == found and len(found) == 3
    for where in ("f < 0.2", "f > 0.1", "f = 0.1", "id > 5"):
        query = f"SELECT * FROM {t} WHERE {where}"
        # Bounds that delta-spark writes for floats are too short for the doubles they become, and it skips by them.
        if first is ours or where != "f > 0.1":
            assert ours.sql(query) == theirs.sql(query), where
    times = theirs.python(f"result = [str(r.timestamp) for r in spark.sql('DESCRIBE HISTORY {t}').collect()]")
    assert len(set(times)) == len(times) and times == sorted(times, reverse=True)
