"""What a place for journals gives: the rows of one moment, and appends that rest on them.

`session.py` and `change.py` hold a `Storage` per journaled table: `lake.py` (a Delta table) or `plain.py` (Parquet
files).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from pyspark.sql import DataFrame
from pyspark.sql import types as T

from lakemend.journal.spark.versions import Versions
from lakemend.report import Report


@dataclass(frozen=True)
class Pinned:
    """A journal at one moment. Every frame of it holds the same rows whenever it is run.

    `settled` and `recent` are the journal in two parts: `settled` has no key twice and no deletion, and every version
    in `recent` is higher than those in `settled`. `recent` None: there are no other rows.
    """

    number: int
    last: int | None  # the highest version that was ever given
    journal: DataFrame
    settled: DataFrame | None
    recent: DataFrame | None
    rows: int | None  # of the journal; None: unknown
    recent_rows: int | None
    # Journal and archive as one: each version of a key once, with the subsequent version of none but deletions.
    history: Callable[[], DataFrame]
    # Then none of them is newer than another one. False where it is not known, too.
    recent_is_one_version: bool = False
    moment: object = None  # what the storage itself wants to know again

    @property
    def is_empty(self) -> bool:
        return self.rows == 0


class Storage(Protocol):
    """Where one journaled table is."""

    name: str  # of the journal, as SQL spells it
    versions: Versions

    @property
    def schema(self) -> T.StructType:
        """The columns of the journal."""
        ...

    def pin(self) -> Pinned: ...

    def append(self, pinned: Pinned, rows: DataFrame, version: int, operation: str) -> int:
        """Adds the rows of one statement, all of this version and no key twice; returns the number of the commit.

        CommitConflictError: the journal is no longer what was pinned; nothing has happened.
        """
        ...

    def archive(self, retries: int) -> Report:
        """Moves superseded versions out of the journal."""
        ...
