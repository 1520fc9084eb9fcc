"""`lakemend head`: what it shows is what a query shows, without Spark."""

from __future__ import annotations

import json

import pytest
from pyspark.sql import SparkSession

from lakemend import UnsupportedFeatureError, cli
from lakemend.brain.service import Brain
from lakemend.session import brain


def _identity(namespace: str) -> dict[str, object]:
    return {"catalog": "lake", "namespace": [namespace.split(".")[1]], "name": "t"}


def _rows(namespace: str, limit: int = 1000, version: int | None = None) -> list[dict[str, object]]:
    # A brain of its own knows nothing but what is stored.
    return Brain(brain().catalogs).first_rows(_identity(namespace), limit, version).to_pylist()


@pytest.mark.parametrize("mapping", ["name", "id"])
def test_rows_are_those_of_a_query(spark: SparkSession, namespace: str, mapping: str) -> None:
    spark.sql(f"""
        CREATE TABLE {namespace}.t (
            id BIGINT, p STRING, d DECIMAL(12, 3), ts TIMESTAMP, n TIMESTAMP_NTZ, b BINARY, f FLOAT,
            s STRUCT<a: INT, b: ARRAY<STRUCT<x: INT, y: STRING>>>, m MAP<STRING, STRUCT<z: DATE>>)
        PARTITIONED BY (p) TBLPROPERTIES ('delta.columnMapping.mode' = '{mapping}')""")
    spark.sql(f"""
        INSERT INTO {namespace}.t SELECT id, IF(id % 3 = 0, NULL, concat('ä b', id % 3)), id / 7,
            TIMESTAMP'2026-01-02 03:04:05.678901', TIMESTAMP_NTZ'1500-01-02 03:04:05', unhex('00ff'), 1.5F,
            IF(id % 5 = 0, NULL, named_struct('a', CAST(id AS INT), 'b', array(named_struct('x', 1, 'y', 'q'), NULL))),
            map('k', named_struct('z', DATE'2026-01-01'))
        FROM range(3000)""")
    spark.sql(f"ALTER TABLE {namespace}.t RENAME COLUMN s.b TO c")
    spark.sql(f"ALTER TABLE {namespace}.t RENAME COLUMN d TO e")
    spark.sql(f"ALTER TABLE {namespace}.t ADD COLUMNS (late INT, s.more STRING)")
    spark.sql(f"ALTER TABLE {namespace}.t DROP COLUMN f")
    spark.sql(f"ALTER TABLE {namespace}.t ADD COLUMN f STRING")
    spark.sql(f"DELETE FROM {namespace}.t WHERE id % 4 = 1")
    spark.sql(f"UPDATE {namespace}.t SET late = 7, s.more = 'x' WHERE id = 8")
    want = spark.table(f"{namespace}.t").toArrow().to_pylist()

    def by_id(rows: list[dict[str, object]]) -> list[dict[str, object]]:
        return sorted(rows, key=lambda row: row["id"])  # type: ignore[arg-type, return-value]

    assert by_id(_rows(namespace, 10_000)) == by_id(want)


def test_no_more_rows_than_asked_for_and_of_the_version_asked_for(spark: SparkSession, namespace: str) -> None:
    spark.sql(f"CREATE TABLE {namespace}.t (id BIGINT)")
    for start in (0, 10):
        spark.sql(f"INSERT INTO {namespace}.t SELECT id FROM range({start}, {start} + 10)")
    assert len(_rows(namespace, 15)) == 15
    assert _rows(namespace, 0) == []
    assert _rows(namespace, version=0) == []
    assert sorted(row["id"] for row in _rows(namespace, version=1)) == list(range(10))  # type: ignore[type-var]


def test_the_command(spark: SparkSession, namespace: str, location: str, capsys: pytest.CaptureFixture[str]) -> None:
    spark.sql("SELECT 1 AS id, CAST(NULL AS STRING) AS s, 'a\\nb' AS t").write.format("delta").save(location)
    with pytest.raises(SystemExit) as done:
        cli.main(["head", location])
    assert not done.value.code
    shown = capsys.readouterr().out
    assert "NULL" in shown
    assert "a\\nb" in shown
    with pytest.raises(SystemExit):
        cli.main(["head", location, "--json"])
    assert json.loads(capsys.readouterr().out) == [{"id": 1, "s": None, "t": "a\nb"}]


def test_a_file_that_is_gone(
    spark: SparkSession, namespace: str, location: str, capsys: pytest.CaptureFixture[str], tmp_path
) -> None:
    spark.range(3).write.format("delta").save(location)
    for file in (tmp_path / "table").glob("*.parquet"):
        file.unlink()
    with pytest.raises(SystemExit) as done:
        cli.main(["head", location])
    assert done.value.code == 1
    assert "cannot be read" in capsys.readouterr().err


def test_times_as_spark_writes_them_by_default(spark: SparkSession, namespace: str, location: str, tmp_path) -> None:
    from deltalake import convert_to_deltalake

    from tests.settings import settings

    query = "SELECT TIMESTAMP'9999-12-31 00:00:00Z' AS until, array(TIMESTAMP'1200-01-01 00:00:00Z') AS l"
    with settings(spark, {"spark.sql.parquet.outputTimestampType": "INT96"}):
        spark.sql(query).write.parquet(location)
    convert_to_deltalake(location)
    # deltalake takes them for local times.
    found = Brain().first_rows({"path": location}, 10).to_pylist()[0]
    assert [str(found["until"])[:19], str(found["l"][0])[:19]] == ["9999-12-31 00:00:00", "1200-01-01 00:00:00"]
    old = str(tmp_path / "old")
    with settings(spark, {"spark.sql.parquet.datetimeRebaseModeInWrite": "LEGACY"}):
        spark.sql("SELECT DATE'1200-01-01' AS d").write.parquet(old)
    convert_to_deltalake(old)
    with pytest.raises(UnsupportedFeatureError, match="read the table with Spark"):
        Brain().first_rows({"path": old}, 10)
