"""`write.auto-compact`: after a write through any door the small files it leaves become large ones, and the write never
knows."""

from __future__ import annotations

import logging
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

import lakemend
from lakemend import Table
from lakemend.brain import small_files
from lakemend.maintenance import after_write
from tests.behaviour.maintenance.slips import slip_in

ON = {"write.auto-compact": "true"}


@pytest.fixture(autouse=True)
def four_are_many(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(small_files, "MANY", 4)


def rows(spark: SparkSession, low: int, high: int, files: int = 4) -> DataFrame:
    return spark.range(low, high, 1, files).selectExpr("id", "id % 2 AS p")


def made(spark: SparkSession, where: str, properties: dict[str, str] | None = None) -> Table:
    table = lakemend.table(spark, where)
    table.append(rows(spark, 0, 10, 1), properties=ON if properties is None else properties)
    return table


def versions(table: Table) -> list[tuple[str, bool]]:
    """Newest first: the operation, and whether nobody asked for it."""
    return [(entry["operation"], entry["parameters"].get("auto") == "true") for entry in table.history()]


def ids(table: Table) -> list[int]:
    return sorted(row.id for row in table.to_df().collect())


def stored(table: Table) -> int:
    root = Path(table.detail()["location"].removeprefix("file://"))
    return len([path for path in root.rglob("*.parquet") if "_delta_log" not in path.parts])


DOORS: dict[str, Callable[[SparkSession, Table, DataFrame], Any]] = {
    "append": lambda spark, table, frame: table.append(frame),
    "sql": lambda spark, table, frame: spark.sql(f"INSERT INTO {table.name} SELECT * FROM {{f}}", f=frame),
    "writeTo": lambda spark, table, frame: frame.writeTo(table.name).append(),
    "save": lambda spark, table, frame: frame.write.format("lakemend").mode("append").save(table.detail()["location"]),
    "saveAsTable": lambda spark, table, frame: frame.write.format("lakemend").mode("append").saveAsTable(table.name),
    "script": lambda spark, table, frame: (
        frame.createOrReplaceTempView("after_write_rows"),
        spark.sql(f"BEGIN INSERT INTO {table.name} SELECT * FROM after_write_rows; END"),
    ),
    "merge": lambda spark, table, frame: table.merge(frame, "id", "insert"),
}


@pytest.mark.parametrize(
    "doors", [["append", "script"], pytest.param(sorted(DOORS), marks=pytest.mark.slow)], ids=["some", "all"]
)
def test_through_every_door(spark: SparkSession, namespace: str, doors: list[str]) -> None:
    table = made(spark, f"{namespace}.t")
    for number, door in enumerate(doors, 1):
        write = DOORS[door]
        before = table.version
        report = write(spark, table, rows(spark, number * 10, number * 10 + 10))
        assert versions(table)[0] == ("OPTIMIZE", True), door
        assert [auto for _, auto in versions(table)[: table.version - before]] == [True, False], door
        assert table.files().num_rows == 1, door
        if isinstance(report, lakemend.Report):
            assert (report.version, report.inserted, report.files_removed) == (before + 1, 10, 0), door
            assert report.total == (number + 1) * 10 and "compact" in report.seconds
    assert ids(table) == list(range((len(doors) + 1) * 10))


def test_row_changes_and_a_table_by_path(spark: SparkSession, location: str) -> None:
    table = made(spark, location, {})
    table.append(rows(spark, 10, 40, 3))
    spark.sql(f"ALTER TABLE {table.name} SET TBLPROPERTIES ('delta.autoOptimize.autoCompact' = 'true')")
    report = table.update(set={"p": "p + 1"}, where="id = 3")
    assert (report.updated, report.version) == (1, 3)
    assert versions(table)[:2] == [("OPTIMIZE", True), ("UPDATE", False)]
    assert table.files().num_rows == 1 and ids(table) == list(range(40))
    assert table.to_df().where("id = 3").first().p == 2
    assert table.as_of(version=3).files().num_rows == 5


def test_a_session_that_says_so(spark: SparkSession, location: str) -> None:
    table = made(spark, location, {})
    other = spark.newSession()
    other.conf.set("spark.databricks.delta.autoCompact.enabled", "true")
    rows(spark, 10, 20).writeTo(table.name).append()
    assert versions(table)[0] == ("WRITE", False)
    rows(other, 20, 30).writeTo(table.name).append()
    assert versions(table)[0] == ("OPTIMIZE", True)
    rows(other, 30, 40).writeTo(table.name).option("autoCompact", "false").append()
    assert versions(table)[0] == ("WRITE", False) and ids(table) == list(range(40))


def test_another_writer_is_faster(
    spark: SparkSession, location: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    table = made(spark, location)
    slip_in(monkeypatch, lambda: table.delete("id = 12"))
    with caplog.at_level(logging.WARNING, "lakemend"):
        table.append(rows(spark, 10, 20))
    assert [operation for operation, _ in versions(table)[:2]] == ["DELETE", "WRITE"] and not caplog.records
    assert ids(table) == [*range(12), *range(13, 20)]
    assert stored(table) == table.files().num_rows == 5


def test_a_compaction_that_fails(
    spark: SparkSession, location: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    table = made(spark, location)

    def broken(*_: object, **__: object) -> None:
        raise OSError("no space left")

    with monkeypatch.context() as patch, caplog.at_level(logging.WARNING, "lakemend"):
        patch.setattr(after_write, "execute", broken)
        assert table.append(rows(spark, 10, 20)).version == 1
    assert "no space left" in caplog.text and "stands" in caplog.text
    assert table.version == 1 and ids(table) == list(range(20))
    table.append(rows(spark, 20, 30, 1))
    assert versions(table)[0] == ("OPTIMIZE", True) and table.files().num_rows == 1


def test_several_writers_at_once(spark: SparkSession, location: str) -> None:
    """One of them compacts, and the others do not queue for it."""
    table = made(spark, location)
    with ThreadPoolExecutor(4) as writers:
        done = list(writers.map(lambda n: table.append(rows(spark, n * 10, n * 10 + 10, 2)), range(1, 7)))
    assert ids(table) == list(range(70)) and all(report.inserted == 10 for report in done)
    compactions = [auto for _, auto in versions(table) if auto]
    assert 1 <= len(compactions) <= 6 and table.version == 6 + len(compactions)


def test_only_the_partition_that_was_written_to(spark: SparkSession, location: str) -> None:
    table = lakemend.table(spark, location)
    table.append(rows(spark, 0, 16), partition_by="p", properties={"write.distribution-mode": "none"})
    spark.sql(
        f"ALTER TABLE {table.name} SET TBLPROPERTIES ('write.auto-compact' = 'true', 'delta.appendOnly' = 'true')"
    )
    before = {f["path"] for f in table.files().to_pylist() if f["partition"]["p"] == 0}
    assert len(before) == 4
    table.append(rows(spark, 16, 18, 1).where("p = 1"))
    assert versions(table)[0] == ("OPTIMIZE", True)
    found = table.files().to_pylist()
    assert {f["path"] for f in found if f["partition"]["p"] == 0} == before and len(found) == 5
