"""What lies between a table and one of its earlier versions, as a format tells it.

`brain/restore.py` asks a table that `Restores`, and commits a `Change` with `restores` set.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from lakemend.formats.format import Snapshot


@dataclass(frozen=True, slots=True)
class Wanted:
    """A file that no version since needs to have kept. `removed` is when the table stopped needing it, in epoch
    milliseconds; 0 if the log no longer tells."""

    url: str  # absolute, plain
    size: int  # bytes it must have; at least, unless `exact`
    exact: bool
    removed: int


@dataclass(frozen=True, slots=True)
class Restoration:
    """Rows of both snapshots' `files`: those that leave, those that come back, and pairs (now, then) of files that stay
    under another mask."""

    leaving: Sequence[int]
    back: Sequence[int]
    remasked: Sequence[tuple[int, int]]
    redefines: bool  # the definition of the table changes
    wanted: Sequence[Wanted]  # data files and masks that must still be there

    def __bool__(self) -> bool:
        return bool(self.leaving or self.back or self.remasked or self.redefines)


@runtime_checkable
class Restores(Protocol):
    def restoration(self, head: Snapshot, target: Snapshot) -> Restoration: ...
