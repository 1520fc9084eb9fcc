"""Statements that change a table, each a small class; `VERBS` is what the state machine draws from.

A verb draws one `Step` (world.py): the statement, how Spark runs it, and what it does to the mirror in
DuckDB. To add a verb, write a class with `applies` and `draw` and list it; to add a dimension, add a choice
to `tables.DIMENSIONS`.
"""

from __future__ import annotations

import base64
from collections import defaultdict
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from hypothesis import strategies as st
from pyroaring import BitMap64
from pyspark.sql import functions as F

from lakemend.errors import ConstraintViolationError
from lakemend.report import Report
from tests.differential.kinds import BY_NAME, SCALARS
from tests.differential.queries import Draw, conditions
from tests.differential.tables import MAPPED_NAMES, PLAIN_NAMES, Column, Design, Row, designs, rows_for, spark_name
from tests.differential.world import Counts, Step, World


class Verb:
    """`weight`: how often it is drawn, compared with the others."""

    weight = 1

    def applies(self, world: World) -> bool:
        return True

    def draw(self, draw: Draw, world: World) -> Step:
        raise NotImplementedError


def _violation(fine: bool) -> type[Exception] | None:
    return None if fine else ConstraintViolationError


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
        return Step(statement, run, lambda: _insert(world), _violation(fine))


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
        return Step(statement, lambda: world.sql(statement), lambda: _insert(world), _violation(fine))


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

        return Step(f"-- {mode}\n      {statement}", run, mirror, _violation(fine))


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

        return Step(statement, lambda: world.sql(statement), mirror, _violation(fine))


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

        return Step(f"{door} with {rows!r}", run, lambda: _replace_all(world), _violation(fine))


class OverwritePartitions(Verb):
    weight = 2

    def draw(self, draw: Draw, world: World) -> Step:
        rows = draw(rows_for(world.columns))
        files = draw(st.integers(1, 2))
        fine = world.offer(world.columns, rows)

        def run() -> Report:
            return world.table.overwrite_partitions(world.frame(world.columns, rows, files))

        statement = f"overwrite_partitions with {rows!r} in {files} files"
        return Step(statement, run, lambda: _replace_partitions(world), _violation(fine))


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

        return Step(f"overwrite where {condition} with {rows!r}", run, mirror, _violation(fine))


# ---- rows go


class MaskRows(Verb):
    """Some rows die in place, as a merge-on-read delete leaves it: their positions are handed to the brain."""

    weight = 2

    def applies(self, world: World) -> bool:
        return world.mirror.count() > 0

    def draw(self, draw: Draw, world: World) -> Step:
        spark, duck = conditions(draw, world)

        def run() -> Report:
            dead: dict[str, list[int]] = defaultdict(list)
            for file, position in world.spark.sql(f"SELECT _file, _pos FROM {world.name} WHERE {spark}").collect():
                dead[file].append(position)
            table = world.table
            answer = table._brain.ask(
                "commit",
                {
                    "table": table._address(), "version": str(table.version), "operation": "delta",
                    "command": "DELETE", "added": [], "removed": [], "predicates": [], "read_predicates": None,
                    "masked": {f: base64.b64encode(BitMap64(p).serialize()).decode() for f, p in dead.items()},
                    "options": {}, "summary": {}, "token": f"mask-{len(world.statements)}", "request": None,
                },
            )  # fmt: skip
            return Report(**answer["report"])

        def mirror() -> Counts:
            return Counts(inserted=0, deleted=world.mirror.change(f"DELETE FROM t WHERE {duck}"))

        return Step(f"mask rows WHERE {spark}", run, mirror)


# ---- the definition changes


def _altered(world: World, columns: tuple[Column, ...], partition_by: tuple[str, ...] | None = None) -> None:
    world.design = replace(
        world.design, columns=columns, partition_by=world.design.partition_by if partition_by is None else partition_by
    )


def _alter(world: World, statement: str, duck: str | None, then: Callable[[], None]) -> Step:
    def run() -> None:
        world.spark.sql(statement)

    def mirror() -> Counts:
        if duck is not None:
            world.mirror.execute(duck)
        then()
        return Counts()

    return Step(statement, run, mirror)


def _free_names(world: World) -> list[str]:
    mapped = world.design.properties.get("delta.columnMapping.mode")
    used = {c.name.lower() for c in world.columns}
    return [name for name in (MAPPED_NAMES if mapped else PLAIN_NAMES) if name.lower() not in used]


def _loose_columns(world: World) -> list[Column]:
    """Columns that no CHECK names: those may be renamed, dropped and widened."""
    used = " ".join(spark for spark, _ in world.checks.values())
    return [c for c in world.columns if c.spark not in used and not c.kind.fields]


class AddColumn(Verb):
    def applies(self, world: World) -> bool:
        return len(world.columns) < 8 and bool(_free_names(world))

    def draw(self, draw: Draw, world: World) -> Step:
        column = Column(draw(st.sampled_from(_free_names(world))), draw(st.sampled_from(SCALARS)))
        place = draw(st.sampled_from(["", "FIRST", *(f"AFTER {c.spark}" for c in world.columns)]))
        columns = list(world.columns)
        at = len(columns)
        if place == "FIRST":
            at = 0
        elif place:
            at = 1 + next(i for i, c in enumerate(columns) if place == f"AFTER {c.spark}")
        columns.insert(at, column)
        return _alter(
            world,
            f"ALTER TABLE {world.name} ADD COLUMN {column!r} {place}",
            f"ALTER TABLE t ADD COLUMN {column.duck} {column.kind.duck}",
            lambda: _altered(world, tuple(columns)),
        )


class RenameColumn(Verb):
    """Also to the name of a column that was dropped or renamed before."""

    def applies(self, world: World) -> bool:
        return bool(_free_names(world)) and bool(_loose_columns(world))

    def draw(self, draw: Draw, world: World) -> Step:
        old = draw(st.sampled_from(_loose_columns(world)))
        new = replace(old, name=draw(st.sampled_from(_free_names(world))))
        columns = tuple(new if c is old else c for c in world.columns)
        partition_by = tuple(new.name if name == old.name else name for name in world.design.partition_by)

        def then() -> None:
            _altered(world, columns, partition_by)
            # Renaming turns column mapping on.
            world.design.properties.setdefault("delta.columnMapping.mode", "name")

        return _alter(
            world,
            f"ALTER TABLE {world.name} RENAME COLUMN {old.spark} TO {spark_name(new.name)}",
            f"ALTER TABLE t RENAME COLUMN {old.duck} TO {new.duck}",
            then,
        )


class DropColumn(Verb):
    def applies(self, world: World) -> bool:
        return len(world.data_columns) > 1 and bool(self._candidates(world))

    def _candidates(self, world: World) -> list[Column]:
        return [c for c in _loose_columns(world) if c.name not in world.design.partition_by]

    def draw(self, draw: Draw, world: World) -> Step:
        gone = draw(st.sampled_from(self._candidates(world)))

        def then() -> None:
            _altered(world, tuple(c for c in world.columns if c is not gone))
            world.design.properties.setdefault("delta.columnMapping.mode", "name")

        return _alter(
            world, f"ALTER TABLE {world.name} DROP COLUMN {gone.spark}", f"ALTER TABLE t DROP COLUMN {gone.duck}", then
        )


class WidenColumn(Verb):
    weight = 2

    def applies(self, world: World) -> bool:
        return bool(self._candidates(world))

    def _candidates(self, world: World) -> list[Column]:
        return [c for c in _loose_columns(world) if c.kind.wider]

    def draw(self, draw: Draw, world: World) -> Step:
        old = draw(st.sampled_from(self._candidates(world)))
        new = replace(old, kind=BY_NAME[draw(st.sampled_from(old.kind.wider))])

        def then() -> None:
            _altered(world, tuple(new if c is old else c for c in world.columns))
            world.widened = True

        return _alter(
            world,
            f"ALTER TABLE {world.name} ALTER COLUMN {old.spark} TYPE {new.kind.spark}",
            f"ALTER TABLE t ALTER COLUMN {old.duck} TYPE {new.kind.duck}",
            then,
        )


# Spark cannot plan a CHECK that it proves to be true, nor one that it simplifies to a bare boolean column.
_NO_CHECK = ("No plan for AddCheckConstraint", "CheckConstraint.toV2Constraint")


class AddCheck(Verb):
    """A condition that some row breaks is refused; one that is unknown (NULL) holds, as everywhere in SQL."""

    def applies(self, world: World) -> bool:
        return len(world.checks) < 2 and any(c.kind.orderable for c in world.columns)

    def draw(self, draw: Draw, world: World) -> Step:
        spark, duck = conditions(draw, world, tuple(c for c in world.columns if c.kind.orderable), depth=1)
        name = f"check_{len(world.statements)}"
        broken = world.mirror.number(f"SELECT count(*) FROM t WHERE NOT ({duck})")
        statement = f"ALTER TABLE {world.name} ADD CONSTRAINT {name} CHECK ({spark})"

        def then() -> None:
            world.checks[name] = (spark, duck)

        step = _alter(world, statement, None, then)
        return replace(step, fails_with=_violation(not broken), refused_by_spark=_NO_CHECK)


class DropCheck(Verb):
    def applies(self, world: World) -> bool:
        return bool(world.checks)

    def draw(self, draw: Draw, world: World) -> Step:
        name = draw(st.sampled_from(sorted(world.checks)))
        statement = f"ALTER TABLE {world.name} DROP CONSTRAINT {name}"
        return _alter(world, statement, None, lambda: world.checks.pop(name) and None)


class SetProperty(Verb):
    def draw(self, draw: Draw, world: World) -> Step:
        key, value = draw(
            st.sampled_from(
                [
                    ("team", "somebody"),
                    ("delta.checkpointInterval", "2"),
                    ("delta.dataSkippingNumIndexedCols", "0"),
                    ("delta.dataSkippingNumIndexedCols", "32"),
                    ("delta.checkpoint.writeStatsAsStruct", "true"),
                    ("delta.checkpoint.writeStatsAsJson", "false"),
                    ("delta.enableDeletionVectors", "true"),
                    ("delta.checkpointPolicy", "v2"),
                ]
            )
        )
        return _alter(world, f"ALTER TABLE {world.name} SET TBLPROPERTIES ('{key}' = '{value}')", None, lambda: None)


VERBS: tuple[Verb, ...] = (
    Append(), InsertInto(), InsertSelf(), InsertOverwrite(), InsertOverwritePartition(), Overwrite(),
    OverwritePartitions(), OverwriteWhere(), MaskRows(), ReplaceTable(), AddColumn(), RenameColumn(), DropColumn(),
    WidenColumn(), AddCheck(), DropCheck(), SetProperty(),
)  # fmt: skip
WEIGHTED: tuple[Verb, ...] = tuple(verb for verb in VERBS for _ in range(verb.weight))
