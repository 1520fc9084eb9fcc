"""Files that a broadcast side of a join rules out, in queries of several joins."""

from __future__ import annotations

import pytest
from pyspark.sql import SparkSession

from tests.plans.exchanges import both, ran
from tests.settings import settings


def test_a_broadcast_that_prunes_files_is_not_changed_by_another(spark: SparkSession, namespace: str) -> None:
    """Keys of the customers would prune orders; then what prunes lines were another broadcast than the one there is."""
    customers = "SELECT id AS customer, 'c' || id AS name FROM range(20)"
    orders = "SELECT id, CAST(id % 8 AS INT) AS month, id % 20 AS customer, id % 8 < 2 AS open FROM range(400)"
    lines = "SELECT id % 400 AS id, CAST(id % 8 AS INT) AS month, id * 1.5D AS price FROM range(4000)"
    spark.sql(customers).writeTo(f"{namespace}.customers").create()
    spark.sql(orders).repartition(3, "id").writeTo(f"{namespace}.orders").create()
    spark.sql(lines).coalesce(1).writeTo(f"{namespace}.lines").partitionedBy("month").create()
    query = f"""SELECT /*+ BROADCAST(o), BROADCAST(c) */ c.name, count(*), sum(price)
        FROM {namespace}.orders o JOIN {namespace}.lines l ON l.month = o.month AND l.id = o.id
        JOIN {namespace}.customers c ON c.customer = o.customer WHERE o.open GROUP BY c.name"""
    answers = []
    for adaptive in ("true", "false"):
        with settings(spark, {"spark.sql.adaptive.enabled": adaptive}):
            done = ran(spark, query)
        assert "2 of 8 files" in done.plan, done.plan
        answers.append(done.rows)
    with settings(spark, {"spark.sql.optimizer.dynamicPartitionPruning.enabled": "false"}):
        done = ran(spark, query)
    assert "8 of 8 files" in done.plan and answers == [done.rows] * 2 and len(done.rows) == 10


@pytest.mark.parametrize("vectorized", ["true", "false"])
def test_a_broadcast_of_grouped_rows_prunes_too(spark: SparkSession, namespace: str, vectorized: str) -> None:
    """What it reads is planned twice, once for the join and once for the filter."""
    rows = "SELECT id, CAST(id % 20 AS INT) AS p, id % 7 AS q FROM range(200)"
    spark.sql(rows).repartition(2, "p").writeTo(f"{namespace}.t").partitionedBy("p").create()
    spark.sql(rows).repartition(2, "p").where("p < 12").writeTo(f"{namespace}.u").partitionedBy("p").create()
    query = f"""SELECT * FROM {namespace}.t LEFT SEMI JOIN
        (SELECT p, id, max(q) AS q FROM {namespace}.u GROUP BY p, id) c ON t.p = c.p AND t.q = c.q"""
    with settings(spark, {"spark.sql.parquet.enableVectorizedReader": vectorized}):
        done = both(spark, query)
    assert "12 of 20 files" in done.plan, done.plan
    assert len(done.rows) == 120
