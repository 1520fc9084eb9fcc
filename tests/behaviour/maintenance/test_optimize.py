"""optimize: the same rows, close ones in the same files."""

from __future__ import annotations

import json
from itertools import pairwise
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

import lakemend
from lakemend import Table
from lakemend.errors import CommitConflictError, InvalidInputError
from lakemend.maintenance import clustering
from tests.behaviour.maintenance.slips import slip_in, writers
from tests.behaviour.maintenance.test_compact import referred, rows_of, small_files, stored
from tests.interop.readers import READERS

POINTS = "SELECT id, CAST(rand(1) * 1e6 AS INT) AS a, CAST(rand(2) * 1e6 AS INT) AS b, id % 2 AS p FROM range({n})"


def points(spark: SparkSession, location: str, n: int = 20_000, partitioned: bool = False) -> Table:
    table = lakemend.table(spark, location)
    table.append(spark.sql(POINTS.format(n=n)).repartition(4), partition_by="p" if partitioned else ())
    return table


@pytest.mark.parametrize("curve", ["hilbert", "zorder"])
@pytest.mark.parametrize("partitioned", [False, True])
@pytest.mark.either("partitioned")
def test_queries_by_two_columns_skip_files(spark: SparkSession, location: str, partitioned: bool, curve: str) -> None:
    table = points(spark, location, partitioned=partitioned)
    before, files = rows_of(spark, table), table.files().num_rows
    report = table.optimize(["a", "b"], target_rows_per_file=400, curve=curve)
    assert rows_of(spark, table) == before
    plan = report.plan
    made = table.files().num_rows
    assert (plan["before_file_count"], plan["after_file_count"], plan["compacted_file_count"]) == (files, made, files)
    assert (plan["zorder_columns"], plan["deduplicated"]) == (["a", "b"], 0)
    assert 50 <= made <= 60
    assert max(table.files()["rows"].to_pylist()) <= 400
    skipping = plan["skipping"]
    assert skipping["range"]["files_after"] == made
    assert skipping["range"]["skipped_before"] == 0
    assert skipping["range"]["skipped_after"] > 0.85 * made
    assert skipping["point"]["skipped_after"] > 0.9 * made
    # Not only in the log: what Spark reads.
    box = table.to_df().where("a BETWEEN 400000 AND 500000 AND b BETWEEN 400000 AND 500000")
    assert len(box.select("_file").distinct().collect()) < 0.2 * made


def test_rows_of_a_file_follow_the_curve(spark: SparkSession, location: str) -> None:
    table = points(spark, location)
    table.optimize(["a"], target_mb_per_file=64)
    [path] = table.files()["path"].to_pylist()
    values = pq.read_table(path.removeprefix("file://"))["a"].to_pylist()
    # One column: ranges in order, 1 of 4096 each.
    assert all(later > earlier - 1e6 / 1000 for earlier, later in pairwise(values))


def test_nulls_come_last(spark: SparkSession, location: str) -> None:
    table = lakemend.table(spark, location)
    table.append(spark.sql("SELECT id, IF(id % 10 = 0, NULL, id) AS a FROM range(2000)").repartition(2))
    table.optimize("a", target_rows_per_file=250)
    with_nulls = [row.f for row in table.to_df().where("a IS NULL").selectExpr("_file AS f").distinct().collect()]
    assert len(with_nulls) == 1
    assert table.to_df().where(F.col("_file") == with_nulls[0]).agg(F.max("a")).first()[0] == 1999


def test_a_dry_run_touches_nothing(spark: SparkSession, location: str) -> None:
    table = points(spark, location)
    version, files = table.version, stored(table)
    planned = table.optimize(["a", "b"], target_rows_per_file=1000, dry_run=True)
    assert (table.version, stored(table), planned.version) == (version, files, None)
    done = table.optimize(["a", "b"], target_rows_per_file=1000)
    known = {"before_file_count", "after_file_count", "before_total_bytes", "compacted_file_count", "rewritten_bytes",
             "planned_groups", "zorder_columns", "deduplicated", "compression_codec"}  # fmt: skip
    assert {key: planned.plan[key] for key in known} == {key: done.plan[key] for key in known}
    assert planned.plan["skipping"] == done.plan["skipping"]


def test_history_names_the_columns(spark: SparkSession, location: str) -> None:
    table = points(spark, location)
    table.optimize(["A", "b"])
    entry = table.history(1)[0]
    assert (entry["operation"], entry["parameters"]["zOrderBy"]) == ("OPTIMIZE", '["a","b"]')
    log = (Path(location) / "_delta_log" / f"{table.version:020d}.json").read_text()
    assert '"dataChange":true' not in log


@pytest.mark.parametrize("reader", sorted(READERS))
def test_other_readers_see_the_same_rows(spark: SparkSession, location: str, reader: str) -> None:
    table = points(spark, location, n=500, partitioned=True)
    before = rows_of(spark, table)
    table.optimize(["a", "b"], target_rows_per_file=50)
    assert READERS[reader](location) == before


TYPES = {
    "boolean": "id % 2 = 0", "tinyint": "CAST(id % 100 AS TINYINT)", "bigint": "id * 1000000007",
    "float": "IF(id % 7 = 0, FLOAT('NaN'), FLOAT(id))", "double": "IF(id % 7 = 0, -0.0D, id * 0.1D)",
    "decimal(38,10)": "CAST(id AS DECIMAL(38,10))", "string": "CONCAT('ä', id)", "binary": "TO_BINARY(HEX(id))",
    "date": "DATE_ADD(DATE'1500-01-01', INT(id * 700))", "timestamp": "TIMESTAMP'1890-01-01' + MAKE_INTERVAL(0,id)",
    "timestamp_ntz": "TIMESTAMP_NTZ'1890-01-01' + MAKE_INTERVAL(0,0,0,id)", "array": "ARRAY(id, id + 1)",
    "struct": "STRUCT(id AS x, CAST(id AS STRING) AS y)", "one value": "7", "null": "CAST(NULL AS INT)",
}  # fmt: skip


@pytest.mark.parametrize("type", TYPES)
def test_columns_of_any_type_with_an_order(spark: SparkSession, location: str, type: str) -> None:
    table = lakemend.table(spark, location)
    table.append(spark.sql(f"SELECT id, IF(id % 5 = 0, NULL, {TYPES[type]}) AS c FROM range(600)").repartition(3))
    table.delete("id % 9 = 1")
    before = rows_of(spark, table)
    report = table.optimize(["c", "id"], target_rows_per_file=100)
    assert rows_of(spark, table) == before
    assert report.plan["after_file_count"] == table.files().num_rows
    assert max(table.files()["rows"].to_pylist()) <= 100
    assert table.detail()["masked_rows"] == 0


def test_a_part_of_a_struct(spark: SparkSession, location: str) -> None:
    table = lakemend.table(spark, location)
    table.append(
        spark.sql("SELECT id, STRUCT(id % 100 AS x, STRUCT(id AS z) AS y) AS s FROM range(600)").repartition(3)
    )
    before = rows_of(spark, table)
    report = table.optimize(["s.x", "S.y.Z"], target_rows_per_file=60)
    assert report.plan["zorder_columns"] == ["s.x", "s.y.z"]
    assert report.plan["skipping"]["point"]["skipped_after"] > 7
    assert rows_of(spark, table) == before


@pytest.mark.parametrize(
    "columns", [[], "", "no", ["a", "a"], ["a", "A"], ["p"], ["m"], ["a.x"], 7, [7], None, ["v"]], ids=str
)
def test_columns_that_cannot_be(spark: SparkSession, location: str, columns: Any) -> None:
    table = lakemend.table(spark, location)
    table.append(spark.sql("SELECT 1 AS a, 2 AS p, MAP(1, 2) AS m, PARSE_JSON('1') AS v"), partition_by="p")
    with pytest.raises(InvalidInputError):
        table.optimize(columns)
    assert table.version == 0


@pytest.mark.parametrize(
    "wrong",
    [{"target_mb_per_file": 0}, {"target_rows_per_file": -1}, {"curve": "peano"}, {"compression": "no"},
     {"dedup_order_by": "a"}, {"dedup_order_by": "a", "deduplicate_key_columns": []}, {"batches": -1}],
    ids=str,
)  # fmt: skip
def test_wrong_arguments_come_before_any_read(spark: SparkSession, location: str, wrong: dict[str, Any]) -> None:
    with pytest.raises(ValueError):
        lakemend.table(spark, location).optimize(["a"], **wrong)


def test_no_such_table_and_no_such_partition(spark: SparkSession, location: str) -> None:
    with pytest.raises(FileNotFoundError):
        lakemend.table(spark, location).optimize(["a"])
    table = points(spark, location, n=100, partitioned=True)
    with pytest.raises(FileNotFoundError):
        table.optimize(["a"], partition_filter="p=9")
    others = {row["path"] for row in table.files().to_pylist() if row["partition"]["p"] == 0}
    table.optimize(["a"], partition_filter="p=1")
    assert others == {row["path"] for row in table.files().to_pylist() if row["partition"]["p"] == 0}


@pytest.mark.parametrize("writer", sorted(set(writers()) - {"copy-on-write for later", "compaction of a partition"}))
@pytest.mark.either("writer")
def test_other_writers_between_plan_and_commit(
    spark: SparkSession, location: str, monkeypatch: pytest.MonkeyPatch, writer: str
) -> None:
    table = small_files(spark, location, partitioned=True)
    other = writers()[writer]
    slip_in(monkeypatch, lambda: other.act(lakemend.table(spark, location)))
    if other.breaks_all:
        with pytest.raises(CommitConflictError):
            table.optimize(["id", "v"])
    else:
        assert len(table.optimize(["id", "v"]).plan["lost_groups"]) == other.loses
    expected = lakemend.table(spark, location + "-alone")
    expected.append(table.as_of(version=4).to_df())
    if other.rows:
        other.rows(expected)
    wanted = sorted(map(str, expected.to_df().select("id", "p", "s", "v").collect()))
    assert sorted(map(str, table.to_df().select("id", "p", "s", "v").collect())) == wanted
    assert not stored(table) - referred(table)


def test_lost_partitions_are_planned_again(spark: SparkSession, location: str, monkeypatch: pytest.MonkeyPatch) -> None:
    table = small_files(spark, location, partitioned=True)
    slip_in(monkeypatch, lambda: lakemend.table(spark, location).delete("id = 1"))
    report = table.optimize("id", retries=1)
    assert len(report.plan["lost_groups"]) == 1
    assert len(report.plan["versions"]) == 2
    assert table.files().num_rows == 3
    assert table.to_df().count() == 599


def test_duplicates_go_first(spark: SparkSession, location: str) -> None:
    table = lakemend.table(spark, location)
    table.append(spark.sql("SELECT id % 300 AS id, id AS v FROM range(500)").repartition(3))
    planned = table.optimize("id", deduplicate_key_columns="id", dedup_order_by="v", dry_run=True)
    report = table.optimize("id", deduplicate_key_columns="id", dedup_order_by="v")
    assert planned.plan["deduplicated"] == report.plan["deduplicated"] == report.deleted == 200
    assert table.to_df().count() == report.total == 300
    assert table.to_df().where("id < 200").agg(F.min("v")).first()[0] == 300
    again = table.optimize("id", deduplicate_key_columns=[])
    assert again.plan["deduplicated"] == 0


def test_an_empty_table(spark: SparkSession, location: str) -> None:
    table = lakemend.table(spark, location)
    table.append(spark.sql("SELECT id FROM range(0)"))
    for report in (table.optimize("id"), table.compact(), table.deduplicate("id")):
        assert report.version is None
        assert report.plan["before_file_count"] == report.plan["after_file_count"] == 0


@pytest.mark.parametrize("rows", ["no rows", "masked rows"])
def test_files_without_a_living_row(spark: SparkSession, location: str, rows: str) -> None:
    table = points(spark, location, 100)
    table.delete("id >= 0" if rows == "masked rows" else None)
    table.append(
        spark.sql("SELECT * FROM range(0)").select(*[F.lit(None).cast(f.dataType).alias(f.name) for f in table.schema])
    )
    table.optimize(["a", "b"])
    assert table.to_df().count() == 0


def test_rows_that_the_log_does_not_count_are_sampled_too(
    spark: SparkSession, location: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    spark.range(200_000).selectExpr("id AS x", "id % 100 AS y").repartition(2).write.parquet(location)
    files = sorted(Path(location).glob("*.parquet"))
    log = Path(location, "_delta_log")
    log.mkdir()
    column = {"type": "long", "nullable": True, "metadata": {}}
    schema = json.dumps({"type": "struct", "fields": [{"name": name, **column} for name in "xy"]})
    actions: list[dict[str, Any]] = [
        {"protocol": {"minReaderVersion": 1, "minWriterVersion": 2}},
        {
            "metaData": {
                "id": "a",
                "format": {"provider": "parquet", "options": {}},
                "schemaString": schema,
                "partitionColumns": [],
                "configuration": {},
            }
        },
        *(
            {
                "add": {
                    "path": f.name,
                    "partitionValues": {},
                    "size": f.stat().st_size,
                    "modificationTime": 0,
                    "dataChange": True,
                }
            }
            for f in files
        ),
    ]
    log.joinpath(f"{0:020}.json").write_text("\n".join(map(json.dumps, actions)))
    held: list[int] = []
    original = clustering.boundaries
    monkeypatch.setattr(
        clustering, "boundaries", lambda cells, *rest: held.append(len(cells)) or original(cells, *rest)
    )
    table = lakemend.table(spark, location)
    table.optimize(["x", "y"], target_mb_per_file=0.3)
    assert 50_000 < held[0] < 70_000
    assert table.to_df().distinct().count() == 200_000
