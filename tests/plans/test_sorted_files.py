"""Files whose rows are known to be sorted: joins on the partition and these columns need no sort."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from pyspark.sql import SparkSession

import lakemend
from tests.copies import copied
from tests.plans.exchanges import NO_BROADCAST, SWITCH, both
from tests.settings import settings


@pytest.fixture(params=["adaptive", pytest.param("static", marks=pytest.mark.slow)], autouse=True)
def planner(request: pytest.FixtureRequest, spark: SparkSession) -> Iterator[None]:
    adaptive = str(request.param == "adaptive").lower()
    with settings(spark, {**NO_BROADCAST, "spark.sql.adaptive.enabled": adaptive}):
        yield


@pytest.fixture
def tables(spark: SparkSession, namespace: str) -> str:
    def make(path: str) -> None:
        spark.sql(
            f"""CREATE TABLE lake.delta.`{path}` (p INT, id BIGINT, v STRING) PARTITIONED BY (p)
            TBLPROPERTIES ('write.sort-columns' = 'id')"""
        )
        insert(spark, f"lake.delta.`{path}`", 0, 200)

    for name in ("a", "b"):
        copied(spark, (__name__, name), f"{namespace}.{name}", make)
    return namespace


def insert(spark: SparkSession, table: str, start: int, end: int) -> None:
    """Ids come in no order, some of them null."""
    spark.sql(
        f"""INSERT INTO {table} SELECT CASE WHEN id % 5 = 4 THEN NULL ELSE CAST(id % 5 AS INT) END,
        CASE WHEN id % 11 = 0 THEN NULL ELSE id * 7919 % 211 END, 'v' || id FROM range({start}, {end})"""
    )


JOIN = "SELECT * FROM {t}.a {kind} JOIN {t}.b ON a.p = b.p AND a.id = b.id"


@pytest.mark.parametrize("kind", ["", "LEFT", "RIGHT", "FULL", "LEFT SEMI", "LEFT ANTI"])
def test_no_sort(spark: SparkSession, tables: str, kind: str) -> None:
    done = both(spark, JOIN.format(t=tables, kind=kind))
    assert (done.exchanges, done.sorts) == (0, 0), done.plan


def test_rows_lie_in_order(spark: SparkSession, tables: str) -> None:
    rows = spark.sql(f"SELECT _file, _pos, id FROM {tables}.a").collect()
    for file in {row["_file"] for row in rows}:
        ids = [row["id"] for row in sorted((r for r in rows if r["_file"] == file), key=lambda r: r["_pos"])]
        assert ids == sorted(ids, key=lambda n: (n is not None, n or 0))


def test_a_second_file_is_sorted_again(spark: SparkSession, tables: str) -> None:
    insert(spark, f"{tables}.a", 200, 260)
    done = both(spark, JOIN.format(t=tables, kind=""))
    assert (done.exchanges, done.sorts) == (0, 1), done.plan


@pytest.mark.parametrize("mode", ["copy-on-write", "merge-on-read"])
def test_row_changes(spark: SparkSession, tables: str, mode: str) -> None:
    spark.sql(
        f"ALTER TABLE {tables}.a SET TBLPROPERTIES ('write.update.mode' = '{mode}', 'write.delete.mode' = '{mode}')"
    )
    spark.sql(f"DELETE FROM {tables}.a WHERE id % 3 = 0")
    assert both(spark, JOIN.format(t=tables, kind="")).sorts == 0
    spark.sql(f"UPDATE {tables}.a SET id = 500 - id WHERE id % 3 = 1")
    done = both(spark, JOIN.format(t=tables, kind="FULL"))
    assert done.sorts == (0 if mode == "copy-on-write" else 1)


def test_a_table_without_the_property(spark: SparkSession, tables: str) -> None:
    """What files say of themselves holds for them alone."""
    spark.sql(f"ALTER TABLE {tables}.a UNSET TBLPROPERTIES ('write.sort-columns')")
    assert both(spark, JOIN.format(t=tables, kind="")).sorts == 0
    spark.sql(f"INSERT OVERWRITE {tables}.a SELECT p, id, v FROM {tables}.b ORDER BY v")
    done = both(spark, JOIN.format(t=tables, kind=""))
    assert done.sorts == 1, done.plan


def test_renamed_columns(spark: SparkSession, tables: str) -> None:
    spark.sql(f"ALTER TABLE {tables}.a SET TBLPROPERTIES ('delta.columnMapping.mode' = 'name')")
    spark.sql(f"ALTER TABLE {tables}.a RENAME COLUMN id TO key")
    spark.sql(f"ALTER TABLE {tables}.a ADD COLUMN id BIGINT")
    done = both(spark, f"SELECT * FROM {tables}.a JOIN {tables}.b ON a.p = b.p AND a.key = b.id")
    assert done.sorts == 0, done.plan
    done = both(spark, f"SELECT * FROM {tables}.a JOIN {tables}.b ON a.p = b.p AND a.id = b.id")
    assert done.sorts == 1, done.plan


def test_an_order_that_is_asked_for_is_kept(spark: SparkSession, tables: str) -> None:
    """A scan that is sorted makes a sort needless, and must then not be read in another order."""
    with settings(spark, {SWITCH: "true", "spark.sql.files.maxPartitionBytes": "1g"}):
        frame = spark.table(f"{tables}.a").select("p", "id").sortWithinPartitions("p", "id")
        for part in frame.rdd.glom().collect():
            keys = [(row["p"] is not None, row["p"] or 0, row["id"] is not None, row["id"] or 0) for row in part]
            assert keys == sorted(keys)


def test_an_order_that_is_asked_for_is_kept_below_an_exchange(spark: SparkSession, tables: str) -> None:
    """Rows that are numbered, as those that a function of Python sees, come as they were sorted."""
    with settings(spark, {SWITCH: "true"}):
        sorted_rows = (
            spark.table(f"{tables}.a")
            .sortWithinPartitions("p", "id")
            .selectExpr("p", "id", "monotonically_increasing_id() AS n")
        )
        rows = sorted_rows.repartition(3, "id").collect()
    for task in {row["n"] >> 33 for row in rows}:
        own = sorted((row for row in rows if row["n"] >> 33 == task), key=lambda row: row["n"])
        keys = [(row["p"] is not None, row["p"] or 0, row["id"] is not None, row["id"] or 0) for row in own]
        assert keys == sorted(keys)


@pytest.mark.parametrize(
    ("columns", "cause"), [("nope", "no such column"), ("p", "one value of a partition column"), ("id, V ", None)]
)
def test_which_columns(spark: SparkSession, tables: str, columns: str, cause: str | None) -> None:
    spark.sql(f"ALTER TABLE {tables}.a SET TBLPROPERTIES ('write.sort-columns' = '{columns}')")
    if cause is None:
        insert(spark, f"{tables}.a", 300, 310)
        return
    before = spark.table(f"{tables}.a").count()
    with pytest.raises(lakemend.InvalidInputError, match=cause):
        insert(spark, f"{tables}.a", 300, 310)
    assert spark.table(f"{tables}.a").count() == before


@pytest.mark.parametrize(
    ("kind", "change"),
    [
        ("named_struct('a', id % 7, 'b', -id)", "DROP COLUMN s.a"),
        *(
            pytest.param(*case, marks=pytest.mark.slow)
            for case in (
                ("named_struct('a', id % 7, 'b', -id)", "ALTER COLUMN s.b FIRST"),
                ("array(named_struct('a', id % 7, 'b', -id))", "DROP COLUMN s.element.a"),
            )
        ),
    ],
)
def test_structs_that_compare_otherwise_by_now(spark: SparkSession, namespace: str, kind: str, change: str) -> None:
    """Rows that lie in the order of a struct lie in none once its fields have changed."""
    for name, step in (("a", 1), ("b", 2)):
        spark.sql(
            f"""CREATE TABLE {namespace}.{name} PARTITIONED BY (p)
            TBLPROPERTIES ('write.sort-columns' = 's', 'delta.columnMapping.mode' = 'name')
            AS SELECT CAST(id % 3 AS INT) AS p, id, {kind} AS s FROM range(0, 60, {step})"""
        )
        spark.sql(f"ALTER TABLE {namespace}.{name} {change}")
    join = f"FROM {namespace}.a {{kind}} JOIN {namespace}.b ON a.p = b.p AND a.s = b.s"
    assert spark.sql("SELECT * " + join.format(kind="")).count() == 30
    assert spark.sql("SELECT * " + join.format(kind="FULL")).count() == 60
    spark.sql(
        f"MERGE INTO {namespace}.a t USING {namespace}.b s ON t.p = s.p AND t.s = s.s "
        "WHEN MATCHED THEN UPDATE SET id = s.id WHEN NOT MATCHED THEN INSERT *"
    )
    assert spark.table(f"{namespace}.a").count() == 60
