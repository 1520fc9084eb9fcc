"""What `table.join_advice(…)` answers: would a join of two tables shuffle, and what stands in the way.

`brain.join_advice` makes it and `table/` hands it to the user. Values only: nothing here reads a table.
"""

from __future__ import annotations

import html
from dataclasses import asdict, dataclass
from typing import Any

from lakemend.shown import size_text


@dataclass(frozen=True, slots=True)
class Obstacle:
    """One thing that makes Spark shuffle rows, why, and what to do about it."""

    problem: str
    cause: str
    remedy: str

    def __str__(self) -> str:
        return f"{self.problem}. Cause: {self.cause}. Remedy: {self.remedy}."


@dataclass(frozen=True, slots=True)
class JoinSide:
    """One table of the join, without the files in which a join column is null throughout: an inner join skips them."""

    table: str
    version: int
    columns: tuple[str, ...]  # partition columns by whose values a scan can be grouped
    values: int  # of these columns together: the tasks of a scan that is grouped
    largest: int  # bytes of the value that has most
    bytes: int
    keys: int  # values of the columns in `JoinAdvice.grouping` alone

    def __str__(self) -> str:
        if not self.columns:
            return f"{self.table}: {size_text(self.bytes)}, no partition column that rows can be grouped by"
        by = ", ".join(self.columns)
        largest = size_text(self.largest)
        return f"{self.table}: {size_text(self.bytes)} in {self.values:,} values of ({by}), the largest {largest}"


@dataclass(frozen=True, slots=True)
class JoinAdvice:
    """`shuffled` names the sides whose rows an inner join would move, `left` and `right`.

    With `broadcast` the join sends that side to every executor and shuffles nothing, whatever the obstacles: they
    count once the side outgrows Spark's threshold. Without it there are obstacles exactly if a side is shuffled.
    """

    left: JoinSide
    right: JoinSide
    on: tuple[tuple[str, str], ...]
    grouping: tuple[tuple[str, str], ...]  # the join columns both sides are partitioned by
    common: int  # values of these columns that both sides have
    shuffled: tuple[str, ...]
    broadcast: str | None
    obstacles: tuple[Obstacle, ...]

    @property
    def shuffle_free(self) -> bool:
        return not self.shuffled

    def __str__(self) -> str:
        on = ", ".join(left if left == right else f"{left} = {right}" for left, right in self.on)
        lines = [
            f"{self.left.table} ⋈ {self.right.table} on {on}: {self._verdict()}",
            f"  {self.left}",
            f"  {self.right}",
        ]
        if self.grouping:
            by = ", ".join(left if left == right else f"{left} = {right}" for left, right in self.grouping)
            lines.append(
                f"  grouped by {by}: {self.left.keys:,} and {self.right.keys:,} values, {self.common:,} in common"
            )
        if self.broadcast and self.obstacles:
            lines.append("  once that side is too large to broadcast:")
        lines += [f"  {number}. {obstacle}" for number, obstacle in enumerate(self.obstacles, 1)]
        return "\n".join(lines)

    def _repr_html_(self) -> str:
        return f"<pre>{html.escape(str(self))}</pre>"

    def _verdict(self) -> str:
        if self.broadcast:
            return f"no shuffle, the {self.broadcast} side is broadcast"
        if not self.shuffled:
            return "no shuffle"
        return "both sides are shuffled" if len(self.shuffled) == 2 else f"only the {self.shuffled[0]} side is shuffled"

    def to_dict(self) -> dict[str, Any]:
        """Every field and `shuffle_free`, JSON-safe."""
        return {"shuffle_free": self.shuffle_free, **asdict(self)}
