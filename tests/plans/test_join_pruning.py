"""Files that a broadcast side of a join rules out, in queries of several joins."""

from __future__ import annotations

import re

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


def _sides(spark: SparkSession, namespace: str) -> tuple[str, str]:
    """Forty rows in eight files by `k`, and two keys that lie in two of them."""
    t, s = f"{namespace}.t", f"{namespace}.s"
    rows = "SELECT id, CAST(id DIV 5 AS INT) AS k, CAST(id % 3 AS INT) AS g, CAST(id % 7 AS INT) AS v FROM range(40)"
    spark.sql(rows).repartitionByRange(8, "k").writeTo(t).create()
    spark.sql(rows).where("id IN (17, 35)").coalesce(1).writeTo(s).create()
    assert spark.table(t).select("_file").distinct().count() > 4
    return t, s


# Rows of a side that are made of more rows than those that have the key.
_WHOLE = {
    "window": "SELECT id, k, row_number() OVER (ORDER BY id) AS rn, count(*) OVER () AS n FROM {t}",
    "lag": "SELECT id, k, lag(id) OVER (ORDER BY id) AS before FROM {t}",
    "rank": "SELECT id, k, rank() OVER (PARTITION BY g ORDER BY id) AS r FROM {t}",
    "ranked": "SELECT * FROM (SELECT id, k, rank() OVER (PARTITION BY g ORDER BY id DESC) AS r FROM {t}) WHERE r < 4",
    "limit": "SELECT id, k FROM {t} ORDER BY id LIMIT 20",
    "offset": "SELECT id, k FROM {t} ORDER BY id OFFSET 19",
    "both": "SELECT id, k FROM {t} ORDER BY id LIMIT 30 OFFSET 2",
    "aggregate": "SELECT max(id) AS id, max(k) AS k, count(*) AS n FROM {t} GROUP BY g",
    "outer": "SELECT a.id, b.k FROM {t} a LEFT JOIN {t} b ON a.id = b.id + 20",
    "full": "SELECT a.id, b.k FROM {t} a FULL JOIN {t} b ON a.id = b.id + 20",
    "kept once": "SELECT a.id, a.k FROM {t} a LEFT ANTI JOIN {t} b ON a.id = b.id + 20",
    "some of a window": "SELECT * FROM (SELECT id, k, count(*) OVER (PARTITION BY g) AS n FROM {t}) WHERE n > 1",
    "mixed": "SELECT id, k, n FROM (SELECT id, k, count(*) OVER () AS n FROM {t} UNION ALL SELECT id, k, 0 FROM {t})",
    "numbered": "SELECT id, k, monotonically_increasing_id() AS n FROM (SELECT /*+ COALESCE(1) */ * FROM {t})",
    "exploded": "SELECT id, e AS k FROM {t} LATERAL VIEW explode(array(k, k + 3)) x AS e",
    "grouped twice": "SELECT max(id) AS id, k, grouping(k) AS n FROM {t} GROUP BY GROUPING SETS ((k), ())",
}
_CLOSELY = ("window", "limit", "aggregate")


@pytest.mark.parametrize("every_join", [False, pytest.param(True, marks=pytest.mark.slow)])
def test_what_is_below_a_join_sees_every_row(spark: SparkSession, namespace: str, every_join: bool) -> None:
    """Under each kind of join by default one of those that are looked at closely."""
    t, s = _sides(spark, namespace)
    joins = ("JOIN", "LEFT SEMI JOIN", "LEFT ANTI JOIN", "FULL JOIN")
    wrong = []
    for name, below in _WHOLE.items():
        closely = joins if every_join else ("JOIN", joins[1 + _CLOSELY.index(name)]) if name in _CLOSELY else ()
        for join in closely or ("JOIN",):
            query = f"SELECT * FROM ({below.format(t=t)}) x {join} (SELECT k FROM {s}) s ON x.k = s.k"
            with settings(spark, {"spark.sql.optimizer.dynamicPartitionPruning.enabled": "false"}):
                expected = ran(spark, query)
            both_planners = every_join and name in _CLOSELY
            for adaptive in ("true", "false") if both_planners else ("true",) if join == "JOIN" else ("false",):
                with settings(spark, {"spark.sql.adaptive.enabled": adaptive}):
                    found = ran(spark, query)
                if found.rows != expected.rows:
                    wrong.append(f"{name}, {join}: {found.rows} for {expected.rows}")
    assert not wrong, "\n".join(wrong)


# What a filter on the key may go below.
_PART = {
    "columns": "SELECT id, k AS k, id + 1 AS n FROM {t} WHERE v < 6",
    "groups": "SELECT k, count(*) AS n FROM {t} GROUP BY k",
    "distinct": "SELECT DISTINCT k, g FROM {t}",
    "window": "SELECT id, k, row_number() OVER (PARTITION BY k ORDER BY id) AS rn FROM {t}",
    "first": "SELECT * FROM (SELECT id, k, row_number() OVER (PARTITION BY k ORDER BY id) AS n FROM {t}) WHERE n < 3",
    "union": "SELECT id, k FROM {t} UNION ALL SELECT id, k FROM {t} WHERE v > 2",
    "inner join": "SELECT a.id, a.k FROM {t} a JOIN {t} b ON a.id = b.id + 5",
    "left join": "SELECT a.id, a.k, b.v FROM {t} a LEFT JOIN {t} b ON a.id = b.id + 5",
    "anti join": "SELECT a.id, a.k FROM {t} a LEFT ANTI JOIN {t} b ON a.id = b.id + 50",
    "exploded": "SELECT id, k, e FROM {t} LATERAL VIEW explode(array(v, v + 1)) x AS e",
    "shuffled": "SELECT /*+ REPARTITION(3, g) */ id, k FROM {t}",
}


def test_files_are_skipped_where_a_filter_on_the_key_may_go(spark: SparkSession, namespace: str) -> None:
    t, s = _sides(spark, namespace)
    wrong = []
    for name, below in _PART.items():
        query = f"SELECT /*+ BROADCAST(s) */ * FROM ({below.format(t=t)}) x JOIN (SELECT k FROM {s}) s ON x.k = s.k"
        found = ran(spark, query)
        with settings(spark, {"spark.sql.optimizer.dynamicPartitionPruning.enabled": "false"}):
            expected = ran(spark, query)
        if found.rows != expected.rows or "2 of 8 files" not in found.plan:
            wrong.append(f"{name}: {found.rows} for {expected.rows}\n{found.plan}")
    assert not wrong, "\n".join(wrong)


# Evaluated again it may give other keys, and files that the join needs would be left out.
_UNSTEADY = {
    "random": "SELECT k FROM {s} WHERE floor(rand()) = 0",
    "limit": "SELECT k FROM {s} LIMIT 3",
    "row_number": "SELECT k FROM (SELECT k, row_number() OVER (ORDER BY g) AS n FROM {s}) WHERE n < 3",
    "any": "SELECT first(k) AS k FROM {s} GROUP BY g",
}


@pytest.mark.parametrize("name", _UNSTEADY)
def test_keys_that_may_be_others_each_time_rule_out_nothing(spark: SparkSession, namespace: str, name: str) -> None:
    t, s = _sides(spark, namespace)
    keys = _UNSTEADY[name].format(s=s)
    found = ran(spark, f"SELECT /*+ BROADCAST(s) */ * FROM {t} x JOIN ({keys}) s ON x.k = s.k")
    assert found.rows and "8 of 8 files" in found.plan, found.plan


def test_keys_of_rows_that_are_read_twice_and_differ_rule_out_nothing(spark: SparkSession, namespace: str) -> None:
    t, s = _sides(spark, namespace)
    found = ran(
        spark,
        f"""WITH c AS (SELECT k, g FROM {s} WHERE floor(rand()) = 0) SELECT /*+ BROADCAST(a), BROADCAST(b) */ x.id
        FROM {t} x JOIN c a ON x.k = a.k JOIN (SELECT max(g) AS g FROM c) b ON a.g = b.g""",
    )
    assert len(found.rows) == 10 and "8 of 8 files" in found.plan, found.plan


def _by_k(spark: SparkSession, namespace: str) -> str:
    """Every id from 0 to 4 in each of four partitions."""
    name = f"{namespace}.by_k"
    rows = spark.sql("SELECT id % 5 AS id, CAST(id DIV 5 AS INT) AS k FROM range(20)")
    rows.coalesce(1).writeTo(name).partitionedBy("k").tableProperty(
        "lakemend.planning.preserveDataGrouping", "true"
    ).create()
    return name


_ORDERS = ["t.id = s.id AND t.k = s.k", "t.k = s.k AND t.id = s.id"]


@pytest.mark.parametrize("adaptive", ["true", "false"])
@pytest.mark.parametrize("on", _ORDERS)
@pytest.mark.parametrize("filtered", ["", "WHERE s.id < 5"], ids=["", "also by Spark"])
def test_a_filter_asks_the_broadcast_of_its_join(
    spark: SparkSession, namespace: str, on: str, adaptive: str, filtered: str
) -> None:
    """Whichever order the columns are named in: the same broadcast serves both, and is made once."""
    name, keys = _by_k(spark, namespace), f"{namespace}.keys"
    spark.sql("SELECT 3L AS id, 2 AS k").writeTo(keys).create()
    with settings(spark, {"spark.sql.adaptive.enabled": adaptive}):
        done = ran(spark, f"SELECT /*+ BROADCAST(s) */ * FROM {name} t JOIN {keys} s ON {on} {filtered}")
    assert len(done.rows) == 1
    assert "1 of 4 files" in done.plan, done.plan
    assert done.plan.count("BroadcastExchange") - done.plan.count("ReusedExchange") <= 1, done.plan


@pytest.mark.parametrize("adaptive", ["true", "false"])
def test_filters_of_two_joins_by_the_same_keys(spark: SparkSession, namespace: str, adaptive: str) -> None:
    """One table is partitioned by the first key, the other by the second; a third key stands twice."""
    name, keys, other = _by_k(spark, namespace), f"{namespace}.keys", f"{namespace}.by_id"
    spark.table(name).coalesce(1).writeTo(other).partitionedBy("id").create()
    spark.sql("SELECT 3L AS id, 2 AS k").writeTo(keys).create()
    queries = [
        f"""SELECT /*+ BROADCAST(s) */ t.*, u.* FROM {name} t JOIN {keys} s ON t.id = s.id AND t.k = s.k
            JOIN {other} u ON u.id = s.id AND u.k = s.k""",
        f"""SELECT /*+ BROADCAST(y) */ * FROM {other} u JOIN (SELECT /*+ BROADCAST(s) */ t.id, t.k FROM {name} t
            JOIN {keys} s ON t.id = s.id AND t.k = s.k) y ON u.k = y.k AND u.id = y.id""",
        f"SELECT /*+ BROADCAST(s) */ * FROM {name} t JOIN {keys} s ON t.id = s.k AND t.k = s.k AND t.id + 1 = s.id",
    ]
    for query in queries:
        with settings(spark, {"spark.sql.optimizer.dynamicPartitionPruning.enabled": "false"}):
            expected = ran(spark, query)
        with settings(spark, {"spark.sql.adaptive.enabled": adaptive}):
            found = ran(spark, query)
        assert len(expected.rows) == 1 and found.rows == expected.rows, found.plan
        assert re.search("1 of [45] files", found.plan), found.plan


@pytest.mark.parametrize("adaptive", ["true", "false"])
@pytest.mark.parametrize("on", _ORDERS)
def test_rows_of_a_python_function_may_be_others_each_time(
    spark: SparkSession, namespace: str, on: str, adaptive: str
) -> None:
    def draw(_: int) -> tuple[int, int]:
        import random

        return random.randrange(5), random.randrange(4)

    name = _by_k(spark, namespace)
    with settings(spark, {"spark.sql.adaptive.enabled": adaptive}):
        for _ in range(5):
            drawn = spark.sparkContext.parallelize([0], 1).map(draw)
            spark.createDataFrame(drawn, "id BIGINT, k INT").createOrReplaceTempView("drawn")
            done = ran(spark, f"SELECT /*+ BROADCAST(s) */ * FROM {name} t JOIN drawn s ON {on}")
            assert len(done.rows) == 1 and "4 of 4 files" in done.plan, done.plan


@pytest.mark.parametrize("mode", ["copy-on-write", "merge-on-read"])
def test_a_merge_stores_what_its_source_says(spark: SparkSession, namespace: str, mode: str) -> None:
    t, s = _sides(spark, namespace)
    target = f"{namespace}.target"
    spark.sql(f"CREATE TABLE {target} (id BIGINT, rn INT, n BIGINT) TBLPROPERTIES ('write.merge.mode' = '{mode}')")
    spark.sql(f"INSERT INTO {target} VALUES (35, 0, 0)")
    spark.sql(f"""MERGE INTO {target} USING (SELECT x.id, x.rn, x.n FROM
        (SELECT id, k, row_number() OVER (ORDER BY id) AS rn, count(*) OVER () AS n FROM {t}) x
        JOIN {s} s ON x.id = s.id AND x.k = s.k) y ON target.id = y.id
        WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *""")
    assert sorted(map(tuple, spark.table(target).collect())) == [(17, 18, 40), (35, 36, 40)]


@pytest.mark.parametrize("by", ["", "PARTITIONED BY (parent)"], ids=["plain", "partitioned"])
@pytest.mark.parametrize("hint", ["", "/*+ BROADCAST(r) */"], ids=["", "broadcast"])
@pytest.mark.parametrize("adaptive", ["true", "false"], ids=["adaptive", "static"])
def test_each_step_of_a_recursive_query_reads_the_files_it_needs(
    spark: SparkSession, namespace: str, by: str, hint: str, adaptive: str
) -> None:
    """Spark plans the step with the same scan each time."""
    t = f"{namespace}.tree"
    spark.sql(f"CREATE TABLE {t} (id BIGINT, parent BIGINT) {by}")
    spark.sql("SELECT id, (id - 1) DIV 2 AS parent FROM range(1, 15)").repartitionByRange(6, "id").writeTo(t).append()
    query = """WITH RECURSIVE r(id, step) AS (SELECT 0L, 0 UNION ALL
        SELECT {hint} t.id, step + 1 FROM {t} t JOIN r ON t.parent = r.id) SELECT step, count(*) FROM r GROUP BY step"""
    with settings(spark, {"spark.sql.adaptive.enabled": adaptive}):
        found = spark.sql(query.format(hint=hint, t=t)).collect()
    assert sorted(map(tuple, found)) == [(0, 1), (1, 2), (2, 4), (3, 8)]
