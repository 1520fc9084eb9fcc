"""`table.join_advice(…)` against the plans that ran: it says which sides are shuffled, and Spark shuffles these.

The tables are tiny, so broadcasting is off and the switch is `true` but where a case is about them. The sides that were
shuffled are read from the plan: the table that is scanned below each exchange.
"""

from __future__ import annotations

import random
import re
from collections.abc import Iterator
from typing import Any

import pytest
from pyspark.sql import SparkSession

import lakemend
from lakemend.brain import join_sides
from tests.plans.exchanges import NO_BROADCAST, SWITCH, Ran, ran
from tests.settings import settings

NS = "lake.advice"
TYPES = {
    "tiny": ("TINYINT", "CAST(id % 3 AS TINYINT)"),
    "small": ("SMALLINT", "CAST(id % 3 AS SMALLINT)"),
    "int": ("INT", "CAST(id % 3 AS INT)"),
    "long": ("BIGINT", "id % 3"),
    "text": ("STRING", "CAST(id % 3 AS STRING)"),
    "char": ("CHAR(5)", "CAST(id % 3 AS STRING)"),
    "varchar": ("VARCHAR(5)", "CAST(id % 3 AS STRING)"),
    "dec": ("DECIMAL(10,2)", "CAST(id % 3 AS DECIMAL(10,2))"),
    "dec2": ("DECIMAL(12,0)", "CAST(id % 3 AS DECIMAL(12,0))"),
    "date": ("DATE", "DATE'2020-01-01' + CAST(id % 3 AS INT)"),
    "time": ("TIMESTAMP", "TIMESTAMP'2020-01-01 00:00:00' + CAST(id % 3 AS INT) * INTERVAL '1' DAY"),
    "local": ("TIMESTAMP_NTZ", "TIMESTAMP_NTZ'2020-01-01 00:00:00' + CAST(id % 3 AS INT) * INTERVAL '1' DAY"),
    "day_text": ("STRING", "CAST(DATE'2020-01-01' + CAST(id % 3 AS INT) AS STRING)"),
    "double": ("DOUBLE", "CAST(id % 3 AS DOUBLE)"),
    "bytes": ("BINARY", "CAST(CAST(id % 3 AS STRING) AS BINARY)"),
}


@pytest.fixture(params=[pytest.param("adaptive", marks=pytest.mark.slow), "static"], autouse=True)
def planner(request: pytest.FixtureRequest, spark: SparkSession) -> Iterator[str]:
    adaptive = str(request.param == "adaptive").lower()
    with settings(spark, {**NO_BROADCAST, SWITCH: "true", "spark.sql.adaptive.enabled": adaptive}):
        yield request.param


@pytest.fixture(scope="module", autouse=True)
def tables(spark: SparkSession) -> Iterator[None]:
    spark.sql(f"CREATE NAMESPACE {NS}")
    p, q = "CAST(id % 5 AS INT)", "'q' || (id % 3)"
    for name, by, rows in [
        ("a", "p", f"SELECT id, {p} AS p, {q} AS q FROM range(40)"),
        ("same", "p", f"SELECT id, 4 - {p} AS p, {q} AS q FROM range(40)"),
        ("other", "p", "SELECT id, CAST(id % 7 AS INT) AS p, 'q' AS q FROM range(40)"),
        ("nulls", "p", f"SELECT id, nullif({p}, 0) AS p, {q} AS q FROM range(40)"),
        ("pq", "p, q", f"SELECT id, {p} AS p, {q} AS q FROM range(60)"),
        ("pq2", "p, q", f"SELECT id, CAST(id % 4 AS INT) AS p, {q} AS q FROM range(60)"),
        ("qp", "q, p", f"SELECT id, {p} AS p, {q} AS q FROM range(60)"),
        ("q", "q", f"SELECT id, {p} AS p, {q} AS q FROM range(60)"),
        ("one", "p", "SELECT id, 1 AS p, 'q' AS q FROM range(60)"),
        ("skewed", "p", "SELECT id, greatest(CAST(id AS INT) - 4998, 0) AS p, uuid() AS q FROM range(5002)"),
        ("loose", "", f"SELECT id, {p} AS p, {q} AS q FROM range(40)"),
        ("empty", "p", ""),
        ("silent", "p", f"SELECT id, {p} AS p, {q} AS q FROM range(40)"),
        ("renamed", "p", f"SELECT id, {p} AS p, {q} AS q FROM range(40)"),
    ]:  # fmt: skip
        partitioned = f"PARTITIONED BY ({by})" if by else ""
        spark.sql(f"CREATE TABLE {NS}.{name} (id BIGINT, p INT, q STRING) {partitioned}")
        if rows:
            spark.sql(f"INSERT INTO {NS}.{name} {rows}")
    spark.sql(f"ALTER TABLE {NS}.silent SET TBLPROPERTIES ('lakemend.planning.preserveDataGrouping' = 'false')")
    spark.sql(f"ALTER TABLE {NS}.renamed SET TBLPROPERTIES ('delta.columnMapping.mode' = 'name')")
    spark.sql(f"ALTER TABLE {NS}.renamed RENAME COLUMN p TO part")
    for name, (type, value) in TYPES.items():
        spark.sql(f"CREATE TABLE {NS}.t_{name} (id BIGINT, p {type}) PARTITIONED BY (p)")
        spark.sql(f"INSERT INTO {NS}.t_{name} SELECT id, {value} FROM range(12)")
    yield
    spark.sql(f"DROP NAMESPACE {NS} CASCADE")


def shuffled_tables(done: Ran) -> list[str]:
    """The table below each exchange."""
    below = re.split(r"\bExchange (?=hash|range|keyed|round|Keyed|Hash|Round|Range)", done.plan)[1:]
    found = [re.search(rf"lakemend {re.escape(NS)}\.(\w+) ", text) for text in below]
    assert len(found) == done.exchanges and all(found), done.plan
    return [match[1] for match in found if match]


def check(spark: SparkSession, left: str, right: str, on: Any, conf: dict[str, str] | None = None) -> Any:
    """The advice, once the plan has proved it."""
    pairs = [(c, c) if isinstance(c, str) else c for c in ([on] if isinstance(on, str) else on)]
    condition = " AND ".join(f"l.{a} = r.{b}" for a, b in pairs)
    with settings(spark, conf or {}):
        advice = lakemend.table(spark, f"{NS}.{left}").join_advice(f"{NS}.{right}", on=on)
        done = ran(spark, f"SELECT * FROM {NS}.{left} l JOIN {NS}.{right} r ON {condition}")
    names = {"left": left, "right": right}
    assert sorted(shuffled_tables(done)) == sorted(names[side] for side in advice.shuffled), f"{advice}\n{done.plan}"
    assert advice.shuffle_free == (done.exchanges == 0)
    assert bool(advice.obstacles) == (not advice.shuffle_free)
    return advice


@pytest.mark.parametrize(
    ("left", "right", "on", "shuffled"),
    [
        ("a", "same", "p", ()),
        ("a", "other", ["p", "id"], ()),
        ("a", "nulls", ["id", "p"], ()),
        ("one", "a", "p", ()),
        ("pq", "a", "p", ()),
        ("pq", "a", ["p", "id"], ()),
        ("pq", "pq2", ["q", "p"], ()),
        ("pq", "pq2", ["q", "id"], ()),
        ("pq", "qp", "p", ()),
        ("renamed", "a", [("part", "p"), ("id", "id")], ()),
        ("pq", "pq2", [("p", "p"), ("p", "id")], ()),
        ("pq", "qp", ["p", "q"], ("right",)),
        ("pq", "a", ["p", "q"], ("right",)),
        ("a", "pq", ["p", "q"], ("left",)),
        ("pq2", "q", ["p", "q", "id"], ("right",)),
        ("a", "q", ["p", "q"], ("right",)),
        ("a", "loose", "p", ("right",)),
        ("loose", "a", ["id", "p"], ("left",)),
        ("a", "other", "id", ("left", "right")),
        ("loose", "pq", "id", ("left", "right")),
        ("a", "other", [("p", "id")], ("left", "right")),
    ],
)
def test_layouts(spark: SparkSession, left: str, right: str, on: Any, shuffled: tuple[str, ...]) -> None:
    assert check(spark, left, right, on).shuffled == shuffled


@pytest.mark.parametrize(
    ("left", "right"),
    [
        ("int", "long"), ("small", "tiny"), ("int", "text"), ("text", "long"), ("dec", "dec2"), ("dec", "int"),
        ("tiny", "dec"), ("dec", "text"), ("date", "time"), ("date", "local"), ("time", "local"), ("date", "day_text"),
        ("day_text", "time"), ("double", "int"), ("char", "text"), ("varchar", "text"),
    ],
)  # fmt: skip
def test_types(spark: SparkSession, left: str, right: str) -> None:
    check(spark, f"t_{left}", f"t_{right}", "p")


def test_types_that_are_never_grouped_by(spark: SparkSession) -> None:
    for name in ("double", "bytes", "char"):
        spark.sql(f"CREATE OR REPLACE TABLE {NS}.twin PARTITIONED BY (p) AS SELECT * FROM {NS}.t_{name}")
        assert check(spark, f"t_{name}", "twin", "p").shuffled == ("left", "right")


def test_text_beside_numbers_without_ansi(spark: SparkSession) -> None:
    legacy = {"spark.sql.ansi.enabled": "false"}
    assert check(spark, "t_int", "t_text", "p", legacy).shuffled == ("right",)


OFF, ON = "false", "true"


@pytest.mark.parametrize(
    ("left", "right", "on", "conf", "shuffles"),
    [
        ("a", "other", "p", {join_sides.ENABLED: OFF}, 2),
        ("a", "other", "p", {join_sides.PUSH_VALUES: OFF}, 0),
        ("a", "other", "p", {join_sides.PUSH_VALUES: OFF, join_sides.SUBSET: OFF}, 1),
        ("a", "same", ["p", "id"], {join_sides.PUSH_VALUES: OFF, join_sides.SUBSET: OFF}, 0),
        ("pq", "pq2", "p", {join_sides.SUBSET: OFF}, 2),
        ("pq", "a", "p", {join_sides.SUBSET: OFF}, 1),
        ("pq", "pq2", ["p", "q"], {join_sides.SUBSET: OFF}, 0),
        ("a", "other", ["p", "id"], {join_sides.ALL_KEYS: ON}, 1),
        ("a", "same", ["p", "id"], {join_sides.ALL_KEYS: ON}, 0),
        ("a", "same", ["p", "id"], {join_sides.ALL_KEYS: ON, join_sides.SHUFFLE_ONE: OFF}, 2),
        ("a", "other", "p", {join_sides.ALL_KEYS: ON}, 0),
        ("pq", "pq2", "p", {join_sides.ALL_KEYS: ON}, 1),
        ("a", "other", ["p", "id"], {join_sides.ALL_KEYS_ANYWHERE: ON}, 2),
        ("pq", "pq2", ["q", "p"], {join_sides.ALL_KEYS_ANYWHERE: ON}, 0),
        ("a", "loose", "p", {join_sides.SHUFFLE_ONE: OFF}, 2),
        ("pq", "qp", ["p", "q"], {join_sides.SHUFFLE_ONE: OFF}, 2),
        ("a", "loose", "p", {join_sides.PARTIAL: ON}, 2),
        ("a", "other", "p", {join_sides.PARTIAL: ON}, 0),
    ],
)
def test_settings(spark: SparkSession, left: str, right: str, on: Any, conf: dict[str, str], shuffles: int) -> None:
    assert len(check(spark, left, right, on, conf).shuffled) == shuffles


@pytest.mark.parametrize(
    ("left", "right", "switch", "shuffled"),
    [
        ("a", "other", "false", ("left", "right")),
        ("a", "other", "auto", ()),
        ("a", "one", "auto", ("right",)),  # one value for two cores
        ("skewed", "a", "auto", ("left",)),
        ("skewed", "a", "true", ()),
        ("silent", "a", "auto", ()),  # the session has the last word
    ],
)
def test_the_switch(spark: SparkSession, left: str, right: str, switch: str, shuffled: tuple[str, ...]) -> None:
    assert check(spark, left, right, "p", {SWITCH: switch}).shuffled == shuffled


CHOICES = {
    join_sides.ENABLED: (ON, ON, ON, ON, ON, OFF),
    join_sides.PUSH_VALUES: (ON, ON, OFF),
    join_sides.SHUFFLE_ONE: (ON, ON, OFF),
    join_sides.SUBSET: (ON, ON, OFF),
    join_sides.PARTIAL: (OFF, OFF, OFF, OFF, ON),
    join_sides.ALL_KEYS: (OFF, OFF, ON),
    join_sides.ALL_KEYS_ANYWHERE: (OFF, OFF, OFF, OFF, ON),
    SWITCH: ("true", "true", "auto"),
}


def test_any_combination(spark: SparkSession, planner: str) -> None:
    """Plans are made, not run: what adaptive execution would change is not in question here."""
    if planner == "adaptive":
        pytest.skip("a plan that is adaptive has its exchanges once it runs")
    chance = random.Random(20)
    names = ["a", "same", "other", "nulls", "pq", "pq2", "qp", "q", "one", "loose", "empty", "t_long", "t_int"]
    seen: set[int] = set()
    for _ in range(150):
        left, right = chance.sample(names, 2)
        columns = ["id", "p"] if "t_" in left + right else ["id", "p", "q"]
        on = chance.sample(columns, chance.randint(1, len(columns)))
        conf = {key: chance.choice(values) for key, values in CHOICES.items()}
        with settings(spark, conf):
            advice = lakemend.table(spark, f"{NS}.{left}").join_advice(f"{NS}.{right}", on=on)
            condition = " AND ".join(f"l.{column} = r.{column}" for column in on)
            frame = spark.sql(f"SELECT * FROM {NS}.{left} l JOIN {NS}.{right} r ON {condition}")
            plan = Ran([], frame._jdf.queryExecution().executedPlan().toString())
        expected = sorted({"left": left, "right": right}[side] for side in advice.shuffled)
        assert sorted(shuffled_tables(plan)) == expected, f"{conf}\n{advice}\n{plan.plan}"
        assert bool(advice.obstacles) == bool(advice.shuffled)
        seen.add(len(advice.shuffled))
    assert seen == {0, 1, 2}


def test_a_table_and_a_read_that_say_no(spark: SparkSession) -> None:
    a = lakemend.table(spark, f"{NS}.a")
    spark.conf.unset(SWITCH)  # the planner fixture sets it back
    advice = check(spark, "silent", "a", "p")
    assert advice.shuffled == ("left",) and "lakemend.planning.preserveDataGrouping is false" in str(advice)
    advice = a.join_advice(f"{NS}.silent", on="p", options={"PreserveDataGrouping": "true"})
    option = "WITH ('preserveDataGrouping' = '{v}')"
    query = f"SELECT * FROM {{t}}.a {option} l JOIN {{t}}.silent {option} r"
    done = ran(spark, query.format(t=NS, v="true") + " ON l.p = r.p")
    assert advice.shuffle_free and done.exchanges == 0
    done = ran(spark, query.format(t=NS, v="false") + " ON l.p = r.p")
    refused = a.join_advice(f"{NS}.silent", on="p", options={"preserveDataGrouping": "false"})
    assert len(refused.shuffled) == done.exchanges == 2
    with settings(spark, {SWITCH: "maybe"}), pytest.raises(lakemend.InvalidInputError, match="auto, true or false"):
        a.join_advice(f"{NS}.other", on="p")


def test_an_empty_side(spark: SparkSession, planner: str) -> None:
    """Adaptive execution takes the join out of the plan once it has seen that a side is empty."""
    advice = lakemend.table(spark, f"{NS}.a").join_advice(f"{NS}.empty", on="p")
    assert advice.shuffled == ("right",) and "has no partition values" in str(advice)
    if planner == "static":
        check(spark, "a", "empty", "p")
        check(spark, "empty", "a", "p")


def test_an_earlier_version(spark: SparkSession) -> None:
    spark.sql(f"CREATE OR REPLACE TABLE {NS}.grown (id BIGINT, p INT) PARTITIONED BY (p)")
    spark.sql(f"INSERT INTO {NS}.grown SELECT id, CAST(id % 3 AS INT) FROM range(9)")
    then = lakemend.table(spark, f"{NS}.grown").version
    spark.sql(f"INSERT INTO {NS}.grown SELECT id, 9 FROM range(9)")
    table = lakemend.table(spark, f"{NS}.grown")
    advice = table.as_of(version=then).join_advice(table, on=["p"])
    done = ran(spark, f"SELECT * FROM {NS}.grown VERSION AS OF {then} AS l JOIN {NS}.grown r ON l.p = r.p")
    assert (advice.left.values, advice.right.values, advice.common) == (3, 4, 3)
    assert advice.shuffle_free and done.exchanges == 0
    assert table.as_of(version=then - 1).join_advice(table, on="p").shuffled == ("left",)


def test_a_side_that_is_broadcast(spark: SparkSession) -> None:
    a, loose = (lakemend.table(spark, f"{NS}.{name}") for name in ("a", "loose"))
    least, largest = sorted(table.detail()["bytes"] for table in (a, loose))
    for threshold, expected in ((largest, True), (least, True), (least - 1, False)):
        with settings(spark, {"spark.sql.autoBroadcastJoinThreshold": f"{threshold}b"}):
            advice = a.join_advice(f"{NS}.loose", on="p")
            done = ran(spark, f"SELECT * FROM {NS}.a l JOIN {NS}.loose r ON l.p = r.p")
        assert ("BroadcastHashJoin" in done.plan) == expected == bool(advice.broadcast)
        assert advice.shuffle_free == (done.exchanges == 0)
        if expected:
            built = "BuildRight" if advice.broadcast == "right" else "BuildLeft"
            assert built in done.plan and "is broadcast" in str(advice)
