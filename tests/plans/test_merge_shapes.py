"""However Spark spreads a MERGE's rows over tasks: no row is doubled or lost, and ambiguity is told as ours."""

from __future__ import annotations

import pytest
from pyspark.sql import SparkSession

from tests.plans.merge_model import (
    ALONE,
    ALWAYS,
    DELETE,
    INSERTS,
    ON,
    SKEW,
    UPDATES,
    Case,
    Condition,
    Merge,
    New,
    Old,
    check,
)

EQUAL, BETWEEN, TRUE = ON[0], ON[5], next(c for c in ON if c.sql == "true")
NO_BROADCAST = {"spark.sql.autoBroadcastJoinThreshold": "-1", "spark.sql.adaptive.autoBroadcastJoinThreshold": "-1"}
TARGET = [Old(i, i, "x", i % 3) for i in range(20)]
# Every row of the first half is met by many rows of every task.
SPREAD = [New(i, i % 10, i % 10, 10, "a") for i in range(400)]
KINDS = [(mode, feed) for mode in ("copy-on-write", "merge-on-read") for feed in (False, True)]


@pytest.fixture(params=KINDS, ids=lambda kind: kind[0] + (" with feed" if kind[1] else ""))
def kind(request: pytest.FixtureRequest) -> dict:
    return {"mode": request.param[0], "feed": request.param[1]}


@pytest.mark.sampled
@pytest.mark.parametrize("hint", ["", "BROADCAST(x)", "MERGE(x)", "SHUFFLE_HASH(x)", "SHUFFLE_REPLICATE_NL(x)"])
@pytest.mark.parametrize(
    "merge",
    [
        Merge(BETWEEN, unmatched=[(ALWAYS, INSERTS[0])], alone=[(ALWAYS, DELETE)]),
        Merge(BETWEEN, alone=[(ALWAYS, DELETE)]),
        Merge(EQUAL, alone=[(ALWAYS, ALONE[0])]),
        Merge(EQUAL, [(ALWAYS, DELETE)], [(ALWAYS, INSERTS[0])]),
        Merge(BETWEEN, [(ALWAYS, DELETE)]),
    ],
    ids=lambda merge: f"{merge.on.sql} {merge.clauses}",
)
def test_rows_that_several_source_rows_meet(
    spark: SparkSession, namespace: str, kind: dict, merge: Merge, hint: str
) -> None:
    assert check(spark, namespace, Case(merge, TARGET, SPREAD, **kind, tasks=4, hint=hint)) == "changed"


@pytest.mark.sampled
@pytest.mark.parametrize(
    "merge",
    [
        Merge(EQUAL, [(ALWAYS, UPDATES[0])], [(ALWAYS, INSERTS[0])]),
        Merge(EQUAL, [(Condition("s.n = 0", lambda t, s: s.n == 0), UPDATES[0])]),
        Merge(EQUAL, [(Condition("s.n < 200", lambda t, s: s.n < 200), UPDATES[0]), (ALWAYS, DELETE)]),
        Merge(BETWEEN, [(ALWAYS, UPDATES[0])], [(ALWAYS, INSERTS[0])], [(ALWAYS, DELETE)]),
        Merge(TRUE, [(ALWAYS, UPDATES[0])]),
    ],
    ids=lambda merge: f"{merge.on.sql} {merge.clauses}",
)
@pytest.mark.parametrize(
    "conf", [{}, {**NO_BROADCAST, **SKEW, "spark.lakemend.merge.broadcastThreshold": "-1"}], ids=["", "skew"]
)
def test_ambiguity_is_seen_across_tasks(
    spark: SparkSession, namespace: str, kind: dict, merge: Merge, conf: dict
) -> None:
    for hint in ("", "SHUFFLE_HASH(x)") if conf else ("", "SHUFFLE_REPLICATE_NL(x)"):
        case = Case(merge, TARGET, SPREAD, **kind, tasks=4, hint=hint, conf=conf)
        assert check(spark, namespace, case) == "ambiguous"
        spark.sql(f"DROP TABLE {namespace}.t")


@pytest.mark.parametrize("hint", ["MERGE(x)", "SHUFFLE_HASH(x)"])
def test_a_skewed_source_beside_a_grouping_that_nothing_uses(
    spark: SparkSession, namespace: str, kind: dict, hint: str
) -> None:
    """The target reports its partitions, the join is by another column, and the scan is packed after all."""
    merge = Merge(EQUAL, [(ALWAYS, UPDATES[0])], [(ALWAYS, INSERTS[0])])
    conf = {
        **NO_BROADCAST,
        **SKEW,
        "spark.lakemend.merge.broadcastThreshold": "-1",
        "spark.lakemend.planning.preserveDataGrouping": "true",
        "spark.sql.sources.v2.bucketing.shuffle.enabled": "false",
    }
    case = Case(merge, TARGET, SPREAD, **kind, partitioned=True, tasks=4, hint=hint, conf=conf)
    assert check(spark, namespace, case) == "ambiguous"
