"""Rows that a statement read of its own table at an earlier version than the one it changes.

`write.py` calls this before it makes the version. A cached frame holds the rows of the version it was read at; and a
table that is read by one name and written by another may have moved on between the two. Such reads must still hold at
the version the statement is based on: from there on, the commit itself looks after them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from lakemend.brain.commit import by_predicate, conflict_error, require_told
from lakemend.brain.conflicts import find_changed_read
from lakemend.brain.predicates import conjunction
from lakemend.brain.tables import OpenTable, version_number
from lakemend.formats.format import Change, Snapshot

_REMEDY = "nothing was changed: read the rows again (unpersist a cached frame first), and run the statement on them"


def require_unchanged(opened: OpenTable, base: Snapshot, change: Change, reads: Sequence[Mapping[str, Any]]) -> None:
    """Raises CommitConflictError if rows that were read at an earlier version have changed up to `base`."""
    for read in reads:
        version = version_number(read["version"])
        if version < base.version:
            _require_unchanged(opened, base, replace(change, read_predicate=conjunction(read["predicates"])), version)


def _require_unchanged(opened: OpenTable, base: Snapshot, change: Change, version: int) -> None:
    then = opened.pinned(version)
    # What was appended up to the base cannot count as having come later: the statement is based on it.
    isolation = "serializable" if change.isolation == "write-serializable" else change.isolation
    change = replace(change, reads_more=True, isolation=isolation)
    winners = [winner for winner in opened.table.changes_since(version) if winner.version <= base.version]
    require_told(opened.table, then, base, change, winners, _REMEDY)
    conflict = find_changed_read(change, then, winners, by_predicate(then))
    if conflict is not None:
        raise conflict_error(opened.table, then, change, conflict, _REMEDY)
