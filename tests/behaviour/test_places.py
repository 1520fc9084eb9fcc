"""Metadata columns in the conditions and values of statements that change rows."""

from __future__ import annotations

import pytest
from pyspark.sql import SparkSession

import lakemend
from lakemend import Table
from tests.copies import copied

# Files are written again without a feed, and masked with one; the others in ./run test-long.
KINDS = [
    ("copy-on-write", False),
    ("merge-on-read", True),
    pytest.param(("copy-on-write", True), marks=pytest.mark.slow),
    pytest.param(("merge-on-read", False), marks=pytest.mark.slow),
]


@pytest.fixture(params=KINDS, ids=lambda kind: kind[0] + (" with feed" if kind[1] else ""))
def table(request: pytest.FixtureRequest, spark: SparkSession, namespace: str) -> Table:
    """Ids 0 to 39 in four files of ten, with a CHAR column."""
    mode, feed = request.param
    properties = ", ".join(f"'write.{verb}.mode' = '{mode}'" for verb in ("merge", "update", "delete"))

    def make(path: str) -> None:
        spark.sql(
            f"CREATE TABLE lake.delta.`{path}` (id BIGINT, c CHAR(3), p INT) PARTITIONED BY (p) TBLPROPERTIES "
            f"({properties}, 'delta.enableChangeDataFeed' = '{str(feed).lower()}')"
        )
        rows = spark.range(0, 40, numPartitions=4).selectExpr("id", "'old' AS c", "CAST(id DIV 10 AS INT) AS p")
        lakemend.table(spark, path).append(rows)

    return copied(spark, (__name__, mode, feed), f"{namespace}.t", make)


def ids(table: Table, where: str = "true") -> list[int]:
    return sorted(row[0] for row in table.to_df().where(where).select("id").collect())


def file_of(table: Table, id: int) -> str:
    return str(table.to_df().where(f"id = {id}").select("_file").first()[0])


ALL = list(range(40))


def test_update(table: Table, spark: SparkSession) -> None:
    spark.sql(f"UPDATE {table.name} SET c = 'new' WHERE _file = '{file_of(table, 15)}' AND _pos >= 7")
    assert ids(table, "c = 'new'") == [17, 18, 19]
    assert ids(table) == ALL
    spark.sql(f"UPDATE {table.name} x SET id = x._pos + 100, c = right(x._file, 3) WHERE x.id = 33")
    assert [tuple(r) for r in table.to_df().where("id > 50").select("id", "c").collect()] == [(103, "uet")]
    spark.sql(f"UPDATE {table.name} SET c = 'p2' WHERE _partition.p = 2 AND _pos IN (SELECT id FROM range(2))")
    assert ids(table, "c = 'p2'") == [20, 21]
    assert len(ids(table)) == 40


def test_delete(table: Table, spark: SparkSession) -> None:
    spark.sql(f"DELETE FROM {table.name} WHERE _pos = 0 AND c = 'old'")
    assert ids(table) == [i for i in ALL if i % 10]
    own = f"SELECT max(_pos) FROM {table.name} o WHERE o._file = {table.name}._file"
    spark.sql(f"DELETE FROM {table.name} WHERE _pos = ({own})")
    assert ids(table) == [i for i in ALL if i % 10 not in (0, 9)]
    file = file_of(table, 5)
    spark.sql(f"DELETE FROM {table.name} WHERE _file = '{file}'")
    assert ids(table) == [i for i in ALL if i % 10 not in (0, 9) and i > 10]
    table.delete("_pos >= 0")
    assert ids(table) == []


def test_merge(table: Table, spark: SparkSession) -> None:
    source = f"(SELECT _file AS f, max(_pos) AS at FROM {table.name} WHERE id >= 20 GROUP BY 1)"
    spark.sql(
        f"MERGE INTO {table.name} t USING {source} s ON t._file = s.f AND t._pos = s.at "
        "WHEN MATCHED THEN UPDATE SET c = 'new'"
    )
    assert ids(table, "c = 'new'") == [29, 39]
    assert ids(table) == ALL
    spark.sql(
        f"MERGE INTO {table.name} t USING (SELECT id FROM range(10, 14)) s ON t.id = s.id "
        "WHEN MATCHED AND t._pos % 2 = 0 THEN DELETE WHEN MATCHED THEN UPDATE SET c = t._pos "
        "WHEN NOT MATCHED BY SOURCE AND t._partition.p = 3 THEN DELETE"
    )
    assert len(ids(table, "p < 3")) == 28 and ids(table, "p = 3") == []


def test_merge_that_only_inserts(table: Table, spark: SparkSession) -> None:
    spark.sql(
        f"MERGE INTO {table.name} t USING (SELECT id FROM range(38, 42)) s ON t.id = s.id AND t._pos < 9 "
        "WHEN NOT MATCHED THEN INSERT (id, c, p) VALUES (s.id, 'new', 9)"
    )
    assert sorted(ids(table)) == sorted([*ALL, 39, 40, 41])


def test_the_row_itself_is_refused(spark: SparkSession, namespace: str) -> None:
    name = f"{namespace}.t"
    spark.sql(f"CREATE TABLE {name} (id INT) TBLPROPERTIES ('delta.enableChangeDataFeed' = 'true')")
    spark.sql(f"INSERT INTO {name} VALUES (1)")
    with pytest.raises(lakemend.InvalidInputError, match="_before"):
        spark.sql(f"DELETE FROM {name} WHERE _before.id = 1")
    assert spark.table(name).count() == 1
