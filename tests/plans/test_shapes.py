"""Random queries over random tables: whatever files a join rules out and however it is planned, DuckDB's answer."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator
from typing import Any

import duckdb
import pytest
from pyspark.sql import SparkSession

from tests.plans.exchanges import NO_BROADCAST, SWITCH
from tests.plans.shapes import COLUMNS, Shapes, for_duck
from tests.settings import settings

PRUNING = "spark.sql.optimizer.dynamicPartitionPruning.enabled"
QUERIES = 12
CHOICES: list[list[dict[str, str]]] = [
    [{}, {"spark.sql.adaptive.enabled": "false"}],
    [{SWITCH: "true"}, {SWITCH: "false"}, {}],
    [{}, {}, {}, NO_BROADCAST],
    [{}, {}, {"spark.sql.codegen.wholeStage": "false"}],
    [{}, {}, {"spark.sql.parquet.enableVectorizedReader": "false"}],
    [{}, {}, {"spark.sql.exchange.reuse": "false"}],
]


class Tables:
    """Three tables in Spark and in DuckDB: a larger one in files by k, one partitioned by k or g, a small one."""

    def __init__(self, spark: SparkSession, namespace: str, chance: random.Random) -> None:
        self.spark = spark
        self.namespace = namespace
        self.names = ["big", "parted", "small"]
        self.duck = duckdb.connect()
        spread, by = chance.choice([6, 12, 20]), chance.choice(["k", "g"])
        k = f"CASE WHEN id % 11 = 7 THEN NULL ELSE CAST(id * {chance.choice([1, 3])} % {spread} AS INT) END AS k"
        g = "CASE WHEN id % 13 = 5 THEN NULL ELSE CAST(id % 3 AS INT) END AS g"
        rows = f"SELECT id, {k}, {g}, CAST(id * 7 % 10 AS INT) AS v FROM range({{}}, {{}})"
        spark.sql(rows.format(0, 60)).repartitionByRange(6, "k").writeTo(self.table("big")).create()
        spark.sql(rows.format(20, 70)).coalesce(1).writeTo(self.table("parted")).partitionedBy(by).create()
        some = spark.sql(rows.format(0, 70)).where(f"id % 23 = {chance.randint(0, 9)} OR k = {chance.randint(0, 5)}")
        some.coalesce(2).writeTo(self.table("small")).create()
        if chance.random() < 0.5:
            spark.sql(f"ALTER TABLE {self.table('big')} SET TBLPROPERTIES ('write.delete.mode' = 'merge-on-read')")
            spark.sql(f"DELETE FROM {self.table('big')} WHERE id % 10 = 3")
        for name in self.names:
            copied = spark.table(self.table(name)).toArrow()
            self.duck.register("copied", copied)
            self.duck.execute(f"CREATE TABLE {name} AS SELECT * FROM copied")
            self.duck.unregister("copied")

    def table(self, name: str) -> str:
        return f"{self.namespace}.{name}"

    def in_spark(self, text: str) -> str:
        for name in self.names:
            text = text.replace(f"FROM {name}", f"FROM {self.table(name)}")
        return text

    def expected(self, text: str) -> Counter[Any]:
        return Counter(self.duck.execute(for_duck(text)).fetchall())

    def found(self, text: str, conf: dict[str, str]) -> tuple[Counter[Any], str]:
        with settings(self.spark, conf):
            frame = self.spark.sql(self.in_spark(text))
            rows = Counter(map(tuple, frame.collect()))
        return rows, frame._jdf.queryExecution().executedPlan().toString()


@pytest.fixture
def chance(request: pytest.FixtureRequest) -> random.Random:
    return random.Random(request.node.callspec.params["seed"])


@pytest.fixture
def tables(spark: SparkSession, namespace: str, chance: random.Random) -> Iterator[Tables]:
    made = Tables(spark, namespace, chance)
    yield made
    made.duck.close()


def chosen(chance: random.Random) -> dict[str, str]:
    conf: dict[str, str] = {}
    for options in CHOICES:
        conf |= chance.choice(options)
    return conf


def compare(tables: Tables, chance: random.Random, queries: int, prunings: tuple[str, ...]) -> int:
    """How many scans were pruned by keys."""
    pruned = 0
    shapes = Shapes(chance, tables.names)
    for number in range(queries):
        text = shapes.query()
        expected = tables.expected(text)
        for pruning in prunings:
            conf = {**chosen(chance), PRUNING: pruning}
            rows, plan = tables.found(text, conf)
            pruned += " keys of " in plan
            where = f"query {number}, {conf}\n{tables.in_spark(text)}"
            assert rows == expected, f"{where}\nmissing {expected - rows}\nextra {rows - expected}\n{plan}"
    return pruned


@pytest.mark.parametrize("seed", range(2))
def test_some(tables: Tables, chance: random.Random, seed: int) -> None:
    compare(tables, chance, 6, ("true",))


@pytest.fixture(scope="module")
def pruned_by_seed() -> Iterator[list[int]]:
    found: list[int] = []
    yield found
    # The queries of one seed may happen to have nothing to prune.
    assert len(found) < 5 or sum(map(bool, found)) > len(found) / 2


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(100, 160))
def test_many(tables: Tables, chance: random.Random, pruned_by_seed: list[int], seed: int) -> None:
    pruned_by_seed.append(compare(tables, chance, QUERIES, ("true", "false")))


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(300, 330))
@pytest.mark.parametrize("mode", ["copy-on-write", "merge-on-read"])
def test_merges(tables: Tables, chance: random.Random, seed: int, mode: str) -> None:
    """Rows of random queries as the source, in which no id comes twice."""
    shapes = Shapes(chance, tables.names)
    target = tables.table("target")
    spark = tables.spark
    for number in range(4):
        found = f"({shapes.query()}) q WHERE id IS NOT NULL"
        source = f"SELECT id, max(k) AS k, max(g) AS g, max(v) AS v FROM {found} GROUP BY id"
        expected = tables.expected(
            f"WITH s AS MATERIALIZED ({source}) SELECT {COLUMNS} FROM s UNION ALL "
            f"SELECT {COLUMNS} FROM big WHERE id NOT IN (SELECT id FROM s)"
        )
        spark.sql(f"DROP TABLE IF EXISTS {target}")
        whole = spark.table(tables.table("big")).repartitionByRange(5, "id")
        whole.writeTo(target).tableProperty("write.merge.mode", mode).create()
        conf = chosen(chance)
        with settings(spark, conf):
            spark.sql(
                f"MERGE INTO {target} USING ({tables.in_spark(source)}) s ON target.id = s.id "
                "WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *"
            )
        rows = Counter(map(tuple, spark.sql(f"SELECT {COLUMNS} FROM {target}").collect()))
        assert rows == expected, (
            f"merge {number}, {conf}\n{tables.in_spark(source)}\nmissing {expected - rows}\nextra {rows - expected}"
        )
