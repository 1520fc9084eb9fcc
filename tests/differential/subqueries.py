"""Conditions of UPDATE and DELETE: comparisons, subqueries on the table itself and on another one, and mixtures.

`changes.py` draws them. In both dialects the table that is changed goes by the alias `t`, that of a subquery by `o`.
"""

from __future__ import annotations

from hypothesis import strategies as st

from tests.differential.queries import Condition, Draw, conditions
from tests.differential.tables import Column
from tests.differential.world import World

EVERYTHING: Condition = ("true", "true")


def row_conditions(draw: Draw, world: World) -> Condition:
    shape = draw(st.sampled_from(["plain"] * 5 + ["partition"] * 2 + ["all", "none", "unknown"] + ["subquery"] * 6))
    if shape == "all":
        return EVERYTHING
    if shape == "none":
        return "false", "false"
    if shape == "unknown":
        return "CAST(NULL AS boolean)", "CAST(NULL AS boolean)"
    if shape == "partition" and world.partition_columns:
        return conditions(draw, world, world.partition_columns, depth=1)
    if shape == "subquery" and _comparable(world.columns):
        return _with_subquery(draw, world)
    return conditions(draw, world)


def _with_subquery(draw: Draw, world: World) -> Condition:
    inner = subquery(draw, world)
    around = draw(st.sampled_from(["", "", "NOT", "AND", "AND", "OR"]))
    if around == "NOT":
        return f"NOT ({inner[0]})", f"NOT ({inner[1]})"
    if around:
        other = conditions(draw, world, depth=1)
        return f"({inner[0]}) {around} ({other[0]})", f"({inner[1]}) {around} ({other[1]})"
    return inner


def subquery(draw: Draw, world: World) -> Condition:
    columns = _comparable(world.columns)
    column = draw(st.sampled_from(columns))
    table = (world.name, "t", world.columns)
    if draw(st.booleans()):
        other = world.other(draw)
        if any(c.kind is column.kind for c in _comparable(other[2])):
            table = other
    spark, duck, offered = table
    compared = draw(st.sampled_from([c for c in _comparable(offered) if c.kind is column.kind]))
    inside = conditions(draw, world, offered, depth=1)
    c, o = Column(column.name, column.kind, of="t"), Column(compared.name, compared.kind, of="o")
    shape = draw(st.sampled_from(["in", "not in", "exists", "not exists", "scalar", "correlated"]))
    if shape in ("in", "not in"):
        word = shape.upper()
        return (
            f"{c.spark} {word} (SELECT {o.spark} FROM {spark} o WHERE {inside[0]})",
            f"{c.duck} {word} (SELECT {o.duck} FROM {duck} o WHERE {inside[1]})",
        )
    if shape in ("exists", "not exists"):
        word, equals = shape.upper(), draw(st.sampled_from([("=", "="), ("<=>", "IS NOT DISTINCT FROM")]))
        return (
            f"{word} (SELECT 1 FROM {spark} o WHERE {o.spark} {equals[0]} {c.spark} AND ({inside[0]}))",
            f"{word} (SELECT 1 FROM {duck} o WHERE {o.duck} {equals[1]} {c.duck} AND ({inside[1]}))",
        )
    operator, function = draw(st.sampled_from(["=", "<", ">=", "<>"])), draw(st.sampled_from(["min", "max"]))
    if shape == "scalar":
        return (
            f"{c.spark} {operator} (SELECT {function}({o.spark}) FROM {spark} o WHERE {inside[0]})",
            f"{c.duck} {operator} (SELECT {function}({o.duck}) FROM {duck} o WHERE {inside[1]})",
        )
    return (
        f"{c.spark} {operator} (SELECT {function}({o.spark}) FROM {spark} o WHERE {o.spark} = {c.spark})",
        f"{c.duck} {operator} (SELECT {function}({o.duck}) FROM {duck} o WHERE {o.duck} = {c.duck})",
    )


def _comparable(columns: tuple[Column, ...]) -> list[Column]:
    return [c for c in columns if c.kind.orderable and c.kind.exact]
