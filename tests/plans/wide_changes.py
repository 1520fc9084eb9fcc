"""Random UPDATEs and DELETEs over `wide_tables.py`, whose conditions and values ask the target itself and the source.

The table that is changed goes by the alias t; {s} and {t} stand for the tables that subqueries read.
"""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import dataclass, field

from lakemend import InvalidInputError
from tests.differential.oracle import describe_difference
from tests.plans.wide_merges import JOINS, for_duck, settings_of
from tests.plans.wide_tables import Tables
from tests.settings import settings

CONDITIONS = [
    "t.k IN (SELECT k FROM {s})",
    "t.k NOT IN (SELECT k FROM {s})",
    "t.k NOT IN (SELECT k FROM {s} WHERE k IS NOT NULL)",
    "t.k NOT IN (SELECT k FROM {s} WHERE n < 0)",
    "t.j NOT IN (SELECT j FROM {s} WHERE lo > 10)",
    "NOT (t.j IN (SELECT j FROM {s} WHERE p = 1))",
    "(t.j, t.p) IN (SELECT j, p FROM {s})",
    "(t.j, t.p) NOT IN (SELECT j, p FROM {s} WHERE n % 5 = 0)",
    "(t.j, t.p) NOT IN (SELECT j, p FROM {s} WHERE n % 5 = 0 AND j IS NOT NULL AND p IS NOT NULL)",
    "EXISTS (SELECT 1 FROM {s} o WHERE o.k = t.k)",
    "EXISTS (SELECT 1 FROM {s} o WHERE o.k <=> t.k AND o.j > t.j)",
    "NOT EXISTS (SELECT 1 FROM {s} o WHERE o.k = t.k AND o.n > t.id)",
    "NOT EXISTS (SELECT 1 FROM {s} o WHERE o.lo <= t.id AND t.id < o.hi)",
    "EXISTS (SELECT 1 FROM {s} o WHERE o.lo <= t.id AND t.id < o.hi)",
    "EXISTS (SELECT 1 FROM {s} WHERE w = 'c')",
    "NOT EXISTS (SELECT 1 FROM {s} WHERE n > 1000)",
    "EXISTS (SELECT 1 FROM {t} o WHERE o.id = t.id + 1 AND o.j = t.j)",
    "NOT EXISTS (SELECT 1 FROM {t} o WHERE o.k = t.k AND o.id < t.id)",
    "t.id IN (SELECT id + 1 FROM {t} WHERE p = 1)",
    "t.id NOT IN (SELECT id + 1 FROM {t} WHERE p = 1)",
    "t.k IN (SELECT k FROM {t} GROUP BY k HAVING count(*) > 1)",
    "t.id IN (SELECT max(id) FROM {t} GROUP BY p, j)",
    "t.id IN (SELECT id FROM (SELECT id, row_number() OVER (PARTITION BY p ORDER BY id) AS r FROM {t}) x WHERE r <= 2)",
    "t.id IN (SELECT id FROM {t} ORDER BY id DESC LIMIT 7)",
    "t.id IN (SELECT a.id FROM {t} a JOIN {t} b ON a.id = b.id + 3 WHERE b.v = 'x')",
    "t.id IN (SELECT o.id FROM {t} o JOIN {s} x ON o.id = x.n)",
    "t.id > (SELECT avg(id) FROM {t})",
    "t.j = (SELECT max(j) FROM {s} WHERE {s}.p = t.p)",
    "t.id = (SELECT max(o.id) FROM {t} o WHERE o.p = t.p)",
    "(SELECT count(*) FROM {s} o WHERE o.p = t.p) > 3",
    "(SELECT count(*) FROM {s} o WHERE o.k = t.k) = 0",
    "coalesce((SELECT sum(o.j) FROM {s} o WHERE o.k = t.k), 0) = 0",
    "(SELECT max(o.n) FROM {s} o WHERE o.k = t.k AND o.p = t.p) IS NULL",
    "(SELECT count(DISTINCT o.w) FROM {s} o WHERE o.j = t.j) < 2",
    "(SELECT count(*) FROM {t} o WHERE o.p = t.p AND o.j = t.j) = 1",
    "t.id % 2 = (SELECT count(*) % 2 FROM {s} o WHERE o.p = t.p)",
    "(SELECT count(*) FROM {s} o WHERE o.k = t.k AND o.n > t.id) = 0",
    "(SELECT CASE WHEN count(*) = 0 THEN 1 ELSE max(o.j) END FROM {s} o WHERE o.k = t.k) = 1",
    "t.k IN (SELECT k FROM {s} WHERE w = 'a' UNION ALL SELECT k FROM {s} WHERE p = 2)",
    "t.j IN (SELECT j FROM {s} INTERSECT SELECT p FROM {s})",
    "t.j IN (SELECT j FROM {s} EXCEPT SELECT p FROM {s})",
    "t.k = (SELECT min(k) FROM {s})",
    "t.k > (SELECT max(k) FROM {s} WHERE p = 1)",
    "t.k >= (SELECT min(k) FROM {t} WHERE j = 2)",
    "t.k BETWEEN (SELECT min(k) FROM {s}) AND (SELECT max(k) FROM {s} WHERE w = 'b')",
    "EXISTS (SELECT 1 FROM {s} o JOIN {t} x ON o.n = x.id WHERE x.p = t.p AND o.w = 'a')",
    "EXISTS (SELECT 1 FROM {s} o WHERE o.k = t.k AND EXISTS (SELECT 1 FROM {t} x WHERE x.id = o.n))",
    "NOT EXISTS (SELECT 1 FROM {s} o WHERE o.k = t.k AND o.j NOT IN (SELECT p FROM {s} WHERE p IS NOT NULL))",
    "coalesce(t.k IN (SELECT k FROM {s} WHERE k IS NOT NULL), false)",
    "CASE WHEN t.j IN (SELECT j FROM {s} WHERE j IS NOT NULL) THEN t.p = 1 ELSE t.j = 2 END",
    "t.k IN (SELECT o.k FROM {s} o WHERE o.p = t.p)",
    "t.k NOT IN (SELECT o.k FROM {s} o WHERE o.p = t.p)",
    "t.id NOT IN (SELECT o.n FROM {s} o WHERE o.p = t.p AND o.k = t.k)",
    "t.id IN (SELECT id FROM {t} WHERE k IN (SELECT k FROM {s}))",
    "t.v IN (SELECT w FROM {s}) OR t.v IS NULL",
    "t.p IN (1, 2) AND EXISTS (SELECT 1 FROM {s} o WHERE o.p = t.p AND o.n < 5)",
    "t.j < (SELECT min(j) FROM {s} WHERE n < 0)",
    "t.st.a IN (SELECT n FROM {s})",
    "t.st.b IS NULL AND t.k IN (SELECT k FROM {s} WHERE w = 'a')",
    "t.p IN (SELECT p FROM {s} WHERE w = 'b') AND t.p IS NOT NULL",
    "t.p = (SELECT max(p) FROM {s})",
    "t.v = 'x'",
    "t.p = 1",
    "t.k IS NULL",
    "t.id % 3 = 0",
    "true",
    "t.j > 1 AND NOT (t.p = 2)",
    "t.p = t.j",
]
VALUES = [
    "v = t.v || '!'",
    "v = 'new', j = t.p, p = t.j",
    "st.a = t.id * 2",
    "st.b = t.v, v = t.st.b",
    "st = named_struct('a', t.id, 'b', 'whole')",
    "j = (SELECT max(j) FROM {s} WHERE {s}.p = t.p)",
    "v = (SELECT max(w) FROM {s})",
    "p = (SELECT CAST(count(*) AS INT) FROM {t} o WHERE o.j = t.j)",
    "k = NULL, j = 3",
    "k = t.k, id = t.id + 500",
    "v = CASE WHEN EXISTS (SELECT 1 FROM {s} o WHERE o.k = t.k) THEN 'met' ELSE t.v END",
    "j = (SELECT CAST(count(*) AS INT) FROM {s} o WHERE o.k = t.k)",
    "v = (SELECT max(o.v) FROM {t} o WHERE o.p = t.p), p = t.p",
    "st.a = (SELECT max(n) FROM {s} o WHERE o.p = t.p), p = 1",
]
_IN_DUCK = {
    "st.a = t.id * 2": "st = struct_pack(a := t.id * 2, b := t.st.b)",
    "st.b = t.v, v = t.st.b": "st = struct_pack(a := t.st.a, b := t.v), v = t.st.b",
    "st = named_struct('a', t.id, 'b', 'whole')": "st = struct_pack(a := t.id, b := 'whole')",
    "st.a = (SELECT max(n) FROM {s} o WHERE o.p = t.p), p = 1":
        "st = struct_pack(a := (SELECT max(n) FROM {s} o WHERE o.p = t.p), b := t.st.b), p = 1",
}  # fmt: skip
# Rows are found by a join, or asked for apart.
CHOICES = [
    *JOINS,
    [{}, {}, {"spark.sql.optimizeNullAwareAntiJoin": "false"}],
    [{}, {}, {"spark.sql.optimizer.decorrelateInnerQuery.enabled": "true"}],
]


@dataclass(frozen=True)
class Change:
    values: str | None  # None: a DELETE
    where: str
    conf: dict[str, str] = field(default_factory=dict)

    @classmethod
    def drawn(cls, chance: random.Random) -> Change:
        where = chance.choice(CONDITIONS)
        if chance.random() < 0.35:
            where = f"({where}) {chance.choice(['AND', 'AND', 'OR'])} ({chance.choice(CONDITIONS)})"
        if chance.random() < 0.1:
            where = f"NOT ({where})"
        return cls(chance.choice([None, chance.choice(VALUES)]), where, settings_of(chance, CHOICES))

    def text(self, table: str, target: str, source: str, duck: bool = False) -> str:
        values = self.values and (_IN_DUCK.get(self.values, self.values) if duck else self.values)
        verb = f"UPDATE {table} t SET {values}" if values else f"DELETE FROM {table} t"
        text = f"{verb} WHERE {self.where}"
        if "{s}." in text:  # a table of several parts is no qualifier
            text = text.replace("FROM {s} WHERE {s}.", "FROM {s} o WHERE o.")
        text = text.replace("{s}", source).replace("{t}", target)
        return for_duck(text) if duck else text


def check(tables: Tables, change: Change) -> tuple[str, str]:
    """What became of the statement, and the plan it ran by."""
    spark = tables.spark
    statement = change.text(tables.target.name, tables.target.name, tables.source)
    shown = f"{tables.setting}\n{change}\n{statement}"
    before, version = tables.expected(), tables.target.version
    with settings(spark, change.conf):
        try:
            frame = spark.sql(statement)
        except InvalidInputError as error:
            assert "cannot be used to change rows" in error.problem and "(SELECT" in change.where, f"{error}: {shown}"
            assert tables.found() == before and tables.target.version == version
            return "refused", ""
        plan = frame._jdf.queryExecution().executedPlan().toString()
    (count,) = tables.duck.execute(change.text("t", "t", "s", duck=True)).fetchone() or (0,)
    found, wanted = tables.found(), tables.expected()
    assert found == wanted, f"{describe_difference(wanted, found)}: {shown}\n{plan}"
    if tables.target.version == version:
        assert not count, f"{count} rows but no version: {shown}"
        return "nothing", plan
    metrics = tables.target.history(1)[0]["metrics"]
    told = metrics.get("numUpdatedRows" if change.values else "numDeletedRows")
    assert told == count, f"{metrics} for {count} rows: {shown}"
    gone, came, kinds = tables.feed(tables.target.version)
    assert before - gone + came == wanted, f"changes {kinds} do not lead from one version to the next: {shown}"
    if tables.layout.feed:
        expected = {"update_preimage": count, "update_postimage": count} if change.values else {"delete": count}
        assert +Counter(expected) == kinds, f"{kinds} for {count} rows: {shown}"
    return "changed", plan
