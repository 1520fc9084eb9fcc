"""The options of merges: which columns, stale events, deletions, rows that do not change, new columns."""

from __future__ import annotations

from collections.abc import Callable
from datetime import date
from decimal import Decimal

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

import lakemend
from lakemend import Report, Table
from tests.behaviour.strategies.conftest import MODES, rows

pytestmark = pytest.mark.either("people", "mode")

Merged = Callable[..., Report]
OLD = [(1, "x", "a", 10), (2, "y", "b", 20), (3, "x", "c", 30)]


def test_columns(people: Table, merged: Merged) -> None:
    merged(people, [{"id": 1, "p": "q", "v": "A", "n": 11}, {"id": 9, "p": "q", "v": "N", "n": 9}], "id", columns="v")
    assert rows(people) == [(1, "x", "A", 10), *OLD[1:], (9, "q", "N", 9)]


def test_keys_alone(people: Table, merged: Merged) -> None:
    assert merged(people, [{"id": 1}, {"id": 9}], "id", "update").version is None
    assert rows(people) == OLD


def test_a_column_that_the_source_lacks(people: Table, merged: Merged) -> None:
    merged(people, [{"ID": 1, "V": "A"}, {"ID": 9, "V": "N"}], "id")
    assert rows(people) == [(1, "x", "A", 10), *OLD[1:], (9, None, "N", None)]


def test_defaults_of_columns_that_the_source_lacks(spark: SparkSession, namespace: str, merged: Merged) -> None:
    spark.sql(f"CREATE TABLE {namespace}.t (id BIGINT, v INT DEFAULT 7)")
    table = lakemend.table(spark, f"{namespace}.t")
    merged(table, [{"id": 1}], "id")
    assert rows(table) == [(1, 7)]


def test_rows_that_do_not_change_are_not_written(people: Table, merged: Merged) -> None:
    same = people.to_df().where("id < 3")
    version = people.version
    report = people.merge(same, "id", when_changed_only=True)
    assert (report.version, people.version) == (None, version)
    changed = [{"id": 1, "p": "x", "v": "a", "n": 10}, {"id": 2, "p": "y", "v": None, "n": 20}]
    assert merged(people, changed, "id", when_changed_only=True).stats == {
        "inserted": 0, "updated": 1, "deleted": 0, "total": 3}  # fmt: skip
    assert rows(people)[1] == (2, "y", None, 20)


def test_what_changes_of_values_without_an_order(spark: SparkSession, namespace: str) -> None:
    spark.sql(f"CREATE TABLE {namespace}.t (id INT, m MAP<STRING, INT>, l ARRAY<MAP<INT, INT>>, c CHAR(4), d DOUBLE)")
    spark.sql(f"INSERT INTO {namespace}.t VALUES (1, map('a', 1, 'b', 2), array(map(1, 1)), 'x', double('NaN'))")
    table = lakemend.table(spark, f"{namespace}.t")

    def updated(expressions: str) -> int:
        return table.merge(spark.sql(f"SELECT {expressions}"), "id", when_changed_only=True).updated

    same = "1 AS id, map('b', 2, 'a', 1) AS m, array(map(1, 1)) AS l, 'x' AS c, double('NaN') AS d"
    assert updated(same) == 0
    assert updated(same.replace("'a', 1", "'a', 3")) == 1
    assert updated("1 AS id, array(map(1, 2)) AS l") == 1
    assert updated("1 AS id, 'y' AS c") == 1


@pytest.mark.parametrize("strategy", ["upsert", "update", "full_merge"])
@pytest.mark.sampled
def test_stale_events(people: Table, strategy: str, merged: Merged) -> None:
    events = [{"id": 1, "v": "older", "n": 9}, {"id": 2, "v": "same", "n": 20}, {"id": 3, "v": "newer", "n": 31}]
    assert merged(people, events, "id", strategy, sequence_by="n").updated == 1
    assert [row[2] for row in rows(people)] == ["a", "b", "newer"]
    merged(people, [{"id": 3, "v": "nothing", "n": None}], "id", "update", sequence_by="n")
    assert rows(people)[2][2] == "newer"


def test_hard_deletes(people: Table, merged: Merged) -> None:
    events = [
        {"id": 1, "op": "D"},
        {"id": 2, "v": "B", "op": "U"},
        {"id": 8, "op": "D"},
        {"id": 9, "v": "N", "op": None},
    ]
    report = merged(people, events, "id", delete_when="op = 'D'")
    assert report.stats == {"inserted": 1, "updated": 1, "deleted": 1, "total": 3}
    assert [(row[0], row[2]) for row in rows(people)] == [(2, "B"), (3, "c"), (9, "N")]
    merged(people, [{"id": 2, "v": "x", "op": "D"}], "id", "update", delete_when=F.col("op") == "D")
    assert [row[0] for row in rows(people)] == [3, 9]


def test_deletions_of_whole_keys(people: Table, merged: Merged) -> None:
    events = [
        {"id": 1, "p": "x", "v": None, "n": 0, "op": "D"},
        {"id": 2, "p": "y", "v": "B", "n": 1, "op": "U"},
        {"id": 2, "p": "y", "v": None, "n": 0, "op": "D"},
        {"id": 2, "p": "x", "v": "C", "n": 2, "op": None},
        {"id": 9, "p": "x", "v": None, "n": 0, "op": "D"},
    ]
    report = merged(people, events, "id", "delete_insert", delete_when="op = 'D'")
    assert report.stats == {"inserted": 2, "updated": 0, "deleted": 2, "total": 3}
    assert rows(people, "id", "v") == [(2, "y", "B", 1), (2, "x", "C", 2), OLD[2]]
    merged(people, people.to_df(), "id", "delete_insert", delete_when="n > 1")
    assert rows(people) == [(2, "y", "B", 1)]


@pytest.mark.parametrize("mode", MODES)
def test_soft_deletes(spark: SparkSession, namespace: str, mode: str, merged: Merged) -> None:
    spark.sql(f"""CREATE TABLE {namespace}.t (id INT, v STRING, n INT, gone BOOLEAN)
                  TBLPROPERTIES ('write.merge.mode' = '{mode}')""")
    table = lakemend.table(spark, f"{namespace}.t")
    how = {"delete_when": "op = 'D'", "soft_delete": "gone", "sequence_by": "n"}
    merged(table, [{"id": 1, "v": "a", "n": 1, "op": "U"}, {"id": 2, "v": "b", "n": 1, "op": "U"}], "id", **how)
    assert rows(table) == [(1, "a", 1, False), (2, "b", 1, False)]
    merged(table, [{"id": 1, "v": None, "n": 3, "op": "D"}, {"id": 7, "v": None, "n": 5, "op": "D"}], "id", **how)
    assert rows(table) == [(1, "a", 3, True), (2, "b", 1, False), (7, None, 5, True)]
    # Older events bring nothing to life, also of keys that were deleted before they came.
    merged(table, [{"id": 1, "v": "x", "n": 2, "op": "U"}, {"id": 7, "v": "x", "n": 4, "op": "U"}], "id", **how)
    assert rows(table) == [(1, "a", 3, True), (2, "b", 1, False), (7, None, 5, True)]
    merged(table, [{"id": 1, "v": "back", "n": 4, "op": "U"}], "id", **how)
    assert rows(table)[0] == (1, "back", 4, False)
    merged(table, [{"id": 1, "v": "back", "n": 4}], "id", "full_merge", soft_delete="gone")
    assert rows(table) == [(1, "back", 4, False), (2, "b", 1, True), (7, None, 5, True)]


def test_a_key_that_is_back_in_the_next_snapshot(spark: SparkSession, namespace: str, merged: Merged) -> None:
    spark.sql(f"CREATE TABLE {namespace}.t (id INT, v STRING, n INT, gone BOOLEAN)")
    table = lakemend.table(spark, f"{namespace}.t")
    how = {"delete_when": "op = 'D'", "soft_delete": "gone", "sequence_by": "n", "when_changed_only": True}
    steps = [
        ([(1, "a", 5, "U"), (2, "b", None, "U")], [(1, "a", 5, False), (2, "b", None, False)]),
        ([(3, "c", 1, "U")], [(1, "a", 5, True), (2, "b", None, True), (3, "c", 1, False)]),
        # No older than when it went: it is there again. What is older stays gone.
        ([(1, "x", 4, "U"), (2, "b", None, "U")], [(1, "a", 5, True), (2, "b", None, False), (3, "c", 1, True)]),
        ([(1, "a", 5, "D"), (2, "b", None, "U")], [(1, "a", 5, True), (2, "b", None, False), (3, "c", 1, True)]),
        ([(1, "a", 5, "U"), (2, "z", None, "U")], [(1, "a", 5, False), (2, "b", None, False), (3, "c", 1, True)]),
    ]
    for snapshot, expected in steps:
        source = spark.createDataFrame(snapshot, "id INT, v STRING, n INT, op STRING")
        merged(table, source, "id", "full_merge", **how)
        assert rows(table) == expected, snapshot
    # Events tell of one key each: one that is no newer than a deletion says nothing.
    table.merge([{"id": 3, "v": "c", "n": 1, "op": "U"}], "id", **how)
    assert rows(table)[2] == (3, "c", 1, True)


def test_a_soft_delete_of_rows_that_are_the_same(spark: SparkSession, namespace: str) -> None:
    spark.sql(f"CREATE TABLE {namespace}.t (id INT, v STRING, gone BOOLEAN)")
    table = lakemend.table(spark, f"{namespace}.t")
    how = {"delete_when": "op = 'D'", "soft_delete": "gone", "when_changed_only": True}
    for op, count, gone in (("U", 0, False), ("D", 1, True), ("D", 0, True), ("U", 1, False), ("U", 0, False)):
        report = table.merge([{"id": 1, "v": "a", "op": op}], "id", **how)
        assert (report.updated, rows(table)) == (count, [(1, "a", gone)]), op


def test_a_row_that_is_deleted_again_takes_the_newer_sequence(spark: SparkSession, namespace: str) -> None:
    spark.sql(f"CREATE TABLE {namespace}.t (id INT, n INT, gone BOOLEAN)")
    table = lakemend.table(spark, f"{namespace}.t")
    how = {"delete_when": "op = 'D'", "soft_delete": "gone", "sequence_by": "n", "when_changed_only": True}
    for op, n, updated in (("U", 1, 0), ("D", 5, 1), ("D", 9, 1), ("D", 9, 0), ("U", 7, 0)):
        assert table.merge([{"id": 1, "n": n, "op": op}], "id", **how).updated == updated, (op, n)
    assert rows(table) == [(1, 9, True)]


@pytest.mark.parametrize("strategy", ["upsert", "insert", "update", "full_merge", "delete_insert"])
@pytest.mark.sampled
def test_new_columns(people: Table, strategy: str) -> None:
    source = [{"id": 1, "v": "A", "w": 1.5, "s": {"x": 1}}, {"id": 9, "v": "N", "w": 2.5, "s": {"x": 2}}]
    report = people.merge(source, "id", strategy, schema_evolution=True)
    assert people.schema.names == ["id", "p", "v", "n", "w", "s"]
    known = {row.id: row.w for row in people.to_df().collect()}
    assert known.get(1) == (None if strategy == "insert" else 1.5)
    assert known.get(9) == (None if strategy == "update" else 2.5)
    assert report.version == 2


def test_new_columns_beside_deletions_and_sequences(people: Table) -> None:
    source = [{"id": 1, "n": 99, "op": "D", "w": 1}, {"id": 2, "n": 99, "op": "U", "w": 2}]
    report = people.merge(source, "id", delete_when="op = 'D'", schema_evolution=True, when_changed_only=True)
    assert report.stats == {"inserted": 0, "updated": 1, "deleted": 1, "total": 2}
    assert people.schema.names == ["id", "p", "v", "n", "w"]
    assert [(row.id, row.w) for row in people.to_df().orderBy("id").collect()] == [(2, 2), (3, None)]


@pytest.mark.parametrize(
    ("own", "incoming"),
    [("INT", "2L"), ("BIGINT", "2"), ("DECIMAL(12,2)", "2"), ("BIGINT", "2BD"), ("DOUBLE", "2F"), ("VARCHAR(5)", "'2'"),
     ("CHAR(5)", "'2'"), ("DATE", "DATE'2026-01-02'"), ("DATE", "DATE'+12026-01-02'"),
     ("BINARY", "X'02'"), ("TIMESTAMP", "TIMESTAMP'2026-01-02'")],
)  # fmt: skip
def test_keys_of_types_that_can_be_compared(spark: SparkSession, namespace: str, own: str, incoming: str) -> None:
    spark.sql(f"CREATE TABLE {namespace}.t (k {own}, v INT)")
    table = lakemend.table(spark, f"{namespace}.t")
    for value in (1, 2):
        stats = table.merge(spark.sql(f"SELECT {incoming} AS k, {value} AS v"), "k").stats
        assert stats is not None
        assert stats["total"] == 1
    assert table.to_df().select("v").collect() == [(2,)]
    assert table.schema["k"].dataType == spark.sql(f"SELECT CAST(NULL AS {own}) AS k").schema["k"].dataType


def test_sources(people: Table, tmp_path, namespace: str) -> None:
    import pandas as pd
    import polars as pl
    import pyarrow as pa

    spark = people.spark
    by_date = tmp_path / "updates"
    spark.sql("SELECT 1L AS id, 'parquet' AS v, DATE'2025-11-04' AS date").write.partitionBy("date").parquet(
        str(by_date)
    )
    spark.sql("SELECT 1L AS id, 'lake path' AS v").write.format("delta").save(str(tmp_path / "lake"))
    spark.sql("SELECT 1L AS id, 'named' AS v").writeTo(f"{namespace}.named").create()
    spark.sql(f"ALTER TABLE {people.name} ADD COLUMN date DATE")
    sources = {
        "spark": spark.sql("SELECT 1L AS id, 'spark' AS v"),
        "pandas": pd.DataFrame({"id": [1], "v": pd.Categorical(["pandas"])}),
        "polars": pl.DataFrame({"id": [1], "v": ["polars"]}).with_columns(pl.col("v").cast(pl.Categorical)),
        "arrow": pa.table({"id": pa.array([1], pa.int32()), "v": pa.array(["arrow"], pa.large_string())}),
        "dicts": [{"id": 1, "v": "dicts"}],
        "named": f"{namespace}.named",
        "lake path": str(tmp_path / "lake"),
        "parquet": f"{by_date}/date=2025-11-04",
    }
    for said, source in sources.items():
        report = people.merge(source, "id")
        assert report.updated == 1, said
        assert rows(people)[0][2] == said
    assert people.to_df().where("id = 1").first().date == date(2025, 11, 4)
    assert people.merge(lakemend.table(spark, f"{namespace}.named"), "id").updated == 1


def test_segments_of_a_path_stay_text_where_the_table_has_text(spark: SparkSession, namespace: str, tmp_path) -> None:
    """Spark reads `month=01` as a number, and a long one with a point as a double."""
    segments = "month=01/code=007/amount=12345678901234567.89"
    spark.sql("SELECT 1L AS id").write.parquet(str(tmp_path / "updates" / segments))
    spark.sql(f"CREATE TABLE {namespace}.t (id BIGINT, Month STRING, code CHAR(4), amount DECIMAL(30, 2))")
    table = lakemend.table(spark, f"{namespace}.t")
    for path, inserted in (("updates/month=01", 1), ("updates", 0)):
        report = table.merge(str(tmp_path / path), ["id", "month", "code"])
        assert report.inserted == inserted
        assert rows(table) == [(1, "01", "007 ", Decimal("12345678901234567.89"))]


def test_a_source_that_differs_each_time_is_evaluated_once(people: Table) -> None:
    frame = people.spark.range(1, 4).selectExpr("id", "uuid() AS v", "CAST(rand() * 1000 AS INT) AS n")
    people.merge(frame, "id")
    assert len({row[2] for row in rows(people)}) == 3


def test_a_merge_from_the_table_itself(people: Table, merged: Merged) -> None:
    merged(people, people.to_df().selectExpr("id + 1 AS id", "p", "v", "n"), "id")
    assert [(row[0], row[2]) for row in rows(people)] == [(1, "a"), (2, "a"), (3, "b"), (4, "c")]


def test_a_column_that_another_writer_brought_meanwhile(people: Table, monkeypatch: pytest.MonkeyPatch) -> None:
    from tests.slip_in import slip_in

    theirs = lakemend.table(people.spark.newSession(), people.name)
    slip_in(monkeypatch, lambda: theirs.merge([{"id": 1, "w": 5}], "id", schema_evolution=True))
    ours = people.spark.sql("SELECT 1L AS id, 'a' AS v, CAST(NULL AS BIGINT) AS w UNION ALL SELECT 2L, 'b', 6L")
    report = people.merge(ours, "id", schema_evolution=True, when_changed_only=True)
    assert (report.attempts, report.updated) == (2, 2)
    assert [row[4] for row in rows(people)] == [None, 6, None]


def test_a_lost_race_is_run_again(people: Table, monkeypatch: pytest.MonkeyPatch) -> None:
    from tests.slip_in import slip_in

    name, spark = people.name, people.spark
    slip_in(monkeypatch, lambda: spark.newSession().sql(f"UPDATE {name} SET v = 'theirs' WHERE id = 1"))
    report = people.merge([{"id": 1, "v": "ours"}, {"id": 9, "v": "new"}], "id")
    assert report.attempts == 2
    assert [(row[0], row[2]) for row in rows(people)] == [(1, "ours"), (2, "b"), (3, "c"), (9, "new")]
