"""Files that lie below a table and that no version needs, as a format tells it.

`brain/vacuum.py` asks a table that `KnowsLeftovers`; each format knows which names are its own and
what its log still refers to.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal, Protocol, runtime_checkable

# "masks" are deletion vectors, "changes" records of a change feed.
Kind = Literal["data", "masks", "changes"]


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
    """What no version that was the newest within `retain` (milliseconds) refers to, oldest first.

    Files younger than that may belong to a write under way: they are only counted, in `young`. `foreign` counts old
    files of which neither the log nor their names say that they are the table's. `retention` is the table's own.
    """

    version: int
    retention: int
    retain: int
    files: Sequence[Leftover]
    young: int
    foreign: int = 0
    links: frozenset[str] = frozenset()  # below the table, none of which was followed


@dataclass(slots=True)
class Needed:
    """Files that may not be deleted, as of a version."""

    version: int
    table_id: str
    paths: set[str] = field(default_factory=set)  # relative to the table, plain
    names: set[str] = field(default_factory=set)  # of files that the log knows by another place than the table's

    def __contains__(self, path: str) -> bool:
        return path in self.paths or (bool(self.names) and path.rsplit("/", 1)[-1] in self.names)


@runtime_checkable
class KnowsLeftovers(Protocol):
    def leftovers(self, retain: int | None, now: int) -> Leftovers:
        """`retain` in milliseconds, the table's retention unless given; `now` in epoch milliseconds.

        Raises UnsupportedFeatureError where the table has a feature, of writers too, that Lakemend does not know: files
        may be needed in a way that the log tells others alone.
        """
        ...

    def needed(self, since: int, links: frozenset[str]) -> Needed:
        """What the newest version needs, and every one that was the newest at some time since (epoch milliseconds)."""
        ...

    def stored_at(self, version: int) -> int:
        """When the store says that the version was made (epoch milliseconds), whatever a writer's clock said."""
        ...

    def needed_after(self, version: int, links: frozenset[str]) -> Needed:
        """What versions after this one name, whether they bring it or take it away."""
        ...
