"""What UPDATE and MERGE put into a column: random expressions in Spark and in DuckDB.

`changes.py` and `merges.py` draw them. An expression reads the columns of `scope`, which carry their table's alias.
"""

from __future__ import annotations

from collections.abc import Callable

from hypothesis import strategies as st

from tests.differential.kinds import BOOLEAN, STRING, Kind, Value, nullable
from tests.differential.queries import Draw, conditions
from tests.differential.tables import Column
from tests.differential.world import World

Expression = tuple[str, str]  # in Spark, in DuckDB


def literal(kind: Kind, value: Value) -> Expression:
    return kind.for_spark(value), kind.for_duck(value)


def expressions(draw: Draw, world: World, column: Column, scope: tuple[Column, ...]) -> Expression:
    """Something to assign to the column. It may overflow, and be null where null is not allowed."""
    kind = column.kind
    values = nullable(kind) if column.nullable or draw(st.integers(0, 9)) == 9 else kind.values
    alike = [c for c in scope if c.kind is kind]
    choices: list[Callable[[], Expression]] = [lambda: literal(kind, draw(values))]
    if alike:
        other = draw(st.sampled_from(alike))
        choices += [lambda: (other.spark, other.duck)] * 2
        choices += [lambda: _case(draw, world, scope, other, literal(kind, draw(values)))]
        if kind.orderable:
            choices += [lambda: _both("coalesce({}, {})", other, literal(kind, draw(kind.values)))]
        choices += _arithmetic(draw, other)
    if kind.integral:
        numbers = [c for c in scope if c.kind.integral]
        if numbers:
            # Spark casts as for an INSERT: what does not fit is an error.
            from_another = draw(st.sampled_from(numbers))
            choices += [lambda: (from_another.spark, from_another.duck)]
    return draw(st.sampled_from(choices))()


def _both(template: str, column: Column, value: Expression) -> Expression:
    return template.format(column.spark, value[0]), template.format(column.duck, value[1])


def _case(draw: Draw, world: World, scope: tuple[Column, ...], column: Column, value: Expression) -> Expression:
    spark, duck = conditions(draw, world, scope, depth=1)
    return (
        f"CASE WHEN {spark} THEN {value[0]} ELSE {column.spark} END",
        f"CASE WHEN {duck} THEN {value[1]} ELSE {column.duck} END",
    )


def _arithmetic(draw: Draw, column: Column) -> list[Callable[[], Expression]]:
    if column.kind.integral:
        guarded = "CASE WHEN {0} BETWEEN -100 AND 100 THEN {0} + 1 ELSE {0} END"
        return [
            lambda: (guarded.format(column.spark), guarded.format(column.duck)),
            lambda: (f"{column.spark} + 1", f"CAST({column.duck} AS HUGEINT) + 1"),
        ]
    if column.kind is STRING:
        return [lambda: (f"{column.spark} || '+'", f"{column.duck} || '+'")]
    if column.kind is BOOLEAN:
        return [lambda: (f"NOT {column.spark}", f"NOT {column.duck}")]
    return []


def field_assignment(draw: Draw, column: Column) -> tuple[str, Expression]:
    """`column.field = value` in Spark, and the whole struct that this makes in DuckDB. Of a struct that is null, the
    other fields are null."""
    chosen, inner = draw(st.sampled_from(column.kind.fields))
    value = draw(nullable(inner))
    parts = [
        f"'{name}': {kind.for_duck(value) if name == chosen else f'{column.duck}.{name}'}"
        for name, kind in column.kind.fields
    ]
    whole = f"CAST({{{', '.join(parts)}}} AS {column.kind.duck})"
    return f"{column.spark}.{chosen}", (inner.for_spark(value), whole)


def scope_of(columns: tuple[Column, ...], alias: str) -> tuple[Column, ...]:
    return tuple(Column(c.name, c.kind, c.nullable, alias) for c in columns)
