"""A change as one commit file of the Delta log.

The table calls `try_commit`, which builds the actions against the base snapshot and puts them, if
absent, as exactly the next version; the brain decides what happens when that is taken. A commit
whose outcome is in doubt is looked up by its token (`commitInfo.txnId`) before anything is said, and
`landed` lets an abort prove that nothing of a write is part of the table.
"""

from __future__ import annotations

import logging
import time
import uuid
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import orjson
import pyarrow as pa
from obstore.exceptions import InvalidPathError, NotSupportedError, PermissionDeniedError, UnauthenticatedError
from pyroaring import BitMap64

from lakemend.errors import CommitUnknownError, InvalidInputError, LakemendError, StorageError, UnsupportedFeatureError
from lakemend.formats.delta import checkpoint_writer
from lakemend.formats.delta.actions import Add, MetaData, Protocol, Remove, Txn
from lakemend.formats.delta.commit_info import commit_info, delta_operation, token_of
from lakemend.formats.delta.deletion_vector import (
    Descriptor,
    describe_file,
    describe_inline,
    encode_blob,
    encode_file,
    read_vector,
    relative_path,
    uuid_name,
)
from lakemend.formats.delta.features import grown_protocol
from lakemend.formats.delta.file_stats import indexed_columns, loosened, stats_json
from lakemend.formats.delta.log import commit_path, commits_after
from lakemend.formats.delta.mapping import partition_names, to_metadata
from lakemend.formats.delta.metadata import to_action
from lakemend.formats.delta.partition_values import decode_path, encode_path, format_value
from lakemend.formats.delta.properties import CHECK_PREFIX, is_on
from lakemend.formats.delta.protocol import supports
from lakemend.formats.format import Change, Metadata, NewFile, Snapshot, VersionTaken
from lakemend.schema import find

if TYPE_CHECKING:
    from lakemend.formats.delta.snapshot import DeltaSnapshot
    from lakemend.formats.delta.table import DeltaTable

log = logging.getLogger(__name__)

# Vectors up to this size stand in the log itself.
INLINE_BYTES = 512
_ICT_VERSION = "delta.inCommitTimestampEnablementVersion"
_ICT_TIMESTAMP = "delta.inCommitTimestampEnablementTimestamp"
# A put that fails like this has not reached the store's data.
_REFUSED = (PermissionDeniedError, UnauthenticatedError, NotSupportedError, InvalidPathError)


@dataclass
class _Draft:
    """The actions of one commit, and the vector file they refer to."""

    version: int
    token: str
    info: dict[str, Any]
    protocol: Protocol | None = None
    metadata: MetaData | None = None
    transaction: Txn | None = None
    removes: list[Remove] = field(default_factory=list)
    adds: list[Add] = field(default_factory=list)
    vector_file: tuple[str, bytes] | None = None

    def lines(self) -> bytes:
        # commitInfo comes first: readers of in-commit timestamps look nowhere else.
        actions: list[dict[str, Any]] = [{"commitInfo": self.info}]
        if self.protocol is not None:
            actions.append({"protocol": self.protocol.to_json()})
        if self.metadata is not None:
            actions.append({"metaData": self.metadata.to_json()})
        if self.transaction is not None:
            actions.append({"txn": self.transaction.to_json()})
        actions += [{"remove": remove.to_json()} for remove in self.removes]
        actions += [{"add": add.to_json()} for add in self.adds]
        try:
            return b"\n".join(orjson.dumps(action) for action in actions) + b"\n"
        except TypeError as error:
            raise InvalidInputError(
                "the commit cannot be written as JSON",
                cause=f"a partition value, path or parameter is not text: {error}",
                remedy="partition by a column whose values are valid text",
            ) from error


def try_commit(table: DeltaTable, base: Snapshot | None, change: Change) -> int:
    """Makes version base+1 (0 if base is None); see `format.Table.try_commit`."""
    before = _delta(base)
    draft = _draft(table, before, change)
    data = draft.lines()
    if draft.vector_file is not None:
        table.store.put(*draft.vector_file)
    try:
        _put(table, draft, data)
    except CommitUnknownError:
        raise
    except BaseException:
        # The commit did not land, so nothing refers to its vectors.
        if draft.vector_file is not None:
            table.store.delete([draft.vector_file[0]])
        raise
    log.info("%s made version %d of %s", draft.info["operation"], draft.version, table.store.url)
    _checkpoint_if_due(table, before, draft)
    return draft.version


def _delta(base: Snapshot | None) -> DeltaSnapshot | None:
    from lakemend.formats.delta.snapshot import DeltaSnapshot

    assert base is None or isinstance(base, DeltaSnapshot)
    return base


# Building the actions


def _draft(table: DeltaTable, base: DeltaSnapshot | None, change: Change) -> _Draft:
    now = int(time.time() * 1000)
    token = token_of(change)
    version = 0 if base is None else base.version + 1
    metadata, action, protocol = _definition(base, change)
    _check_allowed(base, change, metadata, protocol)
    timestamp = _in_commit_timestamp(base, action, protocol, now)
    action = _with_enablement(base, action, protocol, version, timestamp)
    draft = _Draft(version, token, {})
    if base is None or protocol != base.protocol:
        draft.protocol = protocol
    if base is None or action != base.meta:
        draft.metadata = action
    if change.transaction is not None:
        draft.transaction = Txn(change.transaction[0], change.transaction[1], now)
    if base is not None:
        _take_out(draft, base, change, now)
        _mask(table, draft, base, change, now)
    draft.adds += _new_adds(change, metadata)
    _check_paths(draft)
    draft.info = commit_info(
        change,
        token=token,
        now=now,
        base_version=None if base is None else base.version,
        metrics=_metrics(change, draft),
        partition_columns=action.partition_columns,
        in_commit_timestamp=timestamp,
    )
    return draft


def _definition(base: DeltaSnapshot | None, change: Change) -> tuple[Metadata, MetaData, Protocol]:
    """The table's definition after the change."""
    if change.metadata is None:
        if base is None:
            raise InvalidInputError(
                "a table cannot be created without a schema", remedy="pass the metadata of the new table"
            )
        return base.metadata, base.meta, base.protocol
    metadata = change.metadata
    action = to_action(metadata, None if base is None or change.replaces_table else base.meta)
    wanted = metadata.properties | {CHECK_PREFIX + name: sql for name, sql in metadata.checks.items()}
    protocol = grown_protocol(None if base is None else base.protocol, action.schema, wanted)
    return to_metadata(action), action, protocol


def _in_commit_timestamp(base: DeltaSnapshot | None, action: MetaData, protocol: Protocol, now: int) -> int | None:
    on = is_on(action.configuration, "delta.enableInCommitTimestamps") and supports(protocol, "inCommitTimestamp")
    if not on:
        return None
    return now if base is None else max(now, base.timestamp + 1)


def _with_enablement(
    base: DeltaSnapshot | None, action: MetaData, protocol: Protocol, version: int, timestamp: int | None
) -> MetaData:
    """Where in-commit timestamps begin with this commit, the metadata says so; where they do not exist, neither."""
    configuration = dict(action.configuration)
    if timestamp is None:
        configuration.pop(_ICT_VERSION, None)
        configuration.pop(_ICT_TIMESTAMP, None)
    elif base is not None and not base.in_commit_timestamps:
        configuration |= {_ICT_VERSION: str(version), _ICT_TIMESTAMP: str(timestamp)}
    elif base is not None:
        kept = {
            key: base.meta.configuration[key]
            for key in (_ICT_VERSION, _ICT_TIMESTAMP)
            if key in base.meta.configuration
        }
        configuration |= kept
    return action if configuration == action.configuration else replace(action, configuration=configuration)


def _check_allowed(base: DeltaSnapshot | None, change: Change, metadata: Metadata, protocol: Protocol) -> None:
    if base is None:
        if change.removed or change.masked:
            raise InvalidInputError("a new table has no files to remove", remedy="commit against a base snapshot")
        return
    takes_rows = bool(change.removed or change.masked or change.replaces_table) and change.data_change
    if takes_rows and is_on(base.meta.configuration, "delta.appendOnly"):
        raise UnsupportedFeatureError(
            f"{delta_operation(change)} is not allowed on {base.store.url}",
            cause="the table has delta.appendOnly=true: rows are only ever added",
            remedy="ALTER TABLE … SET TBLPROPERTIES ('delta.appendOnly' = 'false') first",
            property="delta.appendOnly",
            feature="appendOnly",
        )
    if change.masked and not (
        supports(protocol, "deletionVectors") and is_on(metadata.properties, "delta.enableDeletionVectors")
    ):
        raise UnsupportedFeatureError(
            f"rows of {base.store.url} cannot be masked",
            cause="the table does not have deletion vectors (delta.enableDeletionVectors)",
            remedy="set delta.enableDeletionVectors=true, or use copy-on-write",
            feature="deletionVectors",
        )


def _rows(base: DeltaSnapshot, rows: Sequence[int]) -> list[dict[str, Any]]:
    return base.raw.take(pa.array(rows, pa.int64())).to_pylist() if rows else []


def _check_row(body: dict[str, Any], path: str, base: DeltaSnapshot) -> None:
    if body["path"] != path:
        raise InvalidInputError(
            f"{path} is not where the change says it is in version {base.version}",
            cause="the change was planned on another snapshot",
            remedy="plan it on the snapshot it is committed against",
            file=path,
        )


def _take_out(draft: _Draft, base: DeltaSnapshot, change: Change, now: int) -> None:
    rows = [entry.row for entry in change.removed]
    for entry, body in zip(change.removed, _rows(base, rows), strict=True):
        _check_row(body, entry.path, base)
        draft.removes.append(_remove(body, now, change.data_change))
    if change.replaces_table:
        listed = set(rows)
        rest = [row for row in range(base.raw.num_rows) if row not in listed]
        draft.removes += [_remove(body, now, change.data_change) for body in _rows(base, rest)]


def _remove(body: dict[str, Any], now: int, data_change: bool) -> Remove:
    vector = body["deletionVector"]
    return Remove(
        path=body["path"],
        deleted=now,
        data_change=data_change,
        partition_values=dict(body["partitionValues"] or {}),
        size=body["size"],
        tags=None if body["tags"] is None else dict(body["tags"]),
        deletion_vector=None if vector is None else Descriptor.from_json(vector),
        base_row_id=body["baseRowId"],
        default_row_commit_version=body["defaultRowCommitVersion"],
    )


def _mask(table: DeltaTable, draft: _Draft, base: DeltaSnapshot, change: Change, now: int) -> None:
    """Masks on top of what `base` masks. A file without a living row leaves; one with no newly dead row stays."""
    vectors: list[BitMap64] = []
    masked: list[Add] = []
    rows = [entry.row for entry in change.masked]
    counts = base.files["rows"].take(pa.array(rows, pa.int64())).to_pylist() if rows else []
    for entry, body, count in zip(change.masked, _rows(base, rows), counts, strict=True):
        _check_row(body, entry.path, base)
        old = base.descriptor(entry.row)
        dead = read_vector(table.store, old) if old is not None else BitMap64()
        known = len(dead)
        dead |= BitMap64.deserialize(entry.positions)
        if len(dead) == known:
            continue
        if count is not None and dead.max() >= count:
            raise InvalidInputError(
                f"row {dead.max()} of {entry.path} cannot be deleted",
                cause=f"the file has {count} rows",
                remedy="this is a defect of the caller; report it with the statement",
                file=entry.path,
            )
        draft.removes.append(_remove(body, now, change.data_change))
        if len(dead) != count:
            vectors.append(dead)
            masked.append(replace(base.add(entry.row), data_change=change.data_change))
    for add, vector in zip(masked, _stored(draft, vectors), strict=True):
        draft.adds.append(replace(add, deletion_vector=vector, stats=loosened(add.stats, None)))


def _stored(draft: _Draft, vectors: Sequence[BitMap64]) -> list[Descriptor]:
    """Descriptors of the vectors; those too large for the log share one file, put before the commit."""
    large = [at for at, vector in enumerate(vectors) if len(encode_blob(vector)) > INLINE_BYTES]
    described: dict[int, Descriptor] = {}
    if large:
        name = uuid.uuid4()
        bitmaps = [vectors[at] for at in large]
        file = encode_file(bitmaps)
        draft.vector_file = (relative_path(uuid_name(name)), file.data)
        described = dict(zip(large, describe_file(name, file, bitmaps), strict=True))
    return [described.get(at) or describe_inline(vector) for at, vector in enumerate(vectors)]


def _new_adds(change: Change, metadata: Metadata) -> list[Add]:
    names = partition_names(metadata)
    types = [_type_of(metadata, part.source) for part in metadata.partitioning]
    indexed = indexed_columns(metadata)
    return [
        Add(
            path=_encoded(file),
            partition_values={
                name: format_value(value, type) for name, value, type in zip(names, file.partition, types, strict=True)
            },
            size=file.size,
            modified=file.modified,
            data_change=change.data_change,
            stats=stats_json(file.rows, file.stats, indexed),
        )
        for file in change.added
    ]


def _type_of(metadata: Metadata, path: tuple[str, ...]) -> Any:
    found = find(metadata.schema, path)
    assert found is not None
    return found["type"]


def _encoded(file: NewFile) -> str:
    # A colon in the first segment would read as a scheme.
    first, slash, rest = encode_path(file.path).partition("/")
    return first.replace(":", "%3A") + slash + rest


def _check_paths(draft: _Draft) -> None:
    """A commit holds at most one add and one remove of a path, and both only if the vector changed."""
    for kind, paths in (("added", [a.path for a in draft.adds]), ("removed", [r.path for r in draft.removes])):
        plain = [decode_path(path) for path in paths]
        if len(set(plain)) != len(plain):
            twice = next(path for path in plain if plain.count(path) > 1)
            raise InvalidInputError(
                f"{twice} is {kind} twice in one commit",
                remedy="this is a defect of the caller; report it with the statement",
                file=twice,
            )
    removed = {decode_path(r.path): r.deletion_vector for r in draft.removes}
    for add in draft.adds:
        path = decode_path(add.path)
        if path in removed and removed[path] == add.deletion_vector:
            raise InvalidInputError(
                f"{path} is added and removed in one commit",
                cause="a new data file has the name of an old one",
                remedy="write new files under new names",
                file=path,
            )


def _metrics(change: Change, draft: _Draft) -> dict[str, int]:
    masked = {r.path for r in draft.removes} & {a.path for a in draft.adds}
    added = [a for a in draft.adds if a.path not in masked]
    removed = [r for r in draft.removes if r.path not in masked]
    operation = delta_operation(change)
    found: dict[str, int] = {}
    if change.added and (operation == "WRITE" or operation.endswith("AS SELECT")):
        found |= {
            "numFiles": len(added),
            "numOutputRows": sum(file.rows for file in change.added),
            "numOutputBytes": sum(file.size for file in change.added),
        }
    if operation == "MERGE":
        found |= {"numTargetFilesAdded": len(added), "numTargetFilesRemoved": len(removed)}
    if operation != "MERGE" and (removed or masked or operation in ("UPDATE", "DELETE", "OPTIMIZE")):
        found |= {"numAddedFiles": len(added), "numRemovedFiles": len(removed)}
        found |= {"numAddedBytes": sum(a.size for a in added), "numRemovedBytes": sum(r.size or 0 for r in removed)}
    if masked:
        found["numDeletionVectorsAdded"] = len(masked)
    return found | dict(change.metrics)


# Putting it, and learning what became of it


def _put(table: DeltaTable, draft: _Draft, data: bytes) -> None:
    """Puts the commit; returns only if it landed, raises VersionTaken or what was wrong if it did not."""
    path = commit_path(draft.version)
    try:
        table.store.put_if_absent(path, data)
    except FileExistsError as error:
        # A store that repeats a request by itself may collide with its own first attempt.
        if _is_ours(table, path, draft.token):
            return
        raise VersionTaken(f"version {draft.version} of {table.store.url} is taken") from error
    except StorageError as error:
        if isinstance(error.__cause__, _REFUSED):
            raise
        _settle(table, draft, path, error)


def _settle(table: DeltaTable, draft: _Draft, path: str, error: StorageError) -> None:
    """After a put that failed half-way: returns if ours stands, VersionTaken if another does, else unknown."""
    try:
        ours = _is_ours(table, path, draft.token)
    except FileNotFoundError:
        if table.store.url.startswith("file:"):
            # A local disk has no request on its way any more.
            raise error from None
        raise _unknown(table, draft, error, "the version is not there yet, but the request may still arrive") from error
    except (LakemendError, OSError, ValueError) as unreadable:
        raise _unknown(table, draft, error, f"the version could not be read back: {unreadable}") from error
    if not ours:
        raise VersionTaken(f"version {draft.version} of {table.store.url} is taken") from error
    log.warning("the store reported an error, but version %d of %s landed: %s", draft.version, table.store.url, error)


def _unknown(table: DeltaTable, draft: _Draft, error: Exception, cause: str) -> CommitUnknownError:
    return CommitUnknownError(
        f"whether version {draft.version} of {table.store.url} was committed is not known",
        cause=f"{cause}; the store said: {error}",
        remedy=f"look for the transaction {draft.token} in the table's history before running the statement again",
        version=draft.version,
        token=draft.token,
    )


def _is_ours(table: DeltaTable, path: str, token: str) -> bool:
    return _token_in(table.store.get(path)) == token


def _token_in(data: bytes) -> str | None:
    for line in data.split(b"\n"):
        if b'"commitInfo"' in line:
            info = orjson.loads(line).get("commitInfo")
            if info is not None:
                return str(info.get("txnId"))
    return None


def landed(table: DeltaTable, token: str, since_version: int | None) -> bool | None:
    """Whether a commit with the token is among the versions after `since_version`; None if that cannot be told."""
    try:
        entries = commits_after(table.store, -1 if since_version is None else since_version)
        return any(_token_in(data) == token for data in table.store.get_many([entry.path for entry in entries]))
    except (LakemendError, OSError, ValueError) as error:
        log.warning("whether %s landed in %s cannot be told: %s", token, table.store.url, error)
        return None


def _checkpoint_if_due(table: DeltaTable, base: DeltaSnapshot | None, draft: _Draft) -> None:
    definition = draft.metadata or (base.meta if base is not None else None)
    if definition is None or not checkpoint_writer.is_due(draft.version, definition.configuration):
        return
    try:
        snapshot = table.latest()
        if snapshot.version != draft.version:
            snapshot = table.at_version(draft.version)
    except Exception:
        log.warning("no checkpoint %d of %s: it cannot be read", draft.version, table.store.url, exc_info=True)
        return
    checkpoint_writer.after_commit(table.store, snapshot)
