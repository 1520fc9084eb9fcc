"""Random questions, asked of Spark and of DuckDB in the same words.

The state machine draws one of `QUERIES` between statements; `conditions` also serves verbs with a WHERE
(CHECK constraints, deletes). A query is a class with `ask(draw, world)`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from hypothesis import strategies as st

from tests.differential.kinds import DATE, STRING, Kind
from tests.differential.tables import Column, duck_name
from tests.differential.world import World

Draw = Callable[[st.SearchStrategy[Any]], Any]
Condition = tuple[str, str]  # in Spark, in DuckDB


class Query:
    name = ""

    def applies(self, world: World) -> bool:
        return True

    def ask(self, draw: Draw, world: World) -> None:
        raise NotImplementedError


# ---- conditions


def literals(draw: Draw, world: World, column: Column) -> Any:
    """A value the column holds, or any other."""
    if draw(st.integers(0, 3)):
        values = held(world, column)
        if values:
            return draw(st.sampled_from(values))
    return draw(column.kind.values)


def held(world: World, column: Column) -> list[Any]:
    """The values a column of the table has; none for a column that is not the table's."""
    name = duck_name(column.name)
    if all(c.name != column.name or c.kind is not column.kind for c in world.columns):
        return []
    some = f"SELECT DISTINCT {name} FROM t WHERE {name} IS NOT NULL ORDER BY hash({name}) LIMIT 64"
    found = world.mirror.query(some)
    return sorted(found.column(0).to_pylist(), key=repr)


def conditions(draw: Draw, world: World, columns: tuple[Column, ...] | None = None, depth: int = 2) -> Condition:
    candidates = [c for c in (world.columns if columns is None else columns) if c.kind.orderable or c.kind.fields]
    if not candidates:
        return draw(st.sampled_from([("true", "true"), ("1 = 2", "1 = 2")]))
    shape = draw(st.sampled_from(["leaf", "leaf", "and", "or", "not"])) if depth else "leaf"
    if shape == "leaf":
        return _comparison(draw, world, draw(st.sampled_from(candidates)))
    left = conditions(draw, world, columns, depth - 1)
    if shape == "not":
        return f"NOT ({left[0]})", f"NOT ({left[1]})"
    right = conditions(draw, world, columns, depth - 1)
    word = shape.upper()
    return f"({left[0]}) {word} ({right[0]})", f"({left[1]}) {word} ({right[1]})"


def _comparison(draw: Draw, world: World, column: Column) -> Condition:
    spark, duck, kind = column.spark, column.duck, column.kind
    if kind.fields:
        name, inner = draw(st.sampled_from(kind.fields))
        if not inner.orderable:
            return f"{spark} IS NULL", f"{duck} IS NULL"
        return _compared(draw, f"{spark}.{name}", f"{duck}.{name}", inner, draw(inner.values))
    return _compared(draw, spark, duck, kind, literals(draw, world, column), lambda: literals(draw, world, column))


def _compared(
    draw: Draw, spark: str, duck: str, kind: Kind, value: Any, another: Callable[[], Any] | None = None
) -> Condition:
    shapes = ["=", "<>", "<", "<=", ">", ">=", "<=>", "null", "not null", "in", "not in", "between", "is not"]
    if kind is STRING:
        shapes += ["prefix", "suffix", "contains"]
    if kind is DATE:
        shapes += ["year"]
    shape = draw(st.sampled_from(shapes))
    other = another() if another else draw(kind.values)
    if shape == "null":
        return f"{spark} IS NULL", f"{duck} IS NULL"
    if shape == "not null":
        return f"{spark} IS NOT NULL", f"{duck} IS NOT NULL"
    if shape == "<=>":
        value = draw(st.sampled_from([value, None]))
        return f"{spark} <=> {kind.for_spark(value)}", f"{duck} IS NOT DISTINCT FROM {kind.for_duck(value)}"
    if shape == "is not":
        return f"NOT ({spark} <=> {kind.for_spark(value)})", f"{duck} IS DISTINCT FROM {kind.for_duck(value)}"
    if shape in ("in", "not in"):
        listed = draw(st.sampled_from([[value], [value, other], [value, None, other]]))
        word = shape.upper()
        ours, theirs = ", ".join(map(kind.for_spark, listed)), ", ".join(map(kind.for_duck, listed))
        return f"{spark} {word} ({ours})", f"{duck} {word} ({theirs})"
    if shape == "between":
        return (
            f"{spark} BETWEEN {kind.for_spark(value)} AND {kind.for_spark(other)}",
            f"{duck} BETWEEN {kind.for_duck(value)} AND {kind.for_duck(other)}",
        )
    if shape in ("prefix", "suffix", "contains"):
        part = value[: draw(st.integers(0, 3))]
        ours = {"prefix": "startswith", "suffix": "endswith", "contains": "contains"}[shape]
        theirs = {"prefix": "starts_with", "suffix": "ends_with", "contains": "contains"}[shape]
        return f"{ours}({spark}, {kind.for_spark(part)})", f"{theirs}({duck}, {kind.for_duck(part)})"
    if shape == "year":
        return f"year({spark}) >= {value.year}", f"year({duck}) >= {value.year}"
    return f"{spark} {shape} {kind.for_spark(value)}", f"{duck} {shape} {kind.for_duck(value)}"


def _where(draw: Draw, world: World) -> Condition:
    if draw(st.booleans()):
        return "", ""
    spark, duck = conditions(draw, world)
    return f" WHERE {spark}", f" WHERE {duck}"


# ---- queries


class Filter(Query):
    """Some columns of some rows."""

    def ask(self, draw: Draw, world: World) -> None:
        chosen = draw(st.lists(st.sampled_from(world.columns), min_size=1, max_size=3, unique_by=lambda c: c.name))
        condition = conditions(draw, world)
        world.compare_answers(
            f"SELECT {', '.join(c.spark for c in chosen)} FROM {world.name} WHERE {condition[0]}",
            f"SELECT {', '.join(c.duck for c in chosen)} FROM t WHERE {condition[1]}",
        )


class Aggregate(Query):
    """count, min, max (from statistics where they are exact) and sum, of all rows or some."""

    def ask(self, draw: Draw, world: World) -> None:
        where = _where(draw, world)
        orderable = [c for c in world.columns if c.kind.orderable]
        spark, duck = ["count(*)"], ["count(*)"]
        for column in draw(st.lists(st.sampled_from(orderable or world.columns), max_size=3)):
            functions = ["count", "min", "max"] if column.kind.orderable else ["count"]
            function = draw(st.sampled_from(functions))
            spark.append(f"{function}({column.spark})")
            duck.append(f"{function}({column.duck})")
            if column.kind.integral and draw(st.booleans()):
                spark.append(f"sum(CAST({column.spark} AS decimal(38,0)))")
                duck.append(f"sum(CAST({column.duck} AS decimal(38,0)))")
        world.compare_answers(
            f"SELECT {_numbered(spark)} FROM {world.name}{where[0]}",
            f"SELECT {_numbered(duck)} FROM t{where[1]}",
            loose=True,
        )


def _numbered(expressions: list[str]) -> str:
    return ", ".join(f"{text} AS e{i}" for i, text in enumerate(expressions))


class Statistics(Query):
    """What the log alone can answer, for every column at once and the whole table."""

    def ask(self, draw: Draw, world: World) -> None:
        orderable = [c for c in world.columns if c.kind.orderable]
        chosen = draw(st.lists(st.sampled_from(orderable), max_size=2)) if orderable else []
        spark = ["count(*)", *(f"{f}({c.spark})" for c in chosen for f in ("min", "max", "count"))]
        duck = ["count(*)", *(f"{f}({c.duck})" for c in chosen for f in ("min", "max", "count"))]
        world.compare_answers(
            f"SELECT {_numbered(spark)} FROM {world.name}", f"SELECT {_numbered(duck)} FROM t", loose=True
        )


class GroupBy(Query):
    """Counts per value; by partition columns where there are some."""

    def ask(self, draw: Draw, world: World) -> None:
        keys = draw(st.sampled_from(world.partition_columns or world.columns))
        where = _where(draw, world)
        world.compare_answers(
            f"SELECT {keys.spark}, count(*) AS n FROM {world.name}{where[0]} GROUP BY {keys.spark}",
            f"SELECT {keys.duck}, count(*) AS n FROM t{where[1]} GROUP BY {keys.duck}",
            loose=True,
        )

    def applies(self, world: World) -> bool:
        return bool(world.partition_columns) or any(c.kind.exact and c.kind.orderable for c in world.columns)


class OrderLimit(Query):
    """The first few rows by a column; rows that tie are interchangeable, so only the column is compared."""

    def applies(self, world: World) -> bool:
        return any(c.kind.orderable for c in world.columns)

    def ask(self, draw: Draw, world: World) -> None:
        column = draw(st.sampled_from([c for c in world.columns if c.kind.orderable]))
        way = draw(st.sampled_from(["ASC NULLS FIRST", "DESC NULLS LAST"]))
        where = _where(draw, world)
        limit = draw(st.integers(0, 6))
        world.compare_answers(
            f"SELECT {column.spark} FROM {world.name}{where[0]} ORDER BY {column.spark} {way} LIMIT {limit}",
            f"SELECT {column.duck} FROM t{where[1]} ORDER BY {column.duck} {way} LIMIT {limit}",
            loose=True,
        )


class Limit(Query):
    """LIMIT without an order: the number of rows alone is certain."""

    def ask(self, draw: Draw, world: World) -> None:
        limit = draw(st.integers(0, 6))
        where = _where(draw, world)
        world.compare_answers(
            f"SELECT count(*) AS n FROM (SELECT * FROM {world.name}{where[0]} LIMIT {limit})",
            f"SELECT count(*) AS n FROM (SELECT * FROM t{where[1]} LIMIT {limit})",
        )


class SelfJoin(Query):
    """The table with itself; by partition columns it can go without a shuffle."""

    def applies(self, world: World) -> bool:
        return any(c.kind.exact and c.kind.orderable for c in world.columns)

    def ask(self, draw: Draw, world: World) -> None:
        exact = [c for c in world.columns if c.kind.exact and c.kind.orderable]
        by_partition = [c for c in exact if c.name in world.design.partition_by]
        keys = draw(
            st.lists(st.sampled_from(by_partition or exact), min_size=1, max_size=2, unique_by=lambda c: c.name)
        )
        kind = draw(st.sampled_from(["JOIN", "LEFT JOIN", "FULL JOIN"]))
        shown = draw(st.sampled_from(exact))
        hint = draw(st.sampled_from(["", "/*+ MERGE(b) */ ", "/*+ SHUFFLE_HASH(b) */ "]))
        ours = " AND ".join(f"a.{c.spark} = b.{c.spark}" for c in keys)
        theirs = " AND ".join(f"a.{c.duck} = b.{c.duck}" for c in keys)
        world.compare_answers(
            f"SELECT {hint}a.{shown.spark} AS l, b.{shown.spark} AS r "
            f"FROM {world.name} a {kind} {world.name} b ON {ours}",
            f"SELECT a.{shown.duck} AS l, b.{shown.duck} AS r FROM t a {kind} t b ON {theirs}",
        )


class MetadataColumns(Query):
    """Every row lies in one place, and its partition is where its file says."""

    def ask(self, draw: Draw, world: World) -> None:
        world.compare_answers(
            f"SELECT count(DISTINCT _file, _pos) AS n, count(_pos) AS m FROM {world.name}",
            "SELECT count(*) AS n, count(*) AS m FROM t",
        )
        if world.partition_columns:
            inner = draw(st.sampled_from(world.partition_columns))
            world.compare_answers(
                f"SELECT _partition.{inner.spark} AS p, {inner.spark} AS q FROM {world.name}",
                f"SELECT {inner.duck} AS p, {inner.duck} AS q FROM t",
                loose=True,
            )


class TimeTravel(Query):
    """Any earlier version, by any door."""

    def ask(self, draw: Draw, world: World) -> None:
        version = draw(st.sampled_from(sorted(world.versions)))
        world.compare_version(version, draw(st.sampled_from(["sql", "option", "api"])))


class Changes(Query):
    """What changed between two versions, added to the first, makes the second; with a change feed and without."""

    def applies(self, world: World) -> bool:
        return bool(self._steps(world))

    def _steps(self, world: World) -> list[int]:
        """Versions that have the columns of the one before."""
        found = world.versions
        return [v for v in found if v - 1 in found and found[v].columns == found[v - 1].columns]

    def ask(self, draw: Draw, world: World) -> None:
        steps = self._steps(world)
        last = first = draw(st.sampled_from(steps))
        while last + 1 in steps and draw(st.booleans()):
            last += 1
        world.compare_changes(first, last)


QUERIES: tuple[Query, ...] = (
    Filter(), Aggregate(), Statistics(), GroupBy(), OrderLimit(), Limit(), SelfJoin(), MetadataColumns(), TimeTravel(),
    Changes(),
)  # fmt: skip
