"""UPDATE and DELETE, through SQL and the Python API. `verbs.py` lists them with the others."""

from __future__ import annotations

from collections.abc import Callable

from hypothesis import strategies as st

from lakemend.report import Report
from tests.differential.assignments import Expression, expressions, field_assignment, scope_of
from tests.differential.queries import Condition, Draw, conditions
from tests.differential.subqueries import EVERYTHING, row_conditions
from tests.differential.tables import Column
from tests.differential.world import Counts, Step, Verb, World

Assignment = tuple[str, Column, Expression]  # what Spark assigns to, the column in DuckDB, the values


def assignments(draw: Draw, world: World, scope: tuple[Column, ...], alias: str = "t") -> list[Assignment]:
    """Some columns in any order, each once; swaps are as likely as anything else."""
    chosen = draw(st.lists(st.sampled_from(world.columns), min_size=1, max_size=3, unique_by=lambda c: c.name))
    found: list[Assignment] = []
    for column in chosen:
        if column.kind.fields and draw(st.booleans()):
            (own,) = scope_of((column,), alias)
            target, value = field_assignment(draw, own)
            found.append((target, column, value))
        else:
            found.append((column.spark, column, expressions(draw, world, column, scope)))
    return found


class Update(Verb):
    weight = 6

    def draw(self, draw: Draw, world: World) -> Step:
        assigned = assignments(draw, world, scope_of(world.columns, "t"))
        where = row_conditions(draw, world)
        duck = ", ".join(f"{column.duck} = {value[1]}" for _, column, value in assigned)
        mirrored = f"UPDATE t SET {duck} WHERE {where[1]}"
        spark = ", ".join(f"{target} = {value[0]}" for target, _, value in assigned)
        statement = f"UPDATE {world.name} AS t SET {spark}" + _where(draw, where)

        def mirror() -> Counts:
            updated = world.mirror.change(mirrored)
            world.blank()
            return Counts(inserted=0, updated=updated, deleted=0)

        fails = world.rehearse(lambda: world.mirror.change(mirrored))
        return Step(statement, lambda: world.sql(statement), mirror, fails)


class UpdateByName(Verb):
    """table.update(…) with and without the builder; a dry run first, which must know the count."""

    weight = 2

    def draw(self, draw: Draw, world: World) -> Step:
        assigned = assignments(draw, world, world.columns, "")
        where = conditions(draw, world)
        duck = ", ".join(f"{column.duck} = {value[1]}" for _, column, value in assigned)
        mirrored = f"UPDATE t SET {duck} WHERE {where[1]}"
        values = {target: value[0] for target, _, value in assigned}
        built = draw(st.booleans())

        def run() -> Report:
            if not built:
                return world.table.update(set=values, where=where[0])
            update = world.table.update().where(where[0])
            for target, value in values.items():
                update = update.set(target, value)
            return update.execute()

        def mirror() -> Counts:
            updated = world.mirror.change(mirrored)
            world.blank()
            return Counts(inserted=0, updated=updated, deleted=0)

        fails = world.rehearse(lambda: world.mirror.change(mirrored))
        return Step(f"table.update({values!r}, {where[0]!r})", run, mirror, fails)


class Delete(Verb):
    weight = 4

    def draw(self, draw: Draw, world: World) -> Step:
        where = self.condition(draw, world)
        statement = f"DELETE FROM {world.name} AS t" + _where(draw, where)
        return Step(statement, lambda: world.sql(statement), _deletion(world, where))

    def condition(self, draw: Draw, world: World) -> Condition:
        return row_conditions(draw, world)


class DeleteByName(Verb):
    """table.delete(…) after a dry run, which must know the count and change nothing."""

    weight = 2

    def draw(self, draw: Draw, world: World) -> Step:
        where = conditions(draw, world)
        expected = world.mirror.number(f"SELECT count(*) FROM t WHERE {where[1]}")

        def run() -> Report:
            dry = world.table.delete(where[0], dry_run=True)
            assert (dry.deleted, dry.version, dry.dry_run) == (expected, None, True), f"{expected} rows: {dry}"
            assert world.table.version == world.version, "a dry run made a version"
            return world.table.delete(where[0])

        return Step(f"table.delete({where[0]!r})", run, _deletion(world, where))


def _deletion(world: World, where: Condition) -> Callable[[], Counts]:
    def mirror() -> Counts:
        return Counts(inserted=0, updated=0, deleted=world.mirror.change(f"DELETE FROM t WHERE {where[1]}"))

    return mirror


def _where(draw: Draw, where: Condition) -> str:
    if where == EVERYTHING and draw(st.booleans()):
        return ""
    return f" WHERE {where[0]}"


CHANGES: tuple[Verb, ...] = (Update(), UpdateByName(), Delete(), DeleteByName())
