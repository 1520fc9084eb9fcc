"""Which rows many conditions keep, in one query: of a table each condition goes to a scan of its own."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from functools import reduce

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

Kept = Counter[tuple[int, int]]
Conditions = Sequence[str | Column]


def kept(table: DataFrame, conditions: Conditions) -> Kept:
    """(number of the condition, id), as often as its filter lets a row through."""
    filtered = [table.where(condition).select(F.lit(i), "id") for i, condition in enumerate(conditions)]
    return Counter((row[0], row[1]) for row in reduce(DataFrame.unionAll, filtered).collect())


def satisfied(rows: DataFrame, conditions: Conditions) -> Kept:
    """The same by columns that are true: there is no filter that could leave out a row, a page or a file."""
    columns = [F.expr(condition) if isinstance(condition, str) else condition for condition in conditions]
    marked = rows.select("id", *[column.alias(f"c{i}") for i, column in enumerate(columns)]).collect()
    return Counter((i, row[0]) for row in marked for i in range(len(columns)) if row[i + 1])


def wrongly(table: DataFrame, rows: DataFrame, conditions: Conditions) -> list[str]:
    """What a table keeps for a condition and should not, or the other way round."""
    found, expected = kept(table, conditions), satisfied(rows, conditions)
    return [f"{conditions[i]}: id {id}" for i, id in sorted((found - expected) + (expected - found))]
