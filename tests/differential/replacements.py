"""replaceWhere through its doors, replace_using and replace_on. `verbs.py` lists them with the others."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st
from pyspark.sql import functions as F

from lakemend.errors import ConstraintViolationError, RowsOutsidePredicateError
from lakemend.report import Report
from tests.differential.assignments import scope_of
from tests.differential.kinds import STRING
from tests.differential.queries import Draw, conditions, held
from tests.differential.tables import Column, Row, rows_for
from tests.differential.values import values_sql
from tests.differential.world import Counts, Step, Verb, World


def _filled(world: World, rows: list[Row]) -> list[Row]:
    """No empty strings in partition columns: those are null once they are stored, and a condition sees them before."""
    blank = [i for i, c in enumerate(world.columns) if c.kind is STRING and c.name in world.design.partition_by]
    return [tuple("a" if i in blank and v == "" else v for i, v in enumerate(row)) for row in rows]


class ReplaceWhere(Verb):
    """The rows a condition names make room. Rows that come must satisfy it too, and now and then one does not."""

    weight = 4

    def draw(self, draw: Draw, world: World) -> Step:
        by_partition = world.partition_columns and draw(st.booleans())
        spark, duck = conditions(draw, world, world.partition_columns if by_partition else None)
        rows = _filled(world, draw(rows_for(world.columns)))
        world.offer(world.columns, rows)
        inside = world.mirror.query(f"SELECT coalesce({duck}, false) AS inside FROM incoming ORDER BY rowid")
        if draw(st.integers(0, 4)):
            rows = [row for row, fits in zip(rows, inside["inside"].to_pylist(), strict=True) if fits]
        fine = world.offer(world.columns, rows)
        outside = world.mirror.number(f"SELECT count(*) FROM incoming WHERE ({duck}) IS NOT TRUE")
        fails: tuple[type[Exception], ...] = () if fine else (ConstraintViolationError,)
        if outside:
            # Of two reasons either may be told.
            fails = (*fails, RowsOutsidePredicateError)
        door = draw(st.sampled_from(["sql", "api", "writeTo", "path"]))
        files = draw(st.integers(1, 2))

        def run() -> Report:
            if door == "sql":
                return world.sql(
                    f"INSERT INTO {world.name} REPLACE WHERE {spark} {values_sql(world.columns, rows)}"
                )  # fmt: skip
            frame = world.frame(world.columns, rows, files)
            if door == "api":
                return world.table.replace_where(frame, spark)
            if door == "writeTo":
                return world.reported(lambda: frame.writeTo(world.name).overwrite(F.expr(spark)))
            writer = frame.write.format("lakemend").mode("overwrite").option("replaceWhere", spark)
            return world.reported(lambda: writer.save(str(world.location)))

        def mirror() -> Counts:
            deleted = world.mirror.change(f"DELETE FROM t WHERE {duck}")
            return Counts(inserted=world.mirror.insert(), deleted=deleted)

        facts = {"count": outside} if fails == (RowsOutsidePredicateError,) else {}
        return Step(f"{door} REPLACE WHERE {spark} with {rows!r}", run, mirror, fails, facts=facts)


class ReplaceUsing(Verb):
    """Rows that equal an incoming one in the key columns make room; null equals nothing."""

    def applies(self, world: World) -> bool:
        return bool(_keys(world))

    def draw(self, draw: Draw, world: World) -> Step:
        keys = draw(st.lists(st.sampled_from(_keys(world)), min_size=1, max_size=2, unique_by=lambda c: c.name))
        rows = _known(draw, world, _filled(world, draw(rows_for(world.columns))), keys)
        fine = world.offer(world.columns, rows)
        matches = " AND ".join(f"t.{key.duck} = s.{key.duck}" for key in keys)

        def run() -> Report:
            return world.table.replace_using(world.frame(world.columns, rows), key_columns=[key.name for key in keys])

        def mirror() -> Counts:
            deleted = world.mirror.change(f"DELETE FROM t WHERE EXISTS (SELECT 1 FROM incoming s WHERE {matches})")
            return Counts(inserted=world.mirror.insert(), deleted=deleted)

        fails = () if fine else (ConstraintViolationError,)
        return Step(f"replace_using {[key.name for key in keys]!r} {rows!r}", run, mirror, fails)


class ReplaceOn(Verb):
    """Rows for which a condition holds with an incoming one make room."""

    def applies(self, world: World) -> bool:
        return bool(_keys(world))

    def draw(self, draw: Draw, world: World) -> Step:
        key = draw(st.sampled_from(_keys(world)))
        rows = _known(draw, world, _filled(world, draw(rows_for(world.columns))), [key])
        fine = world.offer(world.columns, rows)
        (t,), (s,) = scope_of((key,), "t"), scope_of((key,), "s")
        spark, duck = f"{t.spark} = {s.spark}", f"{t.duck} = {s.duck}"
        if draw(st.booleans()):
            more = conditions(draw, world, scope_of(world.columns, draw(st.sampled_from(["t", "s"]))), depth=1)
            spark, duck = f"{spark} AND ({more[0]})", f"{duck} AND ({more[1]})"

        def run() -> Report:
            return world.table.replace_on(world.frame(world.columns, rows), spark)

        def mirror() -> Counts:
            deleted = world.mirror.change(f"DELETE FROM t WHERE EXISTS (SELECT 1 FROM incoming s WHERE {duck})")
            return Counts(inserted=world.mirror.insert(), deleted=deleted)

        fails = () if fine else (ConstraintViolationError,)
        return Step(f"replace_on {spark} {rows!r}", run, mirror, fails)


def _keys(world: World) -> list[Column]:
    return [c for c in world.columns if c.kind.orderable and c.kind.exact]


def _known(draw: Draw, world: World, rows: list[Row], keys: list[Column]) -> list[Row]:
    """Half of the keys are keys of the table."""
    known: dict[int, list[Any]] = {world.columns.index(key): held(world, key) for key in keys}
    return [
        tuple(draw(st.sampled_from(known[i])) if known.get(i) and draw(st.booleans()) else v for i, v in enumerate(row))
        for row in rows
    ]


REPLACEMENTS: tuple[Verb, ...] = (ReplaceWhere(), ReplaceUsing(), ReplaceOn())
