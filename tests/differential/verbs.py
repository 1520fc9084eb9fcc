"""Statements that change a table, each a small class; `VERBS` is what the state machine draws from.

A verb draws one `Step` (world.py): the statement, how Spark runs it, and what it does to the mirror in
DuckDB. To add a verb, write a class with `applies` and `draw` and list it; to add a dimension, add a choice
to `tables.DIMENSIONS`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from hypothesis import strategies as st
from pyspark.sql import functions as F

from lakemend.report import Report
from tests.differential.changes import CHANGES
from tests.differential.definitions import DEFINITION_VERBS
from tests.differential.merges import MergeEvolving, MergeInto
from tests.differential.queries import Draw, conditions
from tests.differential.replacements import REPLACEMENTS
from tests.differential.tables import Column, Design, Row, designs, rows_for
from tests.differential.values import values_sql
from tests.differential.world import Counts, Step, Verb, World, violation


def _insert(world: World) -> Counts:
    return Counts(inserted=world.mirror.insert(), deleted=0)


def _replace_all(world: World) -> Counts:
    deleted = world.mirror.change("DELETE FROM t")
    return Counts(inserted=world.mirror.insert(), deleted=deleted)


def _replace_partitions(world: World) -> Counts:
    """Rows of the partitions that occur in `incoming` make room; a table without partitions is replaced as a whole."""
    if not world.partition_columns:
        return _replace_all(world)
    matches = " AND ".join(f"t.{c.duck} IS NOT DISTINCT FROM i.{c.duck}" for c in world.partition_columns)
    deleted = world.mirror.change(f"DELETE FROM t WHERE EXISTS (SELECT 1 FROM incoming i WHERE {matches})")
    return Counts(inserted=world.mirror.insert(), deleted=deleted)


# ---- creating


def create(draw: Draw, world: World) -> Step:
    """CREATE TABLE … AS SELECT with the world's design, empty or not, through SQL or the Python API."""
    columns, design = world.columns, world.design
    at = f"LOCATION '{world.location}'"
    if any(not c.nullable for c in columns) or draw(st.booleans()):
        listed = ", ".join(f"{c!r}" for c in columns)
        statement = f"CREATE TABLE {world.name} ({listed}) USING delta {design.partitioning} {at}"
        statement += f" {design.table_properties}"
        return _creation(world, statement, lambda: world.sql(statement), [])
    rows = draw(rows_for(columns))
    statement = f"CREATE TABLE {world.name} USING delta {design.partitioning} {at} {design.table_properties} AS "
    statement += values_sql(columns, rows)
    return _creation(world, statement, lambda: world.sql(statement), rows)


def _creation(world: World, statement: str, run: Callable[[], Report], rows: list[Row]) -> Step:
    def mirror() -> Counts:
        world.mirror.create(world.columns)
        world.offer(world.columns, rows)
        return Counts(inserted=world.mirror.insert(), deleted=0)

    return Step(statement, run, mirror)


class ReplaceTable(Verb):
    """REPLACE TABLE … AS SELECT: new columns, new partitioning, the history stays."""

    def draw(self, draw: Draw, world: World) -> Step:
        design: Design = draw(designs(allow_not_null=False))
        design = replace(design, conf=world.design.conf)
        rows = draw(rows_for(design.columns))
        word = draw(st.sampled_from(["REPLACE", "CREATE OR REPLACE"]))
        statement = f"{word} TABLE {world.name} {design.definition} AS {values_sql(design.columns, rows)}"

        def mirror() -> Counts:
            deleted = world.mirror.count()
            world.mirror.create(design.columns)
            world.design, world.checks = design, {}
            world.offer(design.columns, rows)
            return Counts(inserted=world.mirror.insert(), deleted=deleted)

        return Step(statement, lambda: world.sql(statement), mirror)


# ---- rows come


class Append(Verb):
    """A DataFrame, through the Python API, `writeTo` or `write` to the path; matched by name."""

    weight = 4

    def draw(self, draw: Draw, world: World) -> Step:
        columns = tuple(draw(st.permutations(world.columns)))
        rows = draw(rows_for(columns))
        files = draw(st.integers(1, 3))
        door = draw(st.sampled_from(["append", "writeTo", "path", "format delta"]))
        fine = world.offer(columns, rows)

        def run() -> Report:
            frame = world.frame(columns, rows, files)
            if door == "append":
                return world.table.append(frame)
            if door == "writeTo":
                return world.reported(lambda: frame.writeTo(world.name).append())
            writer = frame.write.mode("append").format("delta" if door == "format delta" else "lakemend")
            return world.reported(lambda: writer.save(str(world.location)))

        statement = f"{door} {columns!r} in {files} files: {rows!r}"
        return Step(statement, run, lambda: _insert(world), violation(fine))


class InsertInto(Verb):
    weight = 3

    def draw(self, draw: Draw, world: World) -> Step:
        columns = world.columns
        by_name = draw(st.sampled_from(["", "list", "BY NAME"]))
        if by_name:
            columns = tuple(draw(st.permutations(columns)))
        rows = draw(rows_for(columns))
        fine = world.offer(columns, rows)
        listed = f" ({', '.join(c.spark for c in columns)})" if by_name == "list" else ""
        word = " BY NAME" if by_name == "BY NAME" else ""
        statement = f"INSERT INTO {world.name}{word}{listed} {values_sql(columns, rows)}"
        return Step(statement, lambda: world.sql(statement), lambda: _insert(world), violation(fine))


class InsertSelf(Verb):
    """Rows of the table itself, doubled: the statement reads the version it writes on."""

    def draw(self, draw: Draw, world: World) -> Step:
        spark, duck = conditions(draw, world)
        statement = f"INSERT INTO {world.name} SELECT * FROM {world.name} WHERE {spark}"

        def mirror() -> Counts:
            return Counts(inserted=world.mirror.change(f"INSERT INTO t SELECT * FROM t WHERE {duck}"), deleted=0)

        return Step(statement, lambda: world.sql(statement), mirror)

    def applies(self, world: World) -> bool:
        return world.mirror.count() < 60


# ---- rows come, others go


class InsertOverwrite(Verb):
    """INSERT OVERWRITE of everything, or of the partitions that occur."""

    weight = 2

    def draw(self, draw: Draw, world: World) -> Step:
        rows = draw(rows_for(world.columns))
        fine = world.offer(world.columns, rows)
        dynamic = draw(st.booleans())
        mode = "dynamic" if dynamic else "static"
        statement = f"INSERT OVERWRITE {world.name} {values_sql(world.columns, rows)}"

        def run() -> Report:
            world.spark.conf.set("spark.sql.sources.partitionOverwriteMode", mode)
            try:
                return world.sql(statement)
            finally:
                world.spark.conf.unset("spark.sql.sources.partitionOverwriteMode")

        def mirror() -> Counts:
            return _replace_partitions(world) if dynamic else _replace_all(world)

        return Step(f"-- {mode}\n      {statement}", run, mirror, violation(fine))


class InsertOverwritePartition(Verb):
    """INSERT OVERWRITE … PARTITION (p = literal)."""

    def applies(self, world: World) -> bool:
        return bool(world.partition_columns)

    def draw(self, draw: Draw, world: World) -> Step:
        # Later partition columns come from the rows.
        first, others = world.partition_columns[0], world.partition_columns[1:]
        value = draw(st.one_of(first.kind.values, st.none()))
        columns = (*world.data_columns, *others)
        rows = draw(rows_for(columns))
        complete = tuple(column for column in (*columns, first))
        fine = world.offer(complete, [(*row, value) for row in rows])
        spec = f"{first.spark} = {_bare(first, value)}"
        spec += "".join(f", {c.spark}" for c in others)
        listed = ", ".join(c.spark for c in (*world.data_columns, *others))
        statement = f"INSERT OVERWRITE {world.name} PARTITION ({spec}) ({listed}) {values_sql(columns, rows)}"
        stored = None if value == "" else value

        def mirror() -> Counts:
            gone = f"{first.duck} IS NOT DISTINCT FROM {first.kind.for_duck(stored)}"
            deleted = world.mirror.change(f"DELETE FROM t WHERE {gone}")
            return Counts(inserted=world.mirror.insert(), deleted=deleted)

        return Step(statement, lambda: world.sql(statement), mirror, violation(fine))


def _bare(column: Column, value: Any) -> str:
    """PARTITION (…) takes literals alone, no casts."""
    if value is None:
        return "NULL"
    text = column.kind.spell[0](value)
    typed = {"date": "DATE", "timestamp": "TIMESTAMP", "timestamp_ntz": "TIMESTAMP_NTZ"}
    return f"{typed.get(column.kind.spark, '')}{text}"


class Overwrite(Verb):
    """Everything, through the Python API or the path."""

    def draw(self, draw: Draw, world: World) -> Step:
        rows = draw(rows_for(world.columns))
        files = draw(st.integers(1, 2))
        door = draw(st.sampled_from(["overwrite", "path"]))
        fine = world.offer(world.columns, rows)

        def run() -> Report:
            frame = world.frame(world.columns, rows, files)
            if door == "overwrite":
                return world.table.overwrite(frame)
            return world.reported(lambda: frame.write.mode("overwrite").format("lakemend").save(str(world.location)))

        return Step(f"{door} with {rows!r}", run, lambda: _replace_all(world), violation(fine))


class OverwritePartitions(Verb):
    weight = 2

    def draw(self, draw: Draw, world: World) -> Step:
        rows = draw(rows_for(world.columns))
        files = draw(st.integers(1, 2))
        fine = world.offer(world.columns, rows)

        def run() -> Report:
            return world.table.overwrite_partitions(world.frame(world.columns, rows, files))

        statement = f"overwrite_partitions with {rows!r} in {files} files"
        return Step(statement, run, lambda: _replace_partitions(world), violation(fine))


class OverwriteWhere(Verb):
    """writeTo(…).overwrite(p = value), which takes whole partitions."""

    def applies(self, world: World) -> bool:
        return bool(world.partition_columns)

    def draw(self, draw: Draw, world: World) -> Step:
        column = draw(st.sampled_from(world.partition_columns))
        value = draw(column.kind.values)
        if value == "":
            value = "a"
        at = world.columns.index(column)
        rows = [(*row[:at], value, *row[at + 1 :]) for row in draw(rows_for(world.columns))]
        fine = world.offer(world.columns, rows)
        condition = f"{column.spark} = {column.kind.for_spark(value)}"

        def run() -> Report:
            frame = world.frame(world.columns, rows)
            return world.reported(lambda: frame.writeTo(world.name).overwrite(F.expr(condition)))

        def mirror() -> Counts:
            deleted = world.mirror.change(f"DELETE FROM t WHERE {column.duck} = {column.kind.for_duck(value)}")
            return Counts(inserted=world.mirror.insert(), deleted=deleted)

        return Step(f"overwrite where {condition} with {rows!r}", run, mirror, violation(fine))


VERBS: tuple[Verb, ...] = (
    Append(), InsertInto(), InsertSelf(), InsertOverwrite(), InsertOverwritePartition(), Overwrite(),
    OverwritePartitions(), OverwriteWhere(), ReplaceTable(), *CHANGES, MergeInto(), MergeEvolving(), *REPLACEMENTS,
    *DEFINITION_VERBS,
)  # fmt: skip
WEIGHTED: tuple[Verb, ...] = tuple(verb for verb in VERBS for _ in range(verb.weight))
