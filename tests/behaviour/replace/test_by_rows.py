"""Rows that are replaced because others like them come: by keys, by a condition, by partition."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

import lakemend
from lakemend import Table
from lakemend.errors import (
    InvalidInputError,
    InvalidPredicateError,
    UnsupportedOperatorError,
)
from tests.behaviour.replace.rows import ALL, Make, content, frame, ordered
from tests.settings import kept_rows, settings


def test_replace_using_keys(spark: SparkSession, make: Make) -> None:
    table = make()
    new = [(3, 3, "new", 1), (3, 3, "twice", 1), (7, 9, "moved", 1), (100, 0, "added", 1), (None, 1, "null", 1)]
    report = table.replace_using(frame(spark, new), ["ID"])
    left = [r for r in ALL if r[0] not in (3, 7)]
    assert content(table) == ordered([*left, *new])
    assert (report.deleted, report.inserted, report.total) == (2, 5, 43)
    assert table.history(1)[0]["parameters"]["replaceUsing"] == "ID"
    # NULL equals nothing: the row stays.
    assert table.replace_using(frame(spark, [(None, 1, "null", 2)]), "id").deleted == 0
    report = table.replace_using(frame(spark, [(1, 2, "x", 1), (3, 3, "x", 2)]), key_columns=["p", "id"])
    assert (report.deleted, report.inserted) == (2, 2)


def test_replace_using_rewrites_only_what_it_must(spark: SparkSession, namespace: str, mode: str) -> None:
    table = lakemend.table(spark, f"{namespace}.t")
    for start in range(0, 50, 10):
        table.append(
            spark.sql(f"SELECT id, 'x' AS s FROM range({start}, {start + 10})").coalesce(1),
            **({"properties": {"write.delete.mode": mode}} if start == 0 else {}),
        )
    report = table.replace_using(frame(spark, [(15, "new"), (17, "new"), (17, "twice")], "id LONG, s STRING"), ["id"])
    assert (report.deleted, report.inserted) == (2, 3)
    assert report.files_removed + report.files_masked == 1


@pytest.mark.parametrize("dry_run", [False, True])
def test_rows_that_were_kept_are_let_go(spark: SparkSession, make: Make, dry_run: bool) -> None:
    table, before = make(), kept_rows(spark)
    drawn = frame(spark, [(3, 3, "new", 1), (100, 0, "added", 1)]).where(F.rand() >= 0)
    assert table.replace_using(drawn, ["id"], dry_run=dry_run).inserted == 2
    own = drawn.localCheckpoint()
    assert table.replace_using(own, ["id"], dry_run=dry_run).inserted == 2
    assert len(kept_rows(spark) - before) == 1  # the caller's own
    assert own.count() == 2


def test_replace_on_a_condition(spark: SparkSession, make: Make) -> None:
    table = make()
    new = [(10, 1, "new", 10), (20, 2, "new", None)]
    report = table.replace_on(frame(spark, new), "t.id = s.id + 1 AND t.p = s.p + 2 OR t.v = s.v")
    gone = [r for r in ALL if (r[0] == 11 and r[1] == 3) or r[3] == 10]
    assert gone
    assert content(table) == ordered([r for r in ALL if r not in gone] + new)
    assert (report.deleted, report.inserted) == (len(gone), 2)
    assert table.history(1)[0]["parameters"]["replaceOn"].startswith("t.id = s.id + 1")
    assert table.replace_on(frame(spark, []), F.col("t.id") == F.col("s.id")).version is None


def test_rows_that_are_aggregated_or_joined(spark: SparkSession, make: Make) -> None:
    table = make()
    frame(spark, [(3, 1, "a", 1), (3, 1, "a", 2), (7, 1, "b", 5)]).createOrReplaceTempView("incoming_rows")
    summed = spark.sql("SELECT id, max(p) AS p, min(s) AS s, sum(v) AS v FROM incoming_rows GROUP BY id")
    joined = summed.alias("a").join(summed.alias("b"), "id").select("id", "a.p", "b.s", "a.v")
    new = [(3, 1, "a", 3), (7, 1, "b", 5)]
    for run in (
        lambda: table.replace_using(summed, "id"),
        lambda: table.replace_on(joined, "t.id = s.id"),
        lambda: table.replace_where(joined, "id IN (3, 7)"),
    ):
        report = run()
        assert (report.deleted, report.inserted) == (2, 2)
        assert content(table) == ordered([*(r for r in ALL if r[0] not in (3, 7)), *new])


def test_replace_by_rows_refusals(spark: SparkSession, make: Make, unchanged: Callable[[Table], None]) -> None:
    table = make()
    unchanged(table)
    new = frame(spark, [(1, 1, "x", 1)])
    for run in (
        lambda: table.replace_using(new, ["nope"]),
        lambda: table.replace_on(new, "t.nope = s.id"),
        lambda: table.replace_on(new, "t.id ="),
        lambda: table.replace_on(new, "t.id + s.id"),
    ):
        with pytest.raises(InvalidPredicateError):
            run()
    with pytest.raises(UnsupportedOperatorError):
        table.replace_on(new, "t.id = s.id AND rand() > 0.5")
    with pytest.raises(UnsupportedOperatorError):
        table.replace_on(new, "t.id IN (SELECT 1)")
    for keys in ([], ["id", "ID"]):
        with pytest.raises(InvalidInputError):
            table.replace_using(new, keys)


def test_an_unstable_frame_is_read_once(spark: SparkSession, make: Make) -> None:
    table = make()
    new = spark.sql("SELECT CAST(floor(rand() * 40) AS LONG) AS id, 1L AS p, 'new' AS s, 1L AS v FROM range(5)")
    report = table.replace_using(new, ["id"])
    ids = [r[0] for r in content(table) if r[2] == "new"]
    assert report.inserted == len(ids) == 5
    # Had the frame been evaluated twice, other rows would have gone than those that came for.
    assert {r[0] for r in content(table) if r[2] != "new"} == set(range(40)) - set(ids)


def test_a_frame_that_picks_one_row_of_several_is_read_once(spark: SparkSession, namespace: str, mode: str) -> None:
    """Which of rows that are ordered alike is the first depends on how they are joined: another way for keys alone."""
    spark.sql(f"CREATE TABLE {namespace}.items (k INT, g INT, id INT)")
    ids = "SELECT INT((200 - id) % 100), INT(id > 20) * INT(id), INT(id) FROM range(1, 200)"
    spark.sql(f"INSERT INTO {namespace}.items {ids}")
    spark.sql(f"CREATE TABLE {namespace}.texts (k INT, s STRING)")
    spark.sql(f"INSERT INTO {namespace}.texts SELECT INT(id), repeat('x', 5000) FROM range(100)")
    table = lakemend.table(spark, f"{namespace}.t")
    table.append(spark.sql("SELECT INT(id) AS id, 'old' AS s FROM range(60)"), properties={"write.delete.mode": mode})
    with settings(spark, {"spark.sql.autoBroadcastJoinThreshold": "1500"}):
        first = spark.sql(
            f"""SELECT id, s FROM (
                SELECT i.id, s, row_number() OVER (PARTITION BY g ORDER BY g) AS n
                FROM {namespace}.items i JOIN {namespace}.texts t ON i.k = t.k)
            WHERE n = 1 AND id <= 20"""
        )
        table.replace_using(first, ["id"])
    assert [r.id for r in table.to_df().groupBy("id").count().where("count <> 1").collect()] == []
    assert table.to_df().count() == 60


def test_dynamic_partition_overwrite(spark: SparkSession, make: Make, partitioned: bool) -> None:
    table = make()
    report = table.overwrite_partitions(frame(spark, [(1, 1, "x", 1), (2, 9, "y", 1)]))
    assert report.deleted == (10 if partitioned else 40)
    frame(spark, [(1, 2, "x", 1)]).write.format("lakemend").mode("overwrite").option(
        "partitionOverwriteMode", "dynamic"
    ).save(table.detail()["location"])
    assert {r[1] for r in content(table)} == ({0, 1, 2, 3, 9} if partitioned else {2})
