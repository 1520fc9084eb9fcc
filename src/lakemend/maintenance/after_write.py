"""The compaction that a table asks for with `write.auto-compact`: small files of the partitions just written to.

`table/after_writes.py` calls this while the statement whose version stands waits for its answer: so the next statement
of a program meets no compaction of the one before. Of several writers in one process one compacts a table, and the
others go on; of several processes the second loses, and says nothing.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from lakemend.brain.small_files import SmallFiles
from lakemend.errors import CommitConflictError
from lakemend.maintenance.batches import Outcome, batches_of, execute
from lakemend.maintenance.compact import by_size, groups_of, writer_of
from lakemend.maintenance.rewrite_plan import Group, narrowed, open_newest, scope_of
from lakemend.maintenance.target import Target
from lakemend.redaction import logger

if TYPE_CHECKING:
    from lakemend.table import Table

log = logger(__name__)

# What one write may have to wait for; the rest is for the next one.
_AT_MOST = 2 << 30

_busy: set[str] = set()
_busy_lock = threading.Lock()


def compact_after_write(table: Table, left: SmallFiles) -> None:
    with _alone(left.location) as alone:
        if alone:
            _compact(table, left)


def _compact(table: Table, left: SmallFiles) -> None:
    opened = open_newest(table)
    if opened.loaded["table_id"] != left.table_id:
        return
    target, outcome = Target(left.target, by_rows=False), Outcome(silent=True)
    groups = _that_fit(groups_of(narrowed(scope_of(opened, None), set(left.files)), target))
    parameters: dict[str, Any] = {"predicate": [], "zOrderBy": [], "auto": True}
    try:
        for size, todo in by_size(groups, target):
            write = writer_of(opened, size, target, None)
            execute(opened, batches_of(todo, 1), write, parameters, label="", shown=False, outcome=outcome)
    except CommitConflictError as error:
        log.info("the small files of %s were left to another writer: %s", left.shown, error)
    if outcome.versions:
        gone, made, version = len(outcome.removed), len(outcome.added), outcome.versions[-1]
        log.info("after a write to %s, %d small files became %d in version %d", left.shown, gone, made, version)


def _that_fit(groups: list[Group]) -> list[Group]:
    """Those that take away most files for what they cost, as far as a write may wait for them."""
    chosen: list[Group] = []
    taken = 0
    for group in sorted(groups, key=lambda group: group.bytes / max(len(group.files) - group.outputs, 1)):
        if len(group.files) > group.outputs and (not chosen or taken + group.bytes <= _AT_MOST):
            chosen.append(group)
            taken += group.bytes
    return chosen


@contextmanager
def _alone(location: str) -> Iterator[bool]:
    with _busy_lock:
        alone = location not in _busy
        _busy.add(location)
    try:
        yield alone
    finally:
        if alone:
            with _busy_lock:
                _busy.discard(location)
