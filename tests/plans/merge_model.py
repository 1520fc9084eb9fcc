"""MERGE as a few lines of Python, statements drawn at random, and the ways Spark can be made to join for them.

The target has the columns (id, k, v, p), the source (n, k, lo, hi, w). A condition is its SQL and the same in Python.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from pyspark.sql import DataFrame, SparkSession

import lakemend
from lakemend import AmbiguousMergeError, Table
from tests.settings import settings


class Old(NamedTuple):
    id: int
    k: int | None
    v: str
    p: int


class New(NamedTuple):
    n: int
    k: int | None
    lo: int
    hi: int
    w: str


class Condition(NamedTuple):
    sql: str
    holds: Callable[[Any, Any], bool]


class Action(NamedTuple):
    sql: str
    row: Callable[[Any, Any], Old] | None  # None: the row goes


def _equal(one: int | None, other: int | None) -> bool:
    return one is not None and one == other


ALWAYS = Condition("", lambda t, s: True)
ON = [
    Condition("t.k = s.k", lambda t, s: _equal(t.k, s.k)),
    Condition("t.k <=> s.k", lambda t, s: t.k == s.k),
    Condition("t.k = s.k AND t.p = 1", lambda t, s: _equal(t.k, s.k) and t.p == 1),
    Condition("t.k = s.k AND t.p = s.lo % 3", lambda t, s: _equal(t.k, s.k) and t.p == s.lo % 3),
    Condition("t.k = s.k AND t.id > s.lo", lambda t, s: _equal(t.k, s.k) and t.id > s.lo),
    Condition("t.id >= s.lo AND t.id < s.hi", lambda t, s: s.lo <= t.id < s.hi),
    Condition("t.id = s.lo OR t.id = s.hi", lambda t, s: t.id in (s.lo, s.hi)),
    Condition("true", lambda t, s: True),
    Condition("t.p = 7", lambda t, s: t.p == 7),
]
UPDATES = [
    Action("UPDATE SET v = s.w", lambda t, s: t._replace(v=s.w)),
    Action("UPDATE SET v = concat(t.v, '!'), p = t.p + 1", lambda t, s: t._replace(v=t.v + "!", p=t.p + 1)),
]
DELETE = Action("DELETE", None)
INSERTS = [
    Action("INSERT (id, k, v, p) VALUES (s.n + 1000, s.k, s.w, 0)", lambda t, s: Old(s.n + 1000, s.k, s.w, 0)),
    Action("INSERT (id, v, p) VALUES (s.n + 2000, 'in', 1)", lambda t, s: Old(s.n + 2000, None, "in", 1)),
]
ALONE = [Action("UPDATE SET v = 'alone'", lambda t, s: t._replace(v="alone")), DELETE]
OF_BOTH = [
    Condition("s.lo > 5", lambda t, s: s.lo > 5),
    Condition("t.p = 1", lambda t, s: t.p == 1),
    Condition("s.w = 'a' AND t.id % 2 = 0", lambda t, s: s.w == "a" and t.id % 2 == 0),
]
OF_SOURCE = [Condition("s.lo > 5", lambda t, s: s.lo > 5), Condition("s.k IS NOT NULL", lambda t, s: s.k is not None)]
OF_TARGET = [Condition("t.p = 0", lambda t, s: t.p == 0), Condition("t.id < 6", lambda t, s: t.id < 6)]

Clauses = list[tuple[Condition, Action]]


@dataclass(frozen=True)
class Merge:
    on: Condition
    matched: Clauses = field(default_factory=list)
    unmatched: Clauses = field(default_factory=list)
    alone: Clauses = field(default_factory=list)

    @property
    def clauses(self) -> str:
        kinds = [("MATCHED", self.matched), ("NOT MATCHED", self.unmatched), ("NOT MATCHED BY SOURCE", self.alone)]
        return " ".join(
            f"WHEN {kind}{' AND ' + condition.sql if condition.sql else ''} THEN {action.sql}"
            for kind, clauses in kinds
            for condition, action in clauses
        )

    @property
    def minds_several(self) -> bool:
        """Whether it matters which of several source rows a target row meets."""
        return bool(self.matched) and not (len(self.matched) == 1 and self.matched[0] == (ALWAYS, DELETE))

    def of(self, target: Sequence[Old], source: Sequence[New]) -> Outcome:
        out = Outcome()
        matched_sources: set[int] = set()
        for t in target:
            matches = [i for i, s in enumerate(source) if self.on.holds(t, s)]
            matched_sources.update(matches)
            if len(matches) > 1 and self.minds_several:
                out.ambiguous += 1
                continue
            s = source[matches[0]] if matches else None
            out.settle(t, _first(self.matched if matches else self.alone, t, s), s)
        for i, s in enumerate(source):
            if i not in matched_sources:
                action = _first(self.unmatched, None, s)
                if action is not None and action.row is not None:
                    row = action.row(None, s)
                    out.rows.append(row)
                    out.changes[("insert", row)] += 1
        return out


@dataclass
class Outcome:
    rows: list[Old] = field(default_factory=list)
    changes: Counter[tuple[str, Old]] = field(default_factory=Counter)
    ambiguous: int = 0

    def settle(self, old: Old, action: Action | None, s: New | None) -> None:
        if action is None:
            self.rows.append(old)
        elif action.row is None:
            self.changes[("delete", old)] += 1
        else:
            new = action.row(old, s)
            self.rows.append(new)
            self.changes[("update_preimage", old)] += 1
            self.changes[("update_postimage", new)] += 1


def _first(clauses: Clauses, t: Old | None, s: New | None) -> Action | None:
    return next((action for condition, action in clauses if condition.holds(t, s)), None)


def draw_merge(chance: random.Random) -> Merge:
    def some(conditions: list[Condition], actions: list[Action]) -> Clauses:
        drawn = [(c, chance.choice(actions)) for c in chance.sample(conditions, chance.choice([0, 0, 1, 2]))]
        return drawn + ([(ALWAYS, chance.choice(actions))] if not drawn or chance.random() < 0.5 else [])

    while True:
        kinds = [chance.random() < share for share in (0.6, 0.6, 0.4)]
        if any(kinds):
            break
    on = chance.choice(ON[:5] * 2 + ON[5:])
    return Merge(
        on,
        some(OF_BOTH, [*UPDATES, DELETE]) if kinds[0] else [],
        some(OF_SOURCE, INSERTS) if kinds[1] else [],
        some(OF_TARGET, ALONE) if kinds[2] else [],
    )


def draw_target(chance: random.Random) -> list[Old]:
    size = chance.choice([0, 1, 12, 30, 60])
    keys = chance.choice([4, 40, 400])
    return [
        Old(i, None if chance.random() < 0.05 else chance.randrange(keys), chance.choice("xy"), chance.randrange(3))
        for i in range(size)
    ]


def draw_source(chance: random.Random, target: Sequence[Old]) -> list[New]:
    size = chance.choice([0, 1, 8, 40, 120])
    known = [t.k for t in target if t.k is not None] or [1]
    distinct = chance.random() < 0.5
    keys = list(range(200, 200 + size)) if distinct else [chance.randrange(400) for _ in range(size)]
    if distinct:
        for place, key in enumerate(dict.fromkeys(known)):
            if place < size and chance.random() < 0.6:
                keys[place] = key
        chance.shuffle(keys)
    elif chance.random() < 0.5:
        keys = [chance.choice(known) if chance.random() < 0.7 else key for key in keys]
    width = chance.choice([0, 0, 1, 5])
    rows = []
    for i, key in enumerate(keys):
        lo = i * 3 if chance.random() < 0.5 else chance.randrange(80)
        rows.append(New(i, None if chance.random() < 0.05 else key, lo, lo + width, chance.choice("ab")))
    return rows


HINTS = ["", "", "", "BROADCAST(x)", "MERGE(x)", "SHUFFLE_HASH(x)", "SHUFFLE_REPLICATE_NL(x)"]
# What decides how Spark joins. Skewed partitions of a few bytes, so that they can be had with a few rows.
SKEW = {
    "spark.sql.adaptive.skewJoin.skewedPartitionThresholdInBytes": "100b",
    "spark.sql.adaptive.skewJoin.skewedPartitionFactor": "0.1",
    "spark.sql.adaptive.advisoryPartitionSizeInBytes": "200b",
    "spark.sql.adaptive.coalescePartitions.enabled": "false",
}
JOINS: list[list[dict[str, str]]] = [
    [{}, {"spark.sql.adaptive.enabled": "false"}],
    [{}, {"spark.lakemend.merge.broadcastThreshold": "-1"}],
    [{}, {"spark.sql.autoBroadcastJoinThreshold": "-1", "spark.sql.adaptive.autoBroadcastJoinThreshold": "-1"}],
    [{}, {}, {"spark.sql.join.preferSortMergeJoin": "false"}],
    [{}, SKEW, {"spark.sql.shuffle.partitions": "7"}],
    [{}, {"spark.lakemend.planning.preserveDataGrouping": "true"}],
    [{}, {}, {"spark.sql.sources.v2.bucketing.partiallyClusteredDistribution.enabled": "true"}],
    [{}, {}, {"spark.sql.codegen.wholeStage": "false"}],
    [{}, {}, {"spark.sql.optimizer.runtime.rowLevelOperationGroupFilter.enabled": "false"}],
]


@dataclass(frozen=True)
class Case:
    merge: Merge
    target: Sequence[Old]
    source: Sequence[New]
    mode: str = "copy-on-write"
    feed: bool = False
    partitioned: bool = False
    files: int = 3
    tasks: int = 1
    hint: str = ""
    lake_source: bool = False
    conf: dict[str, str] = field(default_factory=dict)

    @classmethod
    def drawn(cls, seed: int) -> Case:
        chance = random.Random(seed)
        target = draw_target(chance)
        conf: dict[str, str] = {}
        for choices in JOINS:
            conf |= chance.choice(choices)
        return cls(
            draw_merge(chance), target, draw_source(chance, target), chance.choice(["copy-on-write", "merge-on-read"]),
            chance.random() < 0.4, chance.random() < 0.4, chance.choice([1, 3]), chance.choice([1, 4, 50]),
            chance.choice(HINTS), chance.random() < 0.15, conf,
        )  # fmt: skip

    def statement(self, table: str, source: str) -> str:
        hint = f"/*+ {self.hint} */ " if self.hint else ""
        return (
            f"MERGE INTO {table} t USING (SELECT {hint}* FROM {source} x) s ON {self.merge.on.sql} {self.merge.clauses}"
        )


def make_target(spark: SparkSession, name: str, case: Case) -> Table:
    table = lakemend.table(spark, name)
    frame = spark.createDataFrame(list(case.target), "id BIGINT, k BIGINT, v STRING, p BIGINT")
    properties = {f"write.{verb}.mode": case.mode for verb in ("merge", "update", "delete")}
    if case.feed:
        properties["delta.enableChangeDataFeed"] = "true"
    table.append(
        frame.repartition(case.files), properties=properties, partition_by="p" if case.partitioned else ()
    )  # fmt: skip
    return table


def make_source(spark: SparkSession, case: Case, lake: str) -> str:
    frame = spark.createDataFrame(list(case.source), "n BIGINT, k BIGINT, lo BIGINT, hi BIGINT, w STRING")
    frame = frame.repartition(case.tasks)
    if case.lake_source:
        lakemend.table(spark, lake).append(frame)
        return lake
    frame.createOrReplaceTempView("merge_source")
    return "merge_source"


def rows_of(frame: DataFrame) -> Counter[Old]:
    return Counter(Old(*row) for row in frame.select("id", "k", "v", "p").collect())


def changes_of(spark: SparkSession, table: Table) -> Counter[tuple[str, Old]]:
    text = f"SELECT _change_type, id, k, v, p FROM {table.name} CHANGES FROM VERSION {table.version}"
    return Counter((row[0], Old(*row[1:])) for row in spark.sql(text).collect())


def check(spark: SparkSession, namespace: str, case: Case) -> str:
    """Runs the statement and compares; says what became of it."""
    table = make_target(spark, f"{namespace}.t", case)
    source = make_source(spark, case, f"{namespace}.s")
    before = table.version
    expected = case.merge.of(case.target, case.source)
    statement = case.statement(table.name, source)
    shown = f"{case}\n{statement}"
    with settings(spark, case.conf):
        try:
            spark.sql(statement)
        except AmbiguousMergeError as error:
            assert expected.ambiguous, f"refused for no reason: {shown}\n{error}"
            assert error.count == expected.ambiguous, f"{error.count} for {expected.ambiguous} rows: {shown}"
            assert 1 <= len(error.sample) <= 5
            assert table.version == before
            return "ambiguous"
    assert not expected.ambiguous, f"accepted with {expected.ambiguous} ambiguous rows: {shown}"
    found = rows_of(table.to_df())
    wanted = Counter(expected.rows)
    assert found == wanted, f"too many {found - wanted}, too few {wanted - found}: {shown}"
    if table.version == before:
        assert not expected.changes, shown
        return "nothing"
    counts = Counter(kind for kind, _ in expected.changes.elements())
    report = table.history(1)[0]["metrics"]
    if not case.merge.matched and not case.merge.alone:
        report = {"numTargetRowsInserted": report["numOutputRows"]}  # an append
    told = {kind: report.get(f"numTargetRows{name}", 0) for kind, name in _TOLD.items()}
    assert told == {kind: counts[kind] for kind in _TOLD}, f"{report}: {shown}"
    if case.feed:
        assert changes_of(spark, table) == expected.changes, shown
    return "changed"


_TOLD = {"insert": "Inserted", "update_postimage": "Updated", "delete": "Deleted"}
