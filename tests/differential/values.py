"""Rows as a query of literals, for INSERT, CREATE TABLE … AS and as the source of a MERGE."""

from __future__ import annotations

from tests.differential.tables import Column, Row


def values_sql(columns: tuple[Column, ...], rows: list[Row]) -> str:
    """A query that gives the rows; VALUES cannot be empty."""
    names = ", ".join(c.spark for c in columns)
    if not rows:
        nulls = ", ".join(f"{c.kind.for_spark(None)} AS {c.spark}" for c in columns)
        return f"SELECT {nulls} WHERE false"
    listed = ", ".join(
        "(" + ", ".join(c.kind.for_spark(v) for c, v in zip(columns, row, strict=True)) + ")" for row in rows
    )
    return f"SELECT * FROM VALUES {listed} AS v({names})"
