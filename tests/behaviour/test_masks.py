"""Masks from executors: positions in mask files, masks united, files that are mostly dead written again.

A limit of 0 bytes for the messages of tasks sends every mask to a file, however small: what happens is then the same as
with millions of rows.
"""

from __future__ import annotations

import functools
import json
import shutil
import subprocess
import sys
import textwrap
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

import lakemend
from lakemend import Table
from lakemend.errors import CommitConflictError, InvalidInputError
from lakemend.formats.delta.deletion_vector import relative_path
from tests.interop.readers import READERS
from tests.settings import settings
from tests.slip_in import slip_in

LIMIT = "spark.lakemend.masks.message-bytes"
ROWS = 20_000
QUERY = f"SELECT id, id % 4 AS p, sha2(CAST(id AS STRING), 256) AS s, id * 3 AS v FROM range({ROWS})"
# Files are read by several tasks each.
SPLIT = {"spark.sql.files.maxPartitionBytes": "200000", "spark.sql.files.openCostInBytes": "0"}
SHARE = "write.mask.max-dead-share"
Rows = list[tuple[Any, ...]]


@pytest.fixture(params=["stored", "inline"])
def stored(request: pytest.FixtureRequest, spark: SparkSession) -> Iterator[bool]:
    with settings(spark, {LIMIT: "0" if request.param == "stored" else str(1 << 20)}):
        yield request.param == "stored"


Make = Callable[..., Table]


@pytest.fixture(params=["plain", "partitioned"])
def make(request: pytest.FixtureRequest, spark: SparkSession, location: str) -> Make:
    """A table of two files, or one per partition, of several row groups each."""

    def create(properties: dict[str, str] | None = None) -> Table:
        table = lakemend.table(spark, location)
        small = {"write.parquet.row-group-size-bytes": "100000", "write.parquet.page-size-bytes": "10000"}
        partitioned = request.param == "partitioned"
        frame = spark.sql(QUERY).repartition(2, "p") if partitioned else spark.sql(QUERY).repartition(2)
        table.append(frame, partition_by="p" if partitioned else (), properties={**small, **(properties or {})})
        groups = [pq.read_metadata(file).num_row_groups for file in Path(location).rglob("*.parquet")]
        assert min(groups) > 2
        return table

    return create


def sorted_rows(frame: DataFrame) -> Rows:
    return sorted(zip(*(column.to_pylist() for column in frame.toArrow().columns), strict=True))


def rows_of(spark: SparkSession, query: str) -> Rows:
    return sorted_rows(spark.sql(query))


@functools.lru_cache(8)
def alive(spark: SparkSession, dead: str) -> Rows:
    return rows_of(spark, f"SELECT * FROM ({QUERY}) WHERE NOT ({dead})")


def count(spark: SparkSession, condition: str) -> int:
    return spark.sql(QUERY).where(condition).count()


def content(table: Table) -> Rows:
    return sorted_rows(table.to_df().selectExpr("id", "p", "s", "v"))


def actions(location: str) -> list[dict[str, Any]]:
    logs = sorted(Path(location, "_delta_log").glob("*.json"))
    return [json.loads(line) for log in logs for line in log.read_text().splitlines()]


def vectors(location: str) -> list[dict[str, Any]]:
    """Descriptors of every version, oldest first."""
    adds = [action["add"] for action in actions(location) if "add" in action]
    return [add["deletionVector"] for add in adds if add.get("deletionVector")]


def mask_files(location: str) -> set[str]:
    return {file.name for file in Path(location).glob("*.bin")}


def check_files(location: str) -> None:
    """What lies there is what the log names, masks and data alike: nothing is missing and nothing is left over."""
    named = {relative_path(v["pathOrInlineDv"]) for v in vectors(location) if v["storageType"] == "u"}
    assert mask_files(location) == named
    on_disk = {str(file.relative_to(location)) for file in Path(location).rglob("*.parquet")}
    added = {action["add"]["path"] for action in actions(location) if "add" in action}
    assert {path for path in on_disk if not path.startswith("_delta_log")} == added


def check_readers(location: str, expected: Rows) -> None:
    """Other engines see these rows and no other."""
    wanted = sorted(repr(sorted(zip(("id", "p", "s", "v"), row, strict=True))) for row in expected)
    for name in ("deltalake", "polars", "duckdb"):
        assert READERS[name](location) == wanted, name


# ---- masks in files


@pytest.mark.sampled
def test_masks_grow_over_several_statements(spark: SparkSession, make: Make, location: str, stored: bool) -> None:
    table = make({SHARE: "1"})
    dead = "false"
    for step in ("id % 100 = 7", "id BETWEEN 5000 AND 5999", "pmod(hash(id), 10) < 3", "id >= 19990"):
        files = table.to_df().where(step).select("_file").distinct().count()
        report = table.delete(step)
        assert report.deleted == count(spark, f"({step}) AND NOT ({dead})")
        assert (report.files_masked, report.files_added, report.files_removed, report.copied) == (files, 0, 0, 0)
        dead = f"({dead}) OR {step}"
        assert content(table) == alive(spark, dead)
        assert report.total == len(alive(spark, dead))
        check_files(location)
    assert mask_files(location) or not stored
    check_readers(location, alive(spark, dead))
    assert table.as_of(1).to_df().count() == ROWS - ROWS // 100, "older versions keep their masks"


def test_updates_write_new_rows_beside_their_masks(
    spark: SparkSession, make: Make, location: str, stored: bool
) -> None:
    table = make()
    report = table.update(set={"v": "-v", "p": "p + 10"}, where="pmod(hash(id), 5) = 1")
    changed = count(spark, "pmod(hash(id), 5) = 1")
    assert (report.updated, report.inserted, report.deleted, report.copied) == (changed, 0, 0, 0)
    once = f"""SELECT id, IF(hit, p + 10, p) AS p, s, IF(hit, -v, v) AS v
               FROM (SELECT *, pmod(hash(id), 5) = 1 AS hit FROM ({QUERY}))"""
    assert content(table) == rows_of(spark, once)
    report = table.update(set={"v": "v * 2"}, where="pmod(hash(id), 5) IN (1, 2)")
    assert report.updated == count(spark, "pmod(hash(id), 5) IN (1, 2)")
    twice = rows_of(spark, f"SELECT id, p, s, IF(pmod(hash(id), 5) IN (1, 2), v * 2, v) AS v FROM ({once})")
    assert content(table) == twice
    check_files(location)
    check_readers(location, twice)


def test_one_vector_per_file_however_many_tasks(spark: SparkSession, location: str) -> None:
    """Several tasks read one file: their parts become one vector, and the parts' own files go."""
    table = lakemend.table(spark, location)
    table.append(spark.sql(QUERY).coalesce(1), properties={"write.parquet.row-group-size-bytes": "100000"})
    with settings(spark, {LIMIT: "0", **SPLIT}):
        assert table.to_df().rdd.getNumPartitions() > 3
        assert table.delete("pmod(hash(id), 10) < 2").files_masked == 1
        assert len(mask_files(location)) == 1
        check_files(location)
        report = table.delete("pmod(hash(id), 10) = 2")
        assert report.deleted == count(spark, "pmod(hash(id), 10) = 2")
        assert len(mask_files(location)) == 2, "one for each version"
        check_files(location)
    assert content(table) == alive(spark, "pmod(hash(id), 10) < 3")
    check_readers(location, alive(spark, "pmod(hash(id), 10) < 3"))


def test_a_join_sends_rows_of_a_file_to_many_tasks(
    spark: SparkSession, make: Make, location: str, stored: bool
) -> None:
    table = make()
    shuffled = {
        "spark.sql.autoBroadcastJoinThreshold": "-1",
        "spark.sql.adaptive.enabled": "false",
        "spark.sql.shuffle.partitions": "5",
    }
    with settings(spark, shuffled):
        spark.sql(f"""
            MERGE INTO {table.name} t USING (SELECT id * 3 AS id FROM range(8000)) s ON t.id = s.id
            WHEN MATCHED AND t.id % 2 = 0 THEN UPDATE SET v = -1
            WHEN MATCHED THEN DELETE
            WHEN NOT MATCHED THEN INSERT (id, p, s, v) VALUES (s.id, 0, 'new', 0)""")
    metrics = table.history(1)[0]["metrics"]
    matched = len(range(0, ROWS, 3))
    counts = [metrics[f"numTargetRows{verb}"] for verb in ("Updated", "Deleted", "Inserted", "Copied")]
    assert counts == [matched // 2 + 1, matched // 2, 8000 - matched, 0]
    assert content(table) == rows_of(
        spark,
        f"""SELECT id, p, s, IF(id % 3 = 0, -1, v) AS v FROM ({QUERY}) WHERE id % 3 <> 0 OR id % 2 = 0
            UNION ALL SELECT id * 3, 0, 'new', 0 FROM range({matched}, 8000)""",
    )
    check_files(location)


def test_large_masks_leave_the_message_by_themselves(spark: SparkSession, location: str) -> None:
    table = lakemend.table(spark, location)
    table.append(spark.sql("SELECT id FROM range(1200000)").coalesce(1))
    assert table.delete("id % 1000 = 5").files_masked == 1
    assert [vector["cardinality"] for vector in vectors(location)] == [1200]
    report = table.delete("pmod(hash(id), 10) < 4 AND id % 1000 <> 5")
    assert vectors(location)[-1]["cardinality"] == report.deleted + 1200
    assert table.to_df().where("id >= 0").count() == 1200000 - report.deleted - 1200 == report.total
    check_files(location)


@pytest.mark.cluster
def test_executors_in_other_processes(tmp_path: Path) -> None:
    """Masks are stored and united, and files written again, where none of the driver's memory is at hand."""
    script = f"""
        import lakemend
        conf = {{**{SPLIT!r}, {LIMIT!r}: "0", "spark.ui.enabled": "false"}}
        spark = lakemend.session("warehouse", master="local-cluster[2,1,1024]", conf=conf)
        table = lakemend.table(spark, "db.t")
        rows = spark.sql({QUERY!r}).coalesce(1)
        table.append(rows, properties={{"write.parquet.row-group-size-bytes": "100000"}})
        reports = [table.delete("id % 10 < 2"), table.delete("id % 10 = 2"), table.delete("id % 10 BETWEEN 3 AND 6")]
        assert [r.deleted for r in reports] == [{ROWS // 5}, {ROWS // 10}, {ROWS // 5 * 2}], reports
        assert [r.files_masked for r in reports] == [1, 1, 0], reports
        assert [r.copied for r in reports] == [0, 0, {ROWS // 10 * 3}], reports
        assert table.to_df().where("id % 10 > 6").count() == table.to_df().count() == {ROWS // 10 * 3}
        spark.stop()"""
    subprocess.run([sys.executable, "-c", textwrap.dedent(script)], cwd=tmp_path, check=True, timeout=300)
    check_files(str(tmp_path / "warehouse" / "db" / "t"))


# ---- several writers


def test_masks_of_different_rows_both_land(
    spark: SparkSession, make: Make, location: str, stored: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = make()
    table.delete("id % 50 = 1")
    slip_in(monkeypatch, lambda: spark.newSession().sql(f"DELETE FROM {table.name} WHERE id % 50 = 2"))
    report = table.delete("id % 50 = 3 AND id < 15000")
    assert report.deleted == 300
    dead = "id % 50 IN (1, 2) OR id % 50 = 3 AND id < 15000"
    assert content(table) == alive(spark, dead)
    assert report.total == len(alive(spark, dead))
    check_files(location)
    check_readers(location, alive(spark, dead))


def test_the_same_row_conflicts_and_nothing_is_left(
    spark: SparkSession, make: Make, location: str, stored: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = make()
    table.delete("id % 50 = 1")
    slip_in(monkeypatch, lambda: spark.newSession().sql(f"DELETE FROM {table.name} WHERE id = 53"))
    with pytest.raises(CommitConflictError) as conflict:
        spark.sql(f"UPDATE {table.name} SET v = 1 WHERE id % 50 = 3")
    assert conflict.value.rule == "row"
    check_files(location)
    monkeypatch.undo()
    slip_in(monkeypatch, lambda: spark.newSession().sql(f"DELETE FROM {table.name} WHERE id = 103"))
    report = table.update(set={"v": "1"}, where="id % 50 = 3")
    assert (report.updated, report.attempts) == (ROWS // 50 - 2, 2)
    check_files(location)
    assert table.to_df().where("v = 1").count() == ROWS // 50 - 2


def test_two_statements_kill_a_file_together(
    spark: SparkSession, location: str, stored: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither leaves it without a living row, both do: it is removed, and the report says so."""
    table = lakemend.table(spark, location)
    table.append(spark.sql("SELECT id FROM range(1000)").coalesce(1), properties={SHARE: "1"})
    table.append(spark.sql("SELECT id FROM range(1000, 1010)").coalesce(1))
    slip_in(monkeypatch, lambda: spark.newSession().sql(f"DELETE FROM {table.name} WHERE id < 1000 AND id % 3 = 0"))
    report = table.delete("id < 1000 AND id % 3 > 0")
    assert (report.deleted, report.files_removed, report.files_masked, report.total) == (666, 1, 0, 10)
    check_files(location)


def test_a_failed_statement_leaves_nothing(spark: SparkSession, make: Make, location: str, stored: bool) -> None:
    table = make()
    table.delete("id % 50 = 1")
    version, before = table.version, content(table)
    with pytest.raises(PySparkException):
        spark.sql(f"UPDATE {table.name} SET v = IF(id = 19000, raise_error('no'), 0) WHERE id % 10 = 0")
    assert (table.version, content(table)) == (version, before)
    check_files(location)


@pytest.mark.sampled
@pytest.mark.parametrize("condition", ["id % 10 = 3", "id % 10 < 7"], ids=["masked", "rewritten"])
def test_a_driver_killed_before_it_commits_leaves_the_old_version(
    spark: SparkSession,
    make: Make,
    location: str,
    stored: bool,
    condition: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """What lies on the disk in that moment is what a killed driver leaves."""
    table = make()
    table.delete("id % 50 = 1")
    left = str(tmp_path / "left")
    slip_in(monkeypatch, lambda: shutil.copytree(location, left))
    report = table.delete(condition)
    check_readers(left, alive(spark, "id % 50 = 1"))
    again = lakemend.table(spark, left).delete(condition)
    assert (again.deleted, again.copied, again.total) == (report.deleted, report.copied, report.total)
    assert content(lakemend.table(spark, left)) == content(table) == alive(spark, f"id % 50 = 1 OR {condition}")


# ---- files that are mostly dead


def test_mostly_dead_files_are_written_again(spark: SparkSession, make: Make, location: str, stored: bool) -> None:
    table = make()
    old = set(table.files()["path"].to_pylist())
    assert table.delete("pmod(hash(id), 10) < 4").files_masked == len(old)
    report = table.delete("pmod(hash(id), 10) < 6")
    left = alive(spark, "pmod(hash(id), 10) < 6")
    assert report.deleted == count(spark, "pmod(hash(id), 10) IN (4, 5)")
    assert (report.copied, report.total) == (len(left), len(left))
    assert (report.files_removed, report.files_masked) == (len(old), 0)
    files = table.files()
    assert report.files_added == files.num_rows > 0
    assert not old & set(files["path"].to_pylist())
    assert set(files["masked"].to_pylist()) == {0}
    assert sum(files["rows"].to_pylist()) == len(left)
    assert content(table) == left
    metrics = table.history(1)[0]["metrics"]
    assert (metrics["numDeletedRows"], metrics["numCopiedRows"]) == (report.deleted, report.copied)
    check_files(location)
    check_readers(location, left)


def test_only_the_files_beyond_the_share(spark: SparkSession, location: str) -> None:
    table = lakemend.table(spark, location)
    table.append(spark.sql(QUERY).repartition(2, "p"), partition_by="p")
    files = table.files().num_rows
    hit = "p = 1 AND id % 10 < 8 OR p = 2 AND id < 100 OR p = 3"
    report = table.update(set={"v": "0"}, where=hit)
    kept = count(spark, "p = 1 AND id % 10 >= 8")
    assert (report.updated, report.copied) == (count(spark, hit), kept)
    # Of partition 1 the rest is written again, partition 2 is masked, partition 3 has no old row left.
    assert (report.files_masked, report.files_removed) == (files // 4, files // 2)
    assert content(table) == rows_of(spark, f"SELECT id, p, s, IF({hit}, 0, v) AS v FROM ({QUERY})")
    # Rows are found by their new statistics and partition values.
    assert table.to_df().where("p = 1 AND id % 10 = 9").count() == ROWS // 20
    assert table.to_df().where("p = 1 AND v = 0").count() == ROWS // 4 - kept


@pytest.mark.parametrize(("share", "masked"), [("0", False), ("0.1", False), ("0.3", True), ("1", True), ("1.0", True)])
def test_the_share_is_a_property(spark: SparkSession, location: str, share: str, masked: bool) -> None:
    table = lakemend.table(spark, location)
    table.append(spark.sql("SELECT id FROM range(100)").coalesce(1), properties={SHARE: share})
    report = table.delete("id % 5 = 0")
    assert (report.deleted, report.files_masked, report.files_removed) == (20, int(masked), int(not masked))
    assert report.copied == (0 if masked else 80)
    assert table.to_df().count() == 80
    report = table.delete("id % 5 > 0")
    assert (report.deleted, report.files_removed, report.files_added, report.total) == (80, 1, 0, 0)


@pytest.mark.parametrize("share", ["-0.1", "1.1", "half", "nan", ""])
def test_a_share_that_is_none(spark: SparkSession, location: str, share: str) -> None:
    table = lakemend.table(spark, location)
    with pytest.raises(InvalidInputError, match=r"write\.mask\.max-dead-share"):
        table.append(spark.range(1), properties={SHARE: share})


def test_a_rewritten_file_conflicts_like_a_removed_one(
    spark: SparkSession, make: Make, location: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = make()
    slip_in(monkeypatch, lambda: spark.newSession().sql(f"DELETE FROM {table.name} WHERE id % 50 = 7"))
    with pytest.raises(CommitConflictError) as conflict:
        spark.sql(f"DELETE FROM {table.name} WHERE id % 10 < 6")
    assert conflict.value.rule == "file"
    check_files(location)
    report = table.delete("id % 10 < 6")
    assert report.deleted == ROWS // 10 * 6
    assert content(table) == alive(spark, "id % 10 < 6 OR id % 50 = 7")
    check_files(location)


def test_names_and_types_survive_a_rewrite(spark: SparkSession, namespace: str) -> None:
    """Column mapping, nested columns, columns added and renamed later."""
    name = f"{namespace}.t"
    spark.sql(
        f"CREATE TABLE {name} (id BIGINT NOT NULL, `a b` STRUCT<x: INT, `y z`: ARRAY<STRING>>, m MAP<STRING, DOUBLE>) "
        "TBLPROPERTIES ('delta.columnMapping.mode' = 'name')"
    )
    source = """SELECT id, named_struct('x', CAST(id AS INT), 'y z', array(CAST(id AS STRING))) AS `a b`,
                       map('k', id / 2.0D) AS m FROM range(1000)"""
    spark.sql(f"INSERT INTO {name} SELECT /*+ COALESCE(1) */ * FROM ({source})")
    spark.sql(f"ALTER TABLE {name} ADD COLUMNS (later STRING)")
    spark.sql(f"ALTER TABLE {name} RENAME COLUMN m TO n")
    table = lakemend.table(spark, name)
    report = table.delete("id % 4 > 0")
    assert (report.deleted, report.copied, report.files_added, report.files_removed) == (750, 250, 1, 1)
    found = {row.id: tuple(row) for row in table.to_df().selectExpr("id", "`a b`", "n", "later").collect()}
    wanted = spark.sql(f"SELECT *, CAST(NULL AS STRING) FROM ({source}) WHERE id % 4 = 0").collect()
    assert found == {row.id: tuple(row) for row in wanted}


def test_a_rewrite_with_schema_evolution(spark: SparkSession, location: str) -> None:
    table = lakemend.table(spark, location)
    table.append(spark.sql("SELECT id, 'old' AS s FROM range(100)").coalesce(1))
    spark.sql(f"""
        MERGE WITH SCHEMA EVOLUTION INTO {table.name} t
        USING (SELECT id, 'new' AS s, 1 AS extra FROM range(80)) s ON t.id = s.id
        WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *""")
    metrics = table.history(1)[0]["metrics"]
    assert (metrics["numTargetRowsUpdated"], metrics["numTargetRowsCopied"]) == (80, 20)
    rows = sorted(tuple(row) for row in table.to_df().selectExpr("id", "s", "extra").collect())
    assert rows == [(i, "new", 1) if i < 80 else (i, "old", None) for i in range(100)]
    check_files(location)
