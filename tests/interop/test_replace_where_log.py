"""What a replaceWhere leaves in the log, read and written over by deltalake; and why it is no action of its own."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake
from deltalake.exceptions import CommitFailedError, DeltaError
from pyspark.sql import SparkSession

import lakemend


@pytest.fixture
def table(spark: SparkSession, location: str) -> lakemend.Table:
    made = lakemend.table(spark, location)
    rows = spark.sql("SELECT id, id % 4 AS p FROM range(20)").coalesce(1)
    made.append(rows, partition_by="p", properties={"delta.enableDeletionVectors": "false"})
    return made


def test_deltalake_lives_with_a_replace_where(spark: SparkSession, table: lakemend.Table, location: str) -> None:
    before, writer = DeltaTable(location), DeltaTable(location)
    table.replace_where(spark.sql("SELECT 1L AS id, 1L AS p"), "p = 1")
    table.replace_where(spark.sql("SELECT 2L AS id, 2L AS p"), "id < 8 AND p = 2")
    before.update_incremental()
    assert before.version() == 2
    newest, previous = before.history()[:2]
    assert previous["operation"] == "WRITE"
    assert previous["operationParameters"]["predicate"] == "(p = 1)"
    assert newest["operationParameters"]["predicate"] == "((id < 8) AND (p = 2))"
    assert (int(newest["operationMetrics"]["numDeletedRows"]), int(newest["operationMetrics"]["numOutputRows"])) == (
        2,
        1,
    )
    # A writer that began before is told of a conflict, as after a replacement of its own kind, and nothing worse.
    with pytest.raises(CommitFailedError):
        write_deltalake(writer, pa.table({"id": [99], "p": [0]}), mode="append")
    writer = DeltaTable(location)
    table.replace_where(spark.sql("SELECT 9L AS id, 9L AS p"), "p = 9")
    # One that only added is no conflict: it lands on top.
    write_deltalake(writer, pa.table({"id": [100], "p": [0]}), mode="append")
    rows = DeltaTable(location).to_pyarrow_table().sort_by("id").to_pydict()["id"]
    assert rows == sorted(r.id for r in table.to_df().collect())
    assert rows == sorted([*(i for i in range(20) if i % 4 != 1 and i not in (2, 6)), 1, 2, 9, 100])


def test_the_record_stands_in_commit_info(spark: SparkSession, table: lakemend.Table, location: str) -> None:
    table.replace_where(spark.sql("SELECT 1L AS id, 1L AS p"), "p = 1")
    lines = (Path(location) / "_delta_log" / f"{1:020}.json").read_text().splitlines()
    actions = [json.loads(line) for line in lines]
    assert {next(iter(action)) for action in actions} == {"commitInfo", "add", "remove"}
    info = actions[0]["commitInfo"]
    assert info["lakemend"]["replaceWhere"] == {"predicate": "(p = 1)", "dataChange": True}
    assert info["timestamp"] > 0
    assert info["operationMetrics"]["numRemovedFiles"] == "1"


def test_an_action_of_its_own_stops_deltalake(table: lakemend.Table, location: str) -> None:
    """Decision 0007. Should this fail, deltalake has learned to skip what it does not know."""
    writer = DeltaTable(location)
    info = {"timestamp": 1, "operation": "WRITE", "operationParameters": {"mode": "Overwrite", "predicate": "p = 1"}}
    lines = [{"commitInfo": info}, {"replaceWhere": {"predicate": "p = 1", "timestamp": 1, "dataChange": True}}]
    log = Path(location) / "_delta_log" / f"{1:020}.json"
    log.write_text("\n".join(json.dumps(line) for line in lines) + "\n")
    assert DeltaTable(location).version() == 1
    with pytest.raises(DeltaError, match="replaceWhere"):
        write_deltalake(writer, pa.table({"id": [100], "p": [0]}), mode="append")
    # We skip it ourselves.
    assert table.version == 1
    assert table.to_df().count() == 20
