"""Answers from statistics: never wrong, and given without a data file where they can be."""

from __future__ import annotations

import base64
import math
import re
from decimal import Decimal
from functools import reduce
from pathlib import Path
from typing import Any

import pytest
from pyroaring import BitMap64
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

import lakemend
from lakemend.errors import CorruptTableError
from lakemend.session import brain
from tests.conditions import wrongly
from tests.copies import copied


def load(spark: SparkSession, location: str) -> DataFrame:
    return spark.read.format("delta").load(location)


def plan_of(df: DataFrame) -> str:
    return df._jdf.queryExecution().explainString(
        df.sparkSession._jvm.org.apache.spark.sql.execution.ExplainMode.fromString("formatted")
    )


def files_read(df: DataFrame) -> list[int]:
    """How many files each scan of a query reads, from the scan's own description."""
    return [int(n) for n in re.findall(r"(\d+) of \d+ files", plan_of(df))]


def is_answered(df: DataFrame) -> bool:
    """Whether no scan is left in the plan."""
    return "from statistics of" in plan_of(df) or "LocalTableScan" in plan_of(df)


def mask(spark: SparkSession, location: str, **dead: Any) -> None:
    """Kills the rows at `dead["positions"]` of the file that holds the lowest id."""
    identity = {"path": location}
    loaded = brain().ask("load", {"table": identity})
    _, snapshot = lakemend.brain.load.look_up(brain().address(identity), {})
    lowest = min(range(snapshot.files.num_rows), key=lambda row: snapshot.stats(("id",)).min[row].as_py())
    brain().ask(
        "commit",
        {
            "table": identity,
            "version": loaded["version"],
            "operation": "mask_rows",
            "command": "DELETE",
            "added": [],
            "masked": {
                snapshot.url(snapshot.files["path"][lowest].as_py()): base64.b64encode(
                    BitMap64(dead["positions"]).serialize()
                ).decode()
            },
            "read_predicates": None,
            "options": {},
            "token": "test",
            "tally": {"copied": 0, "updated": 0, "deleted": len(dead["positions"]), "inserted": 0},
        },
    )


@pytest.fixture
def hundred(spark: SparkSession, location: str) -> str:
    """Ten files of ten rows, in order of `id`, in two partitions."""
    copied(spark, (__name__, "hundred"), location, lambda path: make_hundred(spark, path))
    return location


def make_hundred(spark: SparkSession, location: str) -> None:
    df = spark.range(100).selectExpr(
        "id", "CAST(id DIV 50 AS int) AS p", "IF(id % 4 = 0, NULL, CAST(id AS int)) AS n",
        "CAST(NULL AS bigint) AS none",
        "CAST(id AS decimal(10,2)) / 2 AS d", "date_add(DATE'2024-01-01', CAST(id AS int)) AS day",
        "concat('s', lpad(id, 3, '0')) AS s", "timestamp_micros(1700000000000000 + id) AS ts",
        "CAST(id AS double) AS f",
        "named_struct('x', id) AS st",
    )  # fmt: skip
    first = True
    for start in range(0, 100, 10):
        writer = df.where(f"id >= {start} AND id < {start + 10}").coalesce(1).write.format("delta")
        (writer.partitionBy("p") if first else writer.mode("append")).save(location)
        first = False


# ---- count, min and max

ANSWERED = [
    ("count(*)", 100),
    ("count(1)", 100),
    ("count(id)", 100),
    ("count(n)", 75),
    ("count(none)", 0),
    ("count(p)", 100),
    ("min(id)", 0),
    ("max(id)", 99),
    ("max(n)", 99),
    ("min(n)", 1),
    ("max(none)", None),
    ("min(p)", 0),
    ("max(p)", 1),
    ("min(d)", Decimal("0.00")),
    ("max(d)", Decimal("49.50")),
    ("min(day)", "2024-01-01"),
]


def test_answers_without_a_data_file(spark: SparkSession, hundred: str) -> None:
    for file in Path(hundred).rglob("*.parquet"):
        file.unlink()
    table = load(spark, hundred)
    found = table.selectExpr(*[text for text, _ in ANSWERED]).first()
    assert found is not None
    for (text, expected), value in zip(ANSWERED, found, strict=True):
        assert (str(value) if text == "min(day)" else value) == expected, text
    assert table.count() == 100
    assert table.where("p = 1").count() == 50
    assert table.where("p = 1").selectExpr("min(id)", "max(n)").first() == (50, 99)
    assert table.where("p IN (0, 7)").selectExpr("count(*)").first() == (50,)
    assert table.where("p > 5").selectExpr("count(*)", "max(id)").first() == (0, None)
    assert sorted(map(tuple, table.groupBy("p").agg(F.count("*"), F.max("id")).collect())) == [(0, 50, 49), (1, 50, 99)]
    assert sorted(r.p for r in table.select("p").distinct().collect()) == [0, 1]
    assert spark.read.format("delta").option("versionAsOf", 2).load(hundred).count() == 30
    assert table.limit(0).collect() == []
    # What statistics cannot tell asks for the files, and says that they are gone.
    for query in (table.where("id = 5"), table.selectExpr("sum(id)"), table.selectExpr("max(s)"), table.where("n > 3")):
        with pytest.raises(CorruptTableError):
            query.collect()


AGGREGATES = ["count(*)", "count({0})", "min({0})", "max({0})", "count(DISTINCT {0})"]


@pytest.mark.parametrize(
    "where", ["true", "p = 1", "id > 25", "p = 0 AND id < 7", "n IS NULL", "p IS NULL", "_pos < 3"]
)
def test_answers_are_those_of_the_rows(spark: SparkSession, hundred: str, where: str) -> None:
    """The same aggregates over a copy of the rows that was never in a table, masked as the table is."""
    plain = load(spark, hundred).select("*", "_pos").localCheckpoint()
    columns = ["id", "p", "n", "none", "d", "day", "s", "ts", "f"]
    wanted = [a.format(c) for c in columns for a in AGGREGATES]
    table, expected = load(spark, hundred).where(where), plain.where(where).selectExpr(*wanted).first()
    assert table.selectExpr(*wanted).first() == expected
    # Each by itself may be answered where all together are not.
    alone = [table.selectExpr(f"{i} AS place", f"{text} AS answer") for i, text in enumerate(wanted[:15])]
    answers = reduce(DataFrame.unionAll, [one.selectExpr("place", "CAST(answer AS BIGINT)") for one in alone])
    assert sorted(map(tuple, answers.collect())) == list(enumerate(expected[:15]))


def test_masked_files_are_not_believed(spark: SparkSession, hundred: str) -> None:
    mask(spark, hundred, positions=[0, 1, 2])
    table = load(spark, hundred)
    assert table.count() == 97
    assert is_answered(table.selectExpr("count(*)"))
    assert table.selectExpr("min(id)", "max(id)", "count(n)", "min(n)").first() == (3, 99, 73, 3)
    assert table.where("p = 0").selectExpr("count(*)", "min(p)", "max(p)").first() == (47, 0, 0)
    assert table.groupBy("p").count().orderBy("p").collect() == [(0, 47), (1, 50)]
    # A file with no row alive adds nothing, whatever its statistics say.
    mask(spark, hundred, positions=[3, 4, 5, 6, 7, 8, 9])
    table = load(spark, hundred)
    assert table.selectExpr("count(*)", "min(id)").first() == (90, 10)


@pytest.mark.parametrize("type", ["float", "double"])
@pytest.mark.either("type")
def test_floating_point(spark: SparkSession, location: str, type: str) -> None:
    values = [[1.5, math.nan], [-0.0, 0.0], [None, None], [math.nan, math.nan], [-math.inf, 2.0]]
    frames = [spark.createDataFrame([(v,) for v in vs], f"v {type}").coalesce(1) for vs in values]
    for frame in frames:
        frame.write.format("delta").mode("append").save(location)
    rows = reduce(DataFrame.unionAll, frames)
    texts = ["count(*)", "count(v)", "min(v)", "max(v)"]
    conditions = (
        "true", "v = 0", "isnan(v)", "v > 1", "v < 0", "v IS NULL", "NOT v < 1", "v >= double('NaN')", "v <> 1.5"
    )  # fmt: skip

    def answers(df: DataFrame) -> list[str]:
        each = [df.where(where).selectExpr(f'"{where}" AS condition', *texts) for where in conditions]
        return sorted(repr(row).replace("-0.0", "0.0") for row in reduce(DataFrame.unionAll, each).collect())

    assert answers(load(spark, location)) == answers(rows.coalesce(1).localCheckpoint())


def test_text_and_times(spark: SparkSession, location: str) -> None:
    long = "x" * 100
    rows = spark.createDataFrame(
        [(long + "a", 1), (long + "z", 2), ("𝄞" * 40, 3), ("", 4), (None, 5)], "s string, id int"
    ).selectExpr(
        "s", "id", "timestamp_micros(1700000000123456 + id) AS ts", "timestamp_micros(-id) AS old",
        "CAST(timestamp_micros(id) AS timestamp_ntz) AS ntz", "CAST(s AS binary) AS b", "id = 3 AS yes",
    )  # fmt: skip
    for i in range(1, 6):
        rows.where(f"id = {i}").coalesce(1).write.format("delta").mode("append").save(location)
    table, plain = load(spark, location), rows.localCheckpoint()
    texts = [f"{f}({c})" for c in ("s", "ts", "old", "ntz", "b", "yes") for f in ("min", "max", "count")]
    assert table.selectExpr(*texts).first() == plain.selectExpr(*texts).first()
    filters = [
        f"s = '{long}z'", f"s > '{long}m'", f"s < '{long}'", "s = ''", "s >= '𝄞'", "s IS NULL", f"s LIKE '{long}%'",
        "ts > timestamp_micros(1700000000123459)", "ts = timestamp_micros(1700000000123458)",
        "old < timestamp_micros(-4)",
        "ntz = CAST(timestamp_micros(3) AS timestamp_ntz)", "b = CAST('' AS binary)", "yes", "NOT yes",
        "ts <= timestamp_micros(1700000000123457)", "ts < '2023-11-14 22:13:20.123459'",
    ]  # fmt: skip
    wrong = wrongly(table, plain, filters)
    assert not wrong, "\n".join(wrong)


def test_columns_without_statistics(spark: SparkSession, location: str) -> None:
    names = ", ".join(f"id + {i} AS c{i}" for i in range(40))
    spark.sql(f"SELECT {names} FROM range(10)").coalesce(1).write.format("delta").save(location)
    spark.range(3).selectExpr("id + 100 AS c0").write.format("delta").mode("append").save(location)
    table = load(spark, location)
    assert table.selectExpr("max(c39)", "min(c39)", "count(c39)").first() == (48, 39, 10)
    assert table.selectExpr("max(c0)", "count(c0)", "count(*)").first() == (102, 13, 13)


def test_columns_added_later(spark: SparkSession, location: str) -> None:
    spark.range(3).coalesce(1).write.format("delta").save(location)
    spark.sql("SELECT 7L AS id, 5 AS n").write.format("delta").mode("append").option("mergeSchema", "true").save(
        location
    )
    table = load(spark, location)
    assert table.selectExpr("count(*)", "count(n)", "min(n)", "max(n)").first() == (4, 1, 5, 5)
    assert table.where("n IS NULL").count() == 3
    assert table.where("n = 5").count() == 1


def test_empty_tables(spark: SparkSession, location: str) -> None:
    spark.sql("SELECT 1 AS id, 'x' AS s, 2 AS p").limit(0).write.format("delta").partitionBy("p").save(location)
    table = load(spark, location)
    assert table.selectExpr("count(*)", "max(id)", "min(s)", "max(p)").first() == (0, None, None, None)
    assert table.groupBy("p").count().collect() == []
    assert table.select("p").distinct().collect() == []


def test_groups_by_partition_values(spark: SparkSession, location: str) -> None:
    rows = spark.createDataFrame(
        [(1, "a", 0.0), (2, None, -0.0), (3, "a", 1.0), (4, None, math.nan), (5, "A ", 0.0)],
        "id int, p string, q double",
    )
    rows.write.format("delta").partitionBy("p", "q").save(location)
    table = load(spark, location)
    for keys in (["p"], ["q"], ["p", "q"], ["q", "p"]):
        texts = [F.count("*"), F.min("id"), F.max("p"), F.min("q")]
        found, expected = (
            sorted(repr(tuple(r)).replace("-0.0", "0.0") for r in df.groupBy(*keys).agg(*texts).collect())
            for df in (table, rows)
        )
        assert found == expected, keys


# ---- skipping files


def test_files_are_skipped(spark: SparkSession, hundred: str) -> None:
    table = load(spark, hundred)
    expected = {
        "id = 42": 1, "id > 84": 2, "id BETWEEN 15 AND 25": 2, "id < 0": 0, "id IN (5, 95)": 2, "p = 1": 5,
        "p = 1 AND id < 50": 0, "p = 0 OR id = 99": 6, "day = DATE'2024-01-06'": 1, "d > 49": 1, "s = 's077'": 1,
        "s LIKE 's01%'": 1, "f < 10": 1, "f >= 90": 10, "st.x = 3": 1, "none IS NOT NULL": 0, "none = 3": 0,
        "n IS NULL": 10, "NOT (id > 9)": 1, "id <=> 42": 1, "p + 1 = 2": 5, "id = 1 AND rand() < 2": 1,
        "ts < timestamp_micros(1700000000000000)": 0,
        "CAST(p AS string) = '1'": 5, "id = 42 OR s = 's077'": 2, "p IS NULL": 0, "id <> 5": 10, "p <> 0": 5,
    }  # fmt: skip
    for text, count in expected.items():
        query = table.where(text)
        read = files_read(query)
        # With no file left Spark may have no scan left either.
        assert (read or [0]) == [count], (text, read)


def test_joins_skip_files_at_run_time(spark: SparkSession, hundred: str, location: str) -> None:
    spark.range(3).selectExpr("CAST(1 AS int) AS k", "id AS v").write.format("delta").save(location + "-dim")
    joined = load(spark, hundred).join(load(spark, location + "-dim").where("v = 2"), F.col("p") == F.col("k"))
    assert joined.count() == 50
    assert joined.selectExpr("min(id)", "max(id)").first() == (50, 99)


def test_metrics_tell_what_was_read(spark: SparkSession, hundred: str) -> None:
    query = load(spark, hundred).where("id = 42")
    assert [r.id for r in query.collect()] == [42]
    metrics = _scan_metrics(query._jdf.queryExecution().executedPlan())
    assert (metrics["filesRead"], metrics["filesSkipped"]) == (1, 9)


def _scan_metrics(plan: Any) -> dict[str, int]:
    if plan.nodeName().startswith("AdaptiveSparkPlan"):
        return _scan_metrics(plan.executedPlan())
    found = {}
    metrics = plan.metrics()
    keys = metrics.keysIterator()
    while keys.hasNext():
        key = keys.next()
        found[key] = metrics.apply(key).value()
    if "filesRead" in found:
        return found
    children = plan.children()
    for i in range(children.length()):
        if below := _scan_metrics(children.apply(i)):
            return below
    return {}


def test_broadcast_follows_the_size_of_the_table(spark: SparkSession, location: str) -> None:
    spark.range(0, 300_000, numPartitions=1).selectExpr("id", "uuid() AS u").write.format("delta").save(location)
    spark.range(0, 300_000, numPartitions=1).selectExpr("id AS k", "id % 3 AS p").write.format("delta").partitionBy(
        "p"
    ).save(location + "2")
    large, other = load(spark, location), load(spark, location + "2")
    before = spark.conf.get("spark.sql.autoBroadcastJoinThreshold")
    spark.conf.set("spark.sql.autoBroadcastJoinThreshold", str(100 * 1024))
    spark.conf.set("spark.sql.adaptive.enabled", "false")
    try:
        assert "SortMergeJoin" in plan_of(large.join(other, F.col("id") == F.col("k")))
        spark.range(10).write.format("delta").save(location + "3")
        small = load(spark, location + "3").withColumnRenamed("id", "k")
        assert "BroadcastHashJoin" in plan_of(large.join(small, F.col("id") == F.col("k")))
    finally:
        spark.conf.set("spark.sql.autoBroadcastJoinThreshold", before)
        spark.conf.unset("spark.sql.adaptive.enabled")


def test_limits_read_few_files(spark: SparkSession, hundred: str) -> None:
    table = load(spark, hundred)
    assert files_read(table.limit(5)) == [1]
    assert len(table.limit(15).collect()) == 15
    assert len(table.where("id % 7 = 0").limit(14).collect()) == 14
    assert table.where("n IS NULL").limit(100).count() == 25
    mask(spark, hundred, positions=range(9))
    assert len(load(spark, hundred).limit(11).collect()) == 11
    assert len(load(spark, hundred).limit(91).collect()) == 91
