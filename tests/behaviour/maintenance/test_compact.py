"""compact: fewer files with the same rows, and nothing else."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

import lakemend
from lakemend import Table
from lakemend.errors import (
    CommitConflictError,
    InvalidInputError,
    LakemendError,
    TableNotFoundError,
    UnsupportedFeatureError,
)
from lakemend.session import brain
from tests.behaviour.maintenance.slips import slip_in, writers
from tests.copies import copied
from tests.interop.readers import READERS, by_lakemend
from tests.settings import settings

QUERY = "SELECT id, id % 3 AS p, CAST(id AS STRING) AS s, IF(id % 5 = 0, NULL, id * 1.5D) AS v FROM range({n})"
MODES = {"merge-on-read", "copy-on-write"}


def rows_of(spark: SparkSession, table: Table) -> list[str]:
    return by_lakemend(spark, table.detail()["location"])


def stored(table: Table) -> set[str]:
    root = Path(table.detail()["location"].removeprefix("file://"))
    return {str(path.relative_to(root)) for path in root.rglob("*.parquet") if not path.name.startswith(".")}


def small_files(spark: SparkSession, location: str, n: int = 600, files: int = 12, partitioned: bool = False) -> Table:
    def make(path: str) -> None:
        table = lakemend.table(spark, path)
        frame = spark.sql(QUERY.format(n=n)).repartition(files, "id")
        if partitioned:
            table.append(frame.where("id < 0"), partition_by="p")
            for part in frame.randomSplit([1.0] * 4, seed=1):
                table.append(part.repartition(2))
        else:
            table.append(frame)

    return copied(spark, (__name__, n, files, partitioned), location, make)


def test_small_files_become_one(spark: SparkSession, location: str) -> None:
    table = small_files(spark, location)
    before, files = rows_of(spark, table), table.files()
    version = table.version
    report = table.compact()
    plan = report.plan
    assert plan is not None
    assert (plan["before_file_count"], plan["after_file_count"], plan["compacted_file_count"]) == (12, 1, 12)
    assert plan["before_total_bytes"] == plan["rewritten_bytes"] == sum(files["size"].to_pylist())
    assert plan["after_total_bytes"] == sum(table.files()["size"].to_pylist())
    assert plan["dry_run"] is False and plan["lost_groups"] == []
    assert [sorted(group) for group in plan["planned_groups"]] == [sorted(files["path"].to_pylist())]
    assert (report.version, report.files_added, report.files_removed, report.copied) == (version + 1, 1, 12, 600)
    assert report.total == 600
    assert rows_of(spark, table) == before
    assert spark.read.option("versionAsOf", version).table(table.name).count() == 600


@pytest.mark.parametrize("target", [{}, {"target_rows_per_file": 100}, {"target_mb_per_file": 0.01}], ids=str)
@pytest.mark.parametrize("partitioned", [False, True])
def test_twice_does_nothing_the_second_time(
    spark: SparkSession, location: str, partitioned: bool, target: dict[str, Any]
) -> None:
    table = small_files(spark, location, partitioned=partitioned)
    table.delete("id % 7 = 0")
    before = rows_of(spark, table)
    first = table.compact(**target)
    assert first.version is not None
    version, files = table.version, stored(table)
    second = table.compact(**target)
    assert (second.version, second.plan["planned_groups"], table.version) == (None, [], version)
    assert stored(table) == files
    assert rows_of(spark, table) == before
    if "target_rows_per_file" in target:
        assert max(table.files()["rows"].to_pylist()) <= 100


@pytest.mark.parametrize("target", [{}, {"target_rows_per_file": 130}], ids=str)
def test_a_dry_run_tells_what_happens_and_touches_nothing(
    spark: SparkSession, location: str, target: dict[str, Any]
) -> None:
    table = small_files(spark, location, partitioned=True)
    version, files = table.version, stored(table)
    planned = table.compact(dry_run=True, **target)
    assert planned.dry_run and planned.plan["dry_run"] and planned.version is None
    assert (table.version, stored(table)) == (version, files)
    done = table.compact(**target).plan
    known = set(planned.plan) - {"dry_run", "after_total_bytes"}
    assert {key: planned.plan[key] for key in known} == {key: done[key] for key in known}
    assert planned.plan["after_total_bytes"] > 0


def test_files_near_the_target_are_left_alone(spark: SparkSession, location: str) -> None:
    table = lakemend.table(spark, location)
    table.append(spark.range(80).coalesce(1))  # 80 % of the target
    table.append(spark.range(30).coalesce(1))
    table.append(spark.range(30).coalesce(1))
    kept = {row["path"] for row in table.files().to_pylist() if row["rows"] == 80}
    report = table.compact(target_rows_per_file=100)
    assert report.plan["compacted_file_count"] == 2
    assert sorted(table.files()["rows"].to_pylist()) == [60, 80]
    assert kept <= set(table.files()["path"].to_pylist())


def test_masked_rows_go_for_good(spark: SparkSession, location: str) -> None:
    table = lakemend.table(spark, location)
    table.append(spark.range(1000).coalesce(1))
    table.delete("id % 5 < 2")
    assert table.detail()["masked_rows"] == 400
    report = table.compact(target_rows_per_file=1000)
    assert report.plan["compacted_file_count"] == report.plan["after_file_count"] == 1
    assert (table.detail()["masked_rows"], table.detail()["rows"]) == (0, 600)
    assert table.compact(target_rows_per_file=1000).version is None


def test_a_large_masked_file_is_parted_at_the_target(spark: SparkSession, location: str) -> None:
    table = lakemend.table(spark, location)
    table.append(spark.range(1000).coalesce(1))
    table.delete("id % 5 < 2")
    report = table.compact(target_rows_per_file=250)
    assert sorted(table.files()["rows"].to_pylist()) == [100, 250, 250]
    assert report.plan["after_file_count"] == 3
    assert table.compact(target_rows_per_file=250).version is None


def test_history_tells_an_optimize(spark: SparkSession, location: str) -> None:
    table = small_files(spark, location)
    table.compact()
    entry = table.history(1)[0]
    assert entry["operation"] == "OPTIMIZE"
    assert entry["parameters"] == {"predicate": "[]", "zOrderBy": "[]", "auto": "false"}
    metrics = entry["metrics"]
    assert (metrics["numRemovedFiles"], metrics["numAddedFiles"]) == (12, 1)
    assert metrics["minFileSize"] == metrics["p50FileSize"] == metrics["maxFileSize"] == metrics["numAddedBytes"]
    log = Path(location) / "_delta_log" / f"{table.version:020d}.json"
    text = log.read_text()
    assert text.count('"dataChange":false') == 13 and '"dataChange":true' not in text


def test_readers_of_changes_see_none(spark: SparkSession, location: str) -> None:
    table = lakemend.table(spark, location)
    table.append(spark.range(10).coalesce(2), properties={"delta.enableChangeDataFeed": "true"})
    table.append(spark.range(10, 20).coalesce(2))
    table.delete("id % 3 = 0")
    report = table.compact()
    changes = spark.sql(f"SELECT * FROM {table.name} CHANGES FROM VERSION {report.version} TO VERSION {report.version}")
    assert changes.count() == 0
    every = spark.sql(f"SELECT * FROM {table.name} CHANGES FROM VERSION 1 TO VERSION {report.version}")
    assert every.groupBy("_change_type").count().collect() != []


@pytest.mark.parametrize("reader", sorted(READERS))
def test_other_readers_see_the_same_rows(spark: SparkSession, location: str, reader: str) -> None:
    table = small_files(spark, location, partitioned=True)
    before = rows_of(spark, table)
    table.compact()
    assert READERS[reader](location) == before


@pytest.mark.parametrize(
    "filter",
    ["p=1", ["p=1"], "p=1/", lambda: F.col("p") == 1, lambda: (F.col("p") > 0) & (F.col("p") < 2)],
    ids=["prefix", "list", "slash", "column", "condition"],
)
def test_a_partition_filter_leaves_the_others_untouched(spark: SparkSession, location: str, filter: Any) -> None:
    table = small_files(spark, location, partitioned=True)
    others = {row["path"] for row in table.files().to_pylist() if row["partition"]["p"] != 1}
    report = table.compact(partition_filter=filter() if callable(filter) else filter)
    assert report.plan["before_file_count"] == report.plan["compacted_file_count"]
    after = table.files().to_pylist()
    assert others == {row["path"] for row in after if row["partition"]["p"] != 1}
    assert len(after) == len(others) + 1


@pytest.mark.parametrize("filter", ["p=7", ["p=7", "p=8"], lambda: F.col("p") > 5], ids=["one", "two", "column"])
def test_a_filter_that_leaves_nothing_is_no_such_file(spark: SparkSession, location: str, filter: Any) -> None:
    table = small_files(spark, location, partitioned=True)
    with pytest.raises(FileNotFoundError) as error:
        table.compact(partition_filter=filter() if callable(filter) else filter)
    assert isinstance(error.value, TableNotFoundError)


@pytest.mark.parametrize(
    "filter",
    ["p = 1", "p > 1", "q=1", "p=1/q=2", "p=x", "", [], 7, lambda: F.col("id") == 1, lambda: F.col("no") == 1],
    ids=["sql", "sql condition", "other", "deeper", "no number", "empty", "none", "number", "data", "no column"],
)
def test_a_filter_that_is_none(spark: SparkSession, location: str, filter: Any) -> None:
    table = small_files(spark, location, partitioned=True)
    version = table.version
    with pytest.raises(InvalidInputError):
        table.compact(partition_filter=filter() if callable(filter) else filter)
    assert table.version == version


@pytest.mark.parametrize(
    "wrong",
    [
        {"target_mb_per_file": 0}, {"target_mb_per_file": -1}, {"target_mb_per_file": "1"},
        {"target_mb_per_file": float("nan")}, {"target_rows_per_file": 0}, {"target_rows_per_file": -5},
        {"target_rows_per_file": 1.5}, {"target_rows_per_file": True}, {"compression": "zip"}, {"batches": 0},
        {"retries": -1}, {"target_mb_per_file": -1, "target_rows_per_file": 10},
    ],
    ids=str,
)  # fmt: skip
def test_wrong_thresholds_come_before_any_read(spark: SparkSession, location: str, wrong: dict[str, Any]) -> None:
    with pytest.raises(ValueError):
        lakemend.table(spark, location).compact(**wrong)  # there is no such table


def test_no_such_table(spark: SparkSession, location: str) -> None:
    with pytest.raises(FileNotFoundError):
        lakemend.table(spark, location).compact()


def test_an_earlier_version_is_not_compacted(spark: SparkSession, location: str) -> None:
    table = small_files(spark, location)
    with pytest.raises(LakemendError, match="read-only"):
        table.as_of(version=0).compact()


@pytest.mark.parametrize("codec", ["zstd", "gzip", "snappy", "uncompressed"])
def test_compression(spark: SparkSession, location: str, codec: str) -> None:
    import pyarrow.parquet as pq

    table = small_files(spark, location)
    report = table.compact(compression=codec.upper())
    assert report.plan["compression_codec"] == codec
    [path] = table.files()["path"].to_pylist()
    found = pq.read_metadata(path.removeprefix("file://")).row_group(0).column(0).compression
    assert found.lower() == codec


def test_batches_are_versions(spark: SparkSession, location: str) -> None:
    table = small_files(spark, location, partitioned=True)
    before, version = rows_of(spark, table), table.version
    report = table.compact(batches=2)
    assert report.plan["versions"] == [version + 1, version + 2]
    assert (report.version, report.attempts, report.files_added) == (version + 2, 2, 3)
    for landed in (version + 1, version + 2):
        assert by_lakemend(spark, table.detail()["location"]) == before
        assert table.as_of(version=landed).to_df().count() == len(before)


def test_tables_that_are_append_only_are_compacted(spark: SparkSession, location: str) -> None:
    table = lakemend.table(spark, location)
    table.append(spark.range(10).coalesce(2), properties={"delta.appendOnly": "true"})
    table.append(spark.range(10).coalesce(2))
    assert table.compact().files_added == 1
    with pytest.raises(UnsupportedFeatureError):
        table.delete("id = 1")


def test_renamed_and_new_columns(spark: SparkSession, location: str) -> None:
    table = lakemend.table(spark, location)
    table.append(spark.sql(QUERY.format(n=50)), partition_by="p", properties={"delta.columnMapping.mode": "name"})
    spark.sql(f"ALTER TABLE {table.name} RENAME COLUMN s TO text")
    spark.sql(f"ALTER TABLE {table.name} RENAME COLUMN p TO part")
    spark.sql(f"ALTER TABLE {table.name} ADD COLUMN fresh INT")
    spark.sql(f"ALTER TABLE {table.name} DROP COLUMN v")
    table.append(spark.sql("SELECT id, id % 3 AS part, 'x' AS text, 7 AS fresh FROM range(50)"))
    before = rows_of(spark, table)
    assert table.compact(partition_filter="part=1").files_added == 1
    table.compact()
    assert table.files().num_rows == 3
    assert rows_of(spark, table) == before
    assert READERS["deltalake"](location) == before


def test_sorted_files_are_no_longer_said_to_be_sorted(spark: SparkSession, location: str) -> None:
    table = lakemend.table(spark, location)
    for start in (50, 0):
        table.append(spark.range(start, start + 50).coalesce(1), properties={"write.sort-columns": "id"})
    table.compact()
    log = (Path(location) / "_delta_log" / f"{table.version:020d}.json").read_text()
    assert "sortedBy" not in next(line for line in log.splitlines() if line.startswith('{"add"'))


# ---- other writers


@pytest.mark.parametrize("writer", sorted(writers()))
def test_other_writers_between_plan_and_commit(
    spark: SparkSession, location: str, monkeypatch: pytest.MonkeyPatch, writer: str
) -> None:
    table = small_files(spark, location, partitioned=True)
    other = writers()[writer]
    slip_in(monkeypatch, lambda: other.act(lakemend.table(spark, location)))
    if other.breaks_all:
        with pytest.raises(CommitConflictError):
            table.compact()
    else:
        report = table.compact()
        assert len(report.plan["lost_groups"]) == other.loses, report.plan["lost_groups"]
    expected = lakemend.table(spark, location + "-alone")
    expected.append(table.as_of(version=4).to_df())
    if other.rows:
        other.rows(expected)
    wanted = sorted(map(str, expected.to_df().select("id", "p", "s", "v").collect()))
    assert sorted(map(str, table.to_df().select("id", "p", "s", "v").collect())) == wanted
    orphans = stored(table) - referred(table)
    assert not orphans
    monkeypatch.undo()
    table.compact()
    assert sorted(map(str, table.to_df().select("id", "p", "s", "v").collect())) == wanted


def referred(table: Table) -> set[str]:
    """Files of any version."""
    root = table.detail()["location"]
    found = set()
    for version in range(table.version + 1):
        for path in table.as_of(version=version).files()["path"].to_pylist():
            found.add(path.removeprefix(root).removeprefix("file://").removeprefix("/"))
    local = Path(root.removeprefix("file://"))
    return {str(Path("/" + p).relative_to(local)) if ("/" + p).startswith(str(local)) else p for p in found}


def test_lost_files_are_planned_again(spark: SparkSession, location: str, monkeypatch: pytest.MonkeyPatch) -> None:
    table = small_files(spark, location, partitioned=True)
    slip_in(monkeypatch, lambda: lakemend.table(spark, location).delete("id = 1"))
    report = table.compact(retries=1)
    assert len(report.plan["lost_groups"]) == 1
    assert table.files().num_rows == 3
    assert table.to_df().count() == 599


def test_a_failed_commit_leaves_no_files(spark: SparkSession, location: str, monkeypatch: pytest.MonkeyPatch) -> None:
    table = small_files(spark, location)
    files, version = stored(table), table.version
    original: Callable[..., Any] = brain().ask

    def ask(op: str, request: dict[str, Any]) -> dict[str, Any]:
        if op == "commit":
            request = {**request, "tally": {**request["tally"], "copied": request["tally"]["copied"] - 1}}
        return original(op, request)

    monkeypatch.setattr(brain(), "ask", ask)
    with pytest.raises(LakemendError, match="contradict"):
        table.compact()
    assert (stored(table), table.version) == (files, version)


def test_an_interrupted_run_goes_on(spark: SparkSession, location: str, monkeypatch: pytest.MonkeyPatch) -> None:
    table = small_files(spark, location, partitioned=True)
    before = rows_of(spark, table)

    def stop() -> None:
        raise KeyboardInterrupt

    slip_in(monkeypatch, stop, at=2)
    with pytest.raises(KeyboardInterrupt):
        table.compact(batches=3)
    assert rows_of(spark, table) == before
    monkeypatch.undo()
    report = table.compact(batches=3)
    assert len(report.plan["planned_groups"]) == 2
    assert rows_of(spark, table) == before


def test_in_any_session_time_zone(spark: SparkSession, location: str) -> None:
    with settings(spark, {"spark.sql.session.timeZone": "America/New_York"}):
        table = lakemend.table(spark, location)
        frame: DataFrame = spark.sql(
            "SELECT id, timestamp'2024-03-10 01:30:00' + make_interval(0,0,0,0,id % 3) AS t FROM range(30)"
        )
        for _ in range(2):
            table.append(frame.coalesce(1), partition_by="t")
        before = rows_of(spark, table)
        table.compact()
        assert table.files().num_rows == 3
        assert rows_of(spark, table) == before
        assert (
            table.compact(partition_filter=F.col("t") > "2024-03-10 02:00:00", target_rows_per_file=5).version is None
        )


def test_char_columns_stay_as_they_are_stored(spark: SparkSession, namespace: str) -> None:
    import pyarrow.parquet as pq

    spark.sql(f"CREATE TABLE {namespace}.t (c CHAR(5), v VARCHAR(5), p CHAR(3)) USING delta PARTITIONED BY (p)")
    for _ in range(2):
        spark.sql(f"INSERT INTO {namespace}.t VALUES ('ab', 'cd', 'x'), ('abcde', 'f ', 'xyz')")
    table = lakemend.table(spark, f"{namespace}.t")

    def values() -> list[Any]:
        paths = [row["path"].removeprefix("file://") for row in table.files().to_pylist()]
        return sorted(str(row) for path in paths for row in pq.ParquetFile(path).read().to_pylist())

    before, shown = values(), sorted(map(str, table.to_df().collect()))
    parts = {row["partition"]["p"] for row in table.files().to_pylist()}
    with settings(spark, {"spark.sql.readSideCharPadding": "true"}):
        table.compact()
        assert (table.files().num_rows, values()) == (2, before)
        table.optimize(["c"])
    assert values() == before
    assert {row["partition"]["p"] for row in table.files().to_pylist()} == parts
    assert sorted(map(str, table.to_df().collect())) == shown


def test_cached_tables_are_renewed(spark: SparkSession, namespace: str) -> None:
    table = lakemend.table(spark, f"{namespace}.t")
    table.append(spark.range(10).repartition(3))
    spark.catalog.cacheTable(table.name)
    table.compact()
    assert "In-memory table" in spark.table(table.name)._jdf.queryExecution().executedPlan().toString()
    assert spark.table(table.name).count() == 10
    spark.catalog.uncacheTable(table.name)


def test_widened_columns_and_defaults(spark: SparkSession, namespace: str) -> None:
    wide = "TBLPROPERTIES ('delta.enableTypeWidening' = 'true')"
    spark.sql(f"CREATE TABLE {namespace}.t (i INT, s STRUCT<a: INT>) USING delta {wide}")
    spark.sql(f"INSERT INTO {namespace}.t VALUES (1, struct(1)), (2, NULL)")
    spark.sql(f"ALTER TABLE {namespace}.t ALTER COLUMN i TYPE BIGINT")
    spark.sql(f"ALTER TABLE {namespace}.t ADD COLUMN s.b STRING")
    spark.sql(f"INSERT INTO {namespace}.t VALUES (5000000000, struct(2, 'x'))")
    table = lakemend.table(spark, f"{namespace}.t")
    before = rows_of(spark, table)
    table.compact()
    assert (table.files().num_rows, rows_of(spark, table)) == (1, before)
    table.optimize(["i", "s.b"])
    assert rows_of(spark, table) == before


@pytest.mark.parametrize(
    ("type", "values", "filter", "found"),
    [
        ("STRING", ["'x'", "'x '"], "p=x ", {"'x '"}),
        ("STRING", ["'x'", "' x'"], "p=x", {"'x'"}),
        ("DECIMAL(5,2)", ["2.50", "3.00"], "p=2.5", {"2.50"}),
        ("DECIMAL(5,2)", ["2.50", "3.00"], "p=2.504", None),
        ("DATE", ["DATE'2024-01-01'"], "p=2024-01-01", {"DATE'2024-01-01'"}),
        ("DATE", ["DATE'2024-01-01'"], "p=2024-01-01 to 2024-03-01", None),
        ("DATE", ["DATE'2024-01-01'"], "p=2024-01", None),
        ("INT", ["1", "2"], "p=1", {"1"}),
        ("INT", ["1", "2"], "p=1.5", None),
        ("BOOLEAN", ["true", "false"], "p=yes", None),
        ("TIMESTAMP", ["TIMESTAMP'2024-01-01 00:00:00'"], "p=2024-01-01 00:00:00", {"TIMESTAMP'2024-01-01 00:00:00'"}),
        ("TIMESTAMP", ["TIMESTAMP'2024-01-01 00:00:00'"], "p=2024-01-01 00:00:00 and more", None),
        ("CHAR(3)", ["'x'", "'xy'"], "p=x", {"'x'"}),
        ("CHAR(3)", ["'x'", "'xy'"], "p=x  ", {"'x'"}),
        ("CHAR(3)", ["'x'", "'xy'"], "WHERE p = 'x'", {"'x'"}),
    ],
    ids=str,
)
@pytest.mark.crossed
def test_a_value_of_a_filter_is_exact(
    spark: SparkSession, namespace: str, type: str, values: list[str], filter: str, found: set[str] | None
) -> None:
    table = lakemend.table(spark, f"{namespace}.t")
    spark.sql(f"CREATE TABLE {table.name} (k INT, p {type}) USING delta PARTITIONED BY (p)")
    for _ in range(2):
        rows = ", ".join(f"(1, {value})" for value in values)
        spark.sql(f"INSERT INTO {table.name} SELECT /*+ COALESCE(1) */ * FROM VALUES {rows} AS r (k, p)")
    chosen: Any = F.col("p") == "x" if filter.startswith("WHERE") else filter
    if found is None:
        with pytest.raises((InvalidInputError, TableNotFoundError)):
            table.deduplicate("k", partition_filter=chosen)
        return
    assert table.compact(partition_filter=chosen, dry_run=True).plan["compacted_file_count"] == 2 * len(found)
    assert table.deduplicate("k", partition_filter=chosen).deleted == len(found)
    for value in values:
        left = spark.sql(f"SELECT count(*) FROM {table.name} WHERE p = {value}").first()[0]
        assert left == (1 if value in found else 2)
