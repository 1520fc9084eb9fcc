"""`commit`: what a finished write does to its table, in one version.

The service calls this with the connector's requests; `target.py` says which table they are for, `changes.py` which
files leave, and `commit.py` makes the version or raises. The `Report` of the write is built here. Once the version has
landed, the write has succeeded: what fails afterwards is a warning in the log. A token names every write
(`outcomes.py`, `abort.py`).
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from lakemend.brain import changes, outcomes
from lakemend.brain.addresses import Address
from lakemend.brain.balance import require_balance, told_tally
from lakemend.brain.commit import ISOLATED, CommitResult
from lakemend.brain.commit import commit as make_version
from lakemend.brain.earlier_reads import require_unchanged
from lakemend.brain.feed import require_complete
from lakemend.brain.options import overruled
from lakemend.brain.plan import live_rows
from lakemend.brain.predicate_text import to_sql
from lakemend.brain.predicates import Predicate, conjunction
from lakemend.brain.pruning import kept_rows
from lakemend.brain.tables import OpenTable
from lakemend.brain.target import Options, Target, target_of
from lakemend.errors import (
    CommitConflictError,
    CommitUnknownError,
    InvalidInputError,
    LakemendError,
)
from lakemend.formats.format import Change, Masked, Metadata, Removed, Snapshot
from lakemend.redaction import logger
from lakemend.report import Report
from lakemend.storage import join

log = logger(__name__)

_COUNTS = {
    "inserted": ("numInserted", "numInsertedRows", "numTargetRowsInserted"),
    "updated": ("numUpdated", "numUpdatedRows", "numTargetRowsUpdated"),
    "deleted": ("numDeleted", "numDeletedRows", "numTargetRowsDeleted"),
    "copied": ("numCopied", "numCopiedRows", "numTargetRowsCopied"),
}
# Where history shows what was replaced.
_REPLACED_TEXT = {"replace_where": "predicate", "replace_using": "replaceUsing", "replace_on": "replaceOn"}


def commit(address: Address, request: Mapping[str, Any]) -> Report:
    with outcomes.committing(request.get("token")):
        return _commit(address, request)


def _commit(address: Address, request: Mapping[str, Any]) -> Report:
    started = time.perf_counter()
    operation = changes.operation_of(request)
    options = Options(request.get("options"))
    target = target_of(address, request, options)
    if (request.get("staged") or {}).get("kind") == "adopt":
        return _adopt(address, target, request)
    if target.base is not None and not target.replaces:
        for told in overruled(request.get("options") or {}, target.base.metadata.properties):
            log.warning("an option of the %s to %s is ignored, %s; use ALTER TABLE", operation, address.shown, told)
    change = _change(target, request, operation, options)
    report = _report(address, target, change, request)
    if not _does_something(change):
        return replace(report, total=None if target.base is None else live_rows(target.base.files))
    if target.base is not None and request.get("reads_at"):
        require_unchanged(target.opened, target.base, change, request["reads_at"])
    with _named(address, target):
        result = make_version(target.opened.table, target.base, change)
    if result.skipped:
        # The earlier run of this transaction holds the rows; these files belong to no version.
        with _afterwards("deleting the files of the repeated write", target):
            target.opened.table.store.delete([file.path for file in (*change.added, *change.feed)])
            _delete_spare_masks(target, request, None)
        return Report(report.operation, report.table, None, attempts=result.attempts)
    return _landed(address, target, request, result, report, started)


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
        report = _rebased(report, result)
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


def _change(target: Target, request: Mapping[str, Any], operation: str, options: Options) -> Change:
    base = target.base
    metadata = target.metadata or (base.metadata if base is not None else None)
    assert metadata is not None
    added = changes.new_files(request.get("added") or (), metadata, request.get("sorted_by") or ())
    removed: list[Removed] = []
    masked: list[Masked] = []
    dead: dict[str, int] = {}
    if target.replaces and base is not None:
        removed = changes.every_file(base)
    elif base is not None:
        removed = changes.removed_files(request, base, added)
        masked, emptied, dead = changes.masked_files(request, base, target.opened.table.store)
        removed += emptied
    if target.replaces or base is None:
        as_select = "added" in request
        operation = ("replace" if target.replaces else "create") + ("_as" if as_select else "")
    read = changes.read_predicate(request, metadata, added) if base is not None and not target.replaces else None
    parameters: dict[str, Any] = {"token": request.get("token"), "command": request.get("command")}
    if request.get("text") is not None:
        parameters[_REPLACED_TEXT[operation]] = request["text"]
    elif request.get("predicates") and operation not in ("overwrite", "append"):
        parameters["predicate"] = to_sql(conjunction(request["predicates"]))
    elif request.get("condition"):
        parameters["predicate"] = request["condition"]
    elif operation in ("update", "delete", "merge") and read is not None and "predicate" not in parameters:
        parameters["predicate"] = to_sql(read)
    change = Change(
        operation=operation,
        parameters={key: value for key, value in parameters.items() if value is not None},
        added=added,
        removed=removed,
        masked=masked,
        feed=changes.new_files(request.get("feed") or (), metadata),
        read_predicate=read,
        replaced=changes.replaced_predicate(request, operation, metadata, added) if base is not None else None,
        brings=changes.brought_predicate(request, operation, metadata, added),
        reads_more=changes.reads_more(request),
        metadata=target.metadata,
        replaces_table=target.replaces,
        transaction=options.transaction,
        user_metadata=options.get("userMetadata"),
        isolation=_isolation(target, operation, metadata),
    )
    change = replace(change, metrics=_rows_changed(change, base, dead, request, target.opened))
    require_complete(change)
    return change


def _isolation(target: Target, operation: str, metadata: Metadata) -> str:
    """The verb's own level, else the table's, else serializable."""
    own = metadata.properties.get(f"write.{operation}.isolation-level", "").lower() if operation in ISOLATED else ""
    if own in ("serializable", "snapshot"):
        return own
    return str(target.opened.format.write_settings(metadata).get("isolation") or "serializable")


def _does_something(change: Change) -> bool:
    return bool(
        change.added or change.removed or change.masked or change.metadata is not None or change.transaction is not None
    )


def _rows_changed(
    change: Change, base: Snapshot | None, dead: Mapping[str, int], request: Mapping[str, Any], opened: OpenTable
) -> dict[str, int]:
    """Rows inserted, updated, deleted and copied: as the tasks of a row change saw them, or counted from files."""
    whole = [entry for entry in change.removed if entry.path not in dead]
    gone = _live(base, whole)
    written = sum(file.rows for file in change.added)
    tally = told_tally(request)
    if tally is not None:
        assert base is not None
        died, places = changes.rows_seen(request, base, opened.table.store, with_places=tally.places is not None)
        try:
            require_balance(change.operation, tally, written, died + sum(dead.values()), places)
        except LakemendError:
            changes.require_counted(request, base, opened.table.store)
            raise
        counts: dict[str, int | None] = dict(tally.counts())
    else:
        summary: Mapping[str, int] = request.get("summary") or {}
        counts = {
            name: next((summary[k] for k in keys if summary.get(k, -1) >= 0), None) for name, keys in _COUNTS.items()
        }
    if change.operation in ("append", "create_as"):
        counts |= {"inserted": written}
    elif change.operation in ("overwrite", "overwrite_dynamic", "replace_as"):
        counts |= {"inserted": written, "deleted": gone}
    elif change.operation in _REPLACED_TEXT:
        copied = counts["copied"] or 0
        killed = None if gone is None else gone + sum(dead.values()) - copied
        # A replacement updates nothing, and one that copied nothing need not say so.
        counts |= {"inserted": written - copied, "deleted": killed, "copied": copied or None, "updated": None}
    elif request.get("operation") == "delete_where":
        counts |= {"deleted": gone}
    return {name: value for name, value in counts.items() if value is not None}


def _sum(column: pa.ChunkedArray, entries: Sequence[Removed]) -> int:
    return int(pc.sum(column.take(pa.array([e.row for e in entries], pa.int64()))).as_py() or 0) if entries else 0


def _live(base: Snapshot | None, entries: Sequence[Removed]) -> int | None:
    if base is None or not entries:
        return 0
    return live_rows(base.files.take(pa.array([e.row for e in entries], pa.int64())))


def _report(address: Address, target: Target, change: Change, request: Mapping[str, Any]) -> Report:
    scanned, skipped = request.get("files_scanned", 0), request.get("files_skipped", 0)
    read: list[Predicate] | None = request.get("read_predicates")
    if target.base is not None and read is not None and change.operation in ("update", "delete", "merge"):
        scanned = len(kept_rows(target.base, read))
        skipped = target.base.files.num_rows - scanned
    return Report(
        operation=change.operation,
        table=address.shown,
        predicate=change.parameters.get(_REPLACED_TEXT.get(change.operation, "predicate")),
        files_scanned=scanned,
        files_skipped=skipped,
        files_added=len(change.added),
        files_removed=len(change.removed),
        files_masked=len(change.masked),
        bytes_added=sum(file.size for file in change.added),
        bytes_removed=_sum(target.base.files["size"], change.removed) if target.base is not None else 0,
        **change.metrics,  # type: ignore[arg-type]
    )


def _rebased(report: Report, result: CommitResult) -> Report:
    """The report of the change as it landed: a file may have died of the winners' rows and ours together."""
    if result.change is None or result.base is None:
        return report
    removed, masked = result.change.removed, result.change.masked
    size = _sum(result.base.files["size"], removed)
    return replace(report, files_removed=len(removed), files_masked=len(masked), bytes_removed=size)


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
