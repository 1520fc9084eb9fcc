"""Which concurrent commits a change can live with.

`brain/commit.py` asks `find_conflict` for every version that landed between the snapshot a statement
worked on and the one it tries to make; the answer is the first reason why the two cannot both stand,
or None. Nothing here reads or writes: what a predicate may match is asked of the callable passed in.

Rows: our change, made on an older snapshot. Columns: what the winner did. `lands` means that ours is
committed on top; otherwise the cell names what makes it fail.

    ours ↓     winner →     append   row change,    row change,    compaction  replaceWhere,  metadata,
                                     copy-on-write  merge-on-read              overwrite      protocol
    append (reads nothing)  lands    lands          lands          lands       lands          conflict
    append (reads rows)     match    match,         match,         lands       match,         conflict
                                     read-gone      read-gone                  read-gone
    update, delete (CoW)    match    file, match    file, match    file        file, match    conflict
    update, delete (MoR)    match    file, match    row, match     file        file, match    conflict
    merge                   match    file, match,   row, match,    file        file, match,   conflict
                                     read-gone      read-gone                  read-gone
    replaceWhere, overwrite match    file, match    file, match    file        file, match*,  conflict
                                                                               same
    compaction              lands    file           file           file        file           conflict
    metadata change alone   lands    lands          lands          lands       lands          conflict
    replace table           conflict conflict       conflict       conflict    conflict       conflict

    file        the winner removed or masked a file that we removed, or removed a file that we masked
    row         the winner masked a row that we mask too; different rows of one file both land, their masks united
    match       serializable only: a file the winner added may hold rows that our read predicate matches
    match*      as `match`, under snapshot isolation too: two overwrites of one place never both land
    same        both replace by the same predicate, even where neither found a file to remove
    read-gone   serializable only: the winner took rows from a file that our read predicate may match. Updates and
                deletes change every row they match, so what they left alone cannot have mattered to them, unless
                they read the whole table (a subquery on it) and changed only a part

Files a compaction adds hold rows that were there before: they never count for `match` or `read-gone`.
Two writers with the same transaction application id always conflict, whatever they did, and a restore
conflicts with everything but appends that read nothing.
Under snapshot isolation a statement sees its own snapshot: only what it wrote can conflict.
`row` needs the winner's masks and is decided by `brain/commit.py` while it rebases.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from lakemend.formats.format import Change, ColumnStats, Committed, Snapshot
from lakemend.schema import Path

StatsLookup = Callable[[Path], ColumnStats | None]
# Which files of a file table may hold a row the predicate matches (true or unknown): true for those.
MayMatch = Callable[[dict[str, Any], pa.Table, StatsLookup], pa.BooleanArray]

# Every row they match is one they change.
_CHANGE_WHAT_THEY_READ = frozenset(
    {"update", "delete", "delete_where", "replace_where", "overwrite", "overwrite_dynamic"}
)
_REPLACE = frozenset(
    {"overwrite", "overwrite_dynamic", "replace_where", "replace_using", "replace_on", "truncate", "restore"}
)
_EVERYTHING = {"op": "ALWAYS_TRUE"}


@dataclass(frozen=True, slots=True)
class Conflict:
    """Why a change and a committed version cannot both stand."""

    version: int
    timestamp: int
    operation: str
    # A word of the matrix, or one of metadata, protocol, transaction, replace, restore.
    rule: str
    reason: str  # a clause that goes on after "version 7 (UPDATE) …"
    file: str | None = None
    predicate: dict[str, Any] | None = None


def find_conflict(change: Change, base: Snapshot, winner: Committed, may_match: MayMatch) -> Conflict | None:
    """The first rule of the matrix that `change`, made on `base`, breaks against `winner`."""
    return (
        _definition(change, winner)
        or _transaction(change, winner)
        or _restored(change, winner)
        or _files(change, winner)
        or _same_place(change, winner)
        or _matching(change, winner, may_match)
        or _read_and_gone(change, base, winner, may_match)
    )


def find_first_conflict(
    change: Change, base: Snapshot, winners: Sequence[Committed], may_match: MayMatch
) -> Conflict | None:
    for winner in winners:
        if conflict := find_conflict(change, base, winner, may_match):
            return conflict
    return None


def reads_nothing(change: Change) -> bool:
    """Whether the change is a blind append, or alters the definition alone."""
    return change.read_predicate is None and not change.removed and not change.masked and not change.replaces_table


def _conflict(winner: Committed, rule: str, reason: str, **values: Any) -> Conflict:
    return Conflict(winner.version, winner.timestamp, winner.operation, rule, reason, **values)


def _definition(change: Change, winner: Committed) -> Conflict | None:
    if winner.protocol_changed:
        return _conflict(winner, "protocol", "changed the protocol of the table")
    if winner.metadata_changed:
        return _conflict(winner, "metadata", "changed the schema or the properties of the table")
    if change.replaces_table:
        return _conflict(winner, "replace", "changed the table that was to be replaced")
    return None


def _transaction(change: Change, winner: Committed) -> Conflict | None:
    if change.transaction is None or change.transaction[0] not in winner.transactions:
        return None
    app_id = change.transaction[0]
    return _conflict(winner, "transaction", f"recorded transaction {winner.transactions[app_id]} of {app_id!r}")


def _restored(change: Change, winner: Committed) -> Conflict | None:
    # A restore brings dead rows back to life, also inside files whose masks shrink.
    if winner.operation.lower() != "restore" or reads_nothing(change):
        return None
    return _conflict(winner, "restore", "restored an older version of the table")


def _files(change: Change, winner: Committed) -> Conflict | None:
    for gone in change.removed:
        if gone.path in winner.removed:
            return _conflict(winner, "file", "removed a file this statement rewrites or removes", file=gone.path)
        if gone.path in winner.masked:
            return _conflict(
                winner, "file", "deleted rows of a file this statement rewrites or removes", file=gone.path
            )
    for masked in change.masked:
        if masked.path in winner.removed:
            return _conflict(winner, "file", "removed a file this statement deletes rows of", file=masked.path)
    return None


def _same_place(change: Change, winner: Committed) -> Conflict | None:
    both = change.operation in _REPLACE and winner.operation in _REPLACE
    if both and change.read_predicate is not None and change.read_predicate == winner.read_predicate:
        return _conflict(winner, "same", "replaced the rows of the same predicate", predicate=change.read_predicate)
    return None


def _matching(change: Change, winner: Committed, may_match: MayMatch) -> Conflict | None:
    if change.read_predicate is None or not change.data_change or not winner.data_change:
        return None
    both_replace = change.operation in _REPLACE and winner.operation in _REPLACE
    if change.isolation == "snapshot" and not both_replace:
        return None
    fresh = _without(winner.added, winner.masked)
    if not fresh.num_rows:
        return None
    stats = winner.stats if fresh is winner.added else _selected(winner)
    hit = first_match(change.read_predicate, fresh, stats, may_match)
    if hit is None:
        return None
    return _conflict(
        winner,
        "match",
        "added a file that may hold rows this statement read",
        file=hit,
        predicate=change.read_predicate,
    )


def _read_and_gone(change: Change, base: Snapshot, winner: Committed, may_match: MayMatch) -> Conflict | None:
    reads = change.read_predicate
    if reads is None or change.isolation == "snapshot" or not change.data_change or not winner.data_change:
        return None
    if change.operation in _CHANGE_WHAT_THEY_READ and reads != _EVERYTHING:
        return None
    touched = winner.removed | winner.masked
    if not touched:
        return None
    files = base.files
    at = pc.index_in(pa.array(sorted(touched), pa.string()), value_set=files["path"].combine_chunks()).drop_null()
    if not len(at):
        return None
    if reads == _EVERYTHING:
        hit: str | None = files["path"][at[0].as_py()].as_py()
    else:
        hit = first_match(reads, files.take(at), _rows_of(base.stats, at), may_match)
    if hit is None:
        return None
    return _conflict(winner, "read-gone", "deleted rows this statement may have read", file=hit, predicate=reads)


def first_match(predicate: dict[str, Any], files: pa.Table, stats: StatsLookup, may_match: MayMatch) -> str | None:
    """The path of the first file that may hold a matching row."""
    row = pc.index(may_match(predicate, files, stats), True).as_py()
    return None if row < 0 else str(files["path"][row].as_py())


def _without(files: pa.Table, paths: frozenset[str]) -> pa.Table:
    """`files` less the ones that were only masked again: their rows were there before."""
    if not paths or not files.num_rows:
        return files
    known = pc.is_in(files["path"], value_set=pa.array(sorted(paths), pa.string()))
    return files.filter(pc.invert(known)) if pc.any(known).as_py() else files


def _selected(winner: Committed) -> StatsLookup:
    known = pc.is_in(winner.added["path"], value_set=pa.array(sorted(winner.masked), pa.string()))
    rows = pc.indices_nonzero(pc.invert(known)).cast(pa.int64())
    return _rows_of(winner.stats, rows)


def _rows_of(stats: StatsLookup, rows: pa.Array) -> StatsLookup:
    def look_up(path: Path) -> ColumnStats | None:
        found = stats(path)
        if found is None:
            return None
        return ColumnStats(found.min.take(rows), found.max.take(rows), found.nulls.take(rows), found.exact.take(rows))

    return look_up
