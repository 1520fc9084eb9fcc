"""Sources of a MERGE that are not what they were when they are read again, and sources made of the target itself."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

import lakemend
from lakemend import InvalidInputError, Table
from tests.copies import copied
from tests.settings import kept_rows, settings

# Files are written again without a feed, and masked with one; the others in ./run test-long.
KINDS = [
    ("copy-on-write", False),
    ("merge-on-read", True),
    pytest.param(("copy-on-write", True), marks=pytest.mark.slow),
    pytest.param(("merge-on-read", False), marks=pytest.mark.slow),
]
LARGE = {"spark.lakemend.merge.broadcastThreshold": "-1"}
STATIC = {"spark.sql.adaptive.enabled": "false"}
SHUFFLED = {"spark.sql.autoBroadcastJoinThreshold": "-1"}
UPSERT = "WHEN MATCHED THEN UPDATE SET v = 'new' WHEN NOT MATCHED THEN INSERT (id, v) VALUES (s.id, 'new')"
EQUAL, BETWEEN = "t.id = s.id", "t.id >= s.id AND t.id <= s.id"


@pytest.fixture(params=KINDS, ids=lambda kind: kind[0] + (" with feed" if kind[1] else ""))
def table(request: pytest.FixtureRequest, spark: SparkSession, namespace: str) -> Table:
    """Ids 0 to 39, ten in each of four files."""
    mode, feed = request.param
    properties = {f"write.{verb}.mode": mode for verb in ("merge", "update", "delete")}
    properties |= {"delta.enableChangeDataFeed": "true"} if feed else {}
    rows = spark.range(0, 40, numPartitions=4).selectExpr("id", "'old' AS v")
    return copied(
        spark,
        (__name__, mode, feed),
        f"{namespace}.t",
        lambda path: lakemend.table(spark, path).append(rows, properties=properties),
    )


def ids(table: Table) -> list[int]:
    return sorted(row[0] for row in table.to_df().select("id").collect())


def moving(spark: SparkSession, directory: Path) -> DataFrame:
    """Ten ids, which are others each time they are asked for."""
    counter = directory / "evaluations"

    def rows(_: Iterator[int]) -> Iterator[tuple[int]]:
        count = len(counter.read_text()) if counter.exists() else 0
        counter.write_text("x" * (count + 1))
        return iter([((count % 4) * 10 + i,) for i in range(10)])

    return spark.createDataFrame(spark.sparkContext.parallelize([0], 1).mapPartitions(rows), "id BIGINT")


@pytest.mark.sampled
@pytest.mark.parametrize("on", [EQUAL, BETWEEN])
@pytest.mark.parametrize("conf", [{}, LARGE, {**LARGE, **STATIC}], ids=["", "large", "static"])
def test_a_source_that_moves_is_read_once(
    table: Table, spark: SparkSession, tmp_path: Path, on: str, conf: dict
) -> None:
    before = kept_rows(spark)
    moving(spark, tmp_path).createOrReplaceTempView("moving")
    with settings(spark, conf):
        spark.sql(f"MERGE INTO {table.name} t USING moving s ON {on} {UPSERT}")
    assert ids(table) == list(range(40))
    assert table.to_df().where("v = 'new'").count() == 10
    assert kept_rows(spark) <= before


@pytest.mark.sampled
@pytest.mark.parametrize(
    ("clauses", "left"),
    [
        ("WHEN NOT MATCHED THEN INSERT (id, v) VALUES (s.id, 'new') WHEN NOT MATCHED BY SOURCE THEN DELETE", 10),
        ("WHEN MATCHED THEN DELETE WHEN NOT MATCHED THEN INSERT (id, v) VALUES (s.id, 'new')", 30),
        ("WHEN NOT MATCHED THEN INSERT (id, v) VALUES (s.id, 'new')", 40),
    ],
)
def test_a_moving_source_that_stands_in_the_plan_twice(
    table: Table, spark: SparkSession, tmp_path: Path, clauses: str, left: int
) -> None:
    moving(spark, tmp_path).createOrReplaceTempView("moving")
    for conf in ({}, LARGE):
        version = table.version
        with settings(spark, conf):
            spark.sql(f"MERGE INTO {table.name} t USING moving s ON {EQUAL} {clauses}")
        found = ids(table)
        assert len(found) == len(set(found)) == left
        if table.version != version:
            spark.sql(f"INSERT OVERWRITE {table.name} SELECT id, 'old' FROM range(40)")


@pytest.mark.parametrize("conf", [{}, LARGE, {**LARGE, **STATIC}], ids=["", "large", "static"])
def test_files_that_change_while_the_statement_runs(
    table: Table, spark: SparkSession, tmp_path: Path, conf: dict
) -> None:
    spark.range(5).coalesce(1).write.json(str(tmp_path / "json"))
    spark.read.schema("id BIGINT").json(str(tmp_path / "json")).createOrReplaceTempView("files")
    with settings(spark, conf):
        plan = spark.sql(f"EXPLAIN MERGE INTO {table.name} t USING files s ON {EQUAL} {UPSERT}").first()[0]
    # Rows that are needed twice are kept, and no scan of the files is left in the plan; needed once, there is one.
    kept, scans = plan.count("Scan ExistingRDD"), plan.count("FileScan json")
    twice = "ReplaceData" in plan or not conf
    assert (kept >= 2, scans) == ((True, 0) if twice else (False, 1)), plan


@pytest.mark.sampled
@pytest.mark.parametrize(
    ("on", "conf"),
    [
        ("id IN (SELECT id + 0 FROM moving LIMIT 100)", {}),
        ("id DIV 10 = (SELECT min(id) DIV 10 FROM moving)", STATIC),
        ("EXISTS (SELECT 1 FROM moving m WHERE m.id = {t}.id)", SHUFFLED),
        ("(SELECT count(*) FROM moving m WHERE m.id = {t}.id) > 0", {}),
        ("(SELECT max(m.id) FROM moving m WHERE m.id = {t}.id) >= 0", SHUFFLED),
    ],
    ids=["in", "scalar", "correlated", "count for each row", "maximum for each row"],
)
@pytest.mark.parametrize("statement", ["UPDATE {t} SET v = 'new' WHERE {on}", "DELETE FROM {t} WHERE {on}"])
def test_a_subquery_that_moves(
    table: Table, spark: SparkSession, tmp_path: Path, statement: str, on: str, conf: dict
) -> None:
    before = kept_rows(spark)
    moving(spark, tmp_path).createOrReplaceTempView("moving")
    with settings(spark, conf):
        spark.sql(statement.format(t=table.name, on=on.format(t=table.name)))
    assert len(ids(table)) == len(set(ids(table)))
    assert table.to_df().where("v = 'old'").count() == 30
    assert kept_rows(spark) <= before


@pytest.mark.parametrize(
    "none",
    [
        "(SELECT count(*) FROM {s} s WHERE s.k = {t}.id) = 0",
        "(SELECT coalesce(sum(s.k), 0) FROM {s} s WHERE s.k = {t}.id) = 0",
        "NOT EXISTS (SELECT k, count(*) FROM {s} s WHERE s.k = {t}.id GROUP BY k)",
        "id NOT IN (SELECT DISTINCT k FROM {s} s WHERE k IS NOT NULL)",
    ],
    ids=["count", "sum", "exists", "not in"],
)
def test_rows_for_which_a_subquery_finds_nothing(table: Table, spark: SparkSession, namespace: str, none: str) -> None:
    spark.sql(f"CREATE TABLE {namespace}.s AS SELECT id AS k FROM range(1, 30)")
    spark.sql(f"UPDATE {table.name} SET v = 'new' WHERE {none.format(s=f'{namespace}.s', t=table.name)}")
    assert sorted(r.id for r in table.to_df().where("v = 'new'").collect()) == [0, *range(30, 40)]
    assert ids(table) == list(range(40))


def test_a_subquery_that_needs_the_table_twice(table: Table, spark: SparkSession, namespace: str) -> None:
    spark.sql(f"CREATE TABLE {namespace}.s AS SELECT id AS k FROM range(1, 30)")
    own = f"FROM {namespace}.s s WHERE s.k = {table.name}.id"
    for none in (f"(SELECT 1 + count(*) {own} HAVING count(*) < 2) = 1", f"0 IN (SELECT count(*) {own})"):
        try:
            spark.sql(f"UPDATE {table.name} SET v = 'new' WHERE {none}")
        except InvalidInputError as told:
            assert "cannot be used to change rows" in told.problem and table.to_df().where("v = 'new'").isEmpty()
        else:
            assert sorted(r.id for r in table.to_df().where("v = 'new'").collect()) == [0, *range(30, 40)]
            spark.sql(f"UPDATE {table.name} SET v = 'old'")


@pytest.mark.sampled
@pytest.mark.parametrize("conf", [{}, LARGE], ids=["", "large"])
def test_a_frame_of_the_target_is_the_source(table: Table, spark: SparkSession, conf: dict) -> None:
    spark.table(table.name).where("id < 5").selectExpr("id + 38 AS id", "v").createOrReplaceTempView("own")
    with settings(spark, conf):
        spark.sql(f"MERGE INTO {table.name} t USING own s ON {EQUAL} {UPSERT}")
    assert ids(table) == list(range(43))
    assert table.to_df().where("v = 'new'").count() == 5


def test_the_target_itself_merged_into_it(table: Table, spark: SparkSession) -> None:
    rows = spark.table(table.name).where("id >= 35").alias("s")
    rows.mergeInto(table.name, F.expr(f"{table.name}.id = s.id")).whenMatched().update({"v": F.lit("new")}).merge()
    assert table.to_df().where("v = 'new'").count() == 5
    assert ids(table) == list(range(40))


@pytest.mark.sampled
@pytest.mark.parametrize("statement", ["UPDATE {t} SET v = 'new' WHERE {on}", "DELETE FROM {t} WHERE {on}"])
def test_a_frame_of_the_target_in_a_subquery(table: Table, spark: SparkSession, statement: str) -> None:
    spark.table(table.name).where("id % 8 = 0").createOrReplaceTempView("own")
    spark.sql(statement.format(t=table.name, on="id IN (SELECT id FROM own)"))
    assert table.to_df().where("v = 'old'").count() == 35


def test_a_source_that_holds_the_target_several_times(table: Table, spark: SparkSession) -> None:
    rows = spark.table(table.name)
    rows.alias("a").join(rows.alias("b"), F.expr("a.id = b.id + 35")).select("a.id").createOrReplaceTempView("own")
    source = f"(SELECT own.id FROM own JOIN own o ON own.id = o.id JOIN {table.name} n ON own.id = n.id)"
    spark.sql(f"MERGE INTO {table.name} t USING {source} s ON {EQUAL} {UPSERT}")
    assert ids(table) == list(range(40))
    assert sorted(row.id for row in table.to_df().where("v = 'new'").collect()) == list(range(35, 40))


def test_a_frame_of_the_target_reads_it_as_it_is_now(table: Table, spark: SparkSession) -> None:
    spark.table(table.name).where("v = 'old' AND id < 5").createOrReplaceTempView("own")
    spark.sql(f"UPDATE {table.name} SET v = 'changed' WHERE id < 3")
    spark.sql(f"MERGE INTO {table.name} t USING own s ON {EQUAL} {UPSERT}")
    assert sorted(row.id for row in table.to_df().where("v = 'new'").collect()) == [3, 4]


def test_a_source_of_the_target_brings_columns(table: Table, spark: SparkSession) -> None:
    source = f"(SELECT id, v, 'x' AS more FROM {table.name} WHERE id >= 38 UNION ALL SELECT 50, 'y', 'z')"
    spark.sql(
        f"MERGE WITH SCHEMA EVOLUTION INTO {table.name} t USING {source} s ON {EQUAL} "
        "WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *"
    )
    assert ids(table) == [*range(40), 50]
    assert sorted(r.id for r in table.to_df().where("more IS NOT NULL").collect()) == [38, 39, 50]
    spark.sql(
        f"INSERT WITH SCHEMA EVOLUTION INTO {table.name} BY NAME "
        f"SELECT id + 60 AS id, 1 AS n FROM {table.name} WHERE id < 2"
    )
    assert sorted(r.id for r in table.to_df().where("n = 1 AND v IS NULL").collect()) == [60, 61]
    rows = spark.table(table.name).where("id = 50").selectExpr("id", "'w' AS v", "5 AS later").alias("s")
    into = rows.mergeInto(table.name, F.expr(f"{table.name}.id = s.id")).whenMatched().updateAll()
    into.withSchemaEvolution().merge()
    assert [tuple(r) for r in table.to_df().where("later = 5").select("id", "v").collect()] == [(50, "w")]


PICKED = """WITH pick AS (SELECT id FROM {ids} ORDER BY rand() LIMIT 50)
SELECT id, 'in' AS v FROM pick UNION ALL SELECT id, 'out' FROM {ids} WHERE id NOT IN (SELECT id FROM pick)"""
UNIQUE = """WITH c AS (SELECT id, uuid() AS u FROM {ids})
SELECT a.id, 'x' AS v FROM c a JOIN c b ON a.u = b.u"""


@pytest.mark.sampled
@pytest.mark.parametrize("place", ["inside", "in front", "script"])
@pytest.mark.parametrize("conf", [{}, LARGE], ids=["", "large"])
def test_a_query_that_with_names_is_evaluated_once(spark: SparkSession, namespace: str, place: str, conf: dict) -> None:
    spark.range(100).write.saveAsTable(f"{namespace}.ids")

    def merged(query: str, clauses: str) -> list[tuple]:
        spark.sql(f"CREATE OR REPLACE TABLE {namespace}.t (id BIGINT, v STRING)")
        spark.sql(f"INSERT INTO {namespace}.t SELECT id, 'old' FROM range(0, 100, 2)")
        query = query.format(ids=f"{namespace}.ids")
        merge = f"MERGE INTO {namespace}.t t USING ({query}) s ON t.id = s.id {clauses}"
        if place == "in front":
            with_, rest = query[: query.rindex(")\nSELECT") + 1], query[query.rindex(")\nSELECT") + 1 :]
            merge = f"{with_} MERGE INTO {namespace}.t t USING ({rest}) s ON t.id = s.id {clauses}"
        with settings(spark, conf):
            spark.sql(f"BEGIN {merge}; END" if place == "script" else merge)
        return [tuple(row) for row in spark.table(f"{namespace}.t").orderBy("id").collect()]

    every = "WHEN MATCHED THEN UPDATE SET v = s.v WHEN NOT MATCHED THEN INSERT *"
    picked = merged(PICKED, every)
    assert [row[0] for row in picked] == list(range(100))
    assert sorted(row[1] for row in picked) == ["in"] * 50 + ["out"] * 50
    synced = merged(UNIQUE, f"{every} WHEN NOT MATCHED BY SOURCE THEN DELETE")
    assert synced == [(i, "x") for i in range(100)]


def test_a_value_that_names_a_query_of_with(spark: SparkSession, namespace: str) -> None:
    spark.sql(f"CREATE TABLE {namespace}.t (id BIGINT, v STRING)")
    spark.sql(f"INSERT INTO {namespace}.t SELECT id, 'old' FROM range(10)")
    spark.sql(f"""
        WITH c AS (SELECT id FROM range(5, 15)), few AS (SELECT * FROM c WHERE id < 8)
        MERGE INTO {namespace}.t t USING c AS s ON t.id = s.id
        WHEN MATCHED THEN UPDATE SET v = (SELECT concat('most ', max(id)) FROM few)
        WHEN NOT MATCHED THEN INSERT (id, v) VALUES (s.id, 'new')""")
    rows = {row.id: row.v for row in spark.table(f"{namespace}.t").collect()}
    assert rows == {i: "most 7" if 5 <= i < 10 else "new" if i >= 10 else "old" for i in range(15)}


def test_a_query_of_with_hides_the_table_of_its_name(spark: SparkSession, namespace: str) -> None:
    spark.sql(f"CREATE TABLE {namespace}.t (id BIGINT, v BIGINT)")
    spark.sql(f"INSERT INTO {namespace}.t VALUES (1, 0), (2, 0)")
    spark.sql("SELECT 1L AS id, 100L AS v").createOrReplaceTempView("shadowed")
    clause = "WHEN MATCHED THEN UPDATE SET v = {s}.v + (SELECT max(x) FROM VALUES (0) AS other(x))"
    spark.sql(f"""WITH shadowed AS (SELECT id, v + 1 AS v FROM shadowed) MERGE INTO {namespace}.t t USING shadowed
                  ON t.id = shadowed.id {clause.format(s="shadowed")}""")
    assert [row.v for row in spark.table(f"{namespace}.t").orderBy("id").collect()] == [101, 0]
    spark.sql("SELECT 2L AS id, 7L AS v").createOrReplaceTempView("b")
    spark.sql(f"""WITH a AS (SELECT * FROM b), b AS (SELECT 99L AS id, 99L AS v) MERGE INTO {namespace}.t t USING a
                  ON t.id = a.id {clause.format(s="a")} WHEN NOT MATCHED THEN INSERT *""")
    assert [tuple(row) for row in spark.table(f"{namespace}.t").orderBy("id").collect()] == [(1, 101), (2, 7)]
