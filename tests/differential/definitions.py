"""ALTER TABLE: verbs that change a table's columns, constraints and properties.

`verbs.py` lists them with the others.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from hypothesis import strategies as st

from tests.differential.kinds import BY_NAME, SCALARS
from tests.differential.queries import Draw, conditions
from tests.differential.tables import MAPPED_NAMES, PLAIN_NAMES, Column, spark_name
from tests.differential.world import Counts, Step, Verb, World, violation


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


def free_names(world: World) -> list[str]:
    mapped = world.design.properties.get("delta.columnMapping.mode")
    used = {c.name.lower() for c in world.columns}
    return [name for name in (MAPPED_NAMES if mapped else PLAIN_NAMES) if name.lower() not in used]


def _loose_columns(world: World) -> list[Column]:
    """Columns that no CHECK names: those may be renamed, dropped and widened."""
    used = " ".join(spark for spark, _ in world.checks.values())
    return [c for c in world.columns if c.spark not in used and not c.kind.fields]


class AddColumn(Verb):
    def applies(self, world: World) -> bool:
        return len(world.columns) < 8 and bool(free_names(world))

    def draw(self, draw: Draw, world: World) -> Step:
        column = Column(draw(st.sampled_from(free_names(world))), draw(st.sampled_from(SCALARS)))
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
        return bool(free_names(world)) and bool(_loose_columns(world))

    def draw(self, draw: Draw, world: World) -> Step:
        old = draw(st.sampled_from(_loose_columns(world)))
        new = replace(old, name=draw(st.sampled_from(free_names(world))))
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
    """A condition that is false or unknown (NULL) for some row is refused."""

    def applies(self, world: World) -> bool:
        return len(world.checks) < 2 and any(c.kind.orderable for c in world.columns)

    def draw(self, draw: Draw, world: World) -> Step:
        spark, duck = conditions(draw, world, tuple(c for c in world.columns if c.kind.orderable), depth=1)
        name = f"check_{len(world.statements)}"
        broken = world.mirror.number(f"SELECT count(*) FROM t WHERE ({duck}) IS NOT TRUE")
        statement = f"ALTER TABLE {world.name} ADD CONSTRAINT {name} CHECK ({spark})"

        def then() -> None:
            world.checks[name] = (spark, duck)

        step = _alter(world, statement, None, then)
        return replace(step, fails_with=violation(not broken), refused_by_spark=_NO_CHECK)


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


DEFINITION_VERBS: tuple[Verb, ...] = (
    AddColumn(), RenameColumn(), DropColumn(), WidenColumn(), AddCheck(), DropCheck(), SetProperty(),
)  # fmt: skip
