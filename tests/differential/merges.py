"""MERGE with every kind of clause, source and condition. `verbs.py` lists it with the others.

What a MERGE means is told to DuckDB in joins and CASE, clause by clause, over row numbers: nothing of it is
Lakemend's, and DuckDB's own MERGE, which has other rules for several matches, is not used.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from hypothesis import strategies as st

from lakemend.errors import AmbiguousMergeError
from tests.differential.assignments import expressions, scope_of
from tests.differential.changes import assignments
from tests.differential.definitions import free_names
from tests.differential.kinds import SCALARS
from tests.differential.queries import Condition, Draw, conditions, held
from tests.differential.tables import Column, Row, duck_name, rows_for, spark_name
from tests.differential.values import values_sql
from tests.differential.world import Counts, Step, Verb, World

ANY: Condition = ("", "true")


@dataclass(frozen=True)
class Clause:
    """One WHEN: `spark` is its text, `condition` DuckDB's, `values` DuckDB's expression for each column (None: it
    deletes)."""

    spark: str
    condition: str
    values: dict[str, str] | None
    conditional: bool


@dataclass(frozen=True)
class Merge:
    target: tuple[Column, ...]
    on: str
    matched: list[Clause]
    missing: list[Clause]  # NOT MATCHED: rows come
    orphaned: list[Clause]  # NOT MATCHED BY SOURCE

    @property
    def forgives_several_matches(self) -> bool:
        """Where it makes no difference how often a row is matched."""
        return not self.matched or (
            len(self.matched) == 1 and self.matched[0].values is None and not self.matched[0].conditional
        )

    def ambiguous(self, world: World) -> int:
        """How many rows of the table match several rows of the source, where that matters."""
        if self.forgives_several_matches:
            return 0
        several = f"SELECT t.rowid FROM t JOIN src s ON {self.on} GROUP BY t.rowid HAVING count(*) > 1"
        return world.mirror.number(f"SELECT count(*) FROM ({several})")

    def step(self, world: World, statement: str, apply: Callable[[], Counts], then: Callable[[], None]) -> Step:
        fails = world.rehearse(apply)
        ambiguous = self.ambiguous(world)
        if ambiguous:
            # Of two reasons either may be told.
            fails = (*fails, AmbiguousMergeError)

        def mirror() -> Counts:
            counts = apply()
            world.blank()
            then()
            return counts

        facts = {"count": ambiguous} if fails == (AmbiguousMergeError,) else {}
        return Step(statement, lambda: world.sql(statement), mirror, fails, facts=facts)

    def apply(self, world: World) -> Counts:
        """Makes `t` what the MERGE makes it; `src` holds the source."""
        run = world.mirror.execute
        run(
            "CREATE OR REPLACE TEMP TABLE pairs AS SELECT t.rowid AS tid, s.rowid AS sid "
            f"FROM t JOIN src s ON {self.on}"
        )
        run(
            "CREATE OR REPLACE TEMP TABLE matches AS SELECT DISTINCT ON (tid) tid, sid, "
            f"{_choice(self.matched)} AS action FROM pairs JOIN t ON t.rowid = tid JOIN src s ON s.rowid = sid"
        )
        run(
            f"CREATE OR REPLACE TEMP TABLE orphans AS SELECT t.rowid AS tid, {_choice(self.orphaned)} AS action "
            "FROM t WHERE t.rowid NOT IN (SELECT tid FROM pairs)"
        )
        run(
            f"CREATE OR REPLACE TEMP TABLE news AS SELECT s.rowid AS sid, {_choice(self.missing)} AS action "
            "FROM src s WHERE s.rowid NOT IN (SELECT sid FROM pairs)"
        )
        unchanged = (
            "SELECT tid FROM matches WHERE action IS NULL UNION ALL SELECT tid FROM orphans WHERE action IS NULL"
        )
        run(f"CREATE OR REPLACE TEMP TABLE merged AS SELECT * FROM t WHERE rowid IN ({unchanged})")
        updated = deleted = inserted = 0
        for clauses, actions, joined in (
            (self.matched, "matches", "JOIN t ON t.rowid = a.tid JOIN src s ON s.rowid = a.sid"),
            (self.orphaned, "orphans", "JOIN t ON t.rowid = a.tid"),
            (self.missing, "news", "JOIN src s ON s.rowid = a.sid"),
        ):
            for number, clause in enumerate(clauses):
                if clause.values is None:
                    deleted += world.mirror.number(f"SELECT count(*) FROM {actions} WHERE action = {number}")
                    continue
                listed = ", ".join(f"{clause.values[c.name]} AS {c.duck}" for c in self.target)
                chosen = f"(SELECT * FROM {actions} WHERE action = {number}) a {joined}"
                count = world.mirror.change(f"INSERT INTO merged BY NAME SELECT {listed} FROM {chosen}")
                inserted, updated = (inserted + count, updated) if actions == "news" else (inserted, updated + count)
        run("DELETE FROM t")
        run("INSERT INTO t BY NAME SELECT * FROM merged")
        return Counts(inserted=inserted, updated=updated, deleted=deleted)


def _choice(clauses: list[Clause]) -> str:
    """The number of the first clause that holds; null if none does."""
    if not clauses:
        return "CAST(NULL AS INTEGER)"
    return "CASE " + " ".join(f"WHEN {clause.condition} THEN {i}" for i, clause in enumerate(clauses)) + " END"


class MergeInto(Verb):
    weight = 8

    def applies(self, world: World) -> bool:
        return bool(_keys(world.columns))

    def draw(self, draw: Draw, world: World) -> Step:
        keys = self.keys(draw, world)
        source, columns = self.source(draw, world, keys)
        t, s = scope_of(world.columns, "t"), scope_of(columns, "s")
        on = _on(draw, world, keys, t, s)
        merge = self._clauses(draw, world, on[1], t, s)
        statement = f"MERGE INTO {world.name} AS t USING ({source}) AS s ON {on[0]} " + " ".join(
            clause.spark for clause in (*merge.matched, *merge.missing, *merge.orphaned)
        )
        return merge.step(world, statement, lambda: merge.apply(world), lambda: None)

    def keys(self, draw: Draw, world: World) -> list[Column]:
        keys = st.sampled_from(_keys(world.columns))
        chosen: list[Column] = draw(st.lists(keys, min_size=1, max_size=2, unique_by=lambda c: c.name))
        return chosen

    def source(self, draw: Draw, world: World, keys: list[Column]) -> tuple[str, tuple[Column, ...]]:
        """A query for Spark; the same rows are in DuckDB as `src`."""
        return _source(draw, world, keys)

    def _clauses(self, draw: Draw, world: World, on: str, t: tuple[Column, ...], s: tuple[Column, ...]) -> Merge:
        shapes = [(1, 1, 0), (1, 0, 0), (0, 1, 0), (2, 1, 0), (2, 2, 1), (1, 1, 1), (0, 0, 1), (1, 0, 1), (3, 0, 2)]
        matched, missing, orphaned = draw(st.sampled_from(shapes))
        return Merge(
            world.columns,
            on,
            [_changing(draw, world, "MATCHED", (*t, *s), s, i == matched - 1) for i in range(matched)],
            [_inserting(draw, world, s, i == missing - 1) for i in range(missing)],
            [
                _changing(draw, world, "NOT MATCHED BY SOURCE", t, (), i == orphaned - 1)
                for i in range(orphaned)
            ],
        )  # fmt: skip


class MergeEvolving(MergeInto):
    """MERGE WITH SCHEMA EVOLUTION: the source has a column more, and so has the table afterwards."""

    weight = 1

    def applies(self, world: World) -> bool:
        return super().applies(world) and len(world.columns) < 8 and bool(free_names(world))

    def draw(self, draw: Draw, world: World) -> Step:
        keys = self.keys(draw, world)
        new = Column(draw(st.sampled_from(free_names(world))), draw(st.sampled_from(SCALARS)))
        columns = (*world.columns, new)
        rows = _rows(draw, world, columns, keys)
        on = _on(draw, world, keys, scope_of(world.columns, "t"), scope_of(columns, "s"))
        stars = {c.name: f"s.{duck_name(c.name)}" for c in columns}
        update = Clause("WHEN MATCHED THEN UPDATE SET *", "true", stars, False)
        insert = Clause("WHEN NOT MATCHED THEN INSERT *", "true", stars, False)
        shapes: list[tuple[list[Clause], list[Clause]]] = [([update], [insert]), ([update], []), ([], [insert])]
        matched, missing = draw(st.sampled_from(shapes))
        merge = Merge(columns, on[1], matched, missing, [])
        statement = f"MERGE WITH SCHEMA EVOLUTION INTO {world.name} AS t USING ({values_sql(columns, rows)}) AS s "
        statement += f"ON {on[0]} {' '.join(clause.spark for clause in (*matched, *missing))}"
        world.mirror.create(columns, "src")
        world.mirror.fill("src", columns, rows)

        def apply() -> Counts:
            world.mirror.execute(f"ALTER TABLE t ADD COLUMN {new.duck} {new.kind.duck}")
            return replace(merge.apply(world), evolved=True)

        def then() -> None:
            world.design = replace(world.design, columns=columns)

        return merge.step(world, statement, apply, then)


def _keys(columns: tuple[Column, ...]) -> list[Column]:
    return [c for c in columns if c.kind.orderable and c.kind.exact]


# ---- sources


def _source(draw: Draw, world: World, keys: list[Column]) -> tuple[str, tuple[Column, ...]]:
    shape = draw(st.sampled_from(["rows"] * 5 + ["self", "self once", "other"]))
    if shape in ("self", "self once"):
        spark, duck = conditions(draw, world, depth=1)
        names = [(c.spark, c.duck) for c in world.columns]
        if shape == "self" or not all(c.kind.orderable for c in world.columns):
            texts = [f"SELECT {', '.join(n[i] for n in names)} FROM {f} WHERE {w}"
                     for i, f, w in ((0, world.name, spark), (1, "t", duck))]  # fmt: skip
        else:
            # One row per key.
            texts = []
            for i, table, where in ((0, world.name, spark), (1, "t", duck)):
                by = [c.spark if i == 0 else c.duck for c in keys]
                rest = [n[i] for c, n in zip(world.columns, names, strict=True) if c not in keys]
                listed = [*by, *(f"min({name}) AS {name}" for name in rest)]
                texts.append(f"SELECT {', '.join(listed)} FROM {table} WHERE {where} GROUP BY {', '.join(by)}")
        world.mirror.execute(f"CREATE OR REPLACE TABLE src AS {texts[1]}")
        columns = world.columns if shape == "self" or not all(c.kind.orderable for c in world.columns) else (
            *keys, *(c for c in world.columns if c not in keys)
        )  # fmt: skip
        return texts[0], tuple(columns)
    if shape == "other":
        other = world.other(draw)
        renamed = _renamed(world.columns, other.columns)
        spark = ", ".join(f"{spark_name(o.name)} AS {spark_name(c.name)}" for c, o in renamed)
        duck = ", ".join(f"{duck_name(o.name)} AS {duck_name(c.name)}" for c, o in renamed)
        if {k.name for k in keys} <= {c.name for c, _ in renamed}:
            world.mirror.execute(f"CREATE OR REPLACE TABLE src AS SELECT {duck} FROM {other.duck}")
            return f"SELECT {spark} FROM {other.spark}", tuple(c for c, _ in renamed)
    columns = tuple(draw(st.permutations(world.columns)))
    rows = _rows(draw, world, columns, keys)
    world.mirror.create(columns, "src")
    world.mirror.fill("src", columns, rows)
    return values_sql(columns, rows), columns


def _renamed(columns: tuple[Column, ...], others: tuple[Column, ...]) -> list[tuple[Column, Column]]:
    return [(c, o) for c in columns for o in others if c.kind is o.kind]


def _rows(draw: Draw, world: World, columns: tuple[Column, ...], keys: list[Column]) -> list[Row]:
    """Rows whose keys are in the table or not; mostly one row per key."""
    rows: list[Row] = draw(rows_for(columns, most=12))
    known = {key.name: held(world, key) for key in keys}
    found: list[Row] = []
    seen: set[Any] = set()
    several = draw(st.integers(0, 4)) == 4
    for row in rows:
        values = list(row)
        for i, column in enumerate(columns):
            if known.get(column.name) and draw(st.integers(0, 2)):
                values[i] = draw(st.sampled_from(known[column.name]))
        key = repr([v for v, c in zip(values, columns, strict=True) if c.name in known])
        if several or key not in seen:
            found.append(tuple(values))
            seen.add(key)
    return found


# ---- conditions and clauses


def _on(draw: Draw, world: World, keys: list[Column], t: tuple[Column, ...], s: tuple[Column, ...]) -> Condition:
    pairs = [(_named(t, key.name), _named(s, key.name)) for key in keys]
    shape = draw(st.sampled_from(["="] * 6 + ["<=>", "and t", "and s", "or", "range", "never"]))
    if shape == "never":
        return "1 = 2", "1 = 2"
    operator = ("<=>", "IS NOT DISTINCT FROM") if shape == "<=>" else ("=", "=")
    word = " OR " if shape == "or" else " AND "
    spark = word.join(f"{a.spark} {operator[0]} {b.spark}" for a, b in pairs)
    duck = word.join(f"{a.duck} {operator[1]} {b.duck}" for a, b in pairs)
    if shape == "range":
        a, b = pairs[0]
        return f"{spark} AND {a.spark} >= {b.spark}", f"{duck} AND {a.duck} >= {b.duck}"
    if shape in ("and t", "and s"):
        more = conditions(draw, world, t if shape == "and t" else s, depth=1)
        return f"({spark}) AND ({more[0]})", f"({duck}) AND ({more[1]})"
    return spark, duck


def _named(columns: tuple[Column, ...], name: str) -> Column:
    return next(c for c in columns if c.name == name)


def _when(draw: Draw, world: World, what: str, scope: tuple[Column, ...], last: bool) -> tuple[str, str, bool]:
    """WHEN … [AND …] THEN; only the last clause of its kind may do without a condition."""
    if last and draw(st.integers(0, 2)):
        return f"WHEN {what} THEN", "true", False
    spark, duck = conditions(draw, world, scope, depth=1)
    return f"WHEN {what} AND {spark} THEN", duck, True


def _changing(
    draw: Draw, world: World, what: str, scope: tuple[Column, ...], source: tuple[Column, ...], last: bool
) -> Clause:
    """UPDATE SET, UPDATE * or DELETE."""
    when, condition, conditional = _when(draw, world, what, scope, last)
    shape = draw(st.sampled_from(["set", "set", "star", "delete"]))
    kept = {c.name: f"t.{duck_name(c.name)}" for c in world.columns}
    if shape == "delete":
        return Clause(f"{when} DELETE", condition, None, conditional)
    if shape == "star" and {c.name for c in world.columns} <= {c.name for c in source}:
        return Clause(f"{when} UPDATE SET *", condition, {n: f"s.{duck_name(n)}" for n in kept}, conditional)
    assigned = assignments(draw, world, scope)
    listed = ", ".join(f"{target} = {value[0]}" for target, _, value in assigned)
    values = kept | {column.name: value[1] for _, column, value in assigned}
    return Clause(f"{when} UPDATE SET {listed}", condition, values, conditional)


def _inserting(draw: Draw, world: World, source: tuple[Column, ...], last: bool) -> Clause:
    """INSERT * or INSERT of some columns; the others are null."""
    when, condition, conditional = _when(draw, world, "NOT MATCHED", source, last)
    names = {c.name for c in world.columns}
    if names <= {c.name for c in source} and draw(st.booleans()):
        return Clause(f"{when} INSERT *", condition, {n: f"s.{duck_name(n)}" for n in names}, conditional)
    chosen = [c for c in draw(st.permutations(world.columns)) if not c.nullable or draw(st.integers(0, 3))]
    chosen = chosen or [world.columns[0]]
    drawn = {c.name: expressions(draw, world, c, source) for c in chosen}
    listed = ", ".join(spark_name(name) for name in drawn)
    values = {c.name: c.kind.for_duck(None) for c in world.columns} | {n: e[1] for n, e in drawn.items()}
    text = f"{when} INSERT ({listed}) VALUES ({', '.join(e[0] for e in drawn.values())})"
    return Clause(text, condition, values, conditional)
