"""Random queries in words that Spark and DuckDB share, for `test_shapes.py`.

Every relation has the columns id, k, g and v, so that each can stand below any other: windows, limits, offsets,
aggregates, unions, set operations, subqueries and expressions that are not deterministic, between scans and joins.
What has an order has a total one; what is not deterministic gives one answer all the same.
"""

from __future__ import annotations

import random
from collections.abc import Callable

COLUMNS = "id, k, g, v"
# Rows that tie are the same row.
_ORDER = "ORDER BY id NULLS FIRST, k NULLS FIRST, g NULLS FIRST, v NULLS FIRST"
_BACK = "ORDER BY id DESC NULLS LAST, k DESC NULLS LAST, g DESC NULLS LAST, v DESC NULLS LAST"


def for_duck(text: str) -> str:
    return text.replace("rand()", "random()").replace("explode(array(", "unnest(list_value(")


class Shapes:
    def __init__(self, chance: random.Random, tables: list[str]) -> None:
        self._chance = chance
        self._tables = tables
        self._names = 0

    def query(self) -> str:
        """A join whose sides are anything, on top of which there may be something more."""
        text = self._join(self._chance.choice([1, 2, 2, 3]))
        return self._aggregate(text) if self._chance.random() < 0.2 else text

    def _relation(self, depth: int) -> str:
        if depth <= 0:
            return self._scan()
        kinds: list[tuple[int, Callable[[int], str]]] = [
            (2, lambda d: self._scan()),
            (3, lambda d: self._window(self._relation(d))),
            (2, lambda d: self._first(self._relation(d))),
            (3, lambda d: self._limit(self._relation(d))),
            (3, lambda d: self._aggregate(self._relation(d))),
            (2, lambda d: self._columns(self._relation(d))),
            (2, lambda d: self._rows(self._relation(d))),
            (2, lambda d: self._chancy(self._relation(d))),
            (2, self._set),
            (2, self._subquery),
            (1, self._shared),
            (3, self._join),
        ]
        weights = [weight for weight, _ in kinds]
        ((_, make),) = self._chance.choices(kinds, weights)
        return make(depth - 1)

    def _name(self) -> str:
        self._names += 1
        return f"x{self._names}"

    def _scan(self) -> str:
        where = self._chance.choice(["", "", "", f" WHERE v < {self._chance.randint(0, 9)}", " WHERE k IS NOT NULL"])
        return f"SELECT {COLUMNS} FROM {self._chance.choice(self._tables)}{where}"

    def _columns(self, below: str) -> str:
        shown = self._chance.choice(
            ["id, k, g, v + 1 AS v", "id, g AS k, k AS g, v", "id, k, v AS g, g AS v", "id + 0 AS id, k, g, v",
             "id, k + 0 AS k, g, v", "id, k, g, explode(array(v, v + 1)) AS v"]
        )  # fmt: skip
        return f"SELECT {shown} FROM ({below}) {self._name()}"

    def _rows(self, below: str) -> str:
        n = self._chance.randint(0, 12)
        where = self._chance.choice(
            [f"v < {n}", f"k > {n}", f"k IN ({n}, {n + 2}, 3)", "g IS NOT NULL", f"id % 5 <> {n % 5}"]
        )
        return f"SELECT {COLUMNS} FROM ({below}) {self._name()} WHERE {where}"

    def _chancy(self, below: str) -> str:
        shape = self._chance.choice(
            [
                "SELECT {c} FROM ({b}) {n} WHERE floor(rand()) = 0",
                "SELECT id, k, g, v + CAST(floor(rand() / 2) AS INT) AS v FROM ({b}) {n}",
            ]
        )
        return shape.format(c=COLUMNS, b=below, n=self._name())

    def _by(self) -> str:
        return self._chance.choice(["", "PARTITION BY k ", "PARTITION BY k ", "PARTITION BY g ", "PARTITION BY k, g "])

    def _window(self, below: str) -> str:
        call = self._chance.choice(
            [
                "row_number()",
                "rank()",
                "count(*)",
                "sum(v)",
                "lag(v)",
                "lead(v, 2)",
                "first_value(v)",
                "max(v)",
                "ntile(3)",
            ]
        )
        frame = self._by() + self._chance.choice([_ORDER, _ORDER, _BACK])
        if call in ("count(*)", "sum(v)", "max(v)"):
            frame = self._chance.choice([frame, self._by(), f"{frame} ROWS BETWEEN 2 PRECEDING AND 1 FOLLOWING"])
        return f"SELECT id, k, g, CAST({call} OVER ({frame}) % 1000 AS INT) AS v FROM ({below}) {self._name()}"

    def _first(self, below: str) -> str:
        call, order = (
            self._chance.choice(["row_number()", "rank()", "dense_rank()"]),
            self._chance.choice([_ORDER, _BACK]),
        )
        ranked = f"SELECT {COLUMNS}, {call} OVER ({self._by()}{order}) AS rn FROM ({below}) {self._name()}"
        return f"SELECT {COLUMNS} FROM ({ranked}) {self._name()} WHERE rn <= {self._chance.randint(1, 9)}"

    def _limit(self, below: str) -> str:
        bounds = self._chance.choice(
            [f"LIMIT {self._chance.randint(1, 40)}", f"OFFSET {self._chance.randint(1, 40)}",
             f"LIMIT {self._chance.randint(1, 40)} OFFSET {self._chance.randint(1, 20)}"]
        )  # fmt: skip
        return f"SELECT {COLUMNS} FROM ({below}) {self._name()} {self._chance.choice([_ORDER, _BACK])} {bounds}"

    def _aggregate(self, below: str) -> str:
        shape = self._chance.choice(
            [
                "SELECT max(id) AS id, k, min(g) AS g, CAST(count(*) AS INT) AS v FROM ({b}) {n} GROUP BY k",
                "SELECT max(id) AS id, k, min(g) AS g, 1 AS v FROM ({b}) {n} GROUP BY k HAVING count(*) > 2",
                "SELECT min(id) AS id, k, g, CAST(sum(v) % 1000 AS INT) AS v FROM ({b}) {n} GROUP BY k, g",
                "SELECT max(id) AS id, max(k) AS k, g, CAST(count(DISTINCT v) AS INT) AS v FROM ({b}) {n} GROUP BY g",
                "SELECT max(id) AS id, max(k) AS k, min(g) AS g, CAST(count(v) AS INT) AS v FROM ({b}) {n}",
                "SELECT max(id) AS id, k, g, 1 AS v FROM ({b}) {n} GROUP BY ROLLUP (k, g) HAVING count(*) > 0",
                "SELECT DISTINCT id, k, g, v FROM ({b}) {n}",
                "SELECT DISTINCT k AS id, k, g, 1 AS v FROM ({b}) {n}",
            ]
        )
        return shape.format(b=below, n=self._name()).replace("DISTINCT k AS id", "DISTINCT CAST(k AS BIGINT) AS id")

    def _set(self, depth: int) -> str:
        word = self._chance.choice(
            ["UNION ALL", "UNION ALL", "UNION", "INTERSECT", "EXCEPT", "INTERSECT ALL", "EXCEPT ALL"]
        )
        one = self._relation(depth)
        other = one if self._chance.random() < 0.3 else self._relation(depth)
        names = self._name(), self._name()
        return f"SELECT {COLUMNS} FROM ({one}) {names[0]} {word} SELECT {COLUMNS} FROM ({other}) {names[1]}"

    def _subquery(self, depth: int) -> str:
        a, b = self._name(), self._name()
        key = self._chance.choice(["k", "k", "id", "g"])
        inner, outer = f"({self._relation(depth - 1)}) {b}", self._relation(depth)
        rows = f"SELECT {COLUMNS} FROM ({outer}) {a} WHERE"
        same = f"{b}.{key} = {a}.{key}"
        return self._chance.choice(
            [
                f"{rows} {key} IN (SELECT {key} FROM {inner})",
                f"{rows} {key} NOT IN (SELECT {key} FROM {inner} WHERE {key} IS NOT NULL)",
                f"{rows} EXISTS (SELECT 1 FROM {inner} WHERE {same})",
                f"{rows} NOT EXISTS (SELECT 1 FROM {inner} WHERE {same})",
                f"{rows} {key} IN (SELECT {key} FROM {inner}) OR v > 5",
                f"{rows} v <= (SELECT max(v) FROM {inner})",
                f"SELECT id, k, g, (SELECT max({b}.v) FROM {inner} WHERE {same}) AS v FROM ({outer}) {a}",
            ]
        )

    def _shared(self, depth: int) -> str:
        """The same rows twice."""
        name, key = self._name(), self._chance.choice(["k", "id"])
        below = self._relation(depth)
        kind = self._chance.choice(["JOIN", "LEFT JOIN", "SEMI JOIN"])
        return (
            f"WITH {name} AS ({below}) SELECT a.id, a.k, a.g, a.v FROM {name} a "
            f"{kind} (SELECT * FROM {name} WHERE v < 4) b ON a.{key} = b.{key}"
        )

    def _join(self, depth: int) -> str:
        kind = self._chance.choice(
            ["JOIN", "JOIN", "JOIN", "LEFT JOIN", "RIGHT JOIN", "FULL JOIN", "SEMI JOIN", "ANTI JOIN"]
        )
        one, other = self._relation(depth), self._chance.choice([self._relation(depth - 1), self._scan()])
        if self._chance.random() < 0.3:
            one, other = other, one
        a, b = self._name(), self._name()
        keys = self._chance.choice(["k k", "k k", "id id", "g g", "k g", "id id, k k"]).split(", ")
        terms = [f"{a}.{pair.split()[0]} = {b}.{pair.split()[1]}" for pair in keys]
        if self._chance.random() < 0.15:
            terms.append(f"{a}.v <= {b}.v")
        columns = f"{a}.id, {a}.k, {a}.g, {a}.v"
        if kind not in ("SEMI JOIN", "ANTI JOIN"):
            columns = self._chance.choice([columns, f"{a}.id, {b}.k, {a}.g, {b}.v", f"{b}.id, {a}.k, {b}.g, {a}.v"])
        hint = self._chance.choice(
            ["", "", f"/*+ BROADCAST({b}) */ ", f"/*+ BROADCAST({a}) */ ", f"/*+ MERGE({b}) */ "]
        )
        return f"SELECT {hint}{columns} FROM ({one}) {a} {kind} ({other}) {b} ON {' AND '.join(terms)}"
