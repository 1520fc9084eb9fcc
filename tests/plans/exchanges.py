"""What a query's plan looks like once it has run, and whether its answer is that of a plan that shuffles."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from pyspark.sql import SparkSession

SWITCH = "spark.lakemend.planning.preserveDataGrouping"
NO_BROADCAST = {"spark.sql.autoBroadcastJoinThreshold": "-1", "spark.sql.adaptive.autoBroadcastJoinThreshold": "-1"}


@contextmanager
def settings(spark: SparkSession, values: dict[str, str]) -> Iterator[None]:
    before = {key: spark.conf.get(key, None) for key in values}
    for key, value in values.items():
        spark.conf.set(key, value)
    try:
        yield
    finally:
        for key, value in before.items():
            if value is None:
                spark.conf.unset(key)
            else:
                spark.conf.set(key, value)


@dataclass(frozen=True)
class Ran:
    """A query that was executed; `exchanges` are shuffles, without those that gather rows in one place."""

    rows: list[str]
    plan: str

    @property
    def exchanges(self) -> int:
        return len(re.findall(r"\bExchange (hash|range|keyed|round|Keyed|Hash|Round|Range)", self.plan))

    @property
    def sorts(self) -> int:
        return len(re.findall(r"[-:] *(?:\*\(\d+\) )?Sort \[", self.plan))


def ran(spark: SparkSession, query: str) -> Ran:
    frame = spark.sql(query)
    rows = sorted(map(repr, frame.collect()))
    plan = frame._jdf.queryExecution().executedPlan().toString()
    return Ran(rows, plan.split("== Initial Plan ==")[0])


def both(spark: SparkSession, query: str, switch: str = "true") -> Ran:
    """The query as the switch has it; the answer must be that of the plan that knows of no grouping."""
    with settings(spark, {SWITCH: "false"}):
        shuffled = ran(spark, query)
    with settings(spark, {SWITCH: switch}):
        grouped = ran(spark, query)
    assert grouped.rows == shuffled.rows, f"other rows without the shuffle:\n{grouped.plan}"
    return grouped
