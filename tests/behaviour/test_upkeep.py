"""restore, vacuum, checkpoint and health of tables that Spark writes, before and after everything else they do."""

from __future__ import annotations

import os
import time
from collections import Counter
from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from typing import Any

import deltalake
import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

import lakemend
from lakemend import Table
from lakemend.errors import InvalidInputError, LakemendError, SchemaMismatchError, TableError
from tests.copies import copied

Rows = Counter[Any]

STATEMENTS: dict[str, Callable[[SparkSession, Table], object]] = {
    "append": lambda spark, t: t.append([{"id": 50, "p": "a", "v": 5}]),
    "update": lambda spark, t: t.update({"v": "v + 1"}, "id % 3 = 0"),
    "delete": lambda spark, t: t.delete("id % 4 = 1"),
    "delete a partition": lambda spark, t: t.delete("p = 'b'"),
    "merge": lambda spark, t: spark.sql(
        f"""MERGE INTO {t.name} t USING (SELECT id, 'a' AS p, 7 AS v FROM range(8, 14)) s ON t.id = s.id
            WHEN MATCHED AND s.id = 9 THEN DELETE WHEN MATCHED THEN UPDATE SET v = s.v WHEN NOT MATCHED THEN INSERT *"""
    ),
    "replaceWhere": lambda spark, t: t.replace_where([{"id": 60, "p": "b", "v": 6}], "p = 'b'"),
    "overwrite": lambda spark, t: t.overwrite([{"id": 70, "p": "z", "v": 7}]),
    "truncate": lambda spark, t: t.delete(),
}


def made(spark: SparkSession, name: str, mode: str, **properties: str) -> Table:
    modes = {f"write.{verb}.mode": mode for verb in ("update", "delete", "merge")}
    rows = spark.sql("SELECT id, if(id % 2 = 0, 'a', 'b') AS p, CAST(id AS INT) AS v FROM range(12)").repartition(2)

    def make(path: str) -> None:
        lakemend.table(spark, path).append(rows, partition_by="p", properties={**modes, **properties})

    return copied(spark, (__name__, mode, *properties.items()), name, make)


def rows(table: Table) -> Rows:
    return Counter(tuple(sorted(row.asDict().items())) for row in table.to_df().collect())


def location(table: Table) -> str:
    return str(table.detail()["location"]).removeprefix("file://")


def others_read(table: Table) -> int:
    query = deltalake.QueryBuilder().register("t", deltalake.DeltaTable(location(table)))
    return int(pa.table(query.execute("SELECT count(*) AS n FROM t").read_all())["n"][0].as_py())


@pytest.fixture(params=["copy-on-write", "merge-on-read"])
def mode(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.mark.parametrize("after", ["update", "merge", "replaceWhere"])
@pytest.mark.parametrize("name", STATEMENTS)
@pytest.mark.sampled
def test_restore_after_and_before_everything(
    spark: SparkSession, namespace: str, mode: str, name: str, after: str
) -> None:
    table = made(spark, f"{namespace}.t", mode)
    table.delete("id = 2")
    expected = rows(table)
    STATEMENTS[name](spark, table)
    changed = rows(table)
    report = table.restore(version=1)
    assert rows(table) == expected
    assert report.total == expected.total() == changed.total() + report.inserted - report.deleted == others_read(table)
    # What the statement makes of the table is the same again, and so is one after it.
    STATEMENTS[name](spark, table)
    assert rows(table) == changed
    table.restore(version=1)
    STATEMENTS[after](spark, table)
    once = rows(table)
    assert table.restore(version=2).total == changed.total() and rows(table) == changed
    table.restore(version=1)
    STATEMENTS[after](spark, table)
    assert rows(table) == once and others_read(table) == once.total()


def test_columns_and_partitions_of_then(spark: SparkSession, namespace: str, mode: str) -> None:
    table = made(spark, f"{namespace}.t", mode)
    states = {0: rows(table)}

    def then(statement: str | Callable[[], object]) -> None:
        spark.sql(statement) if isinstance(statement, str) else statement()
        states[table.version] = rows(table)

    then(f"ALTER TABLE {table.name} ADD COLUMN w STRING")
    then(f"UPDATE {table.name} SET w = 'x' WHERE id < 5")
    then(f"ALTER TABLE {table.name} RENAME COLUMN v TO value")
    then(f"INSERT INTO {table.name} (id, p, value, w) VALUES (90, 'c', 9, 'y')")
    then(f"ALTER TABLE {table.name} DROP COLUMN value")
    then(f"DELETE FROM {table.name} WHERE id = 0")
    new = spark.sql("SELECT 1L AS key, DATE'2026-01-01' AS day")
    then(lambda: table.overwrite(new, new_schema=True, partition_by="day"))
    then(lambda: table.append(new))
    for version in (0, 4, 8, 2, 7, 5, 1):
        report = table.restore(version=version)
        assert rows(table) == states[version], version
        assert report.total == states[version].total()
    spark.sql(f"UPDATE {table.name} SET w = 'z'")
    spark.sql(f"INSERT INTO {table.name} (id, p, v, w) VALUES (91, 'd', 9, 'y')")
    assert rows(table).total() == states[1].total() + 1


def test_a_frame_that_was_cached(spark: SparkSession, namespace: str, mode: str) -> None:
    table = made(spark, f"{namespace}.t", mode)
    table.delete("id < 6")
    spark.sql(f"CACHE TABLE {table.name}")
    assert spark.table(table.name).count() == 6
    table.restore(version=0)
    assert spark.table(table.name).count() == 12
    spark.sql(f"UNCACHE TABLE {table.name}")


def test_times(spark: SparkSession, namespace: str) -> None:
    table = made(spark, f"{namespace}.t", "merge-on-read")
    time.sleep(0.02)
    between = datetime.now()
    time.sleep(0.02)
    table.delete()
    assert table.restore(timestamp=between.astimezone().isoformat()).total == 12
    for wrong in ({}, {"version": 1, "timestamp": "2026-01-01"}, {"version": True}, {"version": -1}, {"timestamp": 5}):
        with pytest.raises(LakemendError):
            table.restore(**wrong)  # type: ignore[arg-type]


def test_earlier_versions_are_not_looked_after(spark: SparkSession, namespace: str) -> None:
    earlier = made(spark, f"{namespace}.t", "merge-on-read").as_of(version=0)
    for what in (lambda: earlier.restore(version=0), earlier.vacuum, earlier.checkpoint, earlier.health):
        with pytest.raises(TableError, match="read-only"):
            what()


# ---- the feed


def changes(spark: SparkSession, table: Table, version: int) -> tuple[Rows, Rows]:
    """Rows that came and rows that went."""
    found: dict[str, Rows] = {"insert": Counter(), "delete": Counter()}
    frame = spark.sql(f"SELECT * FROM {table.name} CHANGES FROM VERSION {version} TO VERSION {version}")
    for row in frame.collect():
        values = {k: v for k, v in row.asDict().items() if not k.startswith("_c")}
        found[row["_change_type"]][tuple(sorted(values.items()))] += 1
    return found["insert"], found["delete"]


@pytest.mark.parametrize("feed", ["true", "false"])
def test_the_feed_of_a_restore(spark: SparkSession, namespace: str, mode: str, feed: str) -> None:
    if feed == "true" and mode == "copy-on-write":
        pytest.skip("a table with a feed is masked")
    table = made(spark, f"{namespace}.t", mode, **{"delta.enableChangeDataFeed": feed})
    for statement in ("update", "merge", "append", "delete"):
        STATEMENTS[statement](spark, table)
    for version in (2, 0, 4, 1, 3):
        before = rows(table)
        restored = table.restore(version=version).version
        assert restored is not None
        came, went = changes(spark, table, restored)
        after = rows(table)
        assert came == after - before and went == before - after, version


def test_the_feed_of_a_restore_that_drops_a_column(spark: SparkSession, namespace: str) -> None:
    table = made(spark, f"{namespace}.t", "merge-on-read")
    spark.sql(f"ALTER TABLE {table.name} ADD COLUMN w STRING")
    table.append([{"id": 50, "p": "a", "v": 5, "w": "x"}])
    restored = table.restore(version=0).version
    assert restored is not None
    with pytest.raises(SchemaMismatchError, match="column w was dropped"):
        changes(spark, table, restored)


# ---- vacuum, checkpoint, health


def test_a_table_after_its_vacuum(spark: SparkSession, namespace: str, mode: str, tmp_path: Path) -> None:
    table = made(spark, f"{namespace}.t", mode)
    for statement in STATEMENTS.values():
        if statement is not STATEMENTS["truncate"]:
            statement(spark, table)
    table.restore(version=3)
    expected = rows(table)
    for path in Path(location(table)).rglob("*.parquet"):
        if "_delta_log" not in path.parts:
            os.utime(path, (time.time() - 60, time.time() - 60))
    with pytest.raises(InvalidInputError, match="lose_history"):
        table.vacuum("0")
    report = table.vacuum("1 second", lose_history=True)
    time.sleep(1.1)
    report = table.vacuum("1 second", lose_history=True)
    assert rows(table) == expected and report.total == expected.total() == others_read(table)
    with pytest.raises(LakemendError, match="vacuum"):
        table.restore(version=0)
    assert table.vacuum("1 second", lose_history=True).version is None
    STATEMENTS["merge"](spark, table)
    assert table.checkpoint().plan in ({"version": table.version, "written": w} for w in (True, False))
    assert others_read(table) == rows(table).total()
    health = table.health(leftovers=True)
    assert (health.version, health.rows) == (table.version, rows(table).total())


def test_replacing_a_table_while_a_vacuum_says_so(spark: SparkSession, namespace: str) -> None:
    from lakemend.brain.commit import commit
    from lakemend.formats.format import Change
    from lakemend.session import brain

    table = made(spark, f"{namespace}.t", "merge-on-read")
    opened = brain().address({"path": location(table)}).open()
    base = opened.latest()
    commit(opened.table, base, Change("vacuum_start", {}))
    replaced = Change("replace", metadata=base.metadata, replaces_table=True)
    assert commit(opened.table, base, replaced).version == 2


def test_cached_rows_follow_a_restore_under_every_name(spark: SparkSession, namespace: str) -> None:
    table = lakemend.table(spark, f"{namespace}.t")
    for i in range(3):
        table.append(spark.sql(f"SELECT {i} AS id"))
    place = f"delta.`{table.detail()['location']}`"
    frames = [spark.table(table.name).cache(), spark.table(place).cache()]
    try:
        assert [frame.count() for frame in frames] == [3, 3]
        table.restore(version=0)
        assert [spark.table(name).count() for name in (table.name, place)] == [1, 1]
        lakemend.table(spark, table.detail()["location"]).restore(version=2)
        assert [spark.table(name).count() for name in (table.name, place)] == [3, 3]
    finally:
        for frame in frames:
            frame.unpersist()
