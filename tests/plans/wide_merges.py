"""Random MERGEs over `wide_tables.py`: conditions, sources and clauses in words that Spark and DuckDB share.

What a text says differently in DuckDB is in `for_duck`. Where a target row may meet several source rows, which DuckDB
refuses, its answer is that of two simpler statements.
"""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import dataclass, field, replace
from typing import Any

from lakemend import AmbiguousMergeError
from tests.differential.oracle import describe_difference
from tests.plans.merge_model import JOINS as SIMPLE_JOINS
from tests.plans.merge_model import SKEW
from tests.plans.wide_tables import Setting, Tables
from tests.settings import settings

ON = [
    "t.k = s.k",
    "s.k = t.k",
    "t.k <=> s.k",
    "t.k = s.k AND t.j = s.j",
    "t.k = s.k AND t.j <=> s.j",
    "t.k <=> s.k AND t.p <=> s.p",
    "t.k = s.k AND t.p = s.p",
    "t.p = s.p AND t.j = s.j AND t.k = s.k",
    "t.k = s.k AND t.id >= s.lo",
    "t.k = s.k AND s.n % 2 = 0",
    "t.k = s.k AND t.p = 1",
    "t.k = s.k AND t.j > s.j",
    "t.k = s.k AND (t.v = 'x' OR s.w = 'a')",
    "t.id = s.n",
    "t.id = s.n AND t.k <=> s.k",
    "t.id + 1 = s.lo",
    "t.id % 10 = s.n",
    "t.st.a = s.n",
    "coalesce(t.j, 7) = coalesce(s.j, 7) AND t.id = s.n",
    "CAST(t.id AS STRING) = CAST(s.n AS STRING)",
    "NOT (t.id <> s.n)",
    "t.id = s.n AND (t.k = s.k OR t.k IS NULL OR t.j < 3)",
    "t.id = s.lo OR t.id = s.hi + 40",
    "t.id >= s.lo AND t.id < s.hi",
    "t.id BETWEEN s.lo AND s.hi",
    "t.k IS NULL AND s.k IS NULL AND t.id = s.n",
    "t.p = s.p AND t.id = s.n",
    "t.id IN (s.n, s.n + 50)",
    "false",
    "t.id = 3 AND s.n = 2",
    "t.id < 0",
]
OF_TEXT = ["upper(t.k) = upper(s.k)", "t.k = upper(s.k)", "t.k || '-' = s.k || '-' AND t.j <=> s.j"]
UPDATES = [
    "UPDATE SET v = s.w",
    "UPDATE SET v = t.v || '!', p = t.p + 1",
    "UPDATE SET k = CAST(s.k AS {k}), j = s.j",
    "UPDATE SET st.a = s.n",
    "UPDATE SET st.b = s.w, p = s.p, v = NULL",
    "UPDATE SET id = t.id + 2000, j = NULL",
]
_STRUCT = "named_struct('a', s.lo, 'b', s.w)"
INSERTS = [
    f"INSERT (id, k, j, v, p, st) VALUES (s.n + 1000, CAST(s.k AS {{k}}), s.j, s.w, s.p, {_STRUCT})",
    "INSERT (id, v) VALUES (s.n + 3000, 'in')",
    "INSERT (id, k, p) VALUES (s.n + 7000, CAST(s.k AS {k}), 2)",
]
ALONE = ["UPDATE SET v = 'alone'", "UPDATE SET p = t.j, st.b = 'alone'", "DELETE", "DELETE"]
OF_BOTH = ["t.j > s.j", "s.w = 'a'", "t.p = 1", "t.st.a IS NULL", "s.n % 2 = 0 AND t.v = 'x'", "t.j = 9", "s.lo > 5"]
OF_SOURCE = ["s.lo > 5", "s.k IS NOT NULL", "s.w = 'b'", "s.j = s.p"]
OF_TARGET = ["t.p = 0", "t.id < 6", "t.k IS NULL", "t.st.b = 'b'", "t.v IS NULL"]

COLUMNS = "n, k, j, lo, hi, w, p"
OF_TARGET_ITSELF = "id AS n, CAST(k AS {k_of_source}) AS k, j, id AS lo, id + 1 AS hi, 't' AS w, p"
NUMBER = "row_number() OVER (PARTITION BY k ORDER BY n)"
GROUPS = "min(n) AS n, k, min(j) AS j, min(lo) AS lo, max(hi) AS hi, max(w) AS w, max(p) AS p"
# {s}: the source's rows, {t}: the target itself.
SOURCES = [
    *["SELECT {hint}* FROM {s} x"] * 6,
    f"SELECT {{hint}}{COLUMNS} FROM (SELECT *, {NUMBER} AS r FROM {{s}} x) x WHERE r = 1",
    f"SELECT {{hint}}{GROUPS} FROM {{s}} x GROUP BY k",
    "SELECT {hint}* FROM {s} x ORDER BY n LIMIT 20",
    "SELECT {hint}* FROM {s} x ORDER BY n DESC LIMIT 30 OFFSET 3",
    "SELECT {hint}* FROM {s} x WHERE n % 2 = 0 UNION ALL SELECT * FROM {s} WHERE n % 2 = 1",
    "SELECT * FROM {s} UNION SELECT * FROM {s}",
    "SELECT {hint}* FROM {s} x WHERE k IN (SELECT CAST(k AS {k_of_source}) FROM {t} WHERE id % 2 = 0)",
    "SELECT {hint}* FROM {s} x WHERE NOT EXISTS (SELECT 1 FROM {t} o WHERE o.id = x.n AND o.j = 1)",
    "SELECT {hint}* FROM {s} x WHERE n < (SELECT count(*) FROM {t})",
    "SELECT {hint}x.n, x.k, x.j, o.id AS lo, x.hi, x.w, o.p FROM {s} x JOIN {t} o ON o.id = x.n",
    "SELECT {hint}x.n, x.k, x.j, o.id AS lo, x.hi, x.w, o.p FROM {s} x LEFT JOIN {t} o ON o.id = x.lo",
    f"SELECT {{hint}}{OF_TARGET_ITSELF} FROM {{t}} x WHERE id % 3 = 0",
    f"SELECT * FROM {{s}} WHERE n >= 30 UNION ALL SELECT {OF_TARGET_ITSELF} FROM {{t}} WHERE id < 30",
    "SELECT {hint}x.* FROM {s} x WHERE rand() >= 0",
    "WITH c AS (SELECT * FROM {s} WHERE n > 2) SELECT a.* FROM c a JOIN c b ON a.n = b.n",
    f"SELECT {{hint}}{COLUMNS} FROM (SELECT *, count(*) OVER (PARTITION BY k) AS c FROM {{s}} x) x WHERE c = 1",
    "SELECT {hint}* FROM {s} x WHERE false",
    "SELECT {hint}n, k, j, lo, hi, max(w) OVER (PARTITION BY p) AS w, p FROM {s} x",
]
HINTS = ["", "", "", "BROADCAST(x)", "MERGE(x)", "SHUFFLE_HASH(x)", "SHUFFLE_REPLICATE_NL(x)", "REPARTITION(5)"]
NO_BROADCAST = {"spark.sql.autoBroadcastJoinThreshold": "-1", "spark.sql.adaptive.autoBroadcastJoinThreshold": "-1"}
BLOOM = {
    "spark.sql.optimizer.runtime.bloomFilter.enabled": "true",
    "spark.sql.optimizer.runtime.bloomFilter.applicationSideScanSizeThreshold": "0",
    "spark.sql.optimizer.runtime.bloomFilter.creationSideThreshold": "1g",
}
GROUPED = "spark.lakemend.planning.preserveDataGrouping"
BUCKETING = "spark.sql.sources.v2.bucketing"
JOINS: list[list[dict[str, str]]] = [
    *SIMPLE_JOINS,
    [{}, {"spark.lakemend.merge.broadcastThreshold": "-1", **NO_BROADCAST}],
    [{}, {}, {"spark.sql.adaptive.maxShuffledHashJoinLocalMapThreshold": "10m"}],
    [{}, {}, {"spark.sql.adaptive.forceOptimizeSkewedJoin": "true"}],
    [{}, {GROUPED: "true"}],
    [{}, {}, {f"{BUCKETING}.allowJoinKeysSubsetOfPartitionKeys.enabled": "true"}],
    [{}, {}, {f"{BUCKETING}.shuffle.enabled": "false"}],
    [{}, {}, {f"{BUCKETING}.partition.filter.enabled": "true"}],
    [{}, {}, {"spark.sql.requireAllClusterKeysForCoPartition": "true"}],
    [{}, {}, {"spark.sql.optimizer.dynamicPartitionPruning.enabled": "false"}],
    [{}, {}, {"spark.sql.parquet.enableVectorizedReader": "false"}],
    [{}, {}, {}, BLOOM],
    [{}, {}, {}, {"spark.sql.exchange.reuse": "false"}],
    [{}, {}, {}, {"spark.sql.constraintPropagation.enabled": "false"}],
]

LARGE = {"spark.lakemend.merge.broadcastThreshold": "-1", **NO_BROADCAST}
STORED = {GROUPED: "true", **LARGE}
# Settings that go together, for joins that few others lead to.
PROFILES = [
    {"spark.sql.adaptive.enabled": "true", **SKEW, **LARGE},
    {"spark.sql.adaptive.enabled": "true", **SKEW, **LARGE, "spark.sql.join.preferSortMergeJoin": "false"},
    {"spark.sql.join.preferSortMergeJoin": "false", **LARGE},
    {"spark.sql.adaptive.maxShuffledHashJoinLocalMapThreshold": "10m", **LARGE},
    LARGE,
]
# Of tables that are partitioned alike, by these columns.
ALIKE = {
    "p": [
        "t.p = s.p AND t.id = s.n",
        "t.id = s.n AND s.p = t.p",
        "t.p <=> s.p AND t.k <=> s.k",
        "t.p = s.p AND t.k = s.k",
    ],
    "p j": [
        "t.p = s.p AND t.j = s.j AND t.id = s.n",
        "t.p = s.p AND t.id = s.n",
        "t.j <=> s.j AND t.p <=> s.p AND t.k = s.k",
    ],
    "k": ["t.k = s.k", "t.k = s.k AND t.id >= s.lo", "t.k <=> s.k", "t.k = s.k AND t.j = s.j"],
}


def for_duck(text: str) -> str:
    return (
        text.replace("<=>", "IS NOT DISTINCT FROM").replace("rand()", "random()").replace("BINARY", "BLOB")
        .replace("CAST(s.k AS STRING)", "CAST(s.k AS VARCHAR)").replace(" AS TIMESTAMP)", " AS TIMESTAMPTZ)")
        .replace(_STRUCT, "struct_pack(a := s.lo, b := s.w)")
        .replace("st.a = s.n", f"st = {_FIELD.format('s.n', 't.st.b')}")
        .replace("st.b = s.w", f"st = {_FIELD.format('t.st.a', 's.w')}")
        .replace("st.b = 'alone'", f"st = {_FIELD.format('t.st.a', chr(39) + 'alone' + chr(39))}")
        .replace(f"t.st = {_FIELD.format('s.n', 't.st.b')}", "t.st.a = s.n")
    )  # fmt: skip


# A field of a struct that is null makes a struct of the rest that is not.
_FIELD = "struct_pack(a := {}, b := {})"


@dataclass(frozen=True)
class WideMerge:
    on: str
    matched: list[tuple[str, str]]
    unmatched: list[tuple[str, str]]
    alone: list[tuple[str, str]]

    @classmethod
    def drawn(cls, chance: random.Random, kind: str) -> WideMerge:
        def some(conditions: list[str], actions: list[str]) -> list[tuple[str, str]]:
            drawn = [(c, chance.choice(actions)) for c in chance.sample(conditions, chance.choice([0, 0, 0, 1, 2]))]
            return drawn + ([("", chance.choice(actions))] if not drawn or chance.random() < 0.5 else [])

        while True:
            kinds = [chance.random() < share for share in (0.65, 0.6, 0.35)]
            if any(kinds):
                break
        on = ON + (OF_TEXT * 4 if kind == "string" else [])
        return cls(
            chance.choice(on + ON[:10]),
            some(OF_BOTH, [*UPDATES, "DELETE", "DELETE"]) if kinds[0] else [],
            some(OF_SOURCE, INSERTS) if kinds[1] else [],
            some(OF_TARGET, ALONE) if kinds[2] else [],
        )

    @property
    def clauses(self) -> str:
        return " ".join([_when("MATCHED", self.matched), self.inserts, _when("NOT MATCHED BY SOURCE", self.alone)])

    @property
    def inserts(self) -> str:
        return _when("NOT MATCHED", self.unmatched)

    @property
    def minds_several(self) -> bool:
        return bool(self.matched) and self.matched != [("", "DELETE")]


def _when(what: str, clauses: list[tuple[str, str]]) -> str:
    return " ".join(f"WHEN {what}{' AND ' + on if on else ''} THEN {action}" for on, action in clauses)


@dataclass(frozen=True)
class Case:
    merge: WideMerge
    source: str
    conf: dict[str, str] = field(default_factory=dict)

    @classmethod
    def drawn(cls, chance: random.Random, setting: Setting) -> Case:
        hint = chance.choice(HINTS)
        source = chance.choice(SOURCES)
        merge = WideMerge.drawn(chance, setting.key)
        conf = settings_of(chance, JOINS)
        if chance.random() < 0.5:
            conf |= chance.choice(PROFILES)
        if setting.is_alike and chance.random() < 0.8:
            merge = replace(merge, on=chance.choice(ALIKE[setting.lake_source]))
            source, hint = SOURCES[0], chance.choice(["", "", "SHUFFLE_HASH(x)"])
            conf |= STORED
        return cls(merge, source.replace("{hint}", f"/*+ {hint} */ " if hint else ""), conf)


def settings_of(chance: random.Random, choices: list[list[dict[str, str]]]) -> dict[str, str]:
    conf: dict[str, str] = {}
    for some in choices:
        conf |= chance.choice(some)
    return conf


def check(tables: Tables, case: Case) -> tuple[str, str]:
    """What became of the statement, and the plan it ran by."""
    spark, kind = tables.spark, tables.kind
    words = {"k": kind.sql, "k_of_source": kind.source_sql}
    source = case.source.replace("{s}", tables.source).replace("{t}", tables.target.name)
    clauses, sql_source = _filled(case.merge.clauses, words), _filled(source, words)
    statement = f"MERGE INTO {tables.target.name} t USING ({sql_source}) s ON {case.merge.on} {clauses}"
    shown = f"{tables.setting}\n{case}\n{statement}"
    duck_source = for_duck(_filled(case.source.replace("{s}", "s").replace("{t}", "t"), words))
    tables.duck.execute(f"CREATE OR REPLACE TABLE src AS {duck_source}")
    on = for_duck(case.merge.on)
    several = f"SELECT t.rowid FROM t JOIN src s ON {on} GROUP BY t.rowid HAVING count(*) > 1"
    doubled = len(tables.duck.execute(several).fetchall())
    ambiguous = doubled if case.merge.minds_several else 0
    before, version = tables.expected(), tables.target.version
    assert tables.found() == before, f"the target is not what was written: {shown}"
    with settings(spark, case.conf):
        try:
            frame = spark.sql(statement)
            plan = frame._jdf.queryExecution().executedPlan().toString()
        except AmbiguousMergeError as error:
            assert ambiguous, f"refused for no reason: {shown}\n{error}"
            assert error.count == ambiguous, f"{error.count} for {ambiguous} rows: {shown}"
            assert tables.target.version == version
            return "ambiguous", ""
    assert not ambiguous, f"accepted with {ambiguous} ambiguous rows: {shown}"
    counts = _in_duck(tables, case.merge, on, words, bool(doubled))
    found, wanted = tables.found(), tables.expected()
    assert found == wanted, f"{describe_difference(wanted, found)}: {shown}\n{plan}"
    if tables.target.version == version:
        assert not counts, f"{counts} but no version: {shown}"
        return "nothing", plan
    report = tables.target.history(1)[0]["metrics"]
    if not case.merge.matched and not case.merge.alone:
        report = {"numTargetRowsInserted": report["numOutputRows"]}  # an append
    told = {kind: report.get(f"numTargetRows{name}", 0) for kind, name in _TOLD.items()}
    assert told == {kind: counts[kind] for kind in _TOLD}, f"{report} for {counts}: {shown}"
    gone, came, changes = tables.feed(tables.target.version)
    assert before - gone + came == wanted, f"changes {changes} do not lead from one version to the next: {shown}"
    if tables.layout.feed:
        changed = {"insert": counts["INSERT"], "delete": counts["DELETE"], "update_preimage": counts["UPDATE"],
                   "update_postimage": counts["UPDATE"]}  # fmt: skip
        assert +Counter(changed) == changes, f"{changes} for {counts}: {shown}"
    return "changed", plan


_TOLD = {"INSERT": "Inserted", "UPDATE": "Updated", "DELETE": "Deleted"}


def _filled(text: str, words: dict[str, str]) -> str:
    for name, word in words.items():
        text = text.replace("{" + name + "}", word)
    return text


def _in_duck(tables: Tables, merge: WideMerge, on: str, words: dict[str, str], doubled: bool) -> Counter[str]:
    def run(text: str) -> Counter[str]:
        rows: list[Any] = tables.duck.execute(for_duck(_filled(text, words)) + " RETURNING merge_action").fetchall()
        return Counter(row[0] for row in rows)

    if not doubled:
        return run(f"MERGE INTO t USING src s ON {on} {merge.clauses}")
    done: Counter[str] = Counter()
    tables.duck.execute(
        f"CREATE OR REPLACE TABLE new AS SELECT * FROM src s WHERE NOT EXISTS (SELECT 1 FROM t WHERE {on})"
    )
    tables.duck.execute(f"CREATE OR REPLACE TABLE met AS SELECT DISTINCT t.rowid AS met FROM t JOIN src s ON {on}")
    if merge.matched or merge.alone:
        kept = [_when("MATCHED", merge.matched), _when("NOT MATCHED BY SOURCE", merge.alone)]
        done += run(f"MERGE INTO t USING met s ON t.rowid = s.met {' '.join(kept)}")
    if merge.unmatched:
        done += run(f"MERGE INTO t USING new s ON false {merge.inserts}")
    return done
