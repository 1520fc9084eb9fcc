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
    replaceWhere, overwrite match    file, match    row, match     file        file, match,   conflict
                                                                               overlap
    compaction              lands    file           file           file        file           conflict
    metadata change alone   lands    lands          lands          lands       lands          conflict
    replace table           conflict conflict       conflict       conflict    conflict       conflict

    file        the winner removed or masked a file that we removed, or removed a file that we masked
    row         the winner masked a row that we mask too (where we remove the file: `file`); different rows of one file
                both land, their masks united
    match       not under snapshot isolation: a file the winner added may hold new rows that our read predicate matches
    overlap     the rows both replace may be the same, even where neither found one, at every isolation level
    read-gone   not under snapshot isolation: the winner took rows from a file that our read predicate may match.
                Updates, deletes and overwrites change every row they match, so what they left alone cannot have
                mattered to them, unless they read more of the table than that (a subquery on it, the source of the
                new rows)

A definition that only turns masks on, as the first mask of a table does, is nobody's conflict: every change lands over
it by the rules for its rows, and one that brings a definition of its own takes the property over.

Files a compaction adds hold rows that were there before: they never count for `match`. Nor do rows that a winner
copied: if we changed what we read of them, the file they were copied from is a conflict. A later winner that takes rows
from a file that a compaction made has taken rows that were there before (`read-gone`).
Two writers with the same transaction application id always conflict, whatever they did, and a restore that won
conflicts with everything but appends that read nothing. One of ours lands over versions that only say something, and
over no other; if that is a vacuum's beginning, its files have to be looked for once more (`vacuum`). To everybody else
a vacuum's entries in the log are no conflict.

Isolation, of our statement:

    serializable        the outcome is that of all statements one after the other, in the order of their versions
    write-serializable  the same in some order: appends that read nothing may count as having come after us, so they
                        never `match`. Whoever has seen such an append came after it, and so after us, whom it has not
                        seen: a later winner that may have read rows of it is `passed`, another conflict
    snapshot            a statement sees its own snapshot: only what it wrote can conflict

An overwrite that makes the columns anew is serializable at every level: a file of the old columns must not stay.

`row` needs the winner's masks and is decided by `brain/commit.py` while it rebases.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from lakemend.brain.overlap import may_overlap
from lakemend.brain.predicates import ALWAYS_TRUE, Predicate, columns
from lakemend.errors import InvalidInputError
from lakemend.formats.format import Change, ColumnStats, Committed, Metadata, Snapshot
from lakemend.schema import Path, find

StatsLookup = Callable[[Path], ColumnStats | None]
# Which files of a file table may hold a row the predicate matches (true or unknown): true for those.
MayMatch = Callable[[dict[str, Any], pa.Table, StatsLookup], pa.BooleanArray]

# Every row they match is one they change.
_CHANGE_WHAT_THEY_READ = frozenset(
    {"update", "delete", "delete_where", "replace_where", "overwrite", "overwrite_dynamic"}
)
_REPLACE = frozenset({"overwrite", "overwrite_dynamic", "replace_where", "replace_using", "replace_on", "restore"})
_UNKNOWN: Predicate = {"op": "UNKNOWN"}
_JOINED = re.compile(r"\b(AND|OR)\b", re.IGNORECASE)
_OF_TRUTH = re.compile(r"\b(IS|TRUE|FALSE)\b", re.IGNORECASE)
# Characters that mean one thing in Spark's SQL and another one in that of other engines.
_ENGINES_OWN = ("\\", '"')


@dataclass(frozen=True, slots=True)
class Conflict:
    """Why a change and a committed version cannot both stand."""

    version: int
    timestamp: int
    operation: str
    # A word below the matrix, or one of metadata, protocol, transaction, replace, restore, vacuum, passed, log.
    rule: str
    reason: str  # a clause that goes on after "version 7 (UPDATE) …"
    file: str | None = None
    predicate: dict[str, Any] | None = None


def find_conflict(
    change: Change, base: Snapshot, winner: Committed, may_match: MayMatch, earlier: Sequence[Committed] = ()
) -> Conflict | None:
    """The first rule of the matrix that `change`, made on `base`, breaks against `winner`; `earlier` winners came
    between the two."""
    return (
        _definition(change, winner)
        or _transaction(change, winner)
        or _restored(change, winner)
        or _restoring(change, winner)
        or _files(change, winner)
        or _overlapping(change, base, winner)
        or _matching(change, base, winner, may_match)
        or _read_and_gone(change, base, winner, may_match, earlier)
    )


@dataclass
class PassedOver:
    """Files of appends that count as having come after us, though rows in them may match what we read. One commit has
    one of these, however often it is tried."""

    files: list[tuple[pa.Table, StatsLookup]] = field(default_factory=list)

    def note(self, change: Change, winner: Committed, may_match: MayMatch) -> None:
        """A winner that was let pass; rows that a compaction moved stay what they were."""
        reads = change.read_predicate
        if not winner.data_change:
            passed = bool(winner.removed & self._paths)
        elif not winner.blind_append or reads is None or change.isolation != "write-serializable":
            passed = False
        else:
            passed = first_match(reads, winner.added, winner.stats, may_match) is not None
        if passed and winner.added.num_rows:
            self.files.append((winner.added, winner.stats))

    def seen_by(self, winner: Committed, may_match: MayMatch) -> Conflict | None:
        """Whether the winner may have read a row of these files; what other engines read is not known."""
        if not self.files or not winner.data_change or winner.blind_append:
            return None
        reads = winner.read_predicate
        touched = sorted((winner.removed | winner.masked) & self._paths)
        hits = (first_match(reads or ALWAYS_TRUE, files, stats, may_match) for files, stats in self.files)
        file = touched[0] if touched else next((hit for hit in hits if hit is not None), None)
        if file is None:
            return None
        reason = "may have read rows that were appended after this statement began"
        return _conflict(winner, "passed", reason, file=file, predicate=reads)

    @property
    def _paths(self) -> frozenset[str]:
        return frozenset(path for files, _ in self.files for path in files["path"].to_pylist())


def find_first_conflict(
    change: Change,
    base: Snapshot,
    winners: Sequence[Committed],
    may_match: MayMatch,
    passed: PassedOver | None = None,
) -> Conflict | None:
    passed = PassedOver() if passed is None else passed
    for at, winner in enumerate(winners):
        conflict = find_conflict(change, base, winner, may_match, winners[:at]) or passed.seen_by(winner, may_match)
        if conflict:
            return conflict
        passed.note(change, winner, may_match)
    return None


def find_changed_read(
    change: Change, base: Snapshot, winners: Sequence[Committed], may_match: MayMatch
) -> Conflict | None:
    """The first rule that says that rows read at `base` are others after the winners; what was changed does not
    count."""
    for at, winner in enumerate(winners):
        conflict = (
            _definition(change, winner)
            or _restored(change, winner)
            or _matching(change, base, winner, may_match)
            or _read_and_gone(change, base, winner, may_match, winners[:at])
        )
        if conflict is not None:
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
    if change.replaces_table and not _is_idle(winner):
        return _conflict(winner, "replace", "changed the table that was to be replaced")
    return None


def _is_idle(winner: Committed) -> bool:
    """Whether the version only says something, as a vacuum does."""
    return not (winner.added.num_rows or winner.removed or winner.masked or winner.transactions)


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


def _restoring(change: Change, winner: Committed) -> Conflict | None:
    if change.restores is None:
        return None
    if winner.operation == "vacuum_start":
        return _conflict(winner, "vacuum", "began to delete files that no version needs")
    return None if _is_idle(winner) else _conflict(winner, "restore", "changed the table that was to be restored")


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


def _overlapping(change: Change, base: Snapshot, winner: Committed) -> Conflict | None:
    ours, theirs = _replaced(change), _replaced_by(winner, base.metadata)
    if ours is None or theirs is None or not may_overlap(ours, theirs, base.metadata):
        return None
    return _conflict(winner, "overlap", "replaced rows of the same place", predicate=theirs)


def _replaced(change: Change) -> Predicate | None:
    if change.replaced is not None:
        return change.replaced
    return change.read_predicate or ALWAYS_TRUE if change.operation in _REPLACE else None


def _replaced_by(winner: Committed, metadata: Metadata) -> Predicate | None:
    """What the winner replaced; None if it is no overwrite, unknown rows if it does not say."""
    if winner.replaced is not None:
        return winner.replaced
    if winner.operation not in _REPLACE:
        return None
    if winner.replaced_text is None:
        return winner.read_predicate or _UNKNOWN
    if any(mark in winner.replaced_text for mark in _ENGINES_OWN):
        return _UNKNOWN
    from lakemend.brain.where import parse_where

    try:
        predicate = parse_where(winner.replaced_text, metadata.schema)
    except InvalidInputError:
        return _UNKNOWN
    return _UNKNOWN if _lacks_parentheses(winner.replaced_text, predicate, metadata) else _told(predicate, metadata)


def _lacks_parentheses(text: str, predicate: Predicate, metadata: Metadata) -> bool:
    """Whether it may have been `(a AND b) IS NULL` or `(a OR b) = c`: deltalake logs these without parentheses."""
    if _JOINED.search(text) is None:
        return False
    fields = [find(metadata.schema, path) for path in columns(predicate)]
    return _OF_TRUTH.search(text) is not None or any(f is not None and f["type"] == "boolean" for f in fields)


def _told(predicate: Predicate, metadata: Metadata) -> Predicate:
    """A predicate from another engine's text, less what only that engine's time zone could tell."""
    if predicate.get("op") in ("AND", "OR", "NOT"):
        return {**predicate, "args": [_told(arg, metadata) for arg in predicate["args"]]}
    fields = [find(metadata.schema, path) for path in columns(predicate)]
    return _UNKNOWN if any(f is not None and f["type"] == "timestamp" for f in fields) else predicate


def _matching(change: Change, base: Snapshot, winner: Committed, may_match: MayMatch) -> Conflict | None:
    reads = change.read_predicate
    if _makes_columns_anew(change, base):
        change = replace(change, isolation="serializable")
    if reads is None or not change.data_change or not winner.data_change or change.isolation == "snapshot":
        return None
    if change.isolation == "write-serializable" and winner.blind_append:
        return None
    if winner.brings is not None and not may_overlap(reads, winner.brings, base.metadata):
        return None  # no row that is new can match, whatever lies in its files beside them
    fresh = _without(winner.added, winner.masked)
    if not fresh.num_rows:
        return None
    stats = winner.stats if fresh is winner.added else _selected(winner)
    hit = first_match(reads, fresh, stats, may_match)
    if hit is None:
        return None
    return _conflict(winner, "match", "added a file that may hold rows this statement read", file=hit, predicate=reads)


def _makes_columns_anew(change: Change, base: Snapshot) -> bool:
    """Whether the change brings a definition that owes nothing to the base's: new columns under a new id."""
    return change.metadata is not None and change.metadata.id != base.metadata.id


def _read_and_gone(
    change: Change, base: Snapshot, winner: Committed, may_match: MayMatch, earlier: Sequence[Committed]
) -> Conflict | None:
    reads = change.read_predicate
    if reads is None or change.isolation == "snapshot" or not change.data_change or not winner.data_change:
        return None
    if change.operation in _CHANGE_WHAT_THEY_READ and not change.reads_more:
        return None
    touched = pa.array(sorted(winner.removed | winner.masked), pa.string())
    moved = [(other.added, other.stats) for other in earlier if not other.data_change]
    for files, stats in [(base.files, base.stats), *moved]:
        at = pc.index_in(touched, value_set=files["path"].combine_chunks()).drop_null()
        hit = first_match(reads, files.take(at), _rows_of(stats, at), may_match) if len(at) else None
        if hit is not None:
            reason = "deleted rows this statement may have read"
            return _conflict(winner, "read-gone", reason, file=hit, predicate=reads)
    return None


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
