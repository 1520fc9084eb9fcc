"""Row changes of files whose log does not say how many rows they hold: their footers do."""

from __future__ import annotations

import shutil
from typing import Any

import pytest
from pyspark.sql import SparkSession

import lakemend
from lakemend.errors import LakemendError
from lakemend.formats.footers import stored_rows
from tests.behaviour.doors import commit_file, edit_log

MODES = ["copy-on-write", "merge-on-read"]
UPDATE = "UPDATE {t} SET v = 'new' WHERE id % 7 = 0"
DELETE = "DELETE FROM {t} WHERE id % 7 = 0"
MERGE = """MERGE INTO {t} t USING (SELECT id * 7 AS id FROM range(10)) s ON t.id = s.id
    WHEN MATCHED THEN UPDATE SET v = 'new' WHEN NOT MATCHED THEN INSERT (id, p, v) VALUES (s.id, 'a', 'new')"""


def forget(action: dict[str, Any]) -> None:
    if "add" in action:
        action["add"].pop("stats", None)


def uncounted(spark: SparkSession, location: str, mode: str, feed: bool = False, masked: bool = False) -> str:
    """Ids 0 to 39 in two partitions, one of which has a name that is spelled otherwise in paths; no statistics."""
    rows = spark.range(0, 40, numPartitions=1).selectExpr("id", "IF(id < 20, 'a', 'b c%/#') AS p", "'old' AS v")
    properties = {f"write.{verb}.mode": mode for verb in ("merge", "update", "delete")}
    if feed:
        properties["delta.enableChangeDataFeed"] = "true"
    origin = lakemend.table(spark, f"{location}.origin")
    origin.append(rows, properties=properties, partition_by=["p"])
    if masked:
        spark.sql(f"ALTER TABLE delta.`{location}.origin` SET TBLPROPERTIES ('write.delete.mode' = 'merge-on-read')")
        spark.sql(f"DELETE FROM delta.`{location}.origin` WHERE id % 7 = 1")
    shutil.copytree(f"{location}.origin", location)
    edit_log(location, 0, forget)
    return f"delta.`{location}`"


def rows(spark: SparkSession, table: str) -> dict[int, str]:
    found = [(row.id, row.v) for row in spark.table(table).collect()]
    assert len(found) == len(dict(found))
    return dict(found)


@pytest.mark.sampled
@pytest.mark.parametrize("feed", [False, True], ids=["", "feed"])
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("statement", [UPDATE, DELETE, MERGE], ids=["update", "delete", "merge"])
def test_a_row_change(spark: SparkSession, location: str, statement: str, mode: str, feed: bool) -> None:
    table = uncounted(spark, location, mode, feed)
    spark.sql(statement.format(t=table))
    old = {i: "old" for i in range(40) if i % 7}
    new = dict.fromkeys(range(0, 64 if statement == MERGE else 40, 7), "new")
    assert rows(spark, table) == (old if statement == DELETE else old | new)


@pytest.mark.parametrize("statement", [UPDATE, MERGE], ids=["update", "merge"])
def test_masked_rows_are_not_counted(spark: SparkSession, location: str, statement: str) -> None:
    table = uncounted(spark, location, "copy-on-write", masked=True)
    edit_log(location, 2, forget)
    spark.sql(statement.format(t=table))
    new = dict.fromkeys(range(0, 64 if statement == MERGE else 40, 7), "new")
    assert rows(spark, table) == {i: "old" for i in range(40) if i % 7 > 1} | new


def test_a_footer_that_tells_of_another_row(
    spark: SparkSession, location: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = uncounted(spark, location, "copy-on-write")
    monkeypatch.setattr("lakemend.brain.leaving.stored_rows", lambda store, url: stored_rows(store, url) + 1)
    with pytest.raises(LakemendError, match="contradict"):
        spark.sql(UPDATE.format(t=table))
    assert rows(spark, table) == dict.fromkeys(range(40), "old")
    assert not commit_file(location, 1).exists()
