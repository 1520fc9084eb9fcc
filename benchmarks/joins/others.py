"""What the session's settings for joins mean to tables that are not ours: Parquet, with them and with Spark's own."""

from __future__ import annotations

from collections.abc import Iterator

from benchmarks.data import scratch, spark
from benchmarks.joins.turns import Way, compare_plans
from benchmarks.ratio import Figure
from benchmarks.rows.tables import MANY, with_columns

ROWS = MANY // 4
OURS = Way("with our settings", {}).without_broadcasts()
SPARKS = Way(
    "with Spark's",
    {
        "spark.sql.requireAllClusterKeysForCoPartition": "true",
        "spark.sql.sources.v2.bucketing.allowKeysSubsetOfPartitionKeys.enabled": "false",
        "spark.sql.sources.v2.bucketing.partition.filter.enabled": "false",
        "spark.sql.sources.v2.bucketing.shuffle.enabled": "false",
    },
).without_broadcasts()
# In the last two, one side is already shuffled by a part of what it is joined by.
QUERIES = {
    "join": "SELECT count(*), sum(x.a) FROM {0} x JOIN {1} y ON x.part = y.part AND x.id = y.id",
    "join of an aggregate": """
        SELECT count(*), sum(n) FROM {0} x JOIN (SELECT id, max(part) AS part, count(*) AS n FROM {1} GROUP BY id) y
        ON x.part = y.part AND x.id = y.id""",
    "join of two aggregates": """
        SELECT count(*), sum(n) FROM (SELECT id, part, count(*) AS n FROM {0} GROUP BY id, part) x
        JOIN (SELECT id, max(part) AS part FROM {1} GROUP BY id) y ON x.part = y.part AND x.id = y.id""",
}


def run() -> Iterator[Figure]:
    names = []
    for number in range(2):
        place = scratch() / f"others-{number}"
        with_columns(spark().range(0, ROWS, 1, 8)).drop("s").write.parquet(str(place))
        names.append(f"parquet.`{place}`")
    for name, query in QUERIES.items():
        yield compare_plans(f"Parquet, {name}", query.format(*names), OURS, SPARKS, target=1.03, warm=2)
