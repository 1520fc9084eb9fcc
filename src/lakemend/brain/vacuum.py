"""`vacuum`: the files of a table that no version needs any more are deleted.

`Table.vacuum` and `lakemend vacuum` call this through the service. The plan comes first: what lies below the table,
old enough, and named by no version that is kept. Then the log says VACUUM START, and everything is looked at once more:
whoever commits from here on comes after that version, and `restore` takes heed of it (`vacuums.py`). Before each batch
of files what was committed meanwhile is taken out of the plan. VACUUM END says how many files went.

Killed at any point, it has deleted files that nobody needs, and no other.
"""

from __future__ import annotations

import re
import time
import uuid
from collections.abc import Sequence
from datetime import timedelta
from typing import Any

from lakemend.brain import outcomes
from lakemend.brain.commit import commit
from lakemend.brain.plan import live_rows
from lakemend.brain.tables import OpenTable
from lakemend.brain.vacuums import END, LONGEST, START, STARTED
from lakemend.errors import CommitConflictError, InvalidInputError, UnsupportedFeatureError
from lakemend.formats.below import delete_below
from lakemend.formats.format import Change
from lakemend.formats.leftovers import KnowsLeftovers, Leftover, Leftovers, Needed
from lakemend.progress import Advance, progress
from lakemend.redaction import logger, redacted
from lakemend.report import Report
from lakemend.storage import Entry

log = logger(__name__)

_UNITS = {"s": 1, "second": 1, "m": 60, "minute": 60, "h": 3600, "hour": 3600, "d": 86_400, "day": 86_400}
_UNITS |= {"w": 7 * 86_400, "week": 7 * 86_400}
# Deleted between two looks at the log; what object stores delete in one request.
_BATCH = 1000
_ATTEMPTS = 5


def milliseconds(age: str | timedelta | None) -> int | None:
    """`12 hours`, `90m`, `0` (of whatever unit) or a timedelta; None stays None."""
    if age is None:
        return None
    if isinstance(age, timedelta):
        seconds = age.total_seconds()
    else:
        match = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([a-z]*)", age.strip().lower()) if isinstance(age, str) else None
        unit = 0 if match is None else _UNITS.get(match[2]) or _UNITS.get(match[2].removesuffix("s"))
        if match is not None and not match[2] and float(match[1]) == 0:
            unit = 1
        if match is None or not unit:
            raise InvalidInputError(
                f"{age!r} is not an age",
                cause="an age is a number and a unit: seconds, minutes, hours, days or weeks",
                remedy='say for example "12 hours" or "7 days"',
                age=age,
            )
        seconds = float(match[1]) * unit
    if seconds < 0:
        raise InvalidInputError(f"an age of {age} makes no sense", remedy="pass 0 or more", age=str(age))
    return round(seconds * 1000)


def vacuum(
    opened: OpenTable,
    name: str,
    retain: str | timedelta | None = None,
    *,
    dry_run: bool = False,
    lose_history: bool = False,
    now: int | None = None,
) -> Report:
    """Deletes files that no version of the last `retain` needs; the table's own retention unless given."""
    table = opened.table
    if not isinstance(table, KnowsLeftovers):
        raise UnsupportedFeatureError(
            f"{name} cannot be vacuumed",
            cause=f"Lakemend does not know what the files of a {opened.format.name} table are for",
            remedy="use the tools of that format",
        )
    started = time.perf_counter()
    moment = round(time.time() * 1000) if now is None else now
    found = table.leftovers(milliseconds(retain), moment)
    if not dry_run:
        _require_retention(found, name, lose_history)
    seconds = {"plan": time.perf_counter() - started}
    size = sum(file.size for file in found.files)
    report = Report(
        operation="vacuum",
        table=name,
        dry_run=dry_run,
        total=live_rows(opened.pinned(found.version).files),
        files_removed=len(found.files),
        bytes_removed=size,
        seconds=seconds,
        plan=_plan(found, moment, found.files),
    )
    if dry_run or not found.files:
        return report
    done = _Deletion(opened, name, table, found, moment).run()
    seconds |= {"write": time.perf_counter() - started - seconds["plan"]}
    return Report(
        operation="vacuum",
        table=name,
        version=done.version,
        total=report.total,
        files_removed=len(done.gone),
        bytes_removed=sum(file.size for file in done.gone),
        attempts=1,
        seconds=seconds,
        plan=_plan(found, moment, done.gone) | {"failed": done.failed},
    )


def _require_retention(found: Leftovers, name: str, lose_history: bool) -> None:
    if found.retain >= found.retention or lose_history:
        return
    days = found.retention / 86_400_000
    raise InvalidInputError(
        f"{name} is not vacuumed of files younger than its retention",
        cause=f"retain is {found.retain / 3_600_000:g} hours, and the table keeps the files of its versions for "
        f"{days:g} days: time travel would break, and a write that takes longer than that would lose its files",
        remedy="leave retain out, change delta.deletedFileRetentionDuration, or, if nobody writes to the table and "
        "its older versions may go, say lose_history=True (--lose-history; of the procedure vacuum, "
        "lose_history => true)",
        retain=found.retain,
        retention=found.retention,
    )


class _Deletion:
    """One vacuum that deletes. `gone`, `failed` and `version` tell what came of it."""

    def __init__(self, opened: OpenTable, name: str, table: KnowsLeftovers, found: Leftovers, now: int) -> None:
        self._opened, self._name, self._table, self._found = opened, name, table, found
        self._now = now
        self._token = str(uuid.uuid4())
        self.gone: list[Leftover] = []
        self.failed: list[str] = []
        self.version: int | None = None

    def run(self) -> _Deletion:
        self.version = self._commit(
            START,
            {
                "retentionCheckEnabled": self._found.retain >= self._found.retention,
                "defaultRetentionMillis": self._found.retention,
                "specifiedRetentionMillis": self._found.retain,
            },
            {"numFilesToDelete": len(self._found.files), "sizeOfDataToDelete": sum(f.size for f in self._found.files)},
            self._token,
        )
        deadline = time.monotonic() + LONGEST
        status = "FAILED"
        try:
            self._delete(self._still_unneeded(), deadline)
            status = "FAILED" if self.failed else "COMPLETED"
        finally:
            self._end(status)
        return self

    def _still_unneeded(self) -> tuple[Needed, list[Leftover]]:
        """What is needed as of VACUUM START or later, and which files are not, by the store's own clock."""
        assert self.version is not None
        latest = min(self._now, self._table.stored_at(self.version)) - self._found.retain
        needed = self._table.needed(latest, self._found.links)
        needed.names |= outcomes.names_in_doubt()
        files = [file for file in self._found.files if file.modified <= latest and file.path not in needed]
        return needed, files

    def _delete(self, plan: tuple[Needed, list[Leftover]], deadline: float) -> None:
        needed, files = plan
        with progress(f"vacuum {redacted(self._name)}", len(files)) as advance:
            self._delete_in_batches(needed, files, deadline, advance)

    def _delete_in_batches(self, needed: Needed, files: Sequence[Leftover], deadline: float, advance: Advance) -> None:
        for start in range(0, len(files), _BATCH):
            if time.monotonic() > deadline:
                log.warning("the vacuum of %s takes too long and stops here: start another", self._opened.location)
                return
            needed = self._looked_again(needed)
            batch = [file for file in files[start : start + _BATCH] if file.path not in needed]
            by_path = {file.path: file for file in batch}
            entries = [Entry(file.path, file.size, file.modified) for file in batch]
            deleted = delete_below(self._opened.table.store, entries)
            self.gone += [by_path[entry.path] for entry in deleted.gone]
            self.failed += deleted.failed
            advance(len(files[start : start + _BATCH]), f"{len(self.gone):,} files deleted")

    def _looked_again(self, needed: Needed) -> Needed:
        """With what was committed meanwhile."""
        head = self._opened.table.latest()
        if head.metadata.id != needed.table_id:
            raise CommitConflictError(
                f"the vacuum of {self._opened.location} stops: there is another table in its place",
                cause="the table was replaced, or dropped and created again, while it ran",
                remedy="run it again, and it works on the table there is now",
                version=head.version,
            )
        if head.version == needed.version:
            return needed
        new = self._table.needed_after(needed.version, self._found.links)
        return Needed(new.version, new.table_id, needed.paths | new.paths, needed.names | new.names)

    def _end(self, status: str) -> None:
        try:
            parameters = {"status": status, STARTED: self._token}
            metrics = {"numDeletedFiles": len(self.gone), "numVacuumedDirectories": 0}
            self.version = self._commit(END, parameters, metrics, str(uuid.uuid4()))
        except Exception as error:
            # The files are gone whatever the log says of it.
            log.warning("the vacuum of %s ended, but the log does not say so: %s", self._opened.location, error)

    def _commit(self, operation: str, parameters: dict[str, Any], metrics: dict[str, int], token: str) -> int:
        change = Change(operation, {**parameters, "token": token}, data_change=False, metrics=metrics)
        for attempt in range(1, _ATTEMPTS + 1):
            base = self._opened.latest()
            base.require_writable()
            try:
                return commit(self._opened.table, base, change).version
            except CommitConflictError:
                if attempt == _ATTEMPTS:
                    raise
        raise AssertionError


def _plan(found: Leftovers, now: int, files: Sequence[Leftover]) -> dict[str, Any]:
    return {
        "version": found.version,
        "retention": found.retention / 1000,
        "retain": found.retain / 1000,
        "younger": found.young,
        "foreign": found.foreign,
        "files": [
            {
                "path": file.path,
                "kind": file.kind,
                "size": file.size,
                "modified": file.modified,
                "age": (now - file.modified) / 1000,
                "removed": file.removed,
            }
            for file in files
        ],
    }
