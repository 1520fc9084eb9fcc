"""`join_advice`: would an inner join of two versions shuffle, decided from their logs and the session's settings.

The service calls `advise` and hands its `JoinAdvice` to `table/`. It follows the rules by which Spark 4.3 places
exchanges below a join: a side stays where it is if it is grouped by join columns, and both stay if they are grouped by
the same ones. tests/plans/test_join_advice.py compares it with plans that ran.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from lakemend.advice import JoinAdvice, JoinSide, Obstacle
from lakemend.brain.comparison import casts
from lakemend.brain.join_columns import Pair, join_columns
from lakemend.brain.join_sides import (
    ALL_KEYS,
    ENABLED,
    PARTIAL,
    PUSH_VALUES,
    SHUFFLE_ONE,
    JoinSettings,
    Side,
    side_of,
)
from lakemend.formats.format import Snapshot

Named = tuple[str, Snapshot]


def advise(left: Named, right: Named, on: object, settings: JoinSettings) -> JoinAdvice:
    pairs = join_columns(left[0], left[1].metadata, right[0], right[1].metadata, on)
    cast = [casts(pair.left.type, pair.right.type, settings.ansi) for pair in pairs]
    one = side_of("left", *left, [p.left for p in pairs], [c[0] for c in cast], settings)
    other = side_of("right", *right, [p.right for p in pairs], [c[1] for c in cast], settings)
    shuffled = _shuffled(one, other, settings)
    broadcast = _broadcast(one, other, settings)
    meeting = [
        (p.left.name, p.right.name)
        for i, p in enumerate(pairs)
        if one.keys[i] in one.columns and other.keys[i] in other.columns
    ]
    values = one.values([name for name, _ in meeting]), other.values([name for _, name in meeting])
    return JoinAdvice(
        left=_shown(one, len(values[0]) if meeting else 0),
        right=_shown(other, len(values[1]) if meeting else 0),
        on=tuple((p.left.name, p.right.name) for p in pairs),
        grouping=tuple(meeting),
        common=len(values[0] & values[1]) if meeting else 0,
        shuffled=() if broadcast else shuffled,
        broadcast=broadcast,
        obstacles=tuple(_obstacles(one, other, pairs, shuffled, settings)) if shuffled else (),
    )


def _shown(side: Side, keys: int) -> JoinSide:
    return JoinSide(
        table=side.table,
        version=side.version,
        columns=side.columns,
        values=len(side.sizes),
        largest=max(side.sizes.values(), default=0),
        bytes=side.bytes,
        keys=keys,
    )


def _broadcast(left: Side, right: Side, settings: JoinSettings) -> str | None:
    """The side that Spark expects to be small enough for every executor; of two the smaller one."""
    smaller = right if right.estimate <= left.estimate else left
    return smaller.place if smaller.estimate <= settings.broadcast else None


def _shuffled(left: Side, right: Side, settings: JoinSettings) -> tuple[str, ...]:
    """Which sides Spark shuffles if it broadcasts none."""
    staying = [side for side in (left, right) if side.satisfies(settings)]
    if len(staying) == 2 and _are_aligned(left, right, settings):
        return ()
    if not staying or not _leads(settings):
        return "left", "right"
    # The side with more partitions leads, and the other one is brought into its order.
    leader = max(staying, key=lambda side: len(side.values(side.grouped_by(settings))))
    if len(staying) == 2 and _fit(left, right, settings) and _same_values(left, right, settings):
        return ()
    return tuple(side.place for side in (left, right) if side is not leader)


def _leads(settings: JoinSettings) -> bool:
    """Whether a side that is grouped can stay while the other one is shuffled."""
    return settings.shuffle_one and not settings.partial


def _are_aligned(left: Side, right: Side, settings: JoinSettings) -> bool:
    if settings.all_keys and not (left.has_all_keys and right.has_all_keys):
        return False
    adjusts = settings.push_values or settings.subset
    return _fit(left, right, settings) and (adjusts or _same_values(left, right, settings))


def _fit(left: Side, right: Side, settings: JoinSettings) -> bool:
    """Whether the columns both are grouped by are joined with each other, in the same order."""
    ours, theirs = left.grouped_by(settings), right.grouped_by(settings)
    return len(ours) == len(theirs) and all(
        left.positions(a) & right.positions(b) for a, b in zip(ours, theirs, strict=True)
    )


def _same_values(left: Side, right: Side, settings: JoinSettings) -> bool:
    return left.values(left.grouped_by(settings)) == right.values(right.grouped_by(settings))


def _obstacles(
    left: Side, right: Side, pairs: Sequence[Pair], shuffled: tuple[str, ...], settings: JoinSettings
) -> Iterator[Obstacle]:
    if not settings.enabled and (left.is_aligned or right.is_aligned):
        yield Obstacle(
            "no scan reports how its rows are grouped",
            f"{ENABLED} is false",
            "set it to true, which is Spark's default",
        )
    yield from left.obstacles(right, settings)
    yield from right.obstacles(left, settings)
    yield from _expressions(left, right, pairs)
    staying = [side for side in (left, right) if side.satisfies(settings)]
    if len(staying) == 2:
        yield from _between(left, right, settings)
    if staying and len(shuffled) == 2:
        setting, value, change = (
            (PARTIAL, "true", "set it to false, which is Spark's default")
            if settings.partial
            else (SHUFFLE_ONE, "false", "set it to true, as a Lakemend session does")
        )
        yield Obstacle(
            f"{staying[0].table} is shuffled too, although only one side would have to be",
            f"{setting} is {value}",
            change,
        )


def _between(left: Side, right: Side, settings: JoinSettings) -> Iterator[Obstacle]:
    """What keeps two sides apart that are grouped by join columns both."""
    ours, theirs = left.grouped_by(settings), right.grouped_by(settings)
    if not _fit(left, right, settings):
        yield Obstacle(
            f"{left.table} and {right.table} are grouped by different join columns",
            f"the rows of one lie by ({', '.join(ours)}), those of the other by ({', '.join(theirs)})",
            "partition both by the same columns in the same order, or join on those alone that they share",
        )
    elif settings.all_keys and not (left.has_all_keys and right.has_all_keys):
        yield Obstacle(
            "the join's columns are not exactly the columns that the rows are grouped by",
            f"the join is on {', '.join(left.joined)}, and {ALL_KEYS} is true",
            "set it to false, as a Lakemend session does",
        )
    elif not _same_values(left, right, settings):
        yield Obstacle(
            f"{left.table} and {right.table} do not have the same partition values",
            f"{PUSH_VALUES} is false",
            "set it to true, which is Spark's default",
        )


def _expressions(left: Side, right: Side, pairs: Sequence[Pair]) -> Iterator[Obstacle]:
    """Partition columns that Spark compares after a change, which undoes their grouping."""
    for i, pair in enumerate(pairs):
        changed = [
            (side, column)
            for side, column in ((left, pair.left), (right, pair.right))
            if column.name in side.columns and side.keys[i] is None
        ]
        for side, column in changed:
            if pair.left.type == pair.right.type:
                yield Obstacle(
                    f"{side.table} is not grouped by what the join compares",
                    f"{column.name} is a CHAR, which Spark pads with blanks as it reads it",
                    "declare it as STRING or VARCHAR",
                )
                continue
            yield Obstacle(
                f"{side.table} is not grouped by what the join compares",
                f"{pair.left.name} is {pair.left.type} in {left.table} and {pair.right.name} is {pair.right.type} in "
                f"{right.table}, so that Spark casts {column.name} of {side.table}",
                "give both columns the same type",
            )
