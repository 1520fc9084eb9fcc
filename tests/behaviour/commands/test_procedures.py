"""CALL lake.system.…: the same work, and the same results, as the methods of a `Table`."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import Row, SparkSession

import lakemend
from lakemend import Table
from lakemend.errors import InvalidInputError, SchemaMismatchError, TableNotFoundError, VersionNotFoundError
from tests.behaviour.commands.tables import MODES, below, copy, make, place, rows

# What a procedure is called with in SQL, and its method in Python.
CALLS: list[tuple[str, str, dict[str, Any]]] = [
    ("compact", "", {}),
    ("compact", "dry_run => true", {"dry_run": True}),
    ("compact", "target_rows_per_file => 10, batches => 2", {"target_rows_per_file": 10, "batches": 2}),
    ("compact", "target_mb_per_file => 0.5, compression => 'zstd'", {"target_mb_per_file": 0.5, "compression": "zstd"}),
    ("compact", "partition_filter => 'p=1'", {"partition_filter": "p=1"}),
    (
        "compact",
        "partition_filter => array('p=1', 'p=0'), retries => 2",
        {"partition_filter": ["p=1", "p=0"], "retries": 2},
    ),
    ("optimize", "'id'", {"zorder_columns": "id"}),
    ("optimize", "array('id', 'v'), curve => 'zorder'", {"zorder_columns": ["id", "v"], "curve": "zorder"}),
    ("optimize", "'id', dry_run => true", {"zorder_columns": "id", "dry_run": True}),
    (
        "optimize",
        "zorder_columns => 'id', deduplicate_key_columns => 'v', dedup_order_by => 'id', target_rows_per_file => 20",
        {"zorder_columns": "id", "deduplicate_key_columns": "v", "dedup_order_by": "id", "target_rows_per_file": 20},
    ),
    ("deduplicate", "'p', 'id'", {"key_columns": "p", "dedup_order_by": "id"}),
    ("deduplicate", "key_columns => array('p'), dry_run => true", {"key_columns": ["p"], "dry_run": True}),
    ("deduplicate", "", {}),
    ("vacuum", "'0 hours', lose_history => true", {"retain": "0 hours", "lose_history": True}),
    ("vacuum", "retain => '0 hours', dry_run => true", {"retain": "0 hours", "dry_run": True}),
    ("vacuum", "", {}),
    ("restore", "1", {"version": 1}),
    ("restore", "version => 2, dry_run => true", {"version": 2, "dry_run": True}),
    ("checkpoint", "", {}),
    ("checkpoint", "dry_run => true", {"dry_run": True}),
]


@pytest.mark.either("mode")
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize(("name", "sql", "python"), CALLS, ids=[f"{name}({sql})" for name, sql, _ in CALLS])
def test_the_results_of_python(
    spark: SparkSession, tmp_path: Path, mode: str, name: str, sql: str, python: dict[str, Any]
) -> None:
    table = make(spark, str(tmp_path / "ours"), mode)
    other = copy(table, tmp_path / "other")
    before = below(table)
    expected = getattr(other, name)(**python).to_dict()
    arguments = f"'{tmp_path}/ours'" + (f", {sql}" if sql else "")
    [row] = spark.sql(f"CALL lake.system.{name}({arguments})").collect()
    assert known(row.asDict(recursive=True)) == known(expected, at="other")
    assert rows(table) == rows(other)
    assert (table.version, table.detail()["files"]) == (other.version, other.detail()["files"])
    if python.get("dry_run"):
        assert below(table) == before


def known(told: Any, at: str = "ours") -> Any:
    """What can be the same at two places: no times, and no names of new files."""
    if isinstance(told, dict):
        left = {k: v for k, v in told.items() if v is not None and k not in ("seconds", "age", "modified", "timestamp")}
        return {
            known(key, at): known(value, at)
            for key, value in left.items()
            if key != "removed" or isinstance(value, list)
        }
    if isinstance(told, list):
        return [known(value, at) for value in told]
    return told.replace(f"/{at}", "") if isinstance(told, str) else told


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize(
    ("sql", "python"),
    [
        ("key_columns => 'id'", {}),
        ("'id', 'insert'", {"strategy": "insert"}),
        ("array('id'), strategy => 'full_merge'", {"strategy": "full_merge"}),
        (
            "'id', delete_when => 'v = \\'s4\\'', when_changed_only => true",
            {"delete_when": "v = 's4'", "when_changed_only": True},
        ),
        ("'id', columns => array('v')", {"columns": ["v"]}),
        ("'id', dry_run => true", {"dry_run": True}),
    ],
    ids=str,
)
def test_merge(spark: SparkSession, tmp_path: Path, mode: str, sql: str, python: dict[str, Any]) -> None:
    table = make(spark, str(tmp_path / "ours"), mode)
    other = copy(table, tmp_path / "other")
    before = below(table)
    source = spark.sql("SELECT id * 2 AS id, 0 AS p, concat('s', id * 2) AS v FROM range(50)")
    source.createOrReplaceTempView("changes_to_merge")
    expected = other.merge(source, "id", **python).to_dict()
    [row] = spark.sql(f"CALL lake.system.merge('{tmp_path}/ours', 'changes_to_merge', {sql})").collect()
    assert known(row.asDict(recursive=True)) == known(expected, at="other")
    assert row.stats == expected["stats"]
    assert rows(table) == rows(other)
    assert (below(table) == before) == bool(python.get("dry_run"))
    spark.catalog.dropTempView("changes_to_merge")


def test_a_merge_of_a_table_and_of_a_path(spark: SparkSession, namespace: str, tmp_path: Path) -> None:
    table = make(spark, f"{namespace}.t")
    spark.sql(f"CREATE TABLE {namespace}.s AS SELECT 1000 AS id, 0L AS p, 'x' AS v")
    assert spark.sql(f"CALL lake.system.merge('{namespace}.t', '{namespace}.s', 'id')").head().inserted == 1
    spark.sql("SELECT 1001 AS id, 0L AS p, 'x' AS v").write.parquet(str(tmp_path / "files"))
    assert spark.sql(f"CALL lake.system.merge('{namespace}.t', '{tmp_path}/files', 'id')").head().inserted == 1
    assert table.to_df().count() == 61
    short = namespace.removeprefix("lake.")
    assert spark.sql(f"CALL lake.system.merge('{short}.t', '{short}.s', 'id')").head().updated == 1
    for nope in (f"{namespace}.nope", f"{short}.nope"):
        with pytest.raises(TableNotFoundError):
            spark.sql(f"CALL lake.system.merge('{namespace}.t', '{nope}', 'id')")
    with pytest.raises(SchemaMismatchError):
        spark.sql("SELECT map(1, 2) AS id, 0L AS p, 'x' AS v").createOrReplaceTempView("of_maps")
        spark.sql(f"CALL lake.system.merge('{namespace}.t', 'of_maps', 'id')")


@pytest.mark.parametrize("mode", MODES)
def test_history_and_health(spark: SparkSession, namespace: str, mode: str) -> None:
    table = make(spark, f"{namespace}.t", mode)
    for _ in range(4):
        table.append(spark.sql("SELECT 1000L AS id, 0L AS p, 'x' AS v"))
        table.append(spark.sql("SELECT 1000L AS id, 1L AS p, 'x' AS v"))
    found = [row.asDict(recursive=True) for row in spark.sql(f"CALL lake.system.history('{namespace}.t', 3)").collect()]
    for row, entry in zip(found, table.history(3), strict=True):
        assert row["timestamp"].astimezone(UTC) == datetime.fromtimestamp(entry["timestamp"] / 1000, UTC)
        assert row["metrics"] == {key: str(value) for key, value in entry["metrics"].items()}
        assert {k: row[k] for k in row.keys() - {"timestamp", "metrics"}} == {
            k: entry[k] for k in entry.keys() - {"timestamp", "metrics"}
        }
    [row] = spark.sql(f"CALL lake.system.health(table => '{namespace}.t', leftovers => true)").collect()
    health, expected = row.asDict(recursive=True), table.health(leftovers=True).to_dict()
    assert {k: v for k, v in health.items() if k != "findings"} == {
        k: v for k, v in expected.items() if k != "findings"
    }
    assert health["findings"] and not health["healthy"]
    for one, other in zip(health["findings"], expected["findings"], strict=True):
        assert {k: one[k] for k in ("subject", "problem", "command")} == {
            k: other[k] for k in ("subject", "problem", "command")
        }
        assert one["values"].keys() == other["values"].keys()


def test_restore_to_a_time(spark: SparkSession, namespace: str) -> None:
    table = make(spark, f"{namespace}.t")
    moment = table.history()[3]["timestamp"]
    for time_of in (f"timestamp_millis({moment})", f"cast(timestamp_millis({moment}) AS STRING)"):
        assert spark.sql(f"CALL lake.system.restore('{namespace}.t', timestamp => {time_of})").head().plan.version == 1
        table.restore(4)
    with pytest.raises(VersionNotFoundError):
        spark.sql(f"CALL lake.system.restore('{namespace}.t', timestamp => '1999-01-01')")


@pytest.mark.parametrize(
    ("call", "said"),
    [
        ("compct('t')", "did you mean lake.system.compact?"),
        ("compact()", "compact needs table"),
        ("compact(tabel => 't')", "has no parameter tabel"),
        ("compact('t', dry_run => 'yes')", "dry_run of compact cannot be of type string"),
        ("compact('t', 'x')", "target_mb_per_file of compact cannot be of type string"),
        ("checkpoint('t', true, 1)", "takes 2 arguments at most"),
        ("compact(NULL)", "table of compact is NULL"),
        ("compact('t', target_mb_per_file => -1)", "target_mb_per_file"),
        ("optimize('t', 'nope')", "no column nope"),
        ("optimize('t', 'p')", "p is a partition column"),
        ("restore('t')", "a version or a timestamp"),
        ("vacuum('t', '0 hours')", "not vacuumed of files younger than its retention"),
        ("compact('t', partition_filter => 'p > 1')", "no prefix"),
        ("compact('spark_catalog.default.t')", "no table of Lakemend"),
    ],
)
def test_what_is_refused(spark: SparkSession, namespace: str, call: str, said: str) -> None:
    table = make(spark, f"{namespace}.t")
    before = below(table)
    with pytest.raises(InvalidInputError, match=re.escape(said)):
        spark.sql(f"CALL lake.system.{call.replace(chr(39) + 't' + chr(39), repr(f'{namespace}.t'))}")
    assert below(table) == before


def test_missing_tables(spark: SparkSession, namespace: str, tmp_path: Path) -> None:
    for where in (f"{namespace}.nope", f"{tmp_path}/nope", f"delta.`{tmp_path}/nope`"):
        with pytest.raises(TableNotFoundError):
            spark.sql("CALL lake.system.compact(?)", args=[where])


def test_every_way_to_name_a_table(spark: SparkSession, namespace: str) -> None:
    table = make(spark, f"{namespace}.`my table`")
    short, path = namespace.removeprefix("lake."), place(table)
    for name in (f"{namespace}.`my table`", f"{short}.`my table`", str(path), f"file:{path}", f"delta.`{path}`"):
        assert spark.sql("CALL lake.system.history(table => :t)", args={"t": name}).count() == 5
    session = spark.newSession()
    session.sql(f"USE {namespace}")
    assert session.sql("CALL system.history('`my table`')").count() == 5
    assert session.sql("CALL lake.system.history('`my table`')").count() == 5
    with pytest.raises(TableNotFoundError, match="lake.default"):
        spark.sql("CALL lake.system.history('`my table`')")


def test_another_catalog_has_its_own(spark: SparkSession, tmp_path: Path) -> None:
    spark.conf.set("spark.sql.catalog.pond", "lakemend.catalog.LakeCatalog")
    spark.conf.set("spark.sql.catalog.pond.warehouse", str(tmp_path))
    spark.sql("CREATE NAMESPACE pond.db")
    spark.sql("CREATE TABLE pond.db.t AS SELECT 1 AS a")
    assert spark.sql("CALL pond.system.history('db.t')").count() == 1
    assert spark.sql("DESCRIBE HISTORY pond.db.t").count() == 1
    with pytest.raises(TableNotFoundError):
        spark.sql("CALL lake.system.history('db.t')")
    spark.sql("DROP NAMESPACE pond.db CASCADE")


def test_shown(spark: SparkSession, namespace: str) -> None:
    expected = ["checkpoint", "compact", "deduplicate", "health", "history", "merge", "optimize", "restore", "vacuum"]
    for place_of in ("lake.system", "lake"):
        found = spark.sql(f"SHOW PROCEDURES IN {place_of}").collect()
        assert [(r.catalog, r.namespace, r.procedure_name) for r in found] == [
            ("lake", ["system"], n) for n in expected
        ]
    assert spark.sql(f"SHOW PROCEDURES IN {namespace}").isEmpty()
    assert "many small ones" in str(spark.sql("DESCRIBE PROCEDURE lake.system.compact").collect())


def test_names_of_parameters_in_any_case(spark: SparkSession, namespace: str) -> None:
    make(spark, f"{namespace}.t")
    [row] = spark.sql(f"call lake.system.COMPACT(DRY_RUN => true, TABLE => '{namespace}.t')").collect()
    assert row.dry_run and row == Row(**row.asDict())
    assert isinstance(lakemend.table(spark, row.table), Table)
