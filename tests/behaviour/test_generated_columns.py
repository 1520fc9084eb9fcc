"""Generated columns follow the columns they are made of, whatever statement writes the row."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import AnalysisException, PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

import lakemend
from lakemend.errors import TableNotFoundError

# Files are written again without a feed, and masked with one; the others in ./run test-long.
MODES = [
    ("copy-on-write", False),
    ("merge-on-read", True),
    pytest.param("copy-on-write", True, marks=pytest.mark.slow),
    pytest.param("merge-on-read", False, marks=pytest.mark.slow),
]


def rows(frame: DataFrame) -> list[tuple[Any, ...]]:
    return sorted((tuple(row) for row in frame.collect()), key=repr)


def created(spark: SparkSession, name: str, columns: str, mode: str, feed: bool, partitioned: str = "") -> str:
    spark.sql(
        f"CREATE TABLE {name} ({columns}) {partitioned} TBLPROPERTIES ('write.update.mode' = '{mode}', "
        f"'write.merge.mode' = '{mode}', 'delta.enableChangeDataFeed' = '{str(feed).lower()}')"
    )
    return name


@pytest.mark.parametrize(("mode", "feed"), MODES)
def test_update(spark: SparkSession, namespace: str, mode: str, feed: bool) -> None:
    columns = (
        "id INT, n INT, d INT NOT NULL GENERATED ALWAYS AS (N * 2), s STRUCT<a: INT, b: STRING>, "
        "sb STRING GENERATED ALWAYS AS (upper(s.b))"
    )
    t = created(spark, f"{namespace}.t", columns, mode, feed)
    spark.sql(f"INSERT INTO {t} (id, n, s) VALUES (1, 10, struct(1, 'x')), (2, 20, struct(2, 'y')), (3, 30, NULL)")
    spark.sql(f"UPDATE {t} SET n = n + 1L WHERE id = 1")  # a value of another type
    spark.sql(f"UPDATE {t} SET s.b = 'z' WHERE id = 2")  # a part of a column
    spark.sql(f"UPDATE {t} AS d SET d.id = 4 WHERE d.d = 60")  # no source of a generated column
    assert rows(spark.sql(f"SELECT id, n, d, s.b, sb FROM {t}")) == [
        (1, 11, 22, "x", "X"),
        (2, 20, 40, "z", "Z"),
        (4, 30, 60, None, None),
    ]
    lakemend.table(spark, t).update({"n": "id + (SELECT max(id) FROM range(3))"})
    assert rows(spark.sql(f"SELECT id, n, d FROM {t}")) == [(1, 3, 6), (2, 4, 8), (4, 6, 12)]
    spark.sql(f"UPDATE {t} SET n = 5, d = 10 WHERE id = 1")
    for given in ("d = 5", "n = 1, d = d", "sb = 'no'", "n = NULL"):
        with pytest.raises(lakemend.ConstraintViolationError):
            spark.sql(f"UPDATE {t} SET {given} WHERE id = 1")
    assert rows(spark.sql(f"SELECT id, n, d FROM {t}")) == [(1, 5, 10), (2, 4, 8), (4, 6, 12)]
    if feed:
        last = lakemend.table(spark, t).version
        changed = spark.sql(f"SELECT n, d, _change_type FROM {t} CHANGES FROM VERSION {last} TO VERSION {last}")
        assert rows(changed) == [(3, 6, "update_preimage"), (5, 10, "update_postimage")]


@pytest.mark.parametrize(("mode", "feed"), MODES)
def test_merge(spark: SparkSession, namespace: str, mode: str, feed: bool) -> None:
    columns = (
        "id INT, n INT DEFAULT 7, d BIGINT GENERATED ALWAYS AS (n * 2), "
        "p STRING GENERATED ALWAYS AS (concat('p', id % 2))"
    )
    t = created(spark, f"{namespace}.t", columns, mode, feed, "PARTITIONED BY (p)")
    spark.sql(f"INSERT INTO {t} (id, n) VALUES (1, 10), (2, 20), (3, 30), (4, 40)")
    spark.sql(
        f"MERGE INTO {t} t USING (SELECT explode(array(2, 3, 5, 6, 7)) AS id) s ON t.id = s.id "
        "WHEN MATCHED AND s.id = 2 THEN UPDATE SET n = t.n + s.id "
        "WHEN MATCHED THEN UPDATE SET t.id = 8 "
        "WHEN NOT MATCHED AND s.id = 5 THEN INSERT (id, n) VALUES (s.id, 50) "
        "WHEN NOT MATCHED AND s.id = 6 THEN INSERT (id, n, d) VALUES (s.id, 60, 120) "
        "WHEN NOT MATCHED THEN INSERT (id) VALUES (s.id) "
        "WHEN NOT MATCHED BY SOURCE AND id = 1 THEN UPDATE SET n = 0 "
        "WHEN NOT MATCHED BY SOURCE THEN DELETE"
    )
    now = [
        (1, 0, 0, "p1"),
        (2, 22, 44, "p0"),
        (5, 50, 100, "p1"),
        (6, 60, 120, "p0"),
        (7, 7, 14, "p1"),
        (8, 30, 60, "p0"),
    ]
    assert rows(spark.table(t)) == now
    if feed:
        last = lakemend.table(spark, t).version
        changed = spark.sql(f"SELECT id, d, p, _change_type FROM {t} CHANGES FROM VERSION {last} TO VERSION {last}")
        assert {row[:3] for row in rows(changed) if row[3] in ("insert", "update_postimage")} == {
            (id, d, p) for id, _, d, p in now
        }
    for wrong in (
        "WHEN MATCHED THEN UPDATE SET d = 1",
        "WHEN NOT MATCHED THEN INSERT (id, n, d) VALUES (9, 1, 3)",
        "WHEN NOT MATCHED THEN INSERT (id, n, d) VALUES (9, 1, NULL)",
        "WHEN NOT MATCHED BY SOURCE THEN UPDATE SET p = 'no'",
        "WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *",
    ):
        with pytest.raises(lakemend.ConstraintViolationError):
            source = "SELECT explode(array(1, 9)) AS id, 2 AS n, 5L AS d, 'p1' AS p"
            spark.sql(f"MERGE INTO {t} t USING ({source}) s ON t.id = s.id {wrong}")
    assert rows(spark.table(t)) == now
    # Inserts alone, and stars, which bring every column.
    spark.sql(
        f"MERGE INTO {t} t USING (SELECT 9 AS id) s ON t.id = s.id WHEN NOT MATCHED THEN INSERT (id, n) VALUES (9, 90)"
    )
    spark.sql(
        f"MERGE INTO {t} t USING (SELECT explode(array(1, 10)) AS id, 2 AS n, 4L AS d, 'p0' AS p) s ON t.id = s.id - 0 "
        "WHEN MATCHED THEN UPDATE SET n = s.n WHEN NOT MATCHED THEN INSERT *"
    )
    assert rows(spark.table(t)) == sorted([*now[1:], (1, 2, 4, "p1"), (9, 90, 180, "p1"), (10, 2, 4, "p0")], key=repr)


@pytest.mark.parametrize("mode", ["copy-on-write", "merge-on-read"])
def test_merge_brings_columns(spark: SparkSession, namespace: str, mode: str) -> None:
    t = created(spark, f"{namespace}.t", "id INT, n INT, d INT GENERATED ALWAYS AS (n * 2)", mode, False)
    spark.sql(f"INSERT INTO {t} (id, n) VALUES (1, 10)")
    spark.sql(
        f"MERGE WITH SCHEMA EVOLUTION INTO {t} t USING (SELECT explode(array(1, 2)) AS id, 5 AS n, 'x' AS more) s "
        "ON t.id = s.id WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *"
    )
    assert rows(spark.sql(f"SELECT id, n, d, more FROM {t}")) == [(1, 5, 10, "x"), (2, 5, 10, "x")]


def test_by_path_and_frames(spark: SparkSession, namespace: str, tmp_path: Path) -> None:
    path = str(tmp_path / "t")
    spark.sql(f"CREATE TABLE {namespace}.t (id INT, n INT, d INT GENERATED ALWAYS AS (n * 2)) LOCATION '{path}'")
    spark.sql("SELECT 1 AS id, 10 AS n").write.format("delta").mode("append").save(path)
    lakemend.table(spark, path).append([{"id": 2, "n": 20}])
    spark.sql("SELECT 3 AS id, 30 AS n").writeTo(f"{namespace}.t").append()
    spark.sql(f"UPDATE delta.`{path}` SET n = n + 1 WHERE id = 1")
    source = spark.sql("SELECT explode(array(2, 4)) AS id").alias("s")
    merge = source.mergeInto(f"{namespace}.t", F.expr(f"{namespace}.t.id = s.id"))
    merge = merge.whenMatched().update({"n": F.lit(0)})
    merge.whenNotMatched().insert({"id": F.col("s.id"), "n": F.lit(40)}).merge()
    assert rows(spark.table(f"{namespace}.t")) == [(1, 11, 22), (2, 0, 0), (3, 30, 60), (4, 40, 80)]
    table = lakemend.table(spark, path)
    table.replace_where([{"id": 1, "n": 1}], "id = 1")
    table.replace_where([{"id": 2, "n": 100}], "d = 0 OR d = 200")
    table.replace_using([{"id": 3, "n": 3}], "id")
    table.replace_on(spark.sql("SELECT 4 AS id, 4 AS n"), "t.id = s.id")
    five = spark.sql("SELECT 5 AS id, 5 AS n").write.format("delta").mode("overwrite")
    five.option("replaceWhere", "id = 5").save(path)
    assert rows(spark.table(f"{namespace}.t")) == [(1, 1, 2), (2, 100, 200), (3, 3, 6), (4, 4, 8), (5, 5, 10)]
    with pytest.raises(lakemend.LakemendError):
        table.replace_where([{"id": 1, "n": 1, "d": 3}], "id = 1")
    with pytest.raises(lakemend.LakemendError):
        table.replace_where([{"id": 2, "n": 3}], "d = 200")
    assert rows(spark.table(f"{namespace}.t")) == [(1, 1, 2), (2, 100, 200), (3, 3, 6), (4, 4, 8), (5, 5, 10)]


def test_other_tables_are_changed_as_before(spark: SparkSession, namespace: str) -> None:
    t = created(spark, f"{namespace}.t", "id INT, n INT", "copy-on-write", False)
    spark.sql(f"INSERT INTO {t} VALUES (1, 1)")
    spark.sql(f"UPDATE {t} SET n = 2")
    spark.sql(f"UPDATE {t} SET n = 3 WHERE true")
    assert rows(spark.table(t)) == [(1, 3)]
    with pytest.raises(AnalysisException, match="(?s)UNRESOLVED_COLUMN.*nowhere"):
        spark.sql(f"UPDATE {t} SET nowhere = 2")
    with pytest.raises(AnalysisException, match="(?s)UNRESOLVED_COLUMN.*nowhere"):
        spark.sql(f"UPDATE {t} SET n = 2 WHERE nowhere = 1")
    with pytest.raises(TableNotFoundError, match="no_such"):
        spark.sql(f"UPDATE {namespace}.no_such SET n = 2 WHERE id = 1")
    with pytest.raises(AnalysisException, match="(?s)UNRESOLVED_COLUMN.*nowhere"):
        spark.sql(f"MERGE INTO {t} t USING {t} s ON t.id = s.nowhere WHEN MATCHED THEN UPDATE SET n = 2")


@pytest.mark.parametrize(("mode", "feed"), MODES)
def test_what_a_source_lacks_and_what_is_left_to_the_default(
    spark: SparkSession, namespace: str, mode: str, feed: bool
) -> None:
    columns = "id INT, n INT DEFAULT 7, d INT GENERATED ALWAYS AS (n * 2), e INT GENERATED ALWAYS AS (id + n)"
    t = created(spark, f"{namespace}.t", columns, mode, feed)
    spark.sql(f"INSERT INTO {t} (id, n) VALUES (1, 10), (2, 20)")
    spark.sql(
        f"MERGE INTO {t} t USING (SELECT 2 AS id, 21 AS n UNION ALL SELECT 3, 30) s ON t.id = s.id "
        "WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *"
    )
    assert rows(spark.table(t)) == [(1, 10, 20, 11), (2, 21, 42, 23), (3, 30, 60, 33)]
    spark.sql(
        f"MERGE INTO {t} t USING (SELECT 3 AS id, 31 AS n, 62 AS D UNION ALL SELECT 4, 40, 80) s ON t.id = s.id "
        "WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *"
    )
    assert rows(spark.table(t))[2:] == [(3, 31, 62, 34), (4, 40, 80, 44)]
    with pytest.raises(lakemend.ConstraintViolationError):
        spark.sql(
            f"MERGE INTO {t} t USING (SELECT 3 AS id, 1 AS n, 5 AS d) s ON t.id = s.id WHEN MATCHED THEN UPDATE SET *"
        )
    with pytest.raises(AnalysisException, match="UNRESOLVED_COLUMN"):
        spark.sql(f"MERGE INTO {t} t USING (SELECT 3 AS id, 5 AS d) s ON t.id = s.id WHEN MATCHED THEN UPDATE SET *")
    spark.sql(f"UPDATE {t} SET n = DEFAULT, d = DEFAULT WHERE id = 1")
    spark.sql(f"UPDATE {t} x SET x.d = default WHERE id = 2")
    spark.sql(
        f"MERGE INTO {t} t USING (SELECT 3 AS id UNION ALL SELECT 5) s ON t.id = s.id "
        "WHEN MATCHED THEN UPDATE SET n = 1, d = DEFAULT "
        "WHEN NOT MATCHED THEN INSERT (id, n, d) VALUES (5, DEFAULT, DEFAULT)"
    )
    assert rows(spark.table(t)) == [(1, 7, 14, 8), (2, 21, 42, 23), (3, 1, 2, 4), (4, 40, 80, 44), (5, 7, 14, 12)]


def test_one_made_of_another_is_refused(spark: SparkSession, namespace: str) -> None:
    with pytest.raises((AnalysisException, lakemend.InvalidInputError), match="generated column"):
        spark.sql(
            f"CREATE TABLE {namespace}.t (a INT, b INT GENERATED ALWAYS AS (a + 1), c INT GENERATED ALWAYS AS (b + 1))"
        )
    assert spark.sql(f"SHOW TABLES IN {namespace}").count() == 0


def test_other_tables_are_left_alone(spark: SparkSession) -> None:
    """Spark has its own words for tables it cannot change rows of."""
    spark.sql("CREATE OR REPLACE TEMPORARY VIEW some AS SELECT 1 AS id, 2 AS _pos")
    spark.sql("CREATE TABLE spark_catalog.default.plain (id INT, v INT DEFAULT 5) USING parquet")
    try:
        for statement in (
            "UPDATE spark_catalog.default.plain SET v = DEFAULT WHERE id = 1",
            "DELETE FROM spark_catalog.default.plain WHERE id IN (SELECT _pos FROM some)",
            "MERGE INTO spark_catalog.default.plain t USING some s ON t.id = s.id WHEN MATCHED THEN UPDATE SET v = 3",
        ):
            with pytest.raises(PySparkException, match="UNSUPPORTED_FEATURE.TABLE_OPERATION"):
                spark.sql(statement)
        for statement in (
            "UPDATE some SET id = 2",
            "MERGE INTO some t USING some s ON t.id = s.id WHEN MATCHED THEN DELETE",
        ):
            with pytest.raises(PySparkException):
                spark.sql(statement)
        assert spark.sql("SELECT id FROM some WHERE _pos = 2").count() == 1
    finally:
        spark.sql("DROP TABLE spark_catalog.default.plain")
