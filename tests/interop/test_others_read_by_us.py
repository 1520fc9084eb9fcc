"""Tables written by deltalake, read and written on by Lakemend through Spark, and read again by deltalake."""

from __future__ import annotations

import datetime as dt
import json
import subprocess
import sys
import textwrap
import time
from decimal import Decimal
from pathlib import Path
from typing import Any

import deltalake
import pyarrow as pa
import pytest
from deltalake import write_deltalake
from pyspark.sql import SparkSession

import lakemend
from lakemend.errors import ConstraintViolationError, UnsupportedFeatureError
from tests.interop.readers import assert_all_agree, by_lakemend, by_query, of_arrow
from tests.interop.test_ours_read_by_others import AWKWARD

ROWS = pa.table(
    {
        "id": pa.array([1, 2, 3, None], pa.int64()),
        "b": pa.array([1, -128, None, 127], pa.int8()),
        "f": pa.array([1.5, float("nan"), None, float("-inf")], pa.float32()),
        "d": pa.array([Decimal("1.25"), Decimal("-1.00"), None, Decimal("99999999.99")], pa.decimal128(10, 2)),
        "s": pa.array(["a", "ü☃", None, ""], pa.string()),
        "bin": pa.array([b"\x00\xff", b"", None, b"x"], pa.binary()),
        "day": pa.array([dt.date(2024, 2, 29), dt.date(1, 1, 1), None, dt.date(1970, 1, 1)], pa.date32()),
        "ts": pa.array([dt.datetime(2024, 2, 29, 1, 2, 3, 4, dt.UTC), None, None, None], pa.timestamp("us", "UTC")),
        "ntz": pa.array([dt.datetime(2024, 2, 29, 1, 2, 3, 4), None, None, None], pa.timestamp("us")),
        "l": pa.array([[1, None], [], None, [2]], pa.list_(pa.int32())),
        "st": pa.array(
            [{"x": 1, "y": {"z": ["q"]}}, {"x": None, "y": None}, None, {"x": 2, "y": {"z": None}}],
            pa.struct([("x", pa.int64()), ("y", pa.struct([("z", pa.list_(pa.string()))]))]),
        ),
        "m": pa.array([[("k", 1)], [], None, [("n", None)]], pa.map_(pa.string(), pa.int64())),
        "yes": pa.array([True, False, None, True], pa.bool_()),
    }
)


def appended(spark: SparkSession, location: str) -> None:
    """One more row by Lakemend, the others' columns NULL; both sides must go on seeing the same table."""
    before = len(by_query(location))
    spark.sql("SELECT 1000L AS id").write.format("delta").mode("append").save(location)
    after = by_lakemend(spark, location)
    assert len(after) == before + 1
    assert by_query(location) == after


def test_every_type(spark: SparkSession, location: str) -> None:
    write_deltalake(location, ROWS)
    assert_all_agree(spark, location, of_arrow(ROWS))
    appended(spark, location)
    spark.read.format("delta").load(location).write.format("delta").mode("append").save(location)
    assert len(by_query(location)) == 10
    spark.read.format("delta").load(location).where("id = 1").write.format("delta").mode("overwrite").save(location)
    assert by_lakemend(spark, location) == by_query(location) == of_arrow(ROWS.slice(0, 1)) * 2
    deltalake.DeltaTable(location).create_checkpoint()
    write_deltalake(location, ROWS, mode="append")
    assert_all_agree(spark, location, by_query(location))


def test_awkward_partition_values(spark: SparkSession, location: str) -> None:
    values = [*AWKWARD, None]
    rows = pa.table({"id": pa.array(range(len(values)), pa.int64()), "p": pa.array(values, pa.string())})
    write_deltalake(location, rows, partition_by=["p"])
    assert_all_agree(spark, location, of_arrow(rows))
    table = spark.read.format("delta").load(location)
    for i, value in enumerate(AWKWARD):
        assert [r.id for r in table.where(table.p == value).collect()] == [i], value
    # Both write into the same partitions, and an overwrite of partitions finds the files of both.
    table.write.format("delta").mode("append").save(location)
    assert by_query(location) == sorted(of_arrow(rows) * 2)
    table.where("id < 5 OR p IS NULL").dropDuplicates(["id"]).write.format("delta").mode("overwrite").option(
        "partitionOverwriteMode", "dynamic"
    ).save(location)
    kept = rows.slice(5, len(AWKWARD) - 5)
    assert by_query(location) == by_lakemend(spark, location) == sorted(of_arrow(rows) + of_arrow(kept))


@pytest.mark.parametrize(
    ("type", "values"),
    [
        (pa.date32(), [dt.date(2024, 2, 29), dt.date(1969, 12, 31), None]),
        (pa.timestamp("us", "UTC"), [dt.datetime(2024, 2, 29, 1, 2, 3, 4, dt.UTC), None]),
        (pa.timestamp("us"), [dt.datetime(2024, 2, 29, 1, 2, 3, 4), None]),
        (pa.decimal128(10, 3), [Decimal("1.500"), Decimal("0.001"), None]),
        (pa.bool_(), [True, False, None]),
        (pa.int32(), [9, 10, -1, None]),
        (pa.float64(), [1.5, 1e10, None]),
    ],
    ids=str,
)
def test_typed_partition_values(spark: SparkSession, location: str, type: pa.DataType, values: list[Any]) -> None:
    """deltalake itself cannot read back negative decimals and long directories it has written."""
    rows = pa.table({"id": pa.array(range(len(values)), pa.int64()), "p": pa.array(values, type)})
    write_deltalake(location, rows, partition_by=["p"])
    assert by_lakemend(spark, location) == of_arrow(rows)
    spark.read.format("delta").load(location).write.format("delta").mode("append").save(location)
    assert by_query(location) == sorted(of_arrow(rows) * 2)
    table = spark.read.format("delta").load(location)
    assert table.select("p").distinct().count() == len(values)


def test_a_life_by_deltalake(spark: SparkSession, location: str) -> None:
    """Every operation of deltalake, one after another; after each both see the same rows, and Lakemend appends one."""
    rows = pa.table(
        {"id": pa.array(range(20), pa.int64()), "p": [f"p {i % 3}" for i in range(20)], "v": [i / 2 for i in range(20)]}
    )
    write_deltalake(location, rows, partition_by=["p"], target_file_size=1)
    theirs = deltalake.DeltaTable

    def merge() -> None:
        source = pa.table({"id": pa.array([3, 500], pa.int64()), "p": ["p 0", "new"], "v": [-3.0, -500.0]})
        merger = theirs(location).merge(source, "s.id = t.id", source_alias="s", target_alias="t")
        merger.when_matched_update_all().when_not_matched_insert_all().execute()

    more = pa.table({"id": pa.array([900], pa.int64()), "p": ["p 1"], "v": [0.5], "extra": pa.array(["x"])})
    steps = {
        "append": lambda: write_deltalake(location, rows.slice(0, 5), mode="append"),
        "delete": lambda: theirs(location).delete("id % 5 = 0"),
        "update": lambda: theirs(location).update({"v": "v + 100"}, predicate="id > 10"),
        "merge": merge,
        "optimize": lambda: theirs(location).optimize.compact(),
        "z order": lambda: theirs(location).optimize.z_order(["id"]),
        "new column": lambda: write_deltalake(location, more, mode="append", schema_mode="merge"),
        "checkpoint": lambda: theirs(location).create_checkpoint(),
        "replaced partition": lambda: write_deltalake(location, more, mode="overwrite", predicate="p = 'p 1'"),
        "vacuum": lambda: theirs(location).vacuum(retention_hours=0, enforce_retention_duration=False, dry_run=False),
        "compacted log": lambda: theirs(location).cleanup_metadata(),
        "restore": lambda: theirs(location).restore(theirs(location).version() - 1),
        "replaced": lambda: write_deltalake(location, rows, mode="overwrite", schema_mode="overwrite"),
    }
    for step, run in steps.items():
        run()
        assert by_lakemend(spark, location) == by_query(location), step
        appended(spark, location)
    versions = [h["version"] for h in lakemend.table(spark, location).history()]
    assert versions == sorted(versions, reverse=True)


def test_constraints_of_deltalake_are_kept(spark: SparkSession, location: str) -> None:
    write_deltalake(location, pa.table({"id": pa.array([1], pa.int64())}))
    deltalake.DeltaTable(location).alter.add_constraint({"positive": "id > 0"})
    appended(spark, location)
    with pytest.raises(ConstraintViolationError, match="positive"):
        spark.sql("SELECT -1L AS id").write.format("delta").mode("append").save(location)
    assert by_query(location) == by_lakemend(spark, location) and len(by_query(location)) == 2


def test_not_null_columns_are_kept(spark: SparkSession, location: str) -> None:
    schema = pa.schema([pa.field("id", pa.int64(), nullable=False), pa.field("v", pa.string())])
    write_deltalake(location, pa.table({"id": [1], "v": ["x"]}, schema=schema))
    with pytest.raises(ConstraintViolationError):
        spark.sql("SELECT CAST(NULL AS bigint) AS id, 'y' AS v FROM range(1)").write.format("delta").mode(
            "append"
        ).save(location)
    appended(spark, location)


def test_append_only_tables(spark: SparkSession, location: str) -> None:
    write_deltalake(location, pa.table({"id": pa.array([1], pa.int64())}), configuration={"delta.appendOnly": "true"})
    appended(spark, location)
    version = lakemend.table(spark, location).version
    with pytest.raises(lakemend.LakemendError, match="(?i)append"):
        spark.range(3).write.format("delta").mode("overwrite").save(location)
    assert lakemend.table(spark, location).version == version


def test_a_change_feed_is_written_or_refused(spark: SparkSession, location: str) -> None:
    configuration = {"delta.enableChangeDataFeed": "true"}
    write_deltalake(location, pa.table({"id": pa.array([1, 2], pa.int64())}), configuration=configuration)
    deltalake.DeltaTable(location).delete("id = 1")
    try:
        appended(spark, location)
    except UnsupportedFeatureError:
        assert by_lakemend(spark, location) == by_query(location)
        return
    feed = deltalake.DeltaTable(location).load_cdf(starting_version=0).read_all()
    kinds = pa.table(feed).select(["id", "_change_type"]).to_pylist()
    assert {"id": 1000, "_change_type": "insert"} in kinds


def test_our_definition_seen_by_deltalake(spark: SparkSession, namespace: str, location: str) -> None:
    spark.sql(
        f"""CREATE TABLE {namespace}.t (id bigint NOT NULL COMMENT 'the key', v string, CONSTRAINT c CHECK (id > 0))
            USING delta PARTITIONED BY (v) LOCATION '{location}' COMMENT 'mine' TBLPROPERTIES ('k' = 'v')"""
    )
    spark.sql(f"INSERT INTO {namespace}.t VALUES (1, 'x')")
    theirs = deltalake.DeltaTable(location)
    assert theirs.metadata().description == "mine" and theirs.metadata().partition_columns == ["v"]
    assert theirs.metadata().configuration["k"] == "v"
    field = theirs.schema().fields[0]
    assert not field.nullable and field.metadata["comment"] == "the key"
    with pytest.raises(Exception, match="(?i)check|constraint|invariant|violat"):
        write_deltalake(theirs, pa.table({"id": pa.array([-1], pa.int64()), "v": ["x"]}), mode="append")
    assert by_query(location) == by_lakemend(spark, location)


# ---- side by side

WRITER = """
import sys, time
import pyarrow as pa
from deltalake import write_deltalake
from deltalake.exceptions import CommitFailedError

location, first, count, pause = sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), float(sys.argv[4])
print("ready", flush=True)
sys.stdin.readline()
for i in range(first, first + count):
    write_deltalake(location, pa.table({"id": pa.array([i], pa.int64()), "p": [f"p{i % 2}"]}), mode="append")
    time.sleep(pause)
"""


def test_alternating_writers(spark: SparkSession, location: str) -> None:
    for i in range(0, 24, 2):
        write_deltalake(location, pa.table({"id": pa.array([i], pa.int64())}), mode="append")
        spark.range(i + 1, i + 2).write.format("delta").mode("append").save(location)
        if i == 10:
            deltalake.DeltaTable(location).create_checkpoint()
    assert sorted(r.id for r in spark.read.format("delta").load(location).collect()) == list(range(24))
    assert by_query(location) == by_lakemend(spark, location)
    assert deltalake.DeltaTable(location).version() == 23


def test_racing_writers_lose_nothing(spark: SparkSession, location: str) -> None:
    rounds = 15
    spark.sql("SELECT -1L AS id, 'p0' AS p").write.format("delta").partitionBy("p").save(location)
    command = [sys.executable, "-c", textwrap.dedent(WRITER), location, "1000", str(rounds), "0.05"]
    other = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        assert other.stdout is not None and other.stdin is not None and other.stderr is not None
        assert other.stdout.readline().strip() == "ready"
        other.stdin.write("go\n")
        other.stdin.flush()
        ours = 0
        deadline = time.monotonic() + 120
        while (other.poll() is None or ours < rounds) and time.monotonic() < deadline:
            rows = spark.sql(f"SELECT {ours}L AS id, 'p{ours % 2}' AS p")
            rows.write.format("delta").mode("append").save(location)
            ours += 1
        errors = other.stderr.read()
        assert other.wait(10) == 0, errors[-2000:]
    finally:
        if other.poll() is None:
            other.kill()
    expected = [-1, *range(ours), *range(1000, 1000 + rounds)]
    assert sorted(r.id for r in spark.read.format("delta").load(location).collect()) == sorted(expected)
    assert by_query(location) == by_lakemend(spark, location)
    commits = sorted(int(p.stem) for p in Path(location, "_delta_log").glob("*.json"))
    assert commits[-1] == len(expected) - 1
    assert commits == list(range(commits[0], commits[-1] + 1))


def test_stale_sessions_see_what_others_wrote(spark: SparkSession, location: str) -> None:
    write_deltalake(location, pa.table({"id": pa.array([1], pa.int64())}))
    table = lakemend.table(spark, location)
    assert table.to_df().count() == 1
    write_deltalake(
        location, pa.table({"id": pa.array([2], pa.int64()), "n": ["x"]}), mode="append", schema_mode="merge"
    )
    assert table.to_df().columns == ["id", "n"] and table.to_df().count() == 2
    write_deltalake(location, pa.table({"z": ["new"]}), mode="overwrite", schema_mode="overwrite")
    assert [tuple(r) for r in table.to_df().collect()] == [("new",)]
    info = json.loads(Path(location, "_delta_log", f"{2:020d}.json").read_text().splitlines()[0])
    assert info
