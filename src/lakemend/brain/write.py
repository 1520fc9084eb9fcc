"""`commit`: what a finished write does to its table, in one version.

The service calls this with the connector's requests; `target.py` says which table they are for, `requested_change.py`
what they change, and `commit.py` makes the version or raises. Once the version has landed, the write has succeeded:
what fails afterwards is a warning in the log. A token names every write (`outcomes.py`, `abort.py`).
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

from lakemend.brain import outcomes
from lakemend.brain.addresses import Address
from lakemend.brain.commit import CommitResult
from lakemend.brain.commit import commit as make_version
from lakemend.brain.earlier_reads import require_unchanged
from lakemend.brain.options import overruled
from lakemend.brain.plan import live_rows
from lakemend.brain.requested_change import does_something, requested_change
from lakemend.brain.tables import OpenTable
from lakemend.brain.target import Options, Target, target_of
from lakemend.brain.verb import verb_of
from lakemend.brain.write_report import landed_report, planned_report
from lakemend.errors import (
    CommitConflictError,
    CommitUnknownError,
    InvalidInputError,
)
from lakemend.formats.format import Change
from lakemend.locations import join
from lakemend.redaction import logger
from lakemend.report import Report

log = logger(__name__)


@dataclass(frozen=True, slots=True)
class Written:
    """What came of a write; `opened` and `change` where it has made a version of rows."""

    report: Report
    opened: OpenTable | None = None
    change: Change | None = None


def commit(address: Address, request: Mapping[str, Any]) -> Written:
    with outcomes.committing(request.get("token"), _files(request)):
        return _commit(address, request)


def _files(request: Mapping[str, Any]) -> list[str]:
    """What the tasks of the write have written."""
    listed = [file["path"] for kind in ("added", "feed") for file in request.get(kind) or ()]
    return [*listed, *(request.get("mask_files") or ())]


def _commit(address: Address, request: Mapping[str, Any]) -> Written:
    started = time.perf_counter()
    verb = verb_of(request)
    options = Options(request.get("options"))
    target = target_of(address, request, options)
    if (request.get("staged") or {}).get("kind") == "adopt":
        return Written(_adopt(address, target, request))
    if target.base is not None and not target.replaces:
        for told in overruled(request.get("options") or {}, target.base.metadata.properties):
            log.warning("an option of the %s to %s is ignored, %s; use ALTER TABLE", verb, address.shown, told)
    change = requested_change(target, request, verb, options)
    report = planned_report(address, target, change, request)
    if not does_something(change):
        return Written(replace(report, total=None if target.base is None else live_rows(target.base.files)))
    if target.base is not None and request.get("reads_at"):
        require_unchanged(target.opened, target.base, change, request["reads_at"])
    with _named(address, target):
        result = make_version(target.opened.table, target.base, change)
    if result.skipped:
        # The earlier run of this transaction holds the rows; these files belong to no version.
        with _afterwards("deleting the files of the repeated write", target):
            target.opened.table.store.delete([file.path for file in (*change.added, *change.feed)])
            _delete_spare_masks(target, request, None)
        return Written(Report(report.operation, report.table, None, attempts=result.attempts))
    report = _landed(address, target, request, result, report, started)
    return Written(report, target.opened, result.change)


def _landed(
    address: Address,
    target: Target,
    request: Mapping[str, Any],
    result: CommitResult,
    report: Report,
    started: float,
) -> Report:
    """The report of a version that stands, whatever fails from here on."""
    seconds = {"commit": time.perf_counter() - started}
    log.info("%s committed version %d of %s", report.operation, result.version, target.opened.location)
    report = replace(report, version=result.version, attempts=result.attempts, seconds=seconds)
    if target.base is None:
        address.tables.forget(target.opened.location)
        address.tables.remember(target.opened)
    with _afterwards("deleting masks that it does not need", target):
        _delete_spare_masks(target, request, result.change)
    with _afterwards("counting what it took out", target):
        report = landed_report(report, result)
    total: int | None = None
    with _afterwards("counting its rows", target):
        total = live_rows(target.opened.pinned(result.version).files)
    return replace(report, total=total)


@contextmanager
def _afterwards(step: str, target: Target) -> Iterator[None]:
    """The version stands: a step that fails now is worth a warning and no more."""
    try:
        yield
    except Exception as error:
        log.warning("the commit to %s stands, but %s failed: %s", target.opened.location, step, error)


@contextmanager
def _named(address: Address, target: Target) -> Iterator[None]:
    """An external table has its name before it has its first version: a name can be taken back, a version cannot."""
    if not target.pointer or address.catalog is None:
        yield
        return
    reserved = address.catalog.reserve(address.namespace, address.name, target.opened.location)
    try:
        yield
    except CommitConflictError:
        raise  # another writer has made the table there, and may have found the name that we reserved
    except CommitUnknownError:
        raise
    except Exception:
        if reserved:
            with _afterwards("taking back its name", target):
                address.catalog.drop_table(address.namespace, address.name)
        raise
    if not reserved:
        # The one who had reserved it may have taken it back since.
        with _afterwards("naming it", target):
            address.catalog.reserve(address.namespace, address.name, target.opened.location)


def _delete_spare_masks(target: Target, request: Mapping[str, Any], change: Change | None) -> None:
    """Mask files that tasks wrote and no version refers to: their rows were united again, or their files rewritten."""
    written = list(request.get("mask_files") or ())
    used = {entry.mask.url for entry in (change.masked if change is not None else ()) if entry.mask is not None}
    store = target.opened.table.store
    spare = [path for path in written if join(store.url, path) not in used]
    if spare:
        store.delete(spare)


def _adopt(address: Address, target: Target, request: Mapping[str, Any]) -> Report:
    """A name for a table that is there already."""
    if request.get("added"):
        raise InvalidInputError(
            f"table {address.shown} cannot be created with rows",
            cause=f"there is a table at {target.opened.location} already",
            remedy="create the table without AS SELECT, then insert",
        )
    assert address.catalog is not None
    assert target.base is not None
    address.catalog.point(address.namespace, address.name, target.opened.location)
    return Report("create", address.shown, target.base.version, total=live_rows(target.base.files))
