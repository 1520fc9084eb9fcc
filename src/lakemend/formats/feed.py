"""What a format tells of row changes: which rows each version of a span inserted and deleted.

The brain's `changes` operation asks a table that `KeepsChanges` for a `Span` and hands the files on
to the connector, which reads them. Nothing here is a row: a change is a file, a mask of the rows in
it that do not belong to the change, and whether the others were inserted or deleted.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, Protocol, runtime_checkable

import pyarrow as pa

from lakemend.formats.format import Mask, Snapshot

# A file of kind "feed" was written as a record of changes: each row of it says itself what it is.
Kind = Literal["insert", "delete", "feed"]


@dataclass(frozen=True, slots=True)
class Bound:
    """One end of a span."""

    value: int
    inclusive: bool = True


@dataclass(frozen=True, slots=True)
class Span:
    """Versions, by number or (`by_time`) by the time of their commit in microseconds since the epoch.

    Without a start it begins with the table, without an end it reaches to the newest version.
    """

    start: Bound | None = None
    end: Bound | None = None
    by_time: bool = False


@dataclass(frozen=True, slots=True)
class ChangedFiles:
    """Files whose rows changed in the same way; `files` as `Snapshot.files`, a mask (or None) for each."""

    kind: Kind
    files: pa.Table
    masks: Sequence[Mask | None]


@dataclass(frozen=True, slots=True)
class VersionChanges:
    """What one version did to rows.

    `exact`: its writer vouches that every row listed did change. Otherwise rows that were only
    copied from one file to another are listed too, as deleted and as inserted.
    """

    version: int
    timestamp: int  # epoch milliseconds
    groups: Sequence[ChangedFiles]
    exact: bool


@dataclass(frozen=True, slots=True)
class Changes:
    """The changes of a span, oldest first, to be read with the columns of `snapshot`, its last version.

    `versions` is empty if the span holds none; versions that changed no row are left out.
    """

    snapshot: Snapshot
    versions: Sequence[VersionChanges]


@runtime_checkable
class KeepsChanges(Protocol):
    """A table whose log tells what each version did."""

    def row_changes(self, span: Span) -> Changes:
        """Raises VersionNotFoundError where the log does not (or no longer) reach, SchemaMismatchError where a
        change of columns within the span keeps its rows from being read as rows of one table."""
        ...
