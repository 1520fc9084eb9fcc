"""Random MERGEs, UPDATEs and DELETEs one after the other, however Spark joins for them, against DuckDB.

`LAKEMEND_FUZZ_CHANGES` is how many seeds the slow run takes, `LAKEMEND_FUZZ_FIRST` the first of them.
"""

from __future__ import annotations

import os
import random
import re
import uuid
from collections import Counter

import pytest
from pyspark.sql import SparkSession

from tests.plans import wide_changes, wide_merges
from tests.plans.wide_tables import Setting, Tables

SOME = 3
STATEMENTS = 3
MANY = int(os.environ.get("LAKEMEND_FUZZ_CHANGES", "200"))
FIRST = int(os.environ.get("LAKEMEND_FUZZ_FIRST", "1000"))
# All that Spark may choose for a target that is neither broadcast nor replicated.
REACHED = {
    "BroadcastHashJoin BuildRight",
    "BroadcastNestedLoopJoin BuildRight",
    "ShuffledHashJoin BuildLeft",
    "ShuffledHashJoin BuildRight",
    "ShuffledHashJoin BuildRight skewed",
    "SortMergeJoin",
    "SortMergeJoin skewed",
    "storage-partitioned",
}
_JOIN = re.compile(r"\b(\w+Join|CartesianProduct)\b(?:.*?\b(Build(?:Left|Right)))?")


def run(spark: SparkSession, seed: int) -> tuple[Counter[str], Counter[str]]:
    """What became of the statements of a seed, and which joins they ran by."""
    chance = random.Random(seed)
    outcomes: Counter[str] = Counter()
    joins: Counter[str] = Counter()
    namespace = f"lake.w{uuid.uuid4().hex[:10]}"
    spark.sql(f"CREATE NAMESPACE {namespace}")
    tables = Tables(spark, namespace, Setting.drawn(chance))
    try:
        for number in range(STATEMENTS):
            drawn: wide_merges.Case | wide_changes.Change
            if chance.random() < 0.65:
                drawn = wide_merges.Case.drawn(chance, tables.setting)
            else:
                drawn = wide_changes.Change.drawn(chance)
            try:
                outcome, plan = _check(tables, drawn)
            except AssertionError as error:
                raise AssertionError(f"seed {seed}, statement {number}: {error}") from error
            except Exception as error:
                raise AssertionError(f"seed {seed}, statement {number}: {tables.setting} {drawn}: {error}") from error
            outcomes[outcome] += 1
            joins.update(joins_of(plan))
    finally:
        tables.close()
        spark.sql(f"DROP NAMESPACE {namespace} CASCADE")
    return outcomes, joins


def _check(tables: Tables, drawn: wide_merges.Case | wide_changes.Change) -> tuple[str, str]:
    if isinstance(drawn, wide_merges.Case):
        return wide_merges.check(tables, drawn)
    return wide_changes.check(tables, drawn)


def joins_of(plan: str) -> set[str]:
    """How the rows of a plan were joined, and which side was sent to every task or hashed."""
    final = plan.split("== Initial Plan ==")[0]
    found = {
        " ".join(filter(None, match.groups())) + (" skewed" if "skew=true" in line else "")
        for line in final.splitlines()
        if (match := _JOIN.search(line))
    }
    return found | ({"storage-partitioned"} if "GroupPartitions" in final or "grouped by" in final else set())


@pytest.mark.parametrize("seed", range(SOME))
def test_some(spark: SparkSession, seed: int) -> None:
    run(spark, seed)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(FIRST, FIRST + MANY))
def test_many(spark: SparkSession, seed: int) -> None:
    run(spark, seed)


@pytest.mark.slow
def test_they_reach_every_join(spark: SparkSession) -> None:
    left = set(REACHED)
    for seed in range(2000, 2120):
        left -= set(run(spark, seed)[1])
        if not left:
            break
    assert not left
