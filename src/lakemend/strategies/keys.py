"""The key columns of a merge: found on both sides, of types that can be compared, and never NULL.

`task.py` calls this before anything is written. The source is looked at in one pass, the table by its statistics; only
files that may hold a NULL are read.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import date
from decimal import Decimal
from typing import TYPE_CHECKING, Any

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql import types as T

from lakemend.as_stored import same_values
from lakemend.errors import InvalidInputError, SchemaMismatchError
from lakemend.replace import at_hand
from lakemend.spelling import nearest
from lakemend.strategies.statement import quoted

if TYPE_CHECKING:
    from lakemend.table import Table

_SAMPLE = 5
_EXACT = (T.ByteType, T.ShortType, T.IntegerType, T.LongType, T.DecimalType)
_FLOATING = (T.FloatType, T.DoubleType)
_TEXT = (T.StringType, T.CharType, T.VarcharType)


@dataclass(frozen=True)
class Key:
    """A key column under its name on either side."""

    table: str
    source: str
    type: T.DataType | None  # in the table; None where there is none yet


@dataclass(frozen=True)
class SourceFacts:
    """What one pass over the source tells: how many rows, and between which values each key lies."""

    rows: int
    bounds: dict[str, tuple[Any, Any]]


def key_names(key_columns: str | Sequence[str]) -> list[str]:
    named = [key_columns] if isinstance(key_columns, str) else key_columns
    names = list(named) if isinstance(named, Iterable) else []
    if not names or not all(isinstance(name, str) and name for name in names):
        raise InvalidInputError("the merge names no key columns", remedy='pass key_columns="id" or ["day", "id"]')
    if len({name.lower() for name in names}) < len(names):
        raise InvalidInputError(f"a key column is named twice: {', '.join(names)}", remedy="name each once")
    return names


def keys_of(names: Sequence[str], source: T.StructType, target: T.StructType | None, table: str) -> list[Key]:
    """Each key on both sides; raises where it is missing or cannot be compared."""
    found = []
    for name in names:
        incoming = column(source, name, "the source")
        if target is None:
            found.append(Key(incoming.name, incoming.name, None))
            continue
        own = column(target, name, table)
        _require_comparable(own, incoming, table)
        found.append(Key(own.name, incoming.name, own.dataType))
    return found


def column(schema: T.StructType, name: str, where: str, what: str = "key column") -> T.StructField:
    """The column of that name, as SQL finds it."""
    exact = [field for field in schema.fields if field.name == name]
    folded = [field for field in schema.fields if field.name.lower() == name.lower()]
    if len(exact or folded) == 1:
        return (exact or folded)[0]
    meant = nearest(name, schema.names)
    raise InvalidInputError(
        f"{where} has no {what} {name}" + (f"; did you mean {meant}?" if meant else ""),
        cause=f"its columns are {', '.join(schema.names)}",
        remedy="check the spelling, or name other columns"
        + (
            ""
            if where == "the source" or what == "key column"
            else f"; ALTER TABLE {where} ADD COLUMN {quoted(name)} would add it"
        ),
        column=name,
        available=schema.names,
    )


def _require_comparable(own: T.StructField, incoming: T.StructField, table: str) -> None:
    one, other = own.dataType, incoming.dataType
    groups = (_EXACT, _FLOATING, _TEXT)
    same = any(isinstance(one, group) and isinstance(other, group) for group in groups)
    if same_values(one, other) or isinstance(other, T.NullType) or (same and not _is_rounded(other, one)):
        return
    raise SchemaMismatchError(
        f"the key column {own.name} is {one.simpleString()} in {table} and {other.simpleString()} in the source",
        cause="values of these types are not equal without losing something",
        remedy=f"cast it in the source, for example source.withColumn({incoming.name!r}, "
        f"F.col({incoming.name!r}).cast({one.simpleString()!r}))",
        column=own.name,
        expected=one.simpleString(),
        actual=other.simpleString(),
    )


def _is_rounded(type: T.DataType, stored: T.DataType) -> bool:
    """Whether the table would keep other values than those that were compared."""
    if isinstance(type, T.DecimalType):
        return type.scale > (stored.scale if isinstance(stored, T.DecimalType) else 0)
    return isinstance(type, T.DoubleType) and isinstance(stored, T.FloatType)


def require_exact_sequence(own: T.StructField, incoming: T.StructField, table: str) -> None:
    """Raises where the table would keep another sequence than the event had: a stale one would pass for a newer one."""
    one, other = own.dataType, incoming.dataType
    if same_values(one, other) or isinstance(other, T.NullType) or _keeps_order(other, one):
        return
    raise SchemaMismatchError(
        f"the sequence {own.name} is {one.simpleString()} in {table} and {other.simpleString()} in the source",
        cause="the table would keep another value than the source has, by which events cannot be put in order",
        remedy=f"cast it in the source, for example source.withColumn({incoming.name!r}, "
        f"F.col({incoming.name!r}).cast({one.simpleString()!r})), or use a table whose column is "
        f"{other.simpleString()}",
        column=own.name,
        expected=one.simpleString(),
        actual=other.simpleString(),
    )


def _keeps_order(type: T.DataType, stored: T.DataType) -> bool:
    """Whether values of the type that a column can hold at all are kept to the last digit."""
    if isinstance(stored, _EXACT):
        return isinstance(type, _EXACT) and not _is_rounded(type, stored)
    if isinstance(stored, _FLOATING):
        whole = (
            (T.ByteType, T.ShortType) if isinstance(stored, T.FloatType) else (T.ByteType, T.ShortType, T.IntegerType)
        )
        return isinstance(type, (T.FloatType, *whole))
    if isinstance(stored, T.TimestampType):
        return isinstance(type, (T.TimestampNTZType, T.DateType, *_TEXT))
    if isinstance(stored, T.TimestampNTZType):
        # Of moments the clock shows an hour twice as summer ends.
        return isinstance(type, (T.DateType, *_TEXT))
    return isinstance(stored, _TEXT) and isinstance(type, _TEXT)


def look_at_source(source: DataFrame, keys: Sequence[Key], repeats: bool) -> SourceFacts:
    """Counts rows and finds the bounds of each key; raises for a NULL, and for a key that repeats unless it may."""
    columns = [F.col(quoted(key.source)) for key in keys]
    looked = source.coalesce(1) if at_hand(source) else source
    counted = looked.groupBy(*[c.alias(f"k{i}") for i, c in enumerate(columns)]).agg(F.count(F.lit(1)).alias("n"))
    kinds = [source.schema[key.source].dataType for key in keys]
    bounded = [i for i, kind in enumerate(kinds) if _has_bounds(kind)]
    facts: Any = counted.agg(
        F.sum("n").alias("rows"),
        F.max("n").alias("most"),
        *[F.sum(F.when(F.col(f"k{i}").isNull(), F.col("n"))).alias(f"null{i}") for i in range(len(keys))],
        *[_within_reach(F.min(f"k{i}"), kinds[i]).alias(f"min{i}") for i in bounded],
        *[_within_reach(F.max(f"k{i}"), kinds[i]).alias(f"max{i}") for i in bounded],
    ).first()
    for i, key in enumerate(keys):
        if facts[f"null{i}"]:
            raise null_key(key.source, facts[f"null{i}"], "the source")
    if not repeats and (facts["most"] or 0) > 1:
        raise _repeated(counted, keys)
    bounds = {keys[i].table: (facts[f"min{i}"], facts[f"max{i}"]) for i in bounded}
    return SourceFacts(facts["rows"] or 0, bounds)


def _within_reach(bound: Column, type: T.DataType) -> Column:
    """NULL for a day that Python has no word for, or that other calendars count in another way."""
    if not isinstance(type, T.DateType):
        return bound
    return F.when(bound.between(F.expr("DATE'1583-01-01'"), F.expr("DATE'9999-12-31'")), bound)


def _repeated(counted: DataFrame, keys: Sequence[Key]) -> InvalidInputError:
    rows = counted.where("n > 1").orderBy(F.desc("n")).limit(_SAMPLE).collect()
    sample = [{key.source: row[f"k{i}"] for i, key in enumerate(keys)} for row in rows]
    shown = ", ".join(f"{name}={value!r}" for name, value in sample[0].items())
    return InvalidInputError(
        f"keys occur more than once in the source, for example {shown} ({rows[0]['n']} times)",
        cause="nothing says which of these rows wins",
        remedy="use strategy='deduplicate' with dedup_order_by, or leave one row for each key. Nothing was changed",
        keys=[key.source for key in keys],
        sample=sample,
    )


def null_key(name: str, count: int, where: str) -> InvalidInputError:
    return InvalidInputError(
        f"the key column {name} is NULL in {count} row{'s' if count > 1 else ''} of {where}",
        cause="NULL equals nothing, so these rows can never be matched",
        remedy="filter them, or give them a key; nothing was changed",
        column=name,
        count=count,
    )


def require_keys_in_table(table: Table, keys: Sequence[Key]) -> None:
    """Raises for a NULL key in the table; files whose statistics say that they hold none are not read."""
    loaded = table._load()
    for key in keys:
        found = {"op": "IS_NULL", "args": [{"col": [key.table]}]}
        request = {"table": table._address(), "version": loaded["version"], "predicates": [found]}
        if table._brain.ask("plan", request)["files"]:
            count = table.to_df().where(F.col(quoted(key.table)).isNull()).count()
            if count:
                raise null_key(key.table, count, table.name)


def equality(keys: Sequence[Key], facts: SourceFacts | None) -> str:
    """The ON condition: equal keys, and the range of the source's keys, by which files of the table are skipped."""
    same = [f"_target.{quoted(key.table)} = _source.{quoted(key.source)}" for key in keys]
    ranges = []
    for key in keys:
        low, high = (facts.bounds if facts else {}).get(key.table, (None, None))
        literals = [_literal(value) for value in (low, high)]
        if None not in literals and key.type is not None and _has_bounds(key.type):
            ranges.append(f"_target.{quoted(key.table)} BETWEEN {literals[0]} AND {literals[1]}")
    return " AND ".join([*same, *ranges])


def _has_bounds(type: T.DataType) -> bool:
    if isinstance(type, T.StringType):
        return type == T.StringType()
    return isinstance(type, (*_EXACT, T.DateType))


def _literal(value: Any) -> str | None:
    if isinstance(value, bool) or value is None:
        return None
    if isinstance(value, int):
        return f"{value}L" if -(2**63) < value < 2**63 else None
    if isinstance(value, Decimal):
        return f"{value:f}BD" if value.is_finite() else None
    if isinstance(value, date):
        return f"DATE'{value.isoformat()}'"
    if isinstance(value, float):
        return None if not math.isfinite(value) else repr(value)
    # Text of odd characters is left to the join: what a backslash means in a literal is a setting of the session, and
    # Spark puts the value of a setting where its name stands in ${…}.
    plain = isinstance(value, str) and value.isprintable() and not {"'", "\\", "$"} & set(value)
    return f"'{value}'" if plain and len(value) < 1000 else None
