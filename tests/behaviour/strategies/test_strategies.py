"""What each strategy does with keys that both sides have, that only the source has, and that only the table has."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from pyspark.sql import SparkSession

import lakemend
from lakemend import Report, Table
from lakemend.strategies import STRATEGIES
from tests.behaviour.strategies.conftest import rows

pytestmark = pytest.mark.either("people", "mode")

NEW = [{"id": 2, "p": "z", "v": "B", "n": 21}, {"id": 4, "p": "x", "v": "d", "n": None}]
OLD = [(1, "x", "a", 10), (2, "y", "b", 20), (3, "x", "c", 30)]
TWO, FOUR = (2, "z", "B", 21), (4, "x", "d", None)

OUTCOMES: dict[str, tuple[list[tuple[Any, ...]], dict[str, int]]] = {
    "upsert": ([OLD[0], TWO, OLD[2], FOUR], {"inserted": 1, "updated": 1, "deleted": 0, "total": 4}),
    "insert": ([*OLD, FOUR], {"inserted": 1, "updated": 0, "deleted": 0, "total": 4}),
    "update": ([OLD[0], TWO, OLD[2]], {"inserted": 0, "updated": 1, "deleted": 0, "total": 3}),
    "full_merge": ([TWO, FOUR], {"inserted": 1, "updated": 1, "deleted": 2, "total": 2}),
    "deduplicate": ([OLD[0], TWO, OLD[2], FOUR], {"inserted": 1, "updated": 1, "deleted": 0, "total": 4}),
    "delete_insert": ([OLD[0], TWO, OLD[2], FOUR], {"inserted": 2, "updated": 0, "deleted": 1, "total": 4}),
}
Merged = Callable[..., Report]


@pytest.mark.parametrize("strategy", OUTCOMES)
@pytest.mark.sampled
def test_outcome(people: Table, strategy: str, merged: Merged) -> None:
    report = merged(people, NEW, "id", strategy)
    expected, stats = OUTCOMES[strategy]
    assert rows(people) == expected
    assert report.stats == stats
    assert report.operation == "merge"
    # The same again changes no row.
    merged(people, NEW, "id", strategy)
    assert rows(people) == expected


@pytest.mark.parametrize("strategy", [*OUTCOMES, "scd2"])
def test_an_empty_source(people: Table, strategy: str, merged: Merged) -> None:
    if strategy == "scd2":
        people = lakemend.table(people.spark, people.name.replace("people", "versions"))
        people.merge([{"id": 1, "v": "a"}], "id", "scd2")
    before, count = people.version, people.to_df().count()
    report = merged(people, people.spark.createDataFrame([], "id BIGINT, v STRING"), "id", strategy)
    if strategy == "full_merge":
        assert rows(people) == []
        assert report.stats == {"inserted": 0, "updated": 0, "deleted": count, "total": 0}
    else:
        assert people.version == before
        assert report.stats == {"inserted": 0, "updated": 0, "deleted": 0, "total": count}


@pytest.mark.parametrize("strategy", [*OUTCOMES, "scd2"])
def test_a_missing_table(spark: SparkSession, namespace: str, strategy: str, merged: Merged) -> None:
    table = lakemend.table(spark, f"{namespace}.new")
    report = merged(table, NEW, "id", strategy, **({} if strategy == "update" else {"partition_by": "p"}))
    if strategy == "update":
        assert not table.exists()
        assert report.stats == {"inserted": 0, "updated": 0, "deleted": 0, "total": 0}
        return
    assert [row[:4] for row in rows(table)] == [TWO, FOUR]
    assert table.detail()["partitioning"] == ["p"]
    assert report.stats == {"inserted": 2, "updated": 0, "deleted": 0, "total": 2}


def test_a_missing_path(spark: SparkSession, location: str) -> None:
    table = lakemend.table(spark, location)
    assert table.merge(NEW, "id").stats == {"inserted": 2, "updated": 0, "deleted": 0, "total": 2}
    assert table.merge(NEW[:1], ["id"], "update").stats == {"inserted": 0, "updated": 1, "deleted": 0, "total": 2}
    assert rows(table) == [TWO, FOUR]


def test_keys_of_several_columns_and_repeated_rows_of_the_table(people: Table, merged: Merged) -> None:
    people.append([{"id": 1, "p": "x", "v": "twin", "n": 11}])
    report = merged(people, [{"id": 1, "p": "x", "v": "A"}, {"id": 1, "p": "q", "v": "N"}], ["p", "id"])
    assert report.stats == {"inserted": 1, "updated": 2, "deleted": 0, "total": 5}
    assert rows(people, "id", "p", "n")[:3] == [(1, "q", "N", None), (1, "x", "A", 10), (1, "x", "A", 11)]


def test_delete_insert_takes_repeated_keys(people: Table, merged: Merged) -> None:
    twins = [{"id": 1, "p": "x", "v": v, "n": i} for i, v in enumerate("rst")]
    report = merged(people, twins, "id", "delete_insert")
    assert report.stats == {"inserted": 3, "updated": 0, "deleted": 1, "total": 5}
    assert [row[2] for row in rows(people, "id", "n")] == ["r", "s", "t", "b", "c"]


def test_deduplicate_is_decided_the_same_way_each_time(people: Table, merged: Merged) -> None:
    copies = [
        {"id": 7, "p": "x", "v": "low", "n": None},
        {"id": 7, "p": "x", "v": "tie a", "n": 5},
        {"id": 7, "p": "x", "v": "tie b", "n": 5},
        {"id": 8, "p": "x", "v": None, "n": None},
        {"id": 8, "p": "x", "v": "some", "n": None},
    ]
    spark = people.spark
    for order in (copies, copies[::-1]):
        frame = spark.createDataFrame(order, "id INT, p STRING, v STRING, n INT").repartition(3)
        people.merge(frame, "id", "deduplicate", dedup_order_by="n")
        assert rows(people)[3:] == [(7, "x", "tie b", 5), (8, "x", "some", None)]
    merged(people, copies, "id", "deduplicate")
    assert rows(people)[3:] == [(7, "x", "tie b", 5), (8, "x", "some", None)]


def test_deduplicate_leaves_the_newest_event(people: Table, merged: Merged) -> None:
    """Whatever the other columns would decide."""
    events = [{"id": 1, "p": "z", "v": "z", "n": 11}, {"id": 1, "p": "a", "v": "a", "n": 15}]
    merged(people, events, "id", "deduplicate", sequence_by="n")
    assert rows(people)[0] == (1, "a", "a", 15)
    merged(people, [{**event, "n": event["n"] + 10} for event in events], "id", "deduplicate",
           dedup_order_by="p", sequence_by="N")  # fmt: skip
    assert rows(people)[0] == (1, "z", "z", 21)


def test_files_without_a_key_stay_as_they_are(spark: SparkSession, namespace: str) -> None:
    table = lakemend.table(spark, f"{namespace}.wide")
    for start in range(0, 1000, 100):
        table.append(spark.range(start, start + 100).selectExpr("id", "'old' AS v").coalesce(1))
    spark.sql(f"ALTER TABLE {table.name} SET TBLPROPERTIES ('write.merge.mode' = 'copy-on-write')")
    before = set(table.files()["path"].to_pylist())
    report = table.merge([{"id": 250, "v": "new"}, {"id": 260, "v": "new"}], "id", rewrite_mode="incremental")
    after = set(table.files()["path"].to_pylist())
    assert len(before - after) == 1
    assert report.files_removed == 1
    assert table.to_df().where("v = 'new'").count() == 2
    # Inserts touch no file that is there.
    table.merge([{"id": 250, "v": "x"}, {"id": 5000, "v": "x"}], "id", "insert")
    assert set(table.files()["path"].to_pylist()) > after


def test_write_with_a_strategy(people: Table) -> None:
    assert people.write(NEW, strategy="insert", mode="append", key_columns="id").stats == OUTCOMES["insert"][1]
    assert people.write(NEW[:1], strategy="upsert", key_columns=["id"], rewrite_mode="full").updated == 1
    assert people.write(NEW[:1]).inserted == 1


def test_every_strategy_has_its_outcome_here() -> None:
    assert {*OUTCOMES, "scd2"} == set(STRATEGIES)
