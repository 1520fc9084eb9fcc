"""Plain writes through the connector: types, partitions, file sizes, overwrites, statistics, failures."""

from __future__ import annotations

import datetime as dt
import json
import math
import os
import time
from decimal import Decimal
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import pyarrow.parquet as pq
import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql import functions as F

from lakemend.errors import ConstraintViolationError, InvalidInputError
from tests.settings import settings

AWKWARD = [
    "a b",
    "a/b",
    "100%",
    "a%20b",
    "ü☃𝄞",
    "x=y",
    "c:d",
    "'q\"",
    "back\\slash",
    "line\nbreak",
    ".",
    "..",
    "a+b?c#d",
]


def log_actions(location: str) -> list[dict[str, Any]]:
    """Every action of the table's log, oldest first."""
    commits = sorted(Path(location, "_delta_log").glob("*.json"))
    return [json.loads(line) for commit in commits for line in commit.read_text().splitlines() if line]


def live_files(location: str) -> dict[str, dict[str, Any]]:
    """The `add` of every file of the newest version, by its plain path."""
    live: dict[str, dict[str, Any]] = {}
    for action in log_actions(location):
        if "add" in action:
            live[unquote(action["add"]["path"])] = action["add"]
        elif "remove" in action:
            live.pop(unquote(action["remove"]["path"]), None)
    return live


def files_on_disk(location: str) -> set[str]:
    """Everything below the table that is not its log."""
    found = set()
    for directory, _, names in os.walk(location):
        if "_delta_log" not in directory:
            found.update(os.path.relpath(os.path.join(directory, name), location) for name in names)
    return found


def settled(location: str, expected: set[str]) -> bool:
    """Whether exactly these files are left once the tasks of a failed write, which Spark does not await, are gone."""
    deadline = time.monotonic() + 10
    while files_on_disk(location) != expected and time.monotonic() < deadline:
        time.sleep(0.05)
    return files_on_disk(location) == expected


def versions(location: str) -> int:
    return len(list(Path(location, "_delta_log").glob("*.json")))


def rows_of(df: DataFrame) -> list[tuple[Any, ...]]:
    return sorted((tuple(row) for row in df.collect()), key=repr)


def create(spark: SparkSession, name: str, location: str, columns: str, rest: str = "") -> str:
    spark.sql(f"CREATE TABLE {name} ({columns}) USING delta LOCATION '{location}' {rest}")
    return name


@pytest.fixture
def table(namespace: str) -> str:
    return f"{namespace}.t"


# ---- types


def test_every_type_is_read_back_as_it_was_written(spark: SparkSession, table: str, location: str) -> None:
    df = spark.sql(
        """SELECT id, CAST(id AS tinyint) b, CAST(id AS smallint) s, CAST(id AS int) i, CAST(id AS float) f,
             CAST(id AS double) / 3 d, id % 2 = 0 yes, CAST(id AS decimal(5,2)) d5, CAST(id AS decimal(18,4)) d18,
             CAST(id AS decimal(38,10)) d38, concat('ü', id) str, CAST(concat('b', id) AS binary) bin,
             date_add(DATE'1200-01-01', CAST(id AS int)) day, TIMESTAMP'1969-12-31 23:59:59.999999' ts,
             TIMESTAMP_NTZ'2020-02-29 12:00:00.123456' ntz, array(id, NULL) arr,
             map('k', array(id), 'n', NULL) m, named_struct('x', id, 'y', named_struct('z', 'deep')) st,
             IF(id = 0, NULL, id) some, CAST(NULL AS string) none
           FROM range(5)"""
    )
    df.writeTo(table).using("delta").tableProperty("location", location).create()
    df.writeTo(table).append()
    assert rows_of(spark.table(table)) == rows_of(df.union(df))


def test_variants_are_read_back(spark: SparkSession, table: str, location: str) -> None:
    create(spark, table, location, "id bigint, v variant")
    spark.sql(f"""INSERT INTO {table} VALUES (1, parse_json('{{"a": [1, null, "x"]}}')), (2, NULL)""")
    assert rows_of(spark.sql(f"SELECT id, to_json(v) FROM {table}")) == [(1, '{"a":[1,null,"x"]}'), (2, None)]


def test_timestamps_are_micros_and_calendars_proleptic_whatever_the_session_says(
    spark: SparkSession, table: str, location: str
) -> None:
    create(spark, table, location, "day date, ts timestamp")
    settings = {
        "spark.sql.parquet.outputTimestampType": "INT96",
        "spark.sql.parquet.datetimeRebaseModeInWrite": "LEGACY",
        "spark.sql.parquet.writeLegacyFormat": "true",
    }
    for key, value in settings.items():
        spark.conf.set(key, value)
    try:
        spark.sql(f"INSERT INTO {table} VALUES (DATE'1200-01-01', TIMESTAMP'1200-01-01 00:00:00.000001')")
    finally:
        for key in settings:
            spark.conf.unset(key)
    (path,) = live_files(location)
    moment = dt.datetime(1200, 1, 1, 0, 0, 0, 1, tzinfo=dt.UTC)
    assert pq.read_table(os.path.join(location, path)).to_pylist() == [{"day": dt.date(1200, 1, 1), "ts": moment}]


def test_columns_are_stored_nullable_and_partition_columns_not_at_all(
    spark: SparkSession, table: str, location: str
) -> None:
    create(spark, table, location, "id bigint NOT NULL, p string NOT NULL, v int", "PARTITIONED BY (p)")
    spark.sql(f"INSERT INTO {table} VALUES (1, 'x', 2)")
    (path,) = live_files(location)
    schema = pq.ParquetFile(os.path.join(location, path)).schema_arrow
    assert schema.names == ["id", "v"]
    assert all(field.nullable for field in schema)


def test_column_mapping_writes_physical_names_and_ids(spark: SparkSession, table: str, location: str) -> None:
    create(
        spark, table, location, "id bigint, st struct<x: int, y: array<int>>, p string",
        "PARTITIONED BY (p) TBLPROPERTIES ('delta.columnMapping.mode' = 'name')",
    )  # fmt: skip
    spark.sql(f"INSERT INTO {table} VALUES (1, named_struct('x', 2, 'y', array(3)), 'a')")
    (path,) = live_files(location)
    schema = pq.ParquetFile(os.path.join(location, path)).schema_arrow
    metadata = [a["metaData"] for a in log_actions(location) if "metaData" in a][-1]
    fields = {f["name"]: f["metadata"] for f in json.loads(metadata["schemaString"])["fields"]}
    assert schema.names == [fields[c]["delta.columnMapping.physicalName"] for c in ("id", "st")]
    ids = [int(schema.field(i).metadata[b"PARQUET:field_id"]) for i in range(2)]
    assert ids == [fields[c]["delta.columnMapping.id"] for c in ("id", "st")]
    assert path.startswith(fields["p"]["delta.columnMapping.physicalName"] + "=a/")
    assert rows_of(spark.table(table)) == [(1, Row(x=2, y=[3]), "a")]


# ---- partitions


def test_awkward_partition_values(spark: SparkSession, table: str, location: str) -> None:
    create(spark, table, location, "id int, p string", "PARTITIONED BY (p)")
    df = spark.createDataFrame(list(enumerate([*AWKWARD, None])), "id int, p string")
    df.writeTo(table).append()
    assert rows_of(spark.table(table)) == rows_of(df)
    assert set(live_files(location)) == files_on_disk(location)
    for i, value in enumerate(AWKWARD):
        assert rows_of(spark.table(table).where(F.col("p") == value)) == [(i, value)]


def test_an_empty_string_as_a_partition_value_is_null(spark: SparkSession, table: str, location: str) -> None:
    create(spark, table, location, "id int, p string", "PARTITIONED BY (p)")
    spark.sql(f"INSERT INTO {table} VALUES (1, ''), (2, NULL), (3, 'x')")
    assert rows_of(spark.table(table)) == [(1, None), (2, None), (3, "x")]
    spark.createDataFrame([(4, "")], "id int, p string").writeTo(table).overwritePartitions()
    assert rows_of(spark.table(table)) == [(3, "x"), (4, None)]


@pytest.mark.parametrize(
    ("type", "values"),
    [
        ("date", [dt.date(1200, 1, 1), dt.date(2024, 2, 29), None]),
        ("timestamp", [dt.datetime(2024, 2, 29, 12, 0, 0, 1), dt.datetime(1969, 12, 31, 23, 59, 59, 999999), None]),
        ("timestamp_ntz", [dt.datetime(2024, 2, 29, 12, 0, 0, 1), dt.datetime(2024, 3, 1), None]),
        ("decimal(10,3)", [Decimal("-1.500"), Decimal("1234567.001"), Decimal("0.000"), None]),
        ("boolean", [True, False, None]),
        ("double", [-1.5, 1e300, math.inf, None]),
        ("tinyint", [-128, 9, 10, None]),
        ("bigint", [-(2**63), 2**63 - 1, None]),
    ],
)
def test_typed_partition_values(spark: SparkSession, table: str, location: str, type: str, values: list[Any]) -> None:
    create(spark, table, location, f"id int, p {type}", "PARTITIONED BY (p)")
    df = spark.createDataFrame(list(enumerate(values)), f"id int, p {type}")
    df.writeTo(table).append()
    assert rows_of(spark.table(table)) == rows_of(df)
    assert len(live_files(location)) == len(values)


def test_a_partition_value_too_long_for_a_directory_is_refused(spark: SparkSession, table: str, location: str) -> None:
    create(spark, table, location, "id int, p string", "PARTITIONED BY (p)")
    spark.createDataFrame([(1, "x" * 253)], "id int, p string").writeTo(table).append()
    kept = files_on_disk(location)
    with pytest.raises(InvalidInputError, match="too long for a directory"):
        spark.createDataFrame([(2, "ü" * 127)], "id int, p string").writeTo(table).append()
    assert settled(location, kept)
    assert spark.table(table).count() == 1


def test_many_partitions_make_one_file_each(spark: SparkSession, table: str, location: str) -> None:
    create(spark, table, location, "id bigint, p bigint", "PARTITIONED BY (p)")
    spark.range(0, 3000, 1, 4).selectExpr("id", "id % 150 AS p").writeTo(table).append()
    assert len(live_files(location)) == 150
    assert spark.table(table).agg(F.count("*"), F.sum("id")).first() == (3000, sum(range(3000)))


def test_distribution_none_writes_where_the_rows_are(spark: SparkSession, table: str, location: str) -> None:
    create(
        spark, table, location, "id bigint, p bigint",
        "PARTITIONED BY (p) TBLPROPERTIES ('write.distribution-mode' = 'none')",
    )  # fmt: skip
    spark.range(0, 100, 1, 4).selectExpr("id", "id % 5 AS p").writeTo(table).append()
    assert len(live_files(location)) == 4 * 5
    assert spark.table(table).count() == 100


def test_fanout_limits_open_files_without_a_sort(spark: SparkSession, table: str, location: str) -> None:
    create(spark, table, location, "id bigint, p bigint", "PARTITIONED BY (p)")
    df = spark.range(0, 100, 1, 1).selectExpr("id", "id % 5 AS p")
    options = {"write.distribution-mode": "none", "write.fanout-files": "5"}
    df.writeTo(table).options(**options).append()
    assert len(live_files(location)) == 5
    df.writeTo(table).options(**{**options, "write.fanout-files": "2"}).append()
    assert spark.table(table).count() == 200


@pytest.mark.parametrize(
    "options", [{"write.distribution-mode": "range"}, {"write.fanout-files": "0"}, {"write.fanout-files": "many"}]
)
def test_nonsense_options_are_refused(spark: SparkSession, table: str, location: str, options: dict[str, str]) -> None:
    create(spark, table, location, "id bigint, p bigint", "PARTITIONED BY (p)")
    with pytest.raises(InvalidInputError):
        spark.range(1).selectExpr("id", "id AS p").writeTo(table).options(**options).append()
    assert files_on_disk(location) == set()


# ---- file sizes and names


def test_files_roll_at_the_target_size(spark: SparkSession, table: str, location: str) -> None:
    create(spark, table, location, "id bigint, text string", "TBLPROPERTIES ('delta.targetFileSize' = '1mb')")
    spark.range(0, 100_000, 1, 1).selectExpr("id", "uuid() AS text").writeTo(table).append()
    files = live_files(location)
    sizes = sorted(add["size"] for add in files.values())
    assert len(files) >= 3
    assert sizes[-1] < 1.5 * 2**20
    assert all(os.path.getsize(os.path.join(location, path)) == add["size"] for path, add in files.items())
    assert spark.table(table).agg(F.count("*"), F.countDistinct("id")).first() == (100_000, 100_000)


def test_a_few_huge_rows_roll_too(spark: SparkSession, table: str, location: str) -> None:
    create(spark, table, location, "id bigint, text string", "TBLPROPERTIES ('delta.targetFileSize' = '1mb')")
    # Random hexadecimal digits, 300 KB a row: no dictionary and little compression.
    text = "array_join(transform(sequence(1, 4700), i -> md5(concat(id, ' ', i))), '')"
    spark.range(0, 60, 1, 1).selectExpr("id", f"{text} AS text").writeTo(table).append()
    assert max(add["size"] for add in live_files(location).values()) < 4 * 2**20


def test_nothing_but_the_files_of_the_log_lies_in_the_table(spark: SparkSession, table: str, location: str) -> None:
    create(spark, table, location, "id bigint, p bigint", "PARTITIONED BY (p)")
    spark.range(0, 10, 1, 2).selectExpr("id", "id % 2 AS p").writeTo(table).append()
    files = live_files(location)
    assert files_on_disk(location) == set(files)
    for path in files:
        assert Path(path).name.startswith("part-0000") and path.endswith(
            ("-c000.snappy.parquet", "-first.snappy.parquet")
        )


def test_compression_from_the_option(spark: SparkSession, table: str, location: str) -> None:
    create(spark, table, location, "id bigint")
    spark.range(1).writeTo(table).option("compression", "zstd").append()
    (path,) = live_files(location)
    assert path.endswith(".zstd.parquet")
    assert pq.read_metadata(os.path.join(location, path)).row_group(0).column(0).compression == "ZSTD"


# ---- overwrites


@pytest.fixture
def days(spark: SparkSession, table: str, location: str) -> str:
    """Three partitions of two rows."""
    create(spark, table, location, "id bigint, p bigint", "PARTITIONED BY (p)")
    spark.range(0, 6, 1, 1).selectExpr("id", "id % 3 AS p").writeTo(table).append()
    return table


def test_overwrite_everything(spark: SparkSession, days: str) -> None:
    spark.sql(f"INSERT OVERWRITE {days} VALUES (9, 9)")
    assert rows_of(spark.table(days)) == [(9, 9)]


def test_overwrite_with_no_rows_empties_the_table(spark: SparkSession, days: str) -> None:
    spark.table(days).where("false").writeTo(days).overwrite(F.lit(True))
    assert spark.table(days).count() == 0


def test_overwrite_by_condition(spark: SparkSession, days: str) -> None:
    spark.createDataFrame([(7, 1)], "id bigint, p bigint").writeTo(days).overwrite(F.col("p") == 1)
    assert rows_of(spark.table(days)) == [(0, 0), (2, 2), (3, 0), (5, 2), (7, 1)]


def test_overwrite_of_a_static_partition(spark: SparkSession, days: str) -> None:
    spark.sql(f"INSERT OVERWRITE {days} PARTITION (p = 2) SELECT 8L")
    assert rows_of(spark.table(days)) == [(0, 0), (1, 1), (3, 0), (4, 1), (8, 2)]


def test_overwrite_of_dynamic_partitions(spark: SparkSession, days: str) -> None:
    new = spark.createDataFrame([(7, 1), (8, 4)], "id bigint, p bigint")
    new.writeTo(days).overwritePartitions()
    assert rows_of(spark.table(days)) == [(0, 0), (2, 2), (3, 0), (5, 2), (7, 1), (8, 4)]


@pytest.mark.parametrize("how", ["option", "session"])
def test_a_full_overwrite_is_dynamic_where_asked(spark: SparkSession, days: str, how: str) -> None:
    new = spark.createDataFrame([(7, 1)], "id bigint, p bigint")
    kept = [(0, 0), (2, 2), (3, 0), (5, 2), (7, 1)]
    if how == "option":
        new.writeTo(days).option("partitionOverwriteMode", "dynamic").overwrite(F.lit(True))
        assert rows_of(spark.table(days)) == kept
        return
    spark.conf.set("spark.sql.sources.partitionOverwriteMode", "dynamic")
    try:
        spark.sql(f"INSERT OVERWRITE {days} VALUES (7, 1)")
        assert rows_of(spark.table(days)) == kept
        new.writeTo(days).option("partitionOverwriteMode", "static").overwrite(F.lit(True))
        assert rows_of(spark.table(days)) == [(7, 1)]
    finally:
        spark.conf.unset("spark.sql.sources.partitionOverwriteMode")


def test_an_option_that_contradicts_the_setting_is_refused(spark: SparkSession, days: str) -> None:
    """Spark plans these by the setting, before anybody looks at the option."""
    new = spark.createDataFrame([(7, 1)], "id bigint, p bigint")
    before = rows_of(spark.table(days))
    with settings(spark, {"spark.sql.sources.partitionOverwriteMode": "dynamic"}):
        for write in (
            lambda: new.write.mode("overwrite").option("partitionOverwriteMode", "static").insertInto(days),
            lambda: spark.sql(f"INSERT OVERWRITE {days} WITH ('partitionOverwriteMode' = 'STATIC') VALUES (7, 1)"),
            lambda: new.writeTo(days).option("partitionOverwriteMode", "static").overwritePartitions(),
        ):
            with pytest.raises(InvalidInputError, match="partitionOverwriteMode=static"):
                write()
            assert rows_of(spark.table(days)) == before
    new.write.mode("overwrite").option("partitionOverwriteMode", "static").insertInto(days)
    assert rows_of(spark.table(days)) == [(7, 1)]


def test_replace_where_never_becomes_a_full_overwrite(spark: SparkSession, days: str) -> None:
    new = spark.createDataFrame([(7, 1)], "id bigint, p bigint")
    new.writeTo(days).option("replaceWhere", "p = 1").overwrite(F.lit(True))
    assert rows_of(spark.table(days)) == [(0, 0), (2, 2), (3, 0), (5, 2), (7, 1)]


def test_a_statement_writes_to_a_table_once(spark: SparkSession, table: str, location: str) -> None:
    create(spark, table, location, "id bigint")
    spark.range(2).writeTo(table).append()
    for first in ("INTO", "OVERWRITE"):
        with pytest.raises(InvalidInputError, match="2 times"):
            spark.sql(
                f"FROM {table} INSERT {first} {table} SELECT id + 10 INSERT INTO delta.`{location}` SELECT id + 20"
            )
    assert rows_of(spark.table(table)) == [(0,), (1,)]
    other = f"{table}_other"
    spark.sql(f"CREATE TABLE {other} (id bigint)")
    spark.sql(f"FROM {table} INSERT INTO {table} SELECT id + 10 INSERT INTO {other} SELECT id + 20")
    assert (rows_of(spark.table(table)), rows_of(spark.table(other))) == ([(0,), (1,), (10,), (11,)], [(20,), (21,)])


def test_an_append_without_rows_changes_no_rows(spark: SparkSession, days: str, location: str) -> None:
    before = live_files(location)
    spark.table(days).where("false").writeTo(days).append()
    assert live_files(location) == before


# ---- statistics


def footer_statistics(path: str) -> dict[str, tuple[Any, Any, int]]:
    """(min, max, nulls) by column, over all row groups, as the file itself says."""
    metadata = pq.read_metadata(path)
    merged: dict[str, tuple[list[Any], int]] = {}
    for group in range(metadata.num_row_groups):
        for i in range(metadata.num_columns):
            column = metadata.row_group(group).column(i)
            values, nulls = merged.get(column.path_in_schema, ([], 0))
            statistics = column.statistics
            if statistics.has_min_max:
                values = [*values, statistics.min, statistics.max]
            merged[column.path_in_schema] = values, nulls + statistics.null_count
    return {
        name: (min(values) if values else None, max(values) if values else None, nulls)
        for name, (values, nulls) in merged.items()
    }


def test_statistics_are_those_of_the_footers(spark: SparkSession, table: str, location: str) -> None:
    create(
        spark, table, location,
        "id bigint, i int, d double, dec decimal(20,2), s string, day date, yes boolean, "
        "st struct<x: int, y: struct<z: string>>, some bigint, none int",
    )  # fmt: skip
    spark.sql(
        """SELECT id, CAST(-id AS int) i, id / 7 AS d, CAST(id AS decimal(20,2)) dec, concat('k', id) s,
             date_add(DATE'2020-01-01', CAST(id % 50 AS int)) day, id > 5 yes,
             IF(id % 10 = 0, NULL, named_struct('x', CAST(id AS int), 'y', named_struct('z', 'é'))) st,
             IF(id < 3000, NULL, id) some, CAST(NULL AS int) none
           FROM range(0, 40000, 1, 2)"""
    ).writeTo(table).option("parquet.block.size", "65536").append()
    files = live_files(location)
    assert files
    for path, add in files.items():
        stats = json.loads(add["stats"], parse_float=Decimal)
        footer = footer_statistics(os.path.join(location, path))
        assert stats["numRecords"] == pq.read_metadata(os.path.join(location, path)).num_rows
        for name in ("id", "i", "dec", "s", "some"):
            low, high, nulls = footer[name]
            assert (stats["minValues"][name], stats["maxValues"][name], stats["nullCount"][name]) == (low, high, nulls)
        low, high, _ = footer["d"]
        assert (float(stats["minValues"]["d"]), float(stats["maxValues"]["d"])) == (low, high)
        assert stats["minValues"]["day"] == footer["day"][0].isoformat()
        low, high, nulls = footer["st.x"]
        assert stats["minValues"]["st"]["x"] == low and stats["maxValues"]["st"]["x"] == high
        assert stats["nullCount"]["st"]["x"] == nulls == stats["nullCount"]["st"]["y"]["z"] > 0
        assert stats["nullCount"]["none"] == stats["numRecords"]
        assert "none" not in stats["minValues"]


def test_nan_and_negative_zero_do_not_hide_rows(spark: SparkSession, table: str, location: str) -> None:
    create(spark, table, location, "id int, d double, f float")
    for rows in ("(1, double('NaN'), float('NaN')), (2, 1.0D, 1.0F)", "(3, -0.0D, -0.0F)", "(4, 0.0D, 0.0F)"):
        spark.sql(f"INSERT INTO {table} SELECT * FROM VALUES {rows} AS v(id, d, f)")
    assert rows_of(spark.sql(f"SELECT id FROM {table} WHERE d > 5")) == [(1,)]
    assert rows_of(spark.sql(f"SELECT id FROM {table} WHERE f > 5")) == [(1,)]
    assert rows_of(spark.sql(f"SELECT id FROM {table} WHERE d = double('NaN')")) == [(1,)]
    assert rows_of(spark.sql(f"SELECT id FROM {table} WHERE d = 0")) == [(3,), (4,)]
    assert rows_of(spark.sql(f"SELECT id FROM {table} WHERE d = -0.0D")) == [(3,), (4,)]
    assert math.isnan(spark.sql(f"SELECT max(d) FROM {table}").first()[0])
    assert spark.sql(f"SELECT min(d) FROM {table}").first()[0] == 0


def test_long_and_malformed_strings_do_not_hide_rows(spark: SparkSession, table: str, location: str) -> None:
    create(spark, table, location, "id int, s string")
    spark.sql(f"INSERT INTO {table} SELECT 1, concat(repeat('é𝄞', 500), 'z')")
    spark.sql(f"INSERT INTO {table} SELECT 2, CAST(X'FF' AS string)")
    assert rows_of(spark.sql(f"SELECT id FROM {table} WHERE s = concat(repeat('é𝄞', 500), 'z')")) == [(1,)]
    assert rows_of(spark.sql(f"SELECT id FROM {table} WHERE s > repeat('é𝄞', 500)")) == [(1,), (2,)]
    assert rows_of(spark.sql(f"SELECT id FROM {table} WHERE s >= 'a'")) == [(1,), (2,)]


# ---- failures leave nothing


def test_a_failing_task_leaves_nothing(spark: SparkSession, days: str, location: str) -> None:
    files, count = files_on_disk(location), versions(location)
    broken = spark.range(0, 2000, 1, 4).selectExpr("IF(id = 1999, raise_error('boom'), id) AS id", "id % 3 AS p")
    with pytest.raises(PySparkException, match="boom"):
        broken.writeTo(days).option("write.distribution-mode", "none").append()
    assert settled(location, files)
    assert versions(location) == count


@pytest.mark.parametrize("row", ["CAST(NULL AS int), named_struct('x', 1)", "1, named_struct('x', CAST(NULL AS int))"])
def test_a_null_in_a_not_null_column_leaves_nothing(spark: SparkSession, table: str, location: str, row: str) -> None:
    create(spark, table, location, "id int NOT NULL, st struct<x: int NOT NULL>")
    with pytest.raises((ConstraintViolationError, PySparkException), match=r"(?i)null"):
        spark.sql(f"INSERT INTO {table} SELECT {row}")
    assert settled(location, set())
    assert spark.table(table).count() == 0


def test_an_empty_string_is_refused_where_it_would_be_null(spark: SparkSession, table: str, location: str) -> None:
    create(spark, table, location, "id int, p string NOT NULL", "PARTITIONED BY (p)")
    with pytest.raises(ConstraintViolationError, match="p is NOT NULL"):
        spark.sql(f"INSERT INTO {table} VALUES (1, '')")
    assert settled(location, set())


@pytest.mark.parametrize(
    ("type", "value", "column"),
    [
        ("bigint", None, "c"),
        ("struct<x: struct<y: int NOT NULL>>", [[None]], "c.x.y"),
        ("struct<x: struct<y: int NOT NULL>>", [None], None),
        ("array<struct<x: int NOT NULL>>", ([1], [None]), "c.element.x"),
        ("array<struct<x: int NOT NULL>>", ([1], None), None),
    ],
)
def test_a_null_that_spark_let_through_is_refused(
    spark: SparkSession, type: str, value: Any, column: str | None
) -> None:
    """A row reaches the writer with a null that its schema rules out: lists are structs here, tuples arrays."""
    jvm: Any = spark._jvm

    def internal(value: Any) -> Any:
        if not isinstance(value, list | tuple):
            return value
        values = spark.sparkContext._gateway.new_array(jvm.java.lang.Object, len(value))
        for i, item in enumerate(value):
            values[i] = internal(item)
        if isinstance(value, tuple):
            return jvm.org.apache.spark.sql.catalyst.util.GenericArrayData(values)
        return jvm.org.apache.spark.sql.catalyst.expressions.GenericInternalRow(values)

    schema = jvm.org.apache.spark.sql.types.StructType.fromDDL(f"c {type} {'NOT NULL' if value is None else ''}")
    (check,) = jvm.lakemend.write.NullCheck.of(schema)
    if column is None:
        check._2().apply(internal([value]), 0)
        return
    with pytest.raises(ConstraintViolationError) as caught:
        check._2().apply(internal([value]), 0)
    assert caught.value.column == column


def test_a_violated_check_leaves_nothing(spark: SparkSession, table: str, location: str) -> None:
    create(spark, table, location, "id bigint, CONSTRAINT positive CHECK (id > 0)")
    spark.sql(f"INSERT INTO {table} VALUES (1)")
    files = files_on_disk(location)
    with pytest.raises((ConstraintViolationError, PySparkException), match=r"(?i)positive"):
        spark.sql(f"INSERT INTO {table} SELECT id FROM range(0, 100, 1, 2)")
    assert settled(location, files)
    assert rows_of(spark.table(table)) == [(1,)]


@pytest.mark.parametrize("name", ["__row_operation", "_pos"])
def test_a_check_looks_at_every_row_whatever_its_columns_are_called(
    spark: SparkSession, table: str, location: str, name: str
) -> None:
    """Row changes have columns of these names beside those of the table."""
    create(spark, table, location, f"id bigint, `{name}` int, CONSTRAINT positive CHECK (id > 0)")
    for value in (1, -5):
        with pytest.raises(ConstraintViolationError):
            spark.sql(f"INSERT INTO {table} VALUES (-1, {value})")
    assert rows_of(spark.table(table)) == []


def test_a_failing_create_table_as_select_leaves_nothing(spark: SparkSession, table: str, location: str) -> None:
    with pytest.raises(PySparkException, match="boom"):
        spark.sql(
            f"CREATE TABLE {table} USING delta LOCATION '{location}' AS "
            "SELECT IF(id = 99, raise_error('boom'), id) AS id FROM range(0, 100, 1, 4)"
        )
    assert settled(location, set())
    assert not spark.catalog.tableExists(table)


def test_a_table_of_partition_columns_alone_cannot_be_written(spark: SparkSession, table: str, location: str) -> None:
    with pytest.raises((InvalidInputError, PySparkException)):
        create(spark, table, location, "p bigint", "PARTITIONED BY (p)")
        spark.sql(f"INSERT INTO {table} VALUES (1)")
    assert files_on_disk(location) == set()
