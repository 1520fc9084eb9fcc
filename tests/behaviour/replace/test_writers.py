"""Two writers at once, and what the version says of itself."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from lakemend.errors import CommitConflictError
from tests.behaviour.replace.rows import Make, Row, content, frame, on_disk
from tests.slip_in import slip_in

PART_9, PART_1, PART_2 = (1, 9, "x", 1), (1, 1, "x", 1), (2, 2, "x", 1)
ID_1009, ID_1012 = (1009, 5, "x", 1), (1012, 5, "y", 1)


@pytest.mark.sampled
@pytest.mark.parametrize("partitioned", [True], indirect=True)
@pytest.mark.parametrize(
    ("ours", "theirs", "conflict"),
    [
        (("p = 9", PART_9), ("p = 9", PART_9), True),  # neither finds a file to remove
        (("p >= 9", PART_9), ("p IN (9, 10)", PART_9), True),
        (("p = 1", PART_1), ("p = 9", PART_9), False),
        (("p = 1", PART_1), ("p = 2", PART_2), False),
        (("id >= 1000 AND id < 1010", ID_1009), ("id >= 1009", ID_1009), True),
        (("id >= 1000 AND id < 1010", ID_1009), ("id >= 1010", ID_1012), False),
        (("p = 1 AND id < 20", PART_1), ("p = 2 AND id < 20", PART_2), False),
        (("p = 1 AND id < 20", PART_1), ("p = 1 AND id < 5", PART_1), True),
    ],
)
def test_overlapping_predicates_conflict(
    spark: SparkSession,
    make: Make,
    monkeypatch: pytest.MonkeyPatch,
    ours: tuple[str, Row],
    theirs: tuple[str, Row],
    conflict: bool,
) -> None:
    table = make()
    slip_in(monkeypatch, lambda: table.replace_where(frame(spark, [theirs[1]]), theirs[0]))
    if conflict:
        with pytest.raises(CommitConflictError) as caught:
            table.replace_where(frame(spark, [ours[1]]), ours[0], retries=0)
        assert (table.version, caught.value.version) == (1, 1)
        assert on_disk(table) >= set(table.files()["path"].to_pylist())
    else:
        assert table.replace_where(frame(spark, [ours[1]]), ours[0], retries=0).version == 2
        assert {ours[1], theirs[1]} <= set(content(table))


@pytest.mark.parametrize("partitioned", [True], indirect=True)
def test_a_statement_that_lost_is_run_again(spark: SparkSession, make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    table = make()
    rows = [(5, 1, "theirs", 1), (500, 1, "theirs", 1)]
    slip_in(monkeypatch, lambda: table.replace_where(frame(spark, rows), "p = 1"))
    report = table.replace_where(frame(spark, [(1, 1, "ours", 1)]), "p = 1 AND id < 100")
    assert (report.attempts, report.deleted, report.inserted) == (2, 1, 1)
    assert [r for r in content(table) if r[1] == 1] == [(1, 1, "ours", 1), (500, 1, "theirs", 1)]


def test_one_version_tells_everything(spark: SparkSession, make: Make, partitioned: bool) -> None:
    table = make()
    table.replace_where(frame(spark, [(1, 1, "x", 1), (5, 1, "y", None)]), "p = 1")
    log = Path(table.detail()["location"].removeprefix("file://")) / "_delta_log" / f"{1:020}.json"
    actions = [json.loads(line) for line in log.read_text().splitlines()]
    info = next(a["commitInfo"] for a in actions if "commitInfo" in a)
    assert (info["operation"], info["operationParameters"]["predicate"]) == ("WRITE", "(p = 1)")
    assert (info["operationMetrics"]["numOutputRows"], info["operationMetrics"]["numDeletedRows"]) == ("2", "10")
    adds = [a["add"] for a in actions if "add" in a and json.loads(a["add"]["stats"])["numRecords"] <= 2]
    assert adds and all(a["dataChange"] and a["size"] and a["path"] for a in adds)
    assert sum(json.loads(a["stats"])["numRecords"] for a in adds) == 2
    removes = [a["remove"] for a in actions if "remove" in a]
    assert removes and all(r["dataChange"] for r in removes)
    if partitioned:
        assert all(a["partitionValues"] == {"p": "1"} for a in [*adds, *removes])


def test_the_write_node_shows_files_rows_and_bytes(spark: SparkSession, make: Make) -> None:
    table = make()
    for predicate in ("p = 1 AND id < 20", "p = 2"):
        report = table.replace_where(frame(spark, [(2, 2, "x", 1)]), predicate, check=False)
        assert written(spark) == {
            "rows added": 1,
            "rows removed": report.deleted,
            "files added": report.files_added,
            "files removed": report.files_removed,
            "bytes added": report.bytes_added,
            "bytes removed": report.bytes_removed,
        }


def written(spark: SparkSession) -> dict[str, int]:
    """What the write node of the newest execution shows in Spark's UI."""
    spark.sparkContext._jsc.sc().listenerBus().waitUntilEmpty()
    store = spark._jsparkSession.sharedState().statusStore()
    executions = [store.executionsList().apply(i) for i in range(store.executionsList().size())]
    newest = max(executions, key=lambda e: int(e.executionId()))
    values = store.executionMetrics(newest.executionId())
    metrics = [newest.metrics().apply(i) for i in range(newest.metrics().size())]
    named = {m.name(): m.accumulatorId() for m in metrics if m.name().endswith((" added", " removed"))}
    return {name: int(values.get(accumulator).get().replace(",", "")) for name, accumulator in named.items()}
