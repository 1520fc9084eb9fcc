"""A change becomes a version: try, look at who was faster, rebase, try again.

The brain's `commit` and `alter` calls and the maintenance commands call `commit`; it hands on to the
format's `try_commit`, which makes exactly the next version or says that it is taken. The rules
stand in `brain/conflicts.py`. An outcome that could not be learned (`CommitUnknownError`) is passed
on as it is: never retried, never cleaned up.

Writers of one table in this process take turns, so that they do not lose races against each other. A turn
is a courtesy, not what makes a commit safe: that is the store's put-if-absent alone.
"""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Any
from weakref import WeakKeyDictionary

import pyarrow as pa
import pyarrow.compute as pc
from pyroaring import BitMap64

from lakemend.brain import predicates
from lakemend.brain.conflicts import Conflict, MayMatch, PassedOver, StatsLookup, find_first_conflict
from lakemend.brain.masks import newly_dead
from lakemend.errors import CommitConflictError, InvalidInputError
from lakemend.formats.format import Change, Committed, Masked, Metadata, Removed, Snapshot, Table, VersionTaken
from lakemend.formats.masks import masked_positions
from lakemend.redaction import logger

log = logger(__name__)

# Verbs with an isolation level of their own.
ISOLATED = ("update", "delete", "merge")
# Every lost attempt is another writer's commit, so the table moves on; a bound is for the patience of the caller.
DEFAULT_ATTEMPTS = 1000
_FIRST_PAUSE, _LONGEST_PAUSE = 0.001, 0.02
# A version that is taken and that no listing shows: how often it is looked for again, and how long at most between.
_BLIND_ATTEMPTS, _LONGEST_BLIND_PAUSE = 50, 0.5
# How long a writer waits for its turn before it goes on without.
_PATIENCE = 5.0


@dataclass(frozen=True, slots=True)
class CommitResult:
    """`version` holds the change. `skipped`: an earlier run of the same transaction had done it already, and
    the files of this change belong to no version. `base` is the snapshot the change was finally made on, and `change`
    what it was there."""

    version: int
    attempts: int
    base: Snapshot | None
    skipped: bool = False
    change: Change | None = None


def commit(
    table: Table,
    base: Snapshot | None,
    change: Change,
    *,
    attempts: int = DEFAULT_ATTEMPTS,
    may_match: MayMatch | None = None,
) -> CommitResult:
    """Makes a version of the change on top of whatever landed since `base`, or raises CommitConflictError.

    `base` None creates the table. Paths of removed and masked files are the base's; their rows are
    looked up again on every attempt.
    """
    if base is not None:
        base.require_writable()
        _check_paths(base, change)
        if _done_before(base, change):
            return CommitResult(base.version, 0, base, skipped=True)
    with _turn_at(table) as turn:
        result = _commit_in_turn(table, base, change, attempts, may_match or by_predicate(base), turn)
    if not result.skipped:
        try:
            table.settle(result.version)
        except Exception:
            log.warning("version %d of %s stands, but was not settled", result.version, table.store.url, exc_info=True)
    return result


@dataclass
class _Turn:
    """The queue of a table's writers in this process, and the newest version one of them made."""

    lock: threading.Lock = field(default_factory=threading.Lock)
    newest: int = -1


_turns: WeakKeyDictionary[Table, _Turn] = WeakKeyDictionary()
_turns_lock = threading.Lock()


@contextmanager
def _turn_at(table: Table) -> Iterator[_Turn]:
    with _turns_lock:
        turn = _turns.setdefault(table, _Turn())
    mine = turn.lock.acquire(timeout=_PATIENCE)
    try:
        yield turn
    finally:
        if mine:
            turn.lock.release()


def _commit_in_turn(
    table: Table, base: Snapshot | None, change: Change, attempts: int, may_match: MayMatch, turn: _Turn
) -> CommitResult:
    lost = blind = 0
    passed = PassedOver()
    while lost < attempts and blind <= _BLIND_ATTEMPTS:
        # What a neighbour has made is there: no need to try in vain first.
        if base is None or turn.newest <= base.version:
            try:
                version = table.try_commit(base, change)
                turn.newest = version
                if lost:
                    log.info("%s landed as version %d, attempt %d", change.operation, version, lost + 1)
                return CommitResult(version, lost + 1, base, change=change)
            except VersionTaken:
                lost += 1
                _pause(lost, _LONGEST_PAUSE)
        before = base.version if base is not None else -1
        base, change = _after_winners(table, base, change, may_match, passed)
        if _done_before(base, change):
            return CommitResult(base.version, lost + 1, base, skipped=True)
        if base.version <= before:
            blind += 1
            turn.newest = base.version
            _pause(blind, _LONGEST_BLIND_PAUSE)
    raise CommitConflictError(
        f"{change.operation} could not be committed to {table.store.url}",
        cause=f"other writers took the next version {lost} times in a row, though none of them conflicts",
        remedy="nothing was changed: try again when fewer writers are busy, or raise the number of attempts",
        operation=change.operation,
        attempts=lost,
        version=base.version if base is not None else 0,
    )


def _done_before(base: Snapshot, change: Change) -> bool:
    if change.transaction is None:
        return False
    app_id, version = change.transaction
    recorded = base.transaction(app_id)
    if recorded is None or recorded < version:
        return False
    log.info("transaction %d of %r was recorded already (%d): nothing is written", version, app_id, recorded)
    return True


def _check_paths(base: Snapshot, change: Change) -> None:
    """Raises unless every file the change takes rows from is where the change says, and named once."""
    entries: list[Removed | Masked] = [*change.removed, *change.masked]
    touched = [entry.path for entry in entries]
    if len(set(touched)) != len(touched):
        raise InvalidInputError(
            "a file is removed or masked twice in one change",
            remedy="name each file once",
            operation=change.operation,
        )
    rows = _rows(base, touched)
    for entry in entries:
        if rows.get(entry.path) != entry.row:
            raise InvalidInputError(
                f"{entry.path} is not file {entry.row} of version {base.version}",
                cause="the change was planned on another snapshot",
                remedy="plan it on the snapshot it is committed against",
                file=entry.path,
            )


def _after_winners(
    table: Table, base: Snapshot | None, change: Change, may_match: MayMatch, passed: PassedOver
) -> tuple[Snapshot, Change]:
    """The newest snapshot and the change rebased onto it; raises if a winner conflicts."""
    if base is None:
        raise CommitConflictError(
            f"the table {table.store.url} was created by another writer",
            cause="it did not exist when this statement began",
            remedy="nothing was changed: try again, and the statement works on the table there is now",
            operation=change.operation,
            version=0,
        )
    head = table.latest()
    winners = [winner for winner in table.changes_since(base.version) if winner.version <= head.version]
    if head.version <= base.version:
        # A listing that lags behind the log: the version is taken all the same.
        return base, change
    if _done_by_winner(change, winners) and _done_before(head, change):
        return head, change
    require_told(table, base, head, change, winners)
    conflict = find_first_conflict(change, base, winners, may_match, passed)
    if conflict is not None:
        raise conflict_error(table, base, change, conflict)
    if head.metadata.id != base.metadata.id:
        reason = "belongs to another table: this one was dropped, and one of the same name created"
        anew = Conflict(head.version, head.timestamp, "create", "replace", reason)
        raise conflict_error(table, base, change, anew)
    return head, _rebased(table, base, head, change, winners)


def require_told(
    table: Table, base: Snapshot, head: Snapshot, change: Change, winners: Sequence[Committed], *remedy: str
) -> None:
    """Raises unless the winners are all that happened between the two versions."""
    if [winner.version for winner in winners] != list(range(base.version + 1, head.version + 1)):
        untold = Conflict(head.version, head.timestamp, "unknown", "log", "was reached by versions the log has lost")
        raise conflict_error(table, base, change, untold, *remedy)


def _done_by_winner(change: Change, winners: Sequence[Committed]) -> bool:
    if change.transaction is None:
        return False
    app_id, version = change.transaction
    return any(winner.transactions.get(app_id, version - 1) >= version for winner in winners)


def by_predicate(base: Snapshot | None) -> MayMatch:
    # Winners that changed the metadata conflict before a predicate is asked for: the base's still holds.
    def may_match(predicate: dict[str, Any], files: pa.Table, stats: StatsLookup) -> pa.BooleanArray:
        assert base is not None
        return predicates.may_match(predicate, predicates.FileColumns(base.metadata, files, stats))

    return may_match


def _rows(snapshot: Snapshot, paths: Sequence[str]) -> dict[str, int | None]:
    if not paths:
        return {}
    found = pc.index_in(pa.array(paths, pa.string()), value_set=snapshot.files["path"].combine_chunks())
    return dict(zip(paths, found.to_pylist(), strict=True))


def _rebased(table: Table, base: Snapshot, head: Snapshot, change: Change, winners: Sequence[Committed]) -> Change:
    """The change with the rows of its files in `head`; raises where a winner masked one of the same rows."""
    rows = _rows(head, [*(entry.path for entry in change.removed), *(entry.path for entry in change.masked)])
    for path, row in rows.items():
        if row is None:
            gone = Conflict(
                head.version, head.timestamp, "unknown", "file", "no longer has a file this statement changes", path
            )
            raise conflict_error(table, base, change, gone)
    remasked: dict[str, list[Committed]] = {}
    for winner in winners:
        for path in winner.masked:
            remasked.setdefault(path, []).append(winner)
    removed = [Removed(entry.path, row) for entry in change.removed if (row := rows[entry.path]) is not None]
    masked = []
    for entry in change.masked:
        row = rows[entry.path]
        assert row is not None
        if entry.path not in remasked:
            masked.append(replace(entry, row=row))
            continue
        both = _united(table, base, head, change, entry, row, remasked[entry.path])
        if both.alive:
            masked.append(Masked(entry.path, row, both.positions))
        else:
            removed.append(Removed(entry.path, row))
    metadata = None if change.metadata is None else _redefined(base.metadata, head.metadata, change.metadata)
    return replace(change, removed=removed, masked=masked, metadata=metadata)


def _redefined(base: Metadata, head: Metadata, wanted: Metadata) -> Metadata:
    """The definition a change brings, with the properties that winners set without being a conflict."""
    if head.properties == base.properties:
        return wanted
    ours = {
        key: wanted.properties.get(key)
        for key in {*base.properties, *wanted.properties}
        if wanted.properties.get(key) != base.properties.get(key)
    }
    merged = {**head.properties, **ours}
    return replace(wanted, properties={key: value for key, value in merged.items() if value is not None})


@dataclass(frozen=True, slots=True)
class _United:
    """The rows a change masks in a file that winners have masked too, and whether any row of it is left alive."""

    positions: bytes
    alive: bool


def _united(
    table: Table, base: Snapshot, head: Snapshot, change: Change, entry: Masked, row: int, winners: Sequence[Committed]
) -> _United:
    """Rows dead in `head` and alive in `base` must be others than the change masks."""
    after, before = masked_positions(head.mask(row), table.store), masked_positions(base.mask(entry.row), table.store)
    ours = newly_dead(entry, base.mask(entry.row), table.store)
    both = (after - before) & ours
    if both:
        reason = f"changed {len(both)} of the rows this statement changes, such as row {both[0]}"
    elif before - after:
        reason = "brought rows back to life in a file this statement changes"
    else:
        return _United(ours.serialize(), len(after) + len(ours) != head.files["rows"][row].as_py())
    winner = winners[-1] if not both else _masked_first(table, entry.path, both, winners)
    clash = Conflict(winner.version, winner.timestamp, winner.operation, "row", reason, entry.path)
    raise conflict_error(table, base, change, clash)


def _masked_first(table: Table, path: str, positions: BitMap64, winners: Sequence[Committed]) -> Committed:
    """Which of the winners that masked rows of a file was the first to mask one of these."""
    for winner in winners[:-1]:
        snapshot = table.at_version(winner.version)
        row = _rows(snapshot, [path])[path]
        if row is not None and masked_positions(snapshot.mask(row), table.store) & positions:
            return winner
    return winners[-1]


def conflict_error(
    table: Table, base: Snapshot, change: Change, conflict: Conflict, remedy: str | None = None
) -> CommitConflictError:
    at = datetime.fromtimestamp(conflict.timestamp / 1000, UTC).isoformat(timespec="milliseconds")
    subject = f" ({conflict.file})" if conflict.file else ""
    return CommitConflictError(
        f"{change.operation} on version {base.version} of {table.store.url} conflicts with version {conflict.version} "
        f"({conflict.operation})",
        cause=f"{conflict.operation} at {at} {conflict.reason}{subject}",
        remedy=remedy or _remedy(change, conflict.rule),
        operation=change.operation,
        base_version=base.version,
        version=conflict.version,
        winner=conflict.operation,
        timestamp=conflict.timestamp,
        rule=conflict.rule,
        file=conflict.file,
        predicate=conflict.predicate,
    )


_RETRY = "nothing was changed: run the statement again, and it works on the newest version"


def _remedy(change: Change, rule: str) -> str:
    if rule == "transaction":
        return "nothing was changed: let only one writer at a time use this transaction application id"
    if rule in ("match", "read-gone", "passed"):
        level = f"'write.{change.operation}.isolation-level' = 'snapshot'"
        other = f", or the table property {level}," if change.operation in ISOLATED else ""
        return f"{_RETRY}; a narrower condition{other} conflicts less often"
    return _RETRY


def _pause(attempt: int, longest: float) -> None:
    time.sleep(random.uniform(0, min(_FIRST_PAUSE * 2 ** min(attempt, 10), longest)))
