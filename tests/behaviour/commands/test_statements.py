"""OPTIMIZE, VACUUM, RESTORE, DESCRIBE HISTORY and DESCRIBE DETAIL: what they do, and what they answer."""

from __future__ import annotations

import os
import time
from datetime import datetime, timedelta
from pathlib import Path

import pytest
from pyspark.errors import ParseException
from pyspark.sql import Row, SparkSession

import lakemend
from lakemend import Table
from lakemend.errors import (
    InvalidInputError,
    TableNotFoundError,
    UnsupportedFeatureError,
    VersionNotFoundError,
)
from tests.behaviour.commands.tables import MODES, below, copy, make, place, rows


def of(table: Table) -> str:
    """How Delta spells the location."""
    return f"file:{place(table)}"


@pytest.mark.parametrize("mode", MODES)
def test_optimize(spark: SparkSession, location: str, tmp_path: Path, mode: str) -> None:
    table = make(spark, location, mode)
    before, files, version = rows(table), table.files(), table.version
    expected = copy(table, tmp_path / "other").compact()
    [answer] = spark.sql(f"OPTIMIZE delta.`{location}`").collect()
    metrics = answer.metrics
    assert answer.path == of(table)
    assert (rows(table), table.version) == (before, version + 1)
    sizes = dict(zip(*(files[n].to_pylist() for n in ("path", "size")), strict=True))
    gone = [size for path, size in sizes.items() if path not in set(table.files()["path"].to_pylist())]
    new = [s for p, s in zip(*(table.files()[n].to_pylist() for n in ("path", "size")), strict=True) if p not in sizes]
    for told, real in ((metrics.filesRemoved, gone), (metrics.filesAdded, new)):
        assert told == Row(
            min=min(real), max=max(real), avg=sum(real) / len(real), totalFiles=len(real), totalSize=sum(real)
        )
    assert (metrics.numFilesRemoved, metrics.numFilesAdded) == (expected.files_removed, expected.files_added)
    assert (metrics.numBins, metrics.numBatches, metrics.partitionsOptimized) == (2, 1, 2)
    assert metrics.totalConsideredFiles == files.num_rows and metrics.totalFilesSkipped == 0
    assert (metrics.zOrderStats, metrics.numTableColumns) == (None, 3)
    masks = [count for count in files["masked"].to_pylist() if count]
    told = metrics.deletionVectorStats
    assert told == (
        Row(numDeletionVectorsRemoved=len(masks), numDeletionVectorRowsRemoved=sum(masks)) if masks else None
    )
    assert bool(masks) == (mode == "merge-on-read")
    [again] = spark.sql(f"OPTIMIZE delta.`{location}`").collect()
    assert (again.metrics.numFilesAdded, again.metrics.filesAdded.min, table.version) == (0, None, version + 1)


@pytest.mark.parametrize("mode", MODES)
def test_optimize_zorder(spark: SparkSession, location: str, mode: str) -> None:
    table = make(spark, location, mode)
    before = rows(table)
    [answer] = spark.sql(f"OPTIMIZE '{location}' WHERE p = 1 ZORDER BY (id, v)").collect()
    assert rows(table) == before
    assert table.history(1)[0]["parameters"]["zOrderBy"] == '["id","v"]'
    assert answer.metrics.partitionsOptimized == 1
    stats = answer.metrics.zOrderStats
    assert (stats.strategyName, stats.numOutputCubes) == ("all", 1)
    assert stats.mergedFiles.num == answer.metrics.numFilesRemoved == answer.metrics.filesRemoved.totalFiles
    left = [part["p"] for part in table.files()["partition"].to_pylist()]
    assert left.count(1) == 1 and left.count(0) > 1


def test_where_of_optimize(spark: SparkSession, namespace: str) -> None:
    table = make(spark, f"{namespace}.t")
    version = table.version
    [answer] = spark.sql(f"OPTIMIZE {namespace}.t WHERE p = 7").collect()
    assert (answer.metrics.numFilesAdded, answer.metrics.totalConsideredFiles, table.version) == (0, 0, version)
    [answer] = spark.sql(f"OPTIMIZE {namespace}.t WHERE p BETWEEN 0 AND 0 AND P IS NOT NULL").collect()
    assert (answer.metrics.partitionsOptimized, table.version) == (1, version + 1)


@pytest.mark.parametrize(
    ("rest", "error", "said"),
    [
        ("WHERE id = 3", InvalidInputError, "use partition columns alone: p"),
        ("WHERE p = 1 AND v = 'x'", InvalidInputError, "use partition columns alone: p"),
        ("WHERE p =", InvalidInputError, "cannot be read"),
        ("WHERE p = (SELECT 1)) (", InvalidInputError, "cannot be read"),
        ("ZORDER BY (p)", InvalidInputError, "p is a partition column"),
        ("ZORDER BY (nope)", InvalidInputError, "no column nope"),
        ("ZORDER BY (id, id)", InvalidInputError, "id twice"),
        ("ZORDER (id)", InvalidInputError, "BY is expected"),
        ("FULL", UnsupportedFeatureError, "no OPTIMIZE … FULL"),
    ],
)
def test_optimize_refuses(spark: SparkSession, namespace: str, rest: str, error: type[Exception], said: str) -> None:
    table = make(spark, f"{namespace}.t")
    before = below(table)
    with pytest.raises(error, match=said):
        spark.sql(f"OPTIMIZE {namespace}.t {rest}")
    assert below(table) == before


def test_where_of_a_table_without_partitions(spark: SparkSession, namespace: str) -> None:
    spark.sql(f"CREATE TABLE {namespace}.t AS SELECT 1 AS a")
    with pytest.raises(InvalidInputError, match="no partitions to filter by"):
        spark.sql(f"OPTIMIZE {namespace}.t WHERE a = 1")


@pytest.mark.parametrize("mode", MODES)
def test_vacuum(spark: SparkSession, location: str, tmp_path: Path, mode: str) -> None:
    table = make(spark, location, mode)
    table.compact()
    table.delete("id = 5")
    age(table, days=30)
    spark.sql(
        f"ALTER TABLE delta.`{location}` SET TBLPROPERTIES ('delta.deletedFileRetentionDuration' = 'interval 0 hours')"
    )
    before, kept, stored = rows(table), below(table), table.vacuum(dry_run=True)
    expected = [f"{of(table)}/{file['path']}" for file in stored.plan["files"]]
    assert len(expected) >= 6
    dry = spark.sql(f"VACUUM delta.`{location}` DRY RUN")
    assert [row.path for row in dry.collect()] == expected
    assert below(table) == kept
    hours = [row.path for row in spark.sql(f"VACUUM '{location}' RETAIN 0.5 HOURS DRY RUN").collect()]
    assert hours == [f"{of(table)}/{file['path']}" for file in table.vacuum("30 minutes", dry_run=True).plan["files"]]
    assert spark.sql(f"VACUUM delta.`{location}`").collect() == [Row(path=of(table))]
    assert not any(Path(path.removeprefix("file:")).exists() for path in expected)
    assert rows(table) == before
    assert [entry["operation"] for entry in table.history(2)] == ["VACUUM END", "VACUUM START"]


def age(table: Table, days: int) -> None:
    """All data files are so much older."""
    then = time.time() - days * 86_400
    for path in place(table).rglob("*"):
        if path.is_file() and "_delta_log" not in path.parts:
            os.utime(path, (then, then))


@pytest.mark.parametrize("rest", ["RETAIN 0 HOURS", "RETAIN 167 HOURS"])
def test_vacuum_keeps_what_table_vacuum_keeps(spark: SparkSession, namespace: str, rest: str) -> None:
    table = make(spark, f"{namespace}.t")
    table.compact()
    before = below(table)
    with pytest.raises(InvalidInputError) as said:
        spark.sql(f"VACUUM {namespace}.t {rest}")
    with pytest.raises(InvalidInputError) as expected:
        table.vacuum(timedelta(hours=int(rest.split()[1])))
    assert str(said.value) == str(expected.value)
    assert "lose_history => true" in said.value.remedy
    assert below(table) == before


@pytest.mark.parametrize("rest", ["LITE", "USING INVENTORY (SELECT 1)", "LITE DRY RUN"])
def test_kinds_of_vacuum_that_are_not_there(spark: SparkSession, namespace: str, rest: str) -> None:
    make(spark, f"{namespace}.t")
    with pytest.raises(UnsupportedFeatureError, match="there is no VACUUM"):
        spark.sql(f"VACUUM {namespace}.t {rest}")


@pytest.mark.parametrize("mode", MODES)
def test_restore(spark: SparkSession, location: str, tmp_path: Path, mode: str) -> None:
    table = make(spark, location, mode)
    then = rows(table.as_of(version=2))
    expected = copy(table, tmp_path / "other").restore(2)
    now = table.files()
    [answer] = spark.sql(f"RESTORE TABLE delta.`{location}` TO VERSION AS OF 2").collect()
    back = table.files()
    assert rows(table) == then
    assert (answer.num_of_files_after_restore, answer.table_size_after_restore) == (
        back.num_rows,
        sum(back["size"].to_pylist()),
    )
    assert answer.num_removed_files == expected.files_removed + expected.files_masked
    assert answer.num_restored_files == expected.files_added + expected.files_masked
    if mode == "copy-on-write":
        assert answer.removed_files_size == expected.bytes_removed
        assert answer.restored_files_size == expected.bytes_added
    assert now.num_rows + answer.num_restored_files - answer.num_removed_files == back.num_rows
    [again] = spark.sql(f"RESTORE '{location}' VERSION AS OF 2").collect()
    assert (again.num_removed_files, again.num_restored_files, again.removed_files_size) == (0, 0, 0)
    assert again.table_size_after_restore == answer.table_size_after_restore


@pytest.mark.parametrize("zone", ["UTC", "America/Los_Angeles"])
def test_restore_to_a_time(spark: SparkSession, namespace: str, zone: str) -> None:
    table = make(spark, f"{namespace}.t")
    moment = table.history()[3]["timestamp"]  # of version 1
    session = spark.newSession()
    session.conf.set("spark.sql.session.timeZone", zone)
    shown = session.sql(f"SELECT date_format(timestamp_millis({moment}), 'yyyy-MM-dd HH:mm:ss.SSS') AS t").head().t
    for time_of in (f"'{shown}'", f"TIMESTAMP '{shown}'", f"timestamp_millis({moment}) + INTERVAL 0 SECONDS"):
        session.sql(f"RESTORE TABLE {namespace}.t TO TIMESTAMP AS OF {time_of}")
        assert rows(table) == rows(table.as_of(version=1))
        spark.sql(f"RESTORE {namespace}.t TO VERSION AS OF 4")
    session.sql(f"RESTORE {namespace}.t TO TIMESTAMP AS OF :t", args={"t": datetime.fromtimestamp(moment / 1000)})
    assert table.history(1)[0]["operation"] == "RESTORE"


@pytest.mark.parametrize(
    ("rest", "error"),
    [
        ("TO VERSION AS OF 99", VersionNotFoundError),
        ("TO TIMESTAMP AS OF '1990-01-01'", VersionNotFoundError),
        ("TO TIMESTAMP AS OF 'yesterday-ish'", InvalidInputError),
        ("TO TIMESTAMP AS OF nope", InvalidInputError),
        ("TO TIMESTAMP AS OF NULL", InvalidInputError),
        ("TO VERSION AS OF -1", InvalidInputError),
        ("", InvalidInputError),
    ],
)
def test_restore_refuses(spark: SparkSession, namespace: str, rest: str, error: type[Exception]) -> None:
    table = make(spark, f"{namespace}.t")
    before = below(table)
    with pytest.raises(error):
        spark.sql(f"RESTORE TABLE {namespace}.t {rest}")
    assert below(table) == before


@pytest.mark.parametrize("mode", MODES)
def test_history(spark: SparkSession, namespace: str, mode: str) -> None:
    table = make(spark, f"{namespace}.t", mode)
    found, expected = spark.sql(f"DESCRIBE HISTORY {namespace}.t").collect(), table.history()
    assert [row.version for row in found] == [4, 3, 2, 1, 0]
    for row, entry in zip(found, expected, strict=True):
        assert row.operation == entry["operation"]
        assert round(row.timestamp.timestamp() * 1000) == entry["timestamp"]
        assert row.operationMetrics == {key: str(value) for key, value in entry["metrics"].items()}
        assert row.operationParameters == entry["parameters"]
        assert (row.readVersion, row.isolationLevel) == (entry["read_version"], entry["isolation"])
        assert (row.isBlindAppend, row.engineInfo) == (entry["is_blind_append"], "Lakemend")
        assert (row.userId, row.userName, row.job, row.notebook, row.clusterId) == (None,) * 5
    assert spark.sql(f"desc history {namespace}.t LIMIT 2").collect() == found[:2]
    assert spark.sql(f"DESCRIBE HISTORY {namespace}.t LIMIT 0").collect() == []


@pytest.mark.parametrize("mode", MODES)
def test_detail(spark: SparkSession, namespace: str, mode: str) -> None:
    table = make(spark, f"{namespace}.t", mode)
    spark.sql(f"COMMENT ON TABLE {namespace}.t IS 'what it is'")
    facts = table.detail()
    [row] = spark.sql(f"DESCRIBE DETAIL {namespace}.t").collect()
    assert (row.format, row.id, row.name, row.location) == ("delta", facts["id"], f"{namespace}.t", of(table))
    assert (row.description, row.partitionColumns, row.clusteringColumns) == ("what it is", ["p"], [])
    assert (row.numFiles, row.sizeInBytes) == (facts["files"], facts["bytes"])
    assert (row.minReaderVersion, row.minWriterVersion) == (facts["min_reader_version"], facts["min_writer_version"])
    assert (row.properties, row.tableFeatures) == (facts["properties"], facts["table_features"])
    assert round(row.createdAt.timestamp() * 1000) == facts["created"]
    assert round(row.lastModified.timestamp() * 1000) == facts["last_modified"]
    [by_path] = spark.sql(f"DESC DETAIL '{place(table)}'").collect()
    assert by_path == Row(**{**row.asDict(), "name": None})


def test_every_way_to_name_a_table(spark: SparkSession, namespace: str) -> None:
    table = make(spark, f"{namespace}.`my table`")
    path, short = place(table), namespace.removeprefix("lake.")
    session = spark.newSession()
    session.sql(f"USE {namespace}")
    for name in (
        "`my table`",
        f"{short}.`my table`",
        f"{namespace}.`my table`",
        f"delta.`{path}`",
        f"lakemend.`{path}`",
        f"lake.delta.`{path}`",
        f"delta.`file:{path}`",
        f"'{path}'",
        f'"{path}"',
        f"IDENTIFIER('{namespace}.`my table`')",
    ):
        for statement in ("DESCRIBE DETAIL {}", "DESCRIBE HISTORY {} LIMIT 1", "VACUUM {} DRY RUN", "OPTIMIZE {}"):
            session.sql(statement.format(name))
        assert session.sql(f"DESCRIBE DETAIL {name}").head().id == table.detail()["id"]
        session.sql(f"RESTORE TABLE {name} TO VERSION AS OF 4")
        assert rows(table) == rows(table.as_of(version=4))


@pytest.mark.parametrize(
    "statement", ["OPTIMIZE {}", "VACUUM {}", "RESTORE {} TO VERSION AS OF 0", "DESC HISTORY {}", "DESC DETAIL {}"]
)
def test_a_missing_table(spark: SparkSession, namespace: str, tmp_path: Path, statement: str) -> None:
    for name in (f"{namespace}.nope", f"delta.`{tmp_path}/nope`", f"'{tmp_path}/nope'"):
        with pytest.raises(TableNotFoundError):
            spark.sql(statement.format(name))


@pytest.mark.parametrize(
    "statement",
    [
        "CONVERT TO DELTA parquet.`/tmp/x`",
        "CREATE TABLE {}.u SHALLOW CLONE {}.t",
        "CREATE OR REPLACE TABLE {}.u CLONE {}.t VERSION AS OF 0",
        "REORG TABLE {}.t APPLY (PURGE)",
        "GENERATE symlink_format_manifest FOR TABLE {}.t",
    ],
)
def test_commands_of_delta_that_are_not_there(spark: SparkSession, namespace: str, statement: str) -> None:
    make(spark, f"{namespace}.t")
    with pytest.raises(UnsupportedFeatureError, match="there is no") as error:
        spark.sql(statement.replace("{}", namespace))
    assert error.value.remedy


def test_a_statement_runs_once(spark: SparkSession, namespace: str) -> None:
    table = make(spark, f"{namespace}.t")
    version = table.version
    for text in (f"OPTIMIZE {namespace}.t ZORDER BY (id)", f"CALL lake.system.optimize('{namespace}.t', 'id')"):
        frame = spark.sql(text)
        assert table.version == version + 1
        first = frame.collect()
        assert (frame.collect(), frame.count(), frame.select("*").collect()) == (first, 1, first)
        frame.createOrReplaceTempView("answer")
        assert spark.sql("SELECT * FROM answer").collect() == first
        assert frame.cache().collect() == first
        frame.unpersist()
        spark.catalog.dropTempView("answer")
        version += 1
        assert table.version == version


@pytest.mark.parametrize("mode", ["", "EXTENDED", "FORMATTED", "COST"])
def test_explain_runs_nothing(spark: SparkSession, namespace: str, mode: str) -> None:
    table = make(spark, f"{namespace}.t")
    before = below(table)
    for text in (
        f"OPTIMIZE {namespace}.t",
        f"CALL lake.system.compact('{namespace}.t')",
        f"RESTORE {namespace}.t TO VERSION AS OF 0",
    ):
        shown = spark.sql(f"EXPLAIN {mode} {text}").head()[0]
        assert text.split()[0].lower() in shown.lower()
    assert below(table) == before


def test_tables_and_columns_named_as_the_words(spark: SparkSession, namespace: str) -> None:
    session = spark.newSession()
    session.sql(f"USE {namespace}")
    for name in ("history", "detail", "optimize", "vacuum", "restore"):
        session.sql(f"CREATE TABLE {name} (history INT, detail INT, zorder INT) PARTITIONED BY (detail)")
        session.sql(f"INSERT INTO {name} VALUES (1, 2, 3)")
        assert session.sql(f"SELECT history, zorder FROM {name}").collect() == [Row(history=1, zorder=3)]
        assert [r.version for r in session.sql(f"DESCRIBE HISTORY {name}").collect()] == [1, 0]
        assert (
            session.sql(f"OPTIMIZE {name} WHERE detail = 2 ZORDER BY (zorder, history)").head().metrics.numFilesAdded
            == 1
        )
        session.sql(f"VACUUM {name}")
        session.sql(f"RESTORE {name} TO VERSION AS OF 0")
        assert session.sql(f"SELECT * FROM {name}").isEmpty()
    assert {row.info_value for row in session.sql("DESCRIBE history zorder").collect()} >= {"zorder", "int"}
    assert session.sql("DESCRIBE detail").head().col_name == "history"
    assert session.sql("DESCRIBE detail detail").columns[0] == "format"


def test_what_only_looks_like_ours_is_sparks(spark: SparkSession, namespace: str) -> None:
    for text in ("OPTIMIZE", "VACUUM (1)", "OPTIMIZED t", "RESTORE", "GENERATE a"):
        with pytest.raises(ParseException, match="PARSE_SYNTAX_ERROR"):
            spark.sql(text)
    session = spark.newSession()
    session.sql(f"USE {namespace}")
    session.sql("CREATE TABLE detail AS SELECT 1 AS clone")
    assert session.sql("DESCRIBE detail").head().col_name == "clone"
    assert session.sql("SELECT * FROM detail WHERE clone = 1 -- OPTIMIZE detail").count() == 1
    assert session.sql("CREATE TABLE restore AS SELECT clone FROM detail").isEmpty()
    assert session.sql("EXPLAIN SELECT * FROM restore").count() == 1


def test_parameters(spark: SparkSession, namespace: str) -> None:
    table = make(spark, f"{namespace}.t")
    text = "OPTIMIZE IDENTIFIER(:t) WHERE p = :p"
    assert spark.sql(text, args={"t": f"{namespace}.t", "p": 1}).head().metrics.partitionsOptimized == 1
    text = "DESCRIBE HISTORY IDENTIFIER(?) LIMIT ?"
    assert [r.version for r in spark.sql(text, args=[f"{namespace}.t", 2]).collect()] == [5, 4]
    spark.sql(f"RESTORE {namespace}.t TO VERSION AS OF :v", args={"v": 0})
    assert rows(table) == rows(table.as_of(version=0))
    spark.sql(f"EXECUTE IMMEDIATE 'RESTORE {namespace}.t TO VERSION AS OF ?' USING 1")
    assert rows(table) == rows(table.as_of(version=1))
    found = spark.sql(f"EXECUTE IMMEDIATE 'DESCRIBE HISTORY {namespace}.t LIMIT :n' USING 1 AS n").collect()
    assert [r.operation for r in found] == ["RESTORE"]
    with pytest.raises(InvalidInputError, match="no time"):
        spark.sql(f"RESTORE {namespace}.t TO TIMESTAMP AS OF :t", args={"t": None})


def test_scripts(spark: SparkSession, namespace: str) -> None:
    """Spark reads the statements of a script itself."""
    table = make(spark, f"{namespace}.t")
    with pytest.raises(ParseException):
        spark.sql(f"BEGIN OPTIMIZE {namespace}.t; END")
    spark.sql(f"BEGIN EXECUTE IMMEDIATE 'OPTIMIZE {namespace}.t'; CALL lake.system.restore('{namespace}.t', 0); END")
    assert [entry["operation"] for entry in table.history(2)] == ["RESTORE", "OPTIMIZE"]
    assert table.version == 6


def test_variables(spark: SparkSession, namespace: str) -> None:
    make(spark, f"{namespace}.t")
    session = spark.newSession()
    session.conf.set("my.table", f"{namespace}.t")
    assert session.sql("DESCRIBE HISTORY ${my.table} LIMIT 1").count() == 1


def test_a_frame_kept_in_memory_is_renewed(spark: SparkSession, namespace: str) -> None:
    table = make(spark, f"{namespace}.t")
    frame = spark.table(f"{namespace}.t").cache()
    assert frame.count() == 59
    spark.sql(f"RESTORE {namespace}.t TO VERSION AS OF 0")
    assert spark.table(f"{namespace}.t").count() == 20
    frame.unpersist()
    assert lakemend.table(spark, table.name).to_df().count() == 20
