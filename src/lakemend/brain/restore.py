"""`restore`: an earlier version of a table becomes its newest, in one commit.

`Table.restore` and `lakemend restore` call this through the service. It reads no rows: the log says which files and
masks were the table's, and all of them must still be there. Whoever changed the table between the plan and the commit
is a conflict (`conflicts.py`); a vacuum that began is a reason to look again. A vacuum under way (`vacuums.py`) may
take files that were removed long ago at any moment, so these are not brought back while it runs.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import UTC, datetime

import pyarrow as pa
import pyarrow.compute as pc

from lakemend.brain import vacuums
from lakemend.brain.commit import commit
from lakemend.brain.plan import live_rows
from lakemend.brain.predicates import ALWAYS_TRUE
from lakemend.brain.tables import OpenTable
from lakemend.errors import CommitConflictError, UnsupportedFeatureError, VersionNotFoundError
from lakemend.formats.footers import stored_rows
from lakemend.formats.format import Change, Snapshot
from lakemend.formats.masks import masked_positions
from lakemend.formats.restoration import Restoration, Restores, Wanted
from lakemend.report import Report
from lakemend.storage import Store, open_store

_ATTEMPTS = 5
# From so many files on one listing is cheaper than a look-up of each.
_LISTED = 256
_PARALLEL = 16
_NAMED = 100


def restore(opened: OpenTable, name: str, target: Snapshot, *, timestamp: str | None = None, dry_run: bool) -> Report:
    """`target` is a version of the table; `timestamp` how it was asked for, if by a time."""
    table = opened.table
    if not isinstance(table, Restores):
        raise UnsupportedFeatureError(
            f"{name} cannot be restored",
            cause=f"Lakemend cannot restore {opened.format.name} tables",
            remedy="overwrite the table with the rows of the earlier version",
        )
    started = time.perf_counter()
    for attempt in range(1, _ATTEMPTS + 1):
        head = opened.latest()
        head.require_writable()
        target.require_writable()
        plan = table.restoration(head, target)
        # In this order: what a vacuum deleted that has ended since is found to be missing.
        _require_safe(opened, name, target, plan.wanted)
        _require_present(table.store, name, head, target, plan.wanted)
        report = _planned(name, table.store, head, target, plan, dry_run)
        planned = time.perf_counter() - started
        if dry_run or not plan:
            return replace(report, seconds={"plan": planned})
        asked = {"version": target.version} if timestamp is None else {"timestamp": timestamp}
        change = Change("restore", asked, restores=target, read_predicate=ALWAYS_TRUE, replaced=ALWAYS_TRUE)
        try:
            result = commit(table, head, change)
        except CommitConflictError as error:
            if error.values.get("rule") == "vacuum" and attempt < _ATTEMPTS:
                continue
            raise
        seconds = {"plan": planned, "commit": time.perf_counter() - started - planned}
        return replace(report, version=result.version, attempts=result.attempts, seconds=seconds)
    raise AssertionError


def _planned(name: str, store: Store, head: Snapshot, target: Snapshot, plan: Restoration, dry_run: bool) -> Report:
    leaving, back = _taken(head, plan.leaving), _taken(target, plan.back)
    deleted, inserted = _rows(head, store, leaving), _rows(target, store, back)
    for now, then in plan.remasked:
        masked_now, masked_then = (masked_positions(s.mask(row), store) for s, row in ((head, now), (target, then)))
        inserted += len(masked_now - masked_then)
        deleted += len(masked_then - masked_now)
    total = live_rows(target.files)
    total = _rows(target, store, target.files) if total is None else total
    return Report(
        operation="restore",
        table=name,
        dry_run=dry_run,
        inserted=inserted,
        deleted=deleted,
        total=total,
        files_added=len(plan.back),
        files_removed=len(plan.leaving),
        files_masked=len(plan.remasked),
        bytes_added=int(pc.sum(back["size"]).as_py() or 0),
        bytes_removed=int(pc.sum(leaving["size"]).as_py() or 0),
        stats={"inserted": inserted, "updated": 0, "deleted": deleted, "total": total},
        plan={
            "version": target.version,
            "timestamp": target.timestamp,
            "redefines": plan.redefines,
            "added": [target.url(path) for path in back["path"].to_pylist()],
            "removed": [head.url(path) for path in leaving["path"].to_pylist()],
            "masked": [target.url(target.files["path"][row].as_py()) for _, row in plan.remasked],
        },
    )


def _taken(snapshot: Snapshot, rows: Sequence[int]) -> pa.Table:
    return snapshot.files.take(pa.array(rows, pa.int64()))


def _rows(snapshot: Snapshot, store: Store, files: pa.Table) -> int:
    """Rows that live in the files; where the log does not say how many there are, the files do."""
    told = live_rows(files)
    if told is not None:
        return told
    columns = (files[name].to_pylist() for name in ("path", "rows", "masked"))
    return sum(
        (stored_rows(store, snapshot.url(path)) if rows is None else rows) - masked
        for path, rows, masked in zip(*columns, strict=True)
    )


def _require_safe(opened: OpenTable, name: str, target: Snapshot, wanted: Sequence[Wanted]) -> None:
    """Raises while a vacuum under way may take one of the files."""
    if not wanted:
        return
    safe = vacuums.open_since(opened.table)
    at_risk = [] if safe is None else [file for file in wanted if file.removed < safe]
    if not at_risk:
        return
    raise CommitConflictError(
        f"version {target.version} of {name} cannot be restored while files of the table are being deleted",
        cause=f"a vacuum has begun and not said that it ended, and {len(at_risk)} of the files that would come back, "
        f"such as {at_risk[0].url}, are old enough for it",
        remedy="nothing was changed: try again when the vacuum has ended; one that was killed counts as ended after "
        f"{vacuums.OVER / 3600:.0f} hours",
        rule="vacuum_open",
        version=target.version,
        file=at_risk[0].url,
    )


def _require_present(store: Store, name: str, head: Snapshot, target: Snapshot, wanted: Sequence[Wanted]) -> None:
    missing = sorted(_missing(store, wanted))
    if not missing:
        return
    shown = ", ".join(missing[:3]) + (", …" if len(missing) > 3 else "")
    at = datetime.fromtimestamp(target.timestamp / 1000, UTC).isoformat(timespec="seconds")
    raise VersionNotFoundError(
        f"version {target.version} of {name} cannot be restored",
        cause=f"{len(missing)} of the files it needs are gone or are others by now: {shown}; a vacuum takes files that "
        f"left the table longer ago than its retention, and the version is of {at}",
        remedy="nothing was changed: choose a later version (restore(…, dry_run=True) tells whether one is complete), "
        "or bring the files back from a backup",
        version=target.version,
        latest=head.version,
        missing=len(missing),
        files=missing[:_NAMED],
    )


def _missing(store: Store, wanted: Sequence[Wanted]) -> Iterable[str]:
    root = store.url.rstrip("/") + "/"
    own = [file for file in wanted if file.url.startswith(root)]
    listed = {entry.path: entry.size for entry in store.list()} if len(own) >= _LISTED else None

    def is_missing(file: Wanted) -> bool:
        folder, _, base = file.url.rpartition("/")
        if not file.url.startswith(root):
            entry = open_store(folder).head(base)
            size = None if entry is None else entry.size
        elif listed is not None:
            size = listed.get(file.url[len(root) :])
        else:
            entry = store.head(file.url[len(root) :])
            size = None if entry is None else entry.size
        return size is None or (size != file.size if file.exact else size < file.size)

    with ThreadPoolExecutor(_PARALLEL) as pool:
        return [file.url for file, gone in zip(wanted, pool.map(is_missing, wanted), strict=True) if gone]
