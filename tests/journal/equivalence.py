"""Generated statements and queries, run on plain tables and, rewritten, on journals: every table and result must be
equal.

An engine is whatever has two sides: `plain` runs a statement as it is, `journaled` runs it through the rewriter. Tests
for DuckDB, PostgreSQL and Spark implement `Engine` and call `run`. A plain side checks its keys at the end of each
statement, as a table with a primary key that is checked then would do.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol


@dataclass(frozen=True)
class Shape:
    """A logical table: its stored name, its columns with types (INT or VARCHAR), its key."""

    name: str
    columns: dict[str, str]
    key: tuple[str, ...]
    journaled: bool = True


PLAIN_NAMES = (
    Shape("depts", {"deptno": "INT", "name": "VARCHAR", "budget": "INT"}, ("deptno",)),
    Shape(
        "emps",
        {"org": "INT", "empid": "INT", "deptno": "INT", "ename": "VARCHAR", "boss": "INT"},
        ("org", "empid"),
    ),
    Shape("src", {"a": "INT", "b": "VARCHAR", "c": "INT"}, ("a",), journaled=False),
)
ODD_NAMES = (
    Shape("Dept Table", {"Dept No": "INT", "order": "VARCHAR", "Budget": "INT"}, ("Dept No",)),
    Shape(
        "Emps",
        {"ORG": "INT", "emp.id": "INT", "Dept No": "INT", "select": "VARCHAR", "from": "INT"},
        ("ORG", "emp.id"),
    ),
    Shape("Src", {"A a": "INT", "B": "VARCHAR", "c": "INT"}, ("A a",), journaled=False),
)


@dataclass(frozen=True)
class Outcome:
    """Rows of a query, a count of a change, or an error."""

    rows: list[tuple[Any, ...]] | None = None
    count: int | None = None
    error: BaseException | None = None


class Engine(Protocol):
    dialect: str
    # Whether UPDATE … FROM, ON CONFLICT and other things of PostgreSQL's are known to the plain side.
    features: frozenset[str]

    def begin(self, shapes: Sequence[Shape]) -> None:
        """Makes both sides anew, empty: plain tables, and journals for the journaled shapes."""

    def plain(self, sql: str, unique: Shape | None = None) -> Outcome:
        """Runs a statement on plain tables. `unique`: its target, whose key it may need an index of."""

    def journaled(self, sql: str) -> Outcome: ...

    def version(self) -> str | None:
        """The newest version of all journals as a literal for AS OF; None if there is none."""

    def archive(self, shape: Shape) -> None: ...


@dataclass(frozen=True)
class Statement:
    sql: str
    target: Shape | None = None
    # A query on plain tables: if it has rows, the statement would change or make a row twice, and must fail.
    twice: str = ""


@dataclass
class Tally:
    """What a run did, so that a test can tell that it did something."""

    changes: int = 0
    changed: int = 0
    errors: int = 0
    queries: int = 0
    rows: int = 0
    kinds: Counter[str] = field(default_factory=Counter)


class Divergence(AssertionError):
    pass


def run(engine: Engine, seed: int, steps: int, shapes: Sequence[Shape] | None = None) -> Tally:
    """One world: `steps` statements and queries. Raises `Divergence` with the statements that led there."""
    rng = random.Random(seed)
    shapes = shapes or rng.choice((PLAIN_NAMES, ODD_NAMES))
    engine.begin(shapes)
    maker = Maker(rng, engine, shapes)
    tally, done = Tally(), []
    past: list[tuple[str, Shape, list[tuple[Any, ...]]]] = []
    for shape in shapes:
        if not shape.journaled:
            sql = maker.fill(shape)
            done.append(sql)
            engine.plain(sql)
    for _ in range(steps):
        if rng.random() < 0.5:
            statement = maker.change()
            done.append(statement.sql)
            _change(engine, statement, shapes, tally, done)
            version = engine.version()
            if version is not None and rng.random() < 0.2:
                shape = rng.choice([s for s in shapes if s.journaled])
                past.append((version, shape, _rows(engine.plain(f"SELECT * FROM {maker.table(shape)}"), done)))
        else:
            query = maker.query()
            done.append(query)
            _compare(query, engine.plain(query), engine.journaled(query), tally, done)
        if "archive" in engine.features and rng.random() < 0.05:
            shape = rng.choice([s for s in shapes if s.journaled])
            done.append(f"archive {shape.name}")
            engine.archive(shape)
            _compare_tables(engine, shapes, done, maker)
        if past and rng.random() < 0.2:
            version, shape, rows = rng.choice(past)
            query = f"SELECT * FROM {maker.table(shape)} FOR {version}"
            done.append(query)
            found = engine.journaled(query)
            if found.rows is None or Counter(found.rows) != Counter(rows):
                raise _diverged(query, Outcome(rows), found, done)
            tally.kinds["as of"] += 1
    return tally


def _change(engine: Engine, statement: Statement, shapes: Sequence[Shape], tally: Tally, done: list[str]) -> None:
    twice = bool(statement.twice) and bool(_rows(engine.plain(statement.twice), done))
    plain = Outcome() if twice else engine.plain(statement.sql, statement.target)
    journaled = engine.journaled(statement.sql)
    tally.changes += 1
    tally.kinds[statement.sql.split()[0]] += 1
    if "ON CONFLICT" in statement.sql:
        tally.kinds["ON CONFLICT"] += 1
    if twice or plain.error is not None:
        tally.errors += 1
        if journaled.error is None:
            raise _diverged(
                statement.sql, Outcome(error=plain.error or ValueError("changes a row twice")), journaled, done
            )
    elif journaled.error is not None:
        raise _diverged(statement.sql, plain, journaled, done) from journaled.error
    elif plain.count is not None and journaled.count is not None and plain.count != journaled.count:
        raise _diverged(statement.sql, plain, journaled, done)
    else:
        tally.changed += plain.count or 0
    _compare_tables(engine, shapes, done, None)


def _compare_tables(engine: Engine, shapes: Sequence[Shape], done: list[str], maker: Maker | None) -> None:
    for shape in shapes:
        if shape.journaled:
            query = f"SELECT * FROM {quoted(engine.dialect, shape.name)}"
            plain, journaled = engine.plain(query), engine.journaled(query)
            if plain.rows is None or journaled.rows is None or Counter(plain.rows) != Counter(journaled.rows):
                raise _diverged(query, plain, journaled, done)


def _compare(query: str, plain: Outcome, journaled: Outcome, tally: Tally, done: list[str]) -> None:
    tally.queries += 1
    if plain.error is not None:
        raise AssertionError(f"the plain side cannot run {query}: {plain.error}") from plain.error
    if journaled.rows is None or Counter(plain.rows or ()) != Counter(journaled.rows):
        raise _diverged(query, plain, journaled, done) from journaled.error
    tally.rows += len(journaled.rows)


def _rows(outcome: Outcome, done: list[str]) -> list[tuple[Any, ...]]:
    if outcome.rows is None:
        raise AssertionError(f"the plain side failed: {outcome.error}\n" + "\n".join(done)) from outcome.error
    return outcome.rows


def _diverged(sql: str, plain: Outcome, journaled: Outcome, done: list[str]) -> Divergence:
    return Divergence(
        f"{sql}\n  plain:     {_shown(plain)}\n  journaled: {_shown(journaled)}\n  after:\n    " + ";\n    ".join(done)
    )


def _shown(outcome: Outcome) -> str:
    if outcome.error is not None:
        return f"{type(outcome.error).__name__}: {outcome.error}"
    if outcome.rows is not None:
        return str(sorted(map(str, outcome.rows)))
    return f"{outcome.count} rows changed"


def quoted(dialect: str, name: str) -> str:
    mark = "`" if dialect == "spark" else '"'
    if name.islower() and name.isidentifier() and name not in ("order", "select", "from"):
        return name
    return mark + name.replace(mark, mark * 2) + mark


class Maker:
    """Makes statements that every engine understands, and some that only those with a feature do."""

    def __init__(self, rng: random.Random, engine: Engine, shapes: Sequence[Shape]) -> None:
        self.rng = rng
        self.engine = engine
        self.shapes = shapes
        self.depts, self.emps, self.src = shapes

    # Names and values

    def name(self, name: str) -> str:
        return quoted(self.engine.dialect, name)

    def table(self, shape: Shape) -> str:
        return self.name(shape.name)

    def column(self, shape: Shape, index: int, alias: str = "") -> str:
        return (f"{alias}." if alias else "") + self.name(list(shape.columns)[index])

    def number(self) -> str:
        return str(self.rng.randint(0, 7))

    def text(self) -> str:
        return self.rng.choice(["'a'", "'b'", "'it''s'", "'x y'", "NULL", "'depts'", "'%'", "'-- no'", "'?'"])

    def value(self, type: str, alias: str = "", shape: Shape | None = None) -> str:
        """An expression of a type, over the columns of a table if there is one."""
        rng = self.rng
        if shape is not None and rng.random() < 0.5:
            same = [i for i, t in enumerate(shape.columns.values()) if t == type]
            column = self.column(shape, rng.choice(same), alias)
            if type == "INT":
                return rng.choice([column, f"{column} + 1", f"COALESCE({column}, 0) * 2", f"- {column}"])
            return rng.choice([column, f"UPPER({column})", f"COALESCE({column}, 'z')", f"CONCAT({column}, 'q')"])
        if type == "INT":
            return rng.choice([self.number(), self.number(), "NULL", f"({self.number()} + {self.number()})"])
        return self.text()

    def condition(self, shape: Shape, alias: str = "", depth: int = 0) -> str:
        rng = self.rng
        number = self.column(shape, rng.choice([i for i, t in enumerate(shape.columns.values()) if t == "INT"]), alias)
        text = self.column(
            shape, rng.choice([i for i, t in enumerate(shape.columns.values()) if t == "VARCHAR"]), alias
        )
        choices = [
            f"{number} {rng.choice(['=', '<', '>', '<>', '<=', '>='])} {self.number()}",
            f"{number} IN ({self.number()}, {self.number()}, {self.number()})",
            f"{number} BETWEEN {self.number()} AND {self.number()}",
            f"{text} IS {rng.choice(['', 'NOT '])}NULL",
            f"{text} = 'a'",
            f"{text} LIKE '%t%'",
            f"CASE WHEN {number} > 3 THEN 1 ELSE 0 END = 1",
        ]
        if depth < 1:
            other = rng.choice(self.shapes)
            key = self.column(other, 0, "o")
            outer = f"{alias}." if alias else f"{self.table(shape)}."
            choices += [
                f"NOT ({self.condition(shape, alias, 1)})",
                f"({self.condition(shape, alias, 1)} OR {self.condition(shape, alias, 1)})",
                f"{number} IN (SELECT {key} FROM {self.table(other)} o WHERE {self.condition(other, 'o', 1)})",
                f"EXISTS (SELECT 1 FROM {self.table(other)} AS o WHERE {key} = {outer}{self.column(shape, 0)})",
                f"NOT EXISTS (SELECT * FROM {self.table(other)} AS o WHERE {key} = {outer}{self.column(shape, 0)})",
                f"{number} > (SELECT MIN({key}) FROM {self.table(other)} o)",
            ]
        return rng.choice(choices)

    def where(self, shape: Shape, alias: str = "") -> str:
        return "" if self.rng.random() < 0.2 else f" WHERE {self.condition(shape, alias)}"

    # Changes

    def fill(self, shape: Shape) -> str:
        rows = ", ".join(
            f"({n}, {self.rng.choice(['NULL', repr('s')])}, {self.number()})" for n in self.rng.sample(range(10), 6)
        )
        return f"INSERT INTO {self.table(shape)} VALUES {rows}"

    def change(self) -> Statement:
        rng = self.rng
        shape = rng.choice((self.depts, self.emps))
        makers = [self.insert_values, self.insert_values, self.insert_query, self.update, self.update, self.delete]
        features = {
            "update key": self.update_key,
            "update from": self.update_from,
            "delete using": self.delete_using,
            "on conflict": self.on_conflict,
            "merge": self.merge,
        }
        makers += [make for feature, make in features.items() if feature in self.engine.features]
        return rng.choice(makers)(shape)

    def row(self, shape: Shape, keys: tuple[str, ...] | None = None) -> list[str]:
        values = [self.value(type) for type in shape.columns.values()]
        for index, name in enumerate(shape.columns):
            if name in shape.key:
                key = self.number() if self.rng.random() < 0.7 else f"({self.number()} + 0)"
                values[index] = key if self.rng.random() < 0.98 else "NULL"
        return values

    def insert_values(self, shape: Shape) -> Statement:
        rows = [self.row(shape) for _ in range(self.rng.choice([1, 1, 1, 2, 3]))]
        columns = ""
        if self.rng.random() < 0.5:
            order = list(range(len(shape.columns)))
            self.rng.shuffle(order)
            if self.rng.random() < 0.3:
                dropped = [i for i in order if list(shape.columns)[i] not in shape.key]
                order.remove(self.rng.choice(dropped))
            columns = " (" + ", ".join(self.column(shape, i) for i in order) + ")"
            rows = [[row[i] for i in order] for row in rows]
        values = ", ".join("(" + ", ".join(row) + ")" for row in rows)
        return Statement(f"INSERT INTO {self.table(shape)}{columns} VALUES {values}", shape)

    def insert_query(self, shape: Shape) -> Statement:
        rng, source = self.rng, rng_shape(self.rng, self.shapes)
        values = [self.value(type, "s", source) for type in shape.columns.values()]
        for index, name in enumerate(shape.columns):
            if name in shape.key:
                values[index] = f"{self.column(source, 0, 's')} + {rng.choice([0, 8, 8, 16])}"
        query = f"SELECT {', '.join(values)} FROM {self.table(source)} s{self.where(source, 's')}"
        if rng.random() < 0.2:
            query = f"{query} UNION {query}"
        elif rng.random() < 0.2:
            query = f"WITH w AS ({query}) SELECT * FROM w"
        columns = " (" + ", ".join(map(self.name, shape.columns)) + ")" if rng.random() < 0.5 else ""
        return Statement(f"INSERT INTO {self.table(shape)}{columns} {query}", shape)

    def sets(self, shape: Shape, alias: str, prefix: str = "") -> str:
        free = [n for n in shape.columns if n not in shape.key]
        chosen = self.rng.sample(free, self.rng.randint(1, len(free)))
        numbers = [n for n in free if shape.columns[n] == "INT"]
        if len(numbers) > 1 and self.rng.random() < 0.3:
            a, b = numbers[:2]
            return f"{self.name(a)} = {alias}.{self.name(b)}, {self.name(b)} = {alias}.{self.name(a)}"
        return ", ".join(f"{prefix}{self.name(n)} = {self.value(shape.columns[n], alias, shape)}" for n in chosen)

    def update(self, shape: Shape) -> Statement:
        table = self.table(shape)
        if self.rng.random() < 0.3:
            return Statement(f"UPDATE {table} SET {self.sets(shape, table)}{self.where(shape)}", shape)
        if self.rng.random() < 0.2:
            other = rng_shape(self.rng, self.shapes)
            free = next(n for n in shape.columns if n not in shape.key and shape.columns[n] == "INT")
            sub = f"(SELECT MAX({self.column(other, 0, 'o')}) FROM {self.table(other)} o{self.where(other, 'o')})"
            return Statement(f"UPDATE {table} SET {self.name(free)} = {sub}{self.where(shape)}", shape)
        return Statement(f"UPDATE {table} AS t SET {self.sets(shape, 't')}{self.where(shape, 't')}", shape)

    def update_key(self, shape: Shape) -> Statement:
        rng = self.rng
        key = self.name(rng.choice(shape.key))
        value = rng.choice([f"{key} + 1", f"{key} - 1", f"7 - {key}", self.number(), f"{key} + 10", key, "NULL"])
        more = f", {self.sets(shape, 't')}" if rng.random() < 0.3 else ""
        return Statement(f"UPDATE {self.table(shape)} AS t SET {key} = {value}{more}{self.where(shape, 't')}", shape)

    def joined(self, shape: Shape, alias: str = "t") -> tuple[Shape, str]:
        other = rng_shape(self.rng, self.shapes)
        on = f"{self.column(shape, shape_key(shape), alias)} = {self.column(other, 0, 's')}"
        if self.rng.random() < 0.4:
            on += f" AND {self.condition(other, 's', 1)}"
        return other, on

    def key_counts(self, shape: Shape, rows: str) -> str:
        keys = ", ".join(f"t.{self.name(k)}" for k in shape.key)
        return f"SELECT {keys} FROM {self.table(shape)} AS t, {rows} GROUP BY {keys} HAVING COUNT(*) > 1"

    def update_from(self, shape: Shape) -> Statement:
        other, on = self.joined(shape)
        rows = f"{self.table(other)} AS s WHERE {on}"
        free = [n for n in shape.columns if n not in shape.key]
        chosen = self.rng.sample(free, self.rng.randint(1, len(free)))
        sets = ", ".join(f"{self.name(n)} = {self.value(shape.columns[n], 's', other)}" for n in chosen)
        return Statement(f"UPDATE {self.table(shape)} AS t SET {sets} FROM {rows}", shape, self.key_counts(shape, rows))

    def delete(self, shape: Shape) -> Statement:
        if self.rng.random() < 0.05:
            return Statement(f"DELETE FROM {self.table(shape)}", shape)
        return Statement(f"DELETE FROM {self.table(shape)} WHERE {self.condition(shape)}", shape)

    def delete_using(self, shape: Shape) -> Statement:
        other, on = self.joined(shape)
        return Statement(f"DELETE FROM {self.table(shape)} AS t USING {self.table(other)} AS s WHERE {on}", shape)

    def on_conflict(self, shape: Shape) -> Statement:
        rng = self.rng
        rows = [self.row(shape) for _ in range(rng.choice([1, 1, 2]))]
        values = ", ".join("(" + ", ".join(row) + ")" for row in rows)
        keys = ", ".join(map(self.name, shape.key))
        listed = ", ".join(map(self.name, shape.columns))
        head = f"INSERT INTO {self.table(shape)} AS t ({listed}) VALUES {values} ON CONFLICT"
        if rng.random() < 0.4:
            return Statement(f"{head} ({keys}) DO NOTHING", shape)
        twice = ""
        if len(rows) > 1:
            at = [list(shape.columns).index(k) for k in shape.key]
            pairs = " UNION ALL ".join(
                "SELECT " + ", ".join(f"{row[i]} AS k{n}" for n, i in enumerate(at)) for row in rows
            )
            names = ", ".join(f"k{n}" for n in range(len(at)))
            twice = f"SELECT {names} FROM ({pairs}) AS q GROUP BY {names} HAVING COUNT(*) > 1"
        free = [n for n in shape.columns if n not in shape.key]
        sets = ", ".join(
            f"{self.name(n)} = {self.value(shape.columns[n], rng.choice(['excluded', 't']), shape)}"
            for n in rng.sample(free, rng.randint(1, len(free)))
        )
        # Of two rows with one key that WHERE passes over nothing is changed: engines, and we, differ on whether they
        # may come.
        where = f" WHERE {self.condition(shape, 't', 1)}" if len(rows) == 1 and rng.random() < 0.4 else ""
        return Statement(f"{head} ({keys}) DO UPDATE SET {sets}{where}", shape, twice)

    def merge(self, shape: Shape) -> Statement:
        rng = self.rng
        other, on = self.joined(shape)
        whens, changing, clash = [], [], ""
        extra = f" AND {self.condition(other, 's', 1)}" if rng.random() < 0.5 else ""
        if rng.random() < 0.8:
            if extra:
                whens.append(f"WHEN MATCHED{extra} THEN DELETE")
                changing.append(extra[5:])
            if rng.random() < 0.8 or not whens:
                whens.append(f"WHEN MATCHED THEN UPDATE SET {self.sets(shape, 't')}")
                changing.append("TRUE")
        if rng.random() < 0.7 or not whens:
            values = [self.value(type, "s", other) for type in shape.columns.values()]
            for index, name in enumerate(shape.columns):
                if name in shape.key:
                    values[index] = self.column(other, 0, "s") + rng.choice(["", " + 0", " + 8"])
            listed = ", ".join(map(self.name, shape.columns))
            extra = f" AND {self.condition(other, 's', 1)}" if rng.random() < 0.4 else ""
            same = " AND ".join(
                f"u.{self.name(n)} = {v}" for n, v in zip(shape.columns, values, strict=True) if n in shape.key
            )
            # A key that is there cannot be inserted, not even if another WHEN deletes it.
            clash = (
                f"SELECT 1 FROM {self.table(other)} AS s LEFT JOIN {self.table(shape)} AS t ON {on} "
                f"WHERE {self.column(shape, shape_key(shape), 't')} IS NULL{extra} "
                f"AND EXISTS (SELECT 1 FROM {self.table(shape)} AS u WHERE {same})"
            )
            whens.append(f"WHEN NOT MATCHED{extra} THEN INSERT ({listed}) VALUES ({', '.join(values)})")
        if rng.random() < 0.25:
            whens.append(f"WHEN NOT MATCHED BY SOURCE AND {self.condition(shape, 't', 1)} THEN DELETE")
        sql = f"MERGE INTO {self.table(shape)} AS t USING {self.table(other)} AS s ON {on} {' '.join(whens)}"
        asked = [clash] if clash else []
        if changing:
            some = " OR ".join(f"({c})" for c in changing)
            asked.append(self.key_counts(shape, f"{self.table(other)} AS s WHERE {on} AND ({some})"))
        return Statement(sql, shape, "SELECT 1 AS x WHERE " + " OR ".join(f"EXISTS ({query})" for query in asked))

    # Queries

    def query(self) -> str:
        rng = self.rng
        shape = rng.choice((self.depts, self.emps))
        makers = [
            self.simple,
            self.aggregate,
            self.join,
            self.join,
            self.cte,
            self.shadow,
            self.recursive,
            self.set_operation,
            self.scalar,
            self.window,
            self.derived,
            self.natural,
        ]
        if "lateral" in self.engine.features:
            makers.append(self.lateral)
        return rng.choice(makers)(shape)

    def simple(self, shape: Shape) -> str:
        table, rng = self.table(shape), self.rng
        if rng.random() < 0.3:
            return f"SELECT * FROM {table}{self.where(shape)}"
        if rng.random() < 0.3:
            columns = ", ".join(f"c{i}" for i in range(len(shape.columns)))
            return f"SELECT c0, q.c1 FROM {table} AS q ({columns}) WHERE q.c0 > 1"
        star = rng.choice(
            ["t.*", f"DISTINCT {self.column(shape, 1, 't')}", f"{self.value('INT', 't', shape)} AS x, t.*"]
        )
        return f"SELECT {star} FROM {table} t{self.where(shape, 't')}"

    def aggregate(self, shape: Shape) -> str:
        group = self.column(shape, self.rng.randrange(len(shape.columns)))
        key = self.column(shape, 0)
        having = self.rng.choice(["", " HAVING COUNT(*) > 1"])
        return (
            f"SELECT {group} AS g, COUNT(*) AS n, SUM({key}) AS total, MIN({key}) AS low "
            f"FROM {self.table(shape)}{self.where(shape)} GROUP BY {group}{having}"
        )

    def join(self, shape: Shape) -> str:
        rng = self.rng
        other, on = self.joined(shape)
        kind = rng.choice(["JOIN", "LEFT JOIN", "RIGHT JOIN", "FULL JOIN", "CROSS JOIN"])
        if kind == "FULL JOIN":
            on = f"{self.column(shape, 0, 't')} = {self.column(other, 0, 's')}"
        tail = "" if kind == "CROSS JOIN" else f" ON {on}"
        picked = rng.choice([f"{self.column(shape, 1, 't')}, {self.column(other, 0, 's')}", "*", "t.*"])
        return f"SELECT {picked} FROM {self.table(shape)} t {kind} {self.table(other)} s{tail}{self.where(shape, 't')}"

    def cte(self, shape: Shape) -> str:
        return (
            f"WITH w AS (SELECT * FROM {self.table(shape)}{self.where(shape)}), v AS (SELECT COUNT(*) AS n FROM w) "
            f"SELECT w.*, v.n FROM w, v"
        )

    def shadow(self, shape: Shape) -> str:
        """A query of WITH that has the table's own name."""
        table = self.table(shape)
        if self.rng.random() < 0.5:
            return f"WITH {table} AS (SELECT * FROM {table} WHERE {self.condition(shape)}) SELECT * FROM {table}"
        other = self.emps if shape is self.depts else self.depts
        return (
            f"WITH {self.table(other)} AS (SELECT {self.column(shape, 0)} AS k FROM {table}) "
            f"SELECT * FROM {table} t WHERE {self.column(shape, 0, 't')} IN (SELECT k FROM {self.table(other)})"
        )

    def recursive(self, shape: Shape) -> str:
        key = self.column(shape, 0)
        return (
            f"WITH RECURSIVE r AS (SELECT MIN({key}) AS k FROM {self.table(shape)} UNION ALL "
            f"SELECT r.k + 1 FROM r JOIN {self.table(shape)} t ON t.{key} = r.k WHERE r.k < 5) SELECT DISTINCT k FROM r"
        )

    def set_operation(self, shape: Shape) -> str:
        other = rng_shape(self.rng, self.shapes)
        word = self.rng.choice(["UNION", "UNION ALL", "EXCEPT", "INTERSECT"])
        return (
            f"SELECT {self.column(shape, 0)} FROM {self.table(shape)}{self.where(shape)} {word} "
            f"SELECT {self.column(other, 0)} FROM {self.table(other)}"
        )

    def scalar(self, shape: Shape) -> str:
        other = rng_shape(self.rng, self.shapes)
        return (
            f"SELECT {self.column(shape, 0, 't')}, (SELECT COUNT(*) FROM {self.table(other)} o "
            f"WHERE {self.column(other, 0, 'o')} = {self.column(shape, 0, 't')}) AS n FROM {self.table(shape)} t"
        )

    def window(self, shape: Shape) -> str:
        key = self.column(shape, 0, "t")
        return (
            f"SELECT {key}, COUNT(*) OVER (PARTITION BY {self.column(shape, 1, 't')}) AS n "
            f"FROM {self.table(shape)} t{self.where(shape, 't')}"
        )

    def derived(self, shape: Shape) -> str:
        return (
            f"SELECT d.k, d.n FROM (SELECT {self.column(shape, 0)} AS k, COUNT(*) AS n FROM {self.table(shape)} "
            f"GROUP BY {self.column(shape, 0)}) AS d WHERE d.n >= 1"
        )

    def natural(self, shape: Shape) -> str:
        table = self.table(shape)
        if self.rng.random() < 0.5:
            return f"SELECT * FROM {table} a NATURAL JOIN {table} b"
        return f"SELECT * FROM {table} a JOIN {table} b USING ({', '.join(map(self.name, shape.key))})"

    def lateral(self, shape: Shape) -> str:
        other = rng_shape(self.rng, self.shapes)
        return (
            f"SELECT t.*, l.m FROM {self.table(shape)} t, LATERAL (SELECT MAX({self.column(other, 0, 'o')}) AS m "
            f"FROM {self.table(other)} o WHERE {self.column(other, 0, 'o')} <= {self.column(shape, 0, 't')}) AS l"
        )


def rng_shape(rng: random.Random, shapes: Sequence[Shape]) -> Shape:
    return rng.choice(list(shapes))


def shape_key(shape: Shape) -> int:
    """The column that is joined with others: the last one of the key."""
    return list(shape.columns).index(shape.key[-1])
