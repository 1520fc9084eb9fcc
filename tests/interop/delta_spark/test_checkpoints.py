"""Checkpoints of one engine, read and written on by the other when nothing else is left of the log."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.interop.delta_spark.engines import Engine, Ours, Theirs, forget_commits, newest, rows

pytestmark = pytest.mark.interop

KINDS = {
    "classic": {},
    "v2": {"delta.checkpointPolicy": "v2"},
    "typed": {"delta.checkpoint.writeStatsAsStruct": "true", "delta.checkpoint.writeStatsAsJson": "false"},
    "json": {"delta.checkpoint.writeStatsAsStruct": "false"},
}


def checkpoint_by_them(theirs: Theirs, location: str, part_size: int | None = None, top: str = "json") -> None:
    setting = "spark.databricks.delta.checkpoint.partSize"
    format = "spark.databricks.delta.checkpointV2.topLevelFileFormat"
    theirs.python(f"""
parts, top = {part_size!r}, {top!r}
spark.conf.set({format!r}, top)
if parts: spark.conf.set({setting!r}, str(parts))
try:
    spark._jvm.org.apache.spark.sql.delta.DeltaLog.forTable(spark._jsparkSession, {location!r}).checkpoint()
finally:
    spark.conf.unset({setting!r})
    spark.conf.unset({format!r})""")


def life(engine: Engine, location: str, properties: dict[str, str]) -> None:
    """A table with something of everything in its state; version 4."""
    said = ", ".join(f"'{k}' = '{v}'" for k, v in {"delta.enableDeletionVectors": "true", **properties}.items())
    engine.sql(
        f"""CREATE TABLE delta.`{location}` (id bigint, `p q` string, at timestamp, s struct<x: int>, d decimal(20,4))
            USING delta PARTITIONED BY (`p q`) COMMENT 'mine'
            TBLPROPERTIES ('delta.columnMapping.mode' = 'name', 'k' = 'v', {said})"""
    )
    engine.sql(
        f"""INSERT INTO delta.`{location}` SELECT id, concat('ü ', id % 3), timestamp_micros(id * 1000001),
            named_struct('x', CAST(id AS int)), CAST(id AS decimal(20,4)) FROM range(30)"""
    )
    engine.sql(f"DELETE FROM delta.`{location}` WHERE `p q` = 'ü 1'")
    engine.sql(f"DELETE FROM delta.`{location}` WHERE id IN (0, 3, 5)")
    engine.python(f"""
frame = spark.sql("SELECT 100L AS id, 'ü 9' AS `p q`")
frame.write.format("delta").mode("append").option("txnAppId", "app").option("txnVersion", "7").save({location!r})""")


def goes_on(first: Engine, second: Engine, location: str) -> None:
    """Every kind of action once more, by the one who did not write the checkpoint and by the one who did."""
    for number, engine in enumerate((second, first)):
        engine.sql(f"ALTER TABLE delta.`{location}` SET TBLPROPERTIES ('k{number}' = 'v')")
        engine.sql(f"ALTER TABLE delta.`{location}` ADD COLUMN more{number} string")
        engine.sql(f"UPDATE delta.`{location}` SET more{number} = 'new' WHERE id = {7 + 2 * number}")
        engine.sql(f"DELETE FROM delta.`{location}` WHERE `p q` = 'ü 0' AND id > {20 + number}")
        # The transaction is remembered: the rows of its repetition are not written.
        engine.python(f"""
frame = spark.sql("SELECT 100L AS id, 'ü 9' AS `p q`")
frame.write.format("delta").mode("append").option("txnAppId", "app").option("txnVersion", "7").save({location!r})""")
        assert rows(first, location) == rows(second, location)
        assert sum("100" in row for row in rows(first, location, "id")) == 1
    for engine in (first, second):
        shown = " ".join(engine.sql(f"SHOW TBLPROPERTIES delta.`{location}`"))
        assert all(f"'{key}'" in shown for key in ("k", "k0", "k1"))


@pytest.mark.parametrize("kind", KINDS)
def test_ours(ours: Ours, theirs: Theirs, location: str, kind: str) -> None:
    life(ours, location, KINDS[kind] | {"delta.checkpointInterval": "4"})
    expected = rows(ours, location)
    assert len(expected) == 18
    checkpoints = list(Path(location, "_delta_log").glob(f"{4:020d}.checkpoint*.parquet"))
    assert len(checkpoints) == 1
    forget_commits(location, 4)
    assert rows(theirs, location) == rows(ours, location) == expected
    goes_on(ours, theirs, location)


@pytest.mark.parametrize("kind", [*KINDS, "multi-part", "v2 in parquet"])
def test_theirs(ours: Ours, theirs: Theirs, location: str, kind: str) -> None:
    properties = KINDS["v2"] if kind.startswith("v2") else KINDS.get(kind, {})
    life(theirs, location, properties | {"delta.checkpointInterval": "100"})
    expected = rows(theirs, location)
    last = newest(location)
    checkpoint_by_them(
        theirs, location, 2 if kind == "multi-part" else None, "parquet" if kind == "v2 in parquet" else "json"
    )
    if kind == "multi-part":
        assert len(list(Path(location, "_delta_log").glob("*.checkpoint.*.parquet"))) > 1
    forget_commits(location, last)
    assert rows(ours, location) == rows(theirs, location) == expected
    goes_on(theirs, ours, location)


def test_checkpoint_after_checkpoint(ours: Ours, theirs: Theirs, location: str) -> None:
    """Each engine's checkpoint is made from the other's, and nothing is lost on the way."""
    life(ours, location, {"delta.checkpointInterval": "1"})
    expected = rows(ours, location)
    for number in range(3):
        engine: Engine = (theirs, ours)[number % 2]
        engine.sql(f"ALTER TABLE delta.`{location}` SET TBLPROPERTIES ('round' = '{number}')")
        forget_commits(location, newest(location))
        for reader in (ours, theirs):
            assert rows(reader, location) == expected
    text = Path(location, "_delta_log", f"{newest(location):020d}.json").read_text()
    (meta,) = [json.loads(line)["metaData"] for line in text.splitlines() if "metaData" in line]
    assert meta["format"] == {"provider": "parquet", "options": {}}
    assert (meta["description"], meta["configuration"]["k"]) == ("mine", "v")
    goes_on(ours, theirs, location)
