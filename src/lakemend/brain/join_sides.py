"""One side of a join as Spark would plan its scan: by what it is grouped, and what keeps it from saying so.

`join_advice` makes two of these and compares them. A side is read whole, as by `SELECT *`, less the files that hold
nothing but nulls in a join column: an inner join never asks for those.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import pyarrow.compute as pc

from lakemend.advice import Obstacle
from lakemend.brain import grouping
from lakemend.brain.grouping import Sizes
from lakemend.brain.join_columns import Column
from lakemend.brain.plan import live_rows
from lakemend.brain.pruning import kept_rows
from lakemend.brain.row_sizes import row_bytes
from lakemend.formats.format import Snapshot

_BUCKETING = "spark.sql.sources.v2.bucketing"
ENABLED = f"{_BUCKETING}.enabled"
PUSH_VALUES = f"{_BUCKETING}.pushPartValues.enabled"
SHUFFLE_ONE = f"{_BUCKETING}.shuffle.enabled"
SUBSET = f"{_BUCKETING}.allowKeysSubsetOfPartitionKeys.enabled"
PARTIAL = f"{_BUCKETING}.partiallyClusteredDistribution.enabled"
ALL_KEYS = "spark.sql.requireAllClusterKeysForCoPartition"
ALL_KEYS_ANYWHERE = "spark.sql.requireAllClusterKeysForDistribution"


@dataclass(frozen=True, slots=True)
class JoinSettings:
    """What decides in a session. The defaults are those of a Lakemend session with one core."""

    cores: int = 1
    enabled: bool = True
    push_values: bool = True
    shuffle_one: bool = True
    subset: bool = True
    partial: bool = False
    all_keys: bool = False
    all_keys_anywhere: bool = False
    broadcast: int = 10 << 20  # bytes up to which Spark broadcasts a side; negative: never
    growth: float = 1.0  # bytes that Spark reckons with for one in a file, where it cannot tell from the rows
    ansi: bool = True
    preserve: str | None = None  # the two session-wide switches, where they are set
    databricks: str | None = None
    option: str | None = None  # of the reads that are joined


@dataclass(frozen=True, slots=True)
class Side:
    """`keys` are the join columns in order, None where Spark compares an expression instead of the column."""

    place: str
    table: str
    version: int
    partitioning: tuple[str, ...]
    columns: tuple[str, ...]  # those of the partitioning by which a scan can be grouped
    joined: tuple[str, ...]
    keys: tuple[str | None, ...]
    sizes: Sizes
    bytes: int
    estimate: int  # bytes of its rows, as Spark reckons
    mode: str
    mode_setting: str

    @property
    def is_aligned(self) -> bool:
        """Whether it could be grouped by a join column at all."""
        return any(column in self.joined for column in self.columns)

    def reports(self, settings: JoinSettings) -> bool:
        if not settings.enabled or self.mode == "false" or not self.sizes:
            return False
        return self.mode == "true" or not any(grouping.reasons_against(self.sizes, settings.cores, self.table))

    def satisfies(self, settings: JoinSettings) -> bool:
        """Whether Spark takes the side as it is for a join on the keys."""
        if not self.reports(settings):
            return False
        if settings.all_keys_anywhere:
            return self.has_all_keys
        covered = [column in self.keys for column in self.columns]
        return any(covered) if settings.subset else all(covered)

    @property
    def has_all_keys(self) -> bool:
        """Whether it is grouped by the join columns, all of them and no others."""
        return None not in self.keys and sorted(self.columns) == sorted(key for key in self.keys if key)

    def grouped_by(self, settings: JoinSettings) -> tuple[str, ...]:
        return tuple(c for c in self.columns if c in self.keys) if settings.subset else self.columns

    def positions(self, column: str) -> set[int]:
        """Where a column stands among the keys."""
        return {i for i, key in enumerate(self.keys) if key == column}

    def values(self, columns: Sequence[str]) -> set[tuple[object, ...]]:
        places = [self.columns.index(column) for column in columns]
        return {tuple(value[place] for place in places) for value in self.sizes}

    def obstacles(self, other: Side, settings: JoinSettings) -> Iterator[Obstacle]:
        """Why Spark does not take the side as it is, apart from what concerns every scan; none: it does."""
        if not self.is_aligned:
            yield self._not_aligned(other)
            return
        if self.mode == "false":
            yield Obstacle(
                f"{self.table} does not report how its rows are grouped",
                f"{self.mode_setting} is false",
                "set it to auto or true, or take it away",
            )
        if not self.sizes:
            yield Obstacle(
                f"{self.table} has no partition values to be grouped by",
                "it holds no row that an inner join on these columns could match",
                "none is needed: a side without rows is shuffled at no cost",
            )
        elif self.mode == "auto":
            yield from grouping.reasons_against(self.sizes, settings.cores, self.table)
        yield from self._keys_that_do_not_fit(settings)

    def _not_aligned(self, other: Side) -> Obstacle:
        joined = ", ".join(self.joined)
        unusable = [column for column in self.partitioning if column in self.joined]
        like_other = [mine for mine, theirs in zip(self.joined, other.joined, strict=True) if theirs in other.columns]
        if like_other:
            remedy = f"partition it by {', '.join(like_other)}, as {other.table} is"
        else:
            remedy = "partition both tables by a join column that has few values"
        if not self.partitioning:
            cause = "it is not partitioned"
        elif unusable:
            cause = f"values of {', '.join(unusable)} can be equal without being the same bytes, by their type"
            remedy = "partition and join by a column of another type: no floating point number, binary or collated text"
        else:
            cause = f"it is partitioned by {', '.join(self.partitioning)}, and the join is on {joined}"
            remedy = f"join on a partition column too, if that is right for your rows; or {remedy}"
        return Obstacle(f"the rows of {self.table} are not grouped by a join column", cause, remedy)

    def _keys_that_do_not_fit(self, settings: JoinSettings) -> Iterator[Obstacle]:
        by = ", ".join(self.columns)
        usable = [column for column in self.columns if column in self.keys]
        others = [column for column in self.columns if column not in self.keys]
        if settings.all_keys_anywhere and not self.has_all_keys:
            yield Obstacle(
                f"grouping {self.table} by {by} is not enough for a join on {', '.join(self.joined)}",
                f"{ALL_KEYS_ANYWHERE} is true",
                "set it to false, which is Spark's default",
            )
        elif usable and others and not settings.subset:
            yield Obstacle(
                f"{self.table} is grouped by more than the join's columns",
                f"it is partitioned by {by}, {', '.join(others)} is not joined on as it is, and {SUBSET} is false",
                "set it to true, as a Lakemend session does",
            )


def side_of(
    place: str,
    table: str,
    snapshot: Snapshot,
    joined: Sequence[Column],
    cast: Sequence[bool],
    settings: JoinSettings,
) -> Side:
    metadata = snapshot.metadata
    matchable = [{"op": "IS_NOT_NULL", "args": [{"col": list(column.path)}]} for column in joined]
    files = snapshot.files.take(kept_rows(snapshot, matchable))
    columns = grouping.columns_to_group_by(metadata)
    size = int(pc.sum(files["size"]).as_py() or 0)
    mode, mode_setting = grouping.mode(
        {
            grouping.OPTION: settings.option,
            grouping.SETTING: settings.preserve,
            grouping.DATABRICKS: settings.databricks,
            grouping.PROPERTY: metadata.properties.get(grouping.PROPERTY),
        }
    )
    return Side(
        place=place,
        table=table,
        version=snapshot.version,
        partitioning=tuple(part.name for part in metadata.partitioning),
        columns=tuple(column for column, _ in columns),
        joined=tuple(column.name for column in joined),
        keys=tuple(
            None if is_cast or column.is_padded else column.name for column, is_cast in zip(joined, cast, strict=True)
        ),
        sizes=grouping.sizes_by(files, [name for _, name in columns]),
        bytes=size,
        estimate=max(int(size * settings.growth), (live_rows(files) or 0) * row_bytes(metadata.schema)),
        mode=mode,
        mode_setting=mode_setting,
    )
