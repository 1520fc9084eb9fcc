"""UPDATE, DELETE and MERGE on a partitioned table: its rows stay where they are, and the outcome is the same."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest
from pyspark.sql import SparkSession

from tests.plans.exchanges import NO_BROADCAST, SWITCH
from tests.settings import settings

PARTS = 6


@pytest.fixture(params=["adaptive", pytest.param("static", marks=pytest.mark.slow)], autouse=True)
def planner(request: pytest.FixtureRequest, spark: SparkSession) -> Iterator[None]:
    conf = {
        **NO_BROADCAST,
        "spark.sql.adaptive.enabled": str(request.param == "adaptive").lower(),
        "spark.lakemend.merge.broadcastThreshold": "-1",
    }
    with settings(spark, conf):
        yield


@pytest.fixture(params=["copy-on-write", "merge-on-read"])
def mode(request: pytest.FixtureRequest) -> str:
    return str(request.param)


PART = f"CASE WHEN id % 41 = 0 THEN NULL ELSE CAST(id % {PARTS} AS INT) END"


def make_target(spark: SparkSession, namespace: str, mode: str) -> None:
    """Of six parts and nulls, two files in each."""
    modes = ", ".join(f"'write.{verb}.mode' = '{mode}'" for verb in ("update", "delete", "merge"))
    spark.sql(
        f"CREATE OR REPLACE TABLE {namespace}.t (p INT, id BIGINT, v STRING) PARTITIONED BY (p) TBLPROPERTIES ({modes})"
    )
    for start in (0, 150):
        spark.sql(f"INSERT INTO {namespace}.t SELECT {PART}, id, 'old' FROM range({start}, {start + 150})")


def make_source(spark: SparkSession, namespace: str, name: str) -> None:
    """`s` is partitioned as the target is, with a part of its own, and `loose` is not; both have the same rows."""
    own = f"SELECT {PART} AS p, id, 'new' || id AS v FROM range(0, 400, 7) UNION ALL SELECT 99, 5000L, 'far'"
    by = "PARTITIONED BY (p)" if name == "s" else ""
    spark.sql(f"CREATE TABLE {namespace}.{name} {by} AS {own}")


UPSERT = "WHEN MATCHED THEN UPDATE SET v = s.v WHEN NOT MATCHED THEN INSERT *"
MERGE = "MERGE INTO {n}.t t USING {n}.{s} s ON t.p = s.p AND t.id = s.id "
FOUND = "WHERE EXISTS (SELECT 1 FROM {n}.{s} s WHERE s.p = t.p AND s.id = t.id)"
STATEMENTS = {
    "upsert": MERGE + UPSERT,
    "merge that deletes": MERGE + "WHEN MATCHED THEN DELETE",
    "merge of all rows": MERGE + UPSERT + " WHEN NOT MATCHED BY SOURCE AND t.id % 2 = 0 THEN UPDATE SET v = 'alone'",
    "merge that inserts": MERGE + "WHEN NOT MATCHED THEN INSERT *",
    "update exists": "UPDATE {n}.t t SET v = 'x' " + FOUND,
    "delete exists": "DELETE FROM {n}.t t " + FOUND,
    "delete in": "DELETE FROM {n}.t WHERE (p, id) IN (SELECT p, id FROM {n}.{s})",
}


def rows(spark: SparkSession, namespace: str) -> list[str]:
    return sorted(map(repr, spark.table(f"{namespace}.t").collect()))


def moved(spark: SparkSession, statement: str) -> list[str]:
    """The tables whose rows are sent to a join: not names of files, nor what comes out of it to be written."""
    plan = str(spark.sql(f"EXPLAIN {statement}").first()[0])
    found, depths = [], []
    for line in plan.splitlines():
        depth = len(line) - len(line.lstrip(" :+-"))
        depths = [d for d in depths if d < depth]
        if re.search(r"\bExchange (hash|keyed)partitioning\((?!_file)", line):
            depths.append(depth)
        elif re.search(r"\wJoin ", line):
            depths = []
        elif depths and "BatchScan" in line:
            found.append(re.search(r"BatchScan \S+?\.(\w+)\[", line)[1])
    return found


@pytest.mark.sampled
@pytest.mark.parametrize("name", STATEMENTS)
@pytest.mark.parametrize("source", ["s", "loose"])
def test_target_stays(spark: SparkSession, namespace: str, mode: str, name: str, source: str) -> None:
    statement = STATEMENTS[name].format(n=namespace, s=source)
    outcomes = {}
    make_source(spark, namespace, source)
    for switch in ("false", "true"):
        make_target(spark, namespace, mode)
        with settings(spark, {SWITCH: switch}):
            if switch == "true":
                tables = moved(spark, statement)
                assert "t" not in tables, statement
                assert source == "loose" or not tables
            spark.sql(statement)
        outcomes[switch] = rows(spark, namespace)
    assert outcomes["true"] == outcomes["false"]
