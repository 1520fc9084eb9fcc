"""What a query's plan looks like once it has run, and whether its answer is that of a plan that shuffles."""

from __future__ import annotations

import re
from dataclasses import dataclass

from pyspark.sql import SparkSession

from tests.settings import settings

SWITCH = "spark.lakemend.planning.preserveDataGrouping"
NO_BROADCAST = {"spark.sql.autoBroadcastJoinThreshold": "-1", "spark.sql.adaptive.autoBroadcastJoinThreshold": "-1"}


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
        return len(re.findall(r"[-:] *(?:\*\(\d+\) )?Sort(?:EachValue)? \[(?!\])", self.plan))


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
