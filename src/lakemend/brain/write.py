"""`commit`: what a finished write does to its table, in one version.

The service calls this with the connector's requests; `changes.py` says which files leave, and
`commit.py` makes the version or raises. The `Report` of the write is built here. Once the version has landed, the
write has succeeded: what fails afterwards is a warning in the log. A token names every write (`outcomes.py`,
`abort.py`).
"""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from lakemend.brain import changes, outcomes
from lakemend.brain.addresses import Address
from lakemend.brain.balance import require_balance, told_tally
from lakemend.brain.commit import ISOLATED, CommitResult
from lakemend.brain.commit import commit as make_version
from lakemend.brain.description import from_json
from lakemend.brain.earlier_reads import require_unchanged
from lakemend.brain.evolution import merged_changes
from lakemend.brain.feed import require_complete
from lakemend.brain.known_formats import format_named
from lakemend.brain.plan import live_rows
from lakemend.brain.predicate_text import to_sql
from lakemend.brain.predicates import Predicate, conjunction
from lakemend.brain.pruning import kept_rows
from lakemend.brain.tables import OpenTable, version_number
from lakemend.errors import CommitConflictError, CommitUnknownError, InvalidInputError, UnsupportedFeatureError
from lakemend.formats.format import Change, Masked, Metadata, Removed, Snapshot
from lakemend.report import Report
from lakemend.storage import join, open_store

log = logging.getLogger(__name__)

_COUNTS = {
    "inserted": ("numInserted", "numInsertedRows", "numTargetRowsInserted"),
    "updated": ("numUpdated", "numUpdatedRows", "numTargetRowsUpdated"),
    "deleted": ("numDeleted", "numDeletedRows", "numTargetRowsDeleted"),
    "copied": ("numCopied", "numCopiedRows", "numTargetRowsCopied"),
}
_TRUE = ("true", "1", "yes", "on")
# Where history shows what was replaced.
_REPLACED_TEXT = {"replace_where": "predicate", "replace_using": "replaceUsing", "replace_on": "replaceOn"}


@dataclass(frozen=True)
class Target:
    """The table a write goes to and the snapshot it was planned on (None: the write creates the table)."""

    opened: OpenTable
    base: Snapshot | None
    metadata: Metadata | None  # the definition the write brings, if it changes
    replaces: bool = False
    pointer: bool = False


class Options:
    """Write options, whose names Spark compares without case."""

    def __init__(self, options: Mapping[str, Any] | None) -> None:
        self._options = {key.lower(): value for key, value in (options or {}).items()}

    def get(self, name: str) -> str | None:
        value = self._options.get(name.lower())
        return None if value is None else str(value)

    def flag(self, name: str) -> bool:
        return (self.get(name) or "").strip().lower() in _TRUE

    @property
    def transaction(self) -> tuple[str, int] | None:
        app_id, version = self.get("txnAppId"), self.get("txnVersion")
        if app_id is None and version is None:
            return None
        try:
            number = int(version or "")
        except ValueError:
            number = -1
        if not app_id or number < 0:
            raise InvalidInputError(
                f"the transaction {app_id!r} {version!r} is not complete",
                cause="an idempotent write needs txnAppId and txnVersion, a whole number",
                remedy="set both options, or neither",
            )
        return app_id, number


def commit(address: Address, request: Mapping[str, Any]) -> Report:
    with outcomes.committing(request.get("token")):
        return _commit(address, request)


def _commit(address: Address, request: Mapping[str, Any]) -> Report:
    started = time.perf_counter()
    operation = changes.operation_of(request)
    options = Options(request.get("options"))
    target = _target(address, request, options)
    if (request.get("staged") or {}).get("kind") == "adopt":
        return _adopt(address, target, request)
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


def _target(address: Address, request: Mapping[str, Any], options: Options) -> Target:
    staged = request.get("staged")
    if staged:
        return _staged_target(address, staged)
    if request.get("version") is None:
        return _created_target(address, request)
    opened = address.open()
    base = _base(opened, version_number(request["version"]), request.get("table_id"))
    return Target(opened, base, _evolved(opened, base, request, options))


def _staged_target(address: Address, staged: Mapping[str, Any]) -> Target:
    metadata = from_json(staged["metadata"])
    if staged["base"] is not None:
        opened = address.tables.open(staged["location"])
        base = _base(opened, staged["base"], staged["base_id"])
        return Target(opened, base, metadata, replaces=staged["kind"] == "replace", pointer=staged["pointer"])
    format = address.tables.formats[staged["format"]]
    opened = OpenTable(format, format.open(open_store(staged["location"])), staged["location"])
    return Target(opened, None, metadata, pointer=staged["pointer"])


def _created_target(address: Address, request: Mapping[str, Any]) -> Target:
    """The first write to a path makes the table."""
    location = address.location
    if address.tables.find(location) is not None:
        raise CommitConflictError(
            f"the table {location} was created by another writer",
            cause="it did not exist when this statement began",
            remedy="nothing was changed: run the statement again",
            operation=request.get("operation"),
            version=0,
        )
    if not request.get("schema", {}).get("fields"):
        raise InvalidInputError(
            f"{address.shown} cannot be created",
            cause="the write names no columns",
            remedy="write a frame with columns",
        )
    format = format_named(address.tables.formats, request.get("format"))
    keys = ("schema", "partitioning", "properties", "comment", "checks")
    metadata = format.new_metadata({key: request.get(key) for key in keys if request.get(key) is not None}, None)
    return Target(OpenTable(format, format.open(open_store(location)), location), None, metadata)


def _base(opened: OpenTable, version: int, table_id: str | None) -> Snapshot:
    """The snapshot that a write began on. A table that was dropped and made anew meanwhile must never be built upon."""
    began = table_id if table_id is not None else opened.pinned(version).metadata.id
    head = opened.latest()
    if head.version >= version and head.metadata.id == began:
        return opened.pinned(version, began)
    raise CommitConflictError(
        f"the table {opened.location} was replaced, or dropped and created again, while the statement ran",
        cause=f"it began on version {version} of table {began}; there is version {head.version} "
        f"of table {head.metadata.id}",
        remedy="nothing was changed: run the statement again",
        version=head.version,
    )


def _evolved(opened: OpenTable, base: Snapshot, request: Mapping[str, Any], options: Options) -> Metadata | None:
    """The definition after schema evolution asked for with the write itself."""
    schema = request.get("schema")
    if request.get("schema_changes"):
        metadata = opened.format.altered_metadata(base, request["schema_changes"])
    elif schema and options.flag("overwriteSchema") and request["operation"] == "overwrite":
        if conjunction(request.get("predicates") or []) != {"op": "ALWAYS_TRUE"}:
            raise InvalidInputError(
                "overwriteSchema needs every row to be replaced",
                cause="rows outside the predicate would keep the old columns",
                remedy="leave overwriteSchema out, or overwrite the whole table",
            )
        kept = {"properties": base.metadata.properties, "comment": base.metadata.comment}
        metadata = opened.format.new_metadata(
            {**kept, "schema": schema, "partitioning": request.get("partitioning") or [], "checks": {}}, base
        )
    elif schema and options.flag("mergeSchema"):
        steps = merged_changes(base.metadata.schema, schema)
        if not steps:
            return None
        metadata = opened.format.altered_metadata(base, steps)
    else:
        return None
    _require_same_names(base.metadata, metadata)
    return metadata


def _require_same_names(old: Metadata, new: Metadata) -> None:
    """Files were written before the new columns had physical names: both names must be the same."""
    known = {field["name"] for field in old.schema["fields"]}
    for logical, physical in zip(new.schema["fields"], new.physical["fields"], strict=True):
        if logical["name"] not in known and logical["name"] != physical["name"]:
            raise UnsupportedFeatureError(
                f"column {logical['name']} cannot be added by this write",
                cause="the table maps column names, and the files were written before the column had its own",
                remedy="add the column with ALTER TABLE first",
                column=logical["name"],
            )


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
        require_balance(change.operation, tally, written, died + sum(dead.values()), places)
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
