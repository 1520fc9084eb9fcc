"""Files that lie below a table and that no version needs, as a format tells it.

`brain/leftovers.py` asks a table that `KnowsLeftovers`; each format knows which names are its own and
what its log still refers to.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, Protocol, runtime_checkable

# "masks" are deletion vectors, "changes" records of a change feed, "other" files that no table format writes.
Kind = Literal["data", "masks", "changes", "other"]


@dataclass(frozen=True, slots=True)
class Leftover:
    """One file. `removed` is when a version stopped needing it; None: no version that the log knows of ever did."""

    path: str  # relative to the table, plain
    size: int
    modified: int  # epoch milliseconds
    kind: Kind
    removed: int | None = None


@dataclass(frozen=True, slots=True)
class Leftovers:
    """What no version within `retention` (milliseconds) refers to, oldest first.

    Files younger than `older_than` may belong to a write under way: they are only counted, in `young`.
    """

    version: int
    retention: int
    older_than: int
    files: Sequence[Leftover]
    young: int


@runtime_checkable
class KnowsLeftovers(Protocol):
    def leftovers(self, older_than: int | None, now: int) -> Leftovers:
        """`older_than` in milliseconds, the table's retention unless given; `now` in epoch milliseconds."""
        ...
