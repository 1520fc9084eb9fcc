"""The actions of one commit: a `Change` against a base snapshot, as lines of the log.

`commit.py` calls `draft_commit` on every attempt, so that masks, in-commit timestamps and the protocol
always follow the base at hand, and puts what comes out.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import orjson
import pyarrow as pa
from pyroaring import BitMap64

from lakemend.errors import InvalidInputError, UnsupportedFeatureError
from lakemend.formats.delta.actions import Add, Cdc, DomainMetadata, MetaData, Protocol, Remove, Txn
from lakemend.formats.delta.commit_info import commit_info, delta_metrics, delta_operation, size_metrics, token_of
from lakemend.formats.delta.deletion_vector import (
    Descriptor,
    describe_file,
    describe_stored,
    encode_file,
    relative_path,
    uuid_name,
)
from lakemend.formats.delta.features import grown_protocol, has_vectors, with_vectors
from lakemend.formats.delta.file_stats import indexed_columns, loosened, stats_json
from lakemend.formats.delta.mapping import partition_names, to_metadata
from lakemend.formats.delta.metadata import to_action
from lakemend.formats.delta.partition_values import decode_path, encode_path, format_value
from lakemend.formats.delta.properties import CHECK_PREFIX, FEED, VECTORS
from lakemend.formats.delta.protocol import supports, upgraded
from lakemend.formats.delta.sort_orders import tags_of
from lakemend.formats.footers import stored_rows
from lakemend.formats.format import Change, Mask, Metadata, NewFile
from lakemend.formats.masks import masked_positions, require_inside
from lakemend.formats.properties import is_on
from lakemend.schema import find

if TYPE_CHECKING:
    from lakemend.formats.delta.snapshot import DeltaSnapshot

_ICT_VERSION = "delta.inCommitTimestampEnablementVersion"
_ICT_TIMESTAMP = "delta.inCommitTimestampEnablementTimestamp"
_ROW_CHANGES = frozenset({"update", "delete", "merge"})


@dataclass
class Draft:
    """The actions of one commit, and the vector file they refer to."""

    version: int
    token: str
    info: dict[str, Any]
    protocol: Protocol | None = None
    metadata: MetaData | None = None
    transaction: Txn | None = None
    domains: list[DomainMetadata] = field(default_factory=list)
    removes: list[Remove] = field(default_factory=list)
    adds: list[Add] = field(default_factory=list)
    records: list[Cdc] = field(default_factory=list)
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
        actions += [{"domainMetadata": domain.to_json()} for domain in self.domains]
        actions += [{"remove": remove.to_json()} for remove in self.removes]
        actions += [{"add": add.to_json()} for add in self.adds]
        actions += [{"cdc": record.to_json()} for record in self.records]
        try:
            return b"\n".join(orjson.dumps(action) for action in actions) + b"\n"
        except TypeError as error:
            raise InvalidInputError(
                "the commit cannot be written as JSON",
                cause=f"a partition value, path or parameter is not text: {error}",
                remedy="partition by a column whose values are valid text",
            ) from error


def draft_commit(base: DeltaSnapshot | None, change: Change) -> Draft:
    """The commit that makes the change on top of `base`; raises if the table does not allow it."""
    now = int(time.time() * 1000)
    token = token_of(change)
    version = 0 if base is None else base.version + 1
    metadata, action, protocol = _definition(base, change)
    _check_allowed(base, change, metadata, protocol)
    timestamp = own_time(base, action, protocol, now)
    action = with_enablement(base, action, protocol, version, timestamp)
    draft = Draft(version, token, {})
    if base is None or protocol != base.protocol:
        draft.protocol = protocol
    if base is None or action != base.meta:
        draft.metadata = action
    if change.transaction is not None:
        draft.transaction = Txn(change.transaction[0], change.transaction[1], now)
    if base is not None:
        _take_out(draft, base, change, now)
        _mask(draft, base, change, now)
    draft.adds += _new_adds(change, metadata)
    draft.records = [Cdc(_encoded(f), v, f.size) for f, v in _with_partition_values(change.feed, metadata)]
    check_paths(draft)
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
        if not change.masked or has_vectors(base.protocol, base.meta):
            return base.metadata, base.meta, base.protocol
        # The first mask: whoever writes vectors must find the feature named and turned on.
        return base.metadata, with_vectors(base.meta), upgraded(base.protocol, {"deletionVectors"})
    metadata = change.metadata
    # Under a new id every file is replaced: nothing of the base's definition goes on.
    goes_on = base is not None and not change.replaces_table and metadata.id == base.meta.id
    action = to_action(metadata, base.meta if base is not None and goes_on else None)
    wanted = metadata.properties | {CHECK_PREFIX + name: sql for name, sql in metadata.checks.items()}
    if change.masked and VECTORS not in wanted:
        action, wanted = with_vectors(action), wanted | {VECTORS: "true"}
    protocol = grown_protocol(None if base is None else base.protocol, action.schema, wanted)
    return to_metadata(action), action, protocol


def own_time(base: DeltaSnapshot | None, action: MetaData, protocol: Protocol, now: int) -> int | None:
    on = is_on(action.configuration, "delta.enableInCommitTimestamps") and supports(protocol, "inCommitTimestamp")
    if not on:
        return None
    return now if base is None else max(now, base.timestamp + 1)


def with_enablement(
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
    _check_feed(base, change, metadata)
    if change.masked and metadata.properties.get(VECTORS, "").lower() == "false":
        raise UnsupportedFeatureError(
            f"rows of {base.store.url} cannot be masked",
            cause="the table has delta.enableDeletionVectors=false",
            remedy="set it to true, or use copy-on-write",
            feature="deletionVectors",
        )


def _check_feed(base: DeltaSnapshot, change: Change, metadata: Metadata) -> None:
    """Readers of changes take records for the whole truth; without any, every row added or removed has changed."""
    if not is_on(metadata.properties, FEED):
        if change.feed:
            raise InvalidInputError(
                f"the change data feed of {base.store.url} is not turned on",
                remedy="this is a defect of the caller; report it with the statement",
                property=FEED,
            )
        return
    copies = bool(change.metrics.get("copied"))
    updates = change.operation in _ROW_CHANGES and bool(change.added) and bool(change.removed or change.masked)
    if change.data_change and not change.feed and (copies or updates):
        raise UnsupportedFeatureError(
            f"{delta_operation(change)} cannot rewrite files of {base.store.url}",
            cause=f"the table has {FEED}=true, and rows that are only copied would show as changes",
            remedy=f"use merge-on-read (write.update.mode, write.delete.mode, write.merge.mode), or set {FEED}=false",
            property=FEED,
            feature="changeDataFeed",
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


def _take_out(draft: Draft, base: DeltaSnapshot, change: Change, now: int) -> None:
    rows = [entry.row for entry in change.removed]
    for entry, body in zip(change.removed, _rows(base, rows), strict=True):
        _check_row(body, entry.path, base)
        draft.removes.append(removal(body, now, change.data_change))
    if change.replaces_table:
        listed = set(rows)
        rest = [row for row in range(base.raw.num_rows) if row not in listed]
        draft.removes += [removal(body, now, change.data_change) for body in _rows(base, rest)]


def removal(body: dict[str, Any], now: int, data_change: bool) -> Remove:
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


def _mask(draft: Draft, base: DeltaSnapshot, change: Change, now: int) -> None:
    """Masks on top of what `base` masks. A file without a living row leaves; one with no newly dead row stays."""
    vectors: list[BitMap64] = []
    masked: list[tuple[int, int]] = []
    rows = [entry.row for entry in change.masked]
    counts = base.files["rows"].take(pa.array(rows, pa.int64())).to_pylist() if rows else []
    for entry, body, counted in zip(change.masked, _rows(base, rows), counts, strict=True):
        _check_row(body, entry.path, base)
        # A masked file must say how many rows it has, and not every writer does.
        count = counted if counted is not None else stored_rows(base.store, base.url(body["path"]))
        old = base.descriptor(entry.row)
        if entry.mask is not None:
            vector = _written(base, entry.path, entry.mask, old, count)
            draft.removes.append(removal(body, now, change.data_change))
            if vector.cardinality != count:
                draft.adds.append(_masked_add(base, entry.row, change, count, vector))
            continue
        assert entry.positions is not None
        dead = masked_positions(base.mask(entry.row), base.store)
        require_inside(dead, count, entry.path)
        known = len(dead)
        dead |= BitMap64.deserialize(entry.positions)
        if len(dead) == known:
            continue
        if dead.max() >= count:
            raise InvalidInputError(
                f"row {dead.max()} of {entry.path} cannot be deleted",
                cause=f"the file has {count} rows",
                remedy="this is a defect of the caller; report it with the statement",
                file=entry.path,
            )
        draft.removes.append(removal(body, now, change.data_change))
        if len(dead) != count:
            vectors.append(dead)
            masked.append((entry.row, count))
    for (row, count), vector in zip(masked, _stored(draft, vectors), strict=True):
        draft.adds.append(_masked_add(base, row, change, count, vector))


def _masked_add(base: DeltaSnapshot, row: int, change: Change, count: int, vector: Descriptor) -> Add:
    add = base.add(row)
    stats = loosened(add.stats, count)
    return replace(add, data_change=change.data_change, stats=stats, deletion_vector=vector)


def _written(base: DeltaSnapshot, path: str, mask: Mask, old: Descriptor | None, count: int) -> Descriptor:
    """The descriptor of a vector that is in a file already, and must hold the old one's rows and more."""
    vector = describe_stored(mask, base.store.url)
    known = 0 if old is None else old.cardinality
    if not known < vector.cardinality <= count:
        raise InvalidInputError(
            f"{vector.cardinality} rows of {path} cannot be dead",
            cause=f"the file has {count} rows, of which {known} are dead already",
            remedy="this is a defect of the caller; report it with the statement",
            file=path,
        )
    return vector


def _stored(draft: Draft, vectors: Sequence[BitMap64]) -> list[Descriptor]:
    """Descriptors of the vectors, which share one file, put before the commit. None stands in the log itself: that is
    allowed, but other engines' VACUUM fails on it."""
    if not vectors:
        return []
    name = uuid.uuid4()
    file = encode_file(vectors)
    draft.vector_file = (relative_path(uuid_name(name)), file.data)
    return describe_file(name, file, vectors)


def _with_partition_values(
    files: Sequence[NewFile], metadata: Metadata
) -> Iterator[tuple[NewFile, dict[str, str | None]]]:
    names = partition_names(metadata)
    types = [_type_of(metadata, part.source) for part in metadata.partitioning]
    for file in files:
        yield file, {n: format_value(v, t) for n, v, t in zip(names, file.partition, types, strict=True)}


def _new_adds(change: Change, metadata: Metadata) -> list[Add]:
    indexed = indexed_columns(metadata)
    return [
        Add(
            path=_encoded(file),
            partition_values=values,
            size=file.size,
            modified=file.modified,
            data_change=change.data_change,
            stats=stats_json(file.rows, file.stats, indexed),
            tags=tags_of(file),
        )
        for file, values in _with_partition_values(change.added, metadata)
    ]


def _type_of(metadata: Metadata, path: tuple[str, ...]) -> Any:
    found = find(metadata.schema, path)
    assert found is not None
    return found["type"]


def _encoded(file: NewFile) -> str:
    # A colon in the first segment would read as a scheme.
    first, slash, rest = encode_path(file.path).partition("/")
    return first.replace(":", "%3A") + slash + rest


def check_paths(draft: Draft) -> None:
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


def _metrics(change: Change, draft: Draft) -> dict[str, int]:
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
    if operation == "OPTIMIZE":
        found |= size_metrics(sorted(a.size for a in added))
        found["numDeletionVectorsRemoved"] = sum(r.deletion_vector is not None for r in removed)
    if masked:
        found["numTargetDeletionVectorsAdded" if operation == "MERGE" else "numDeletionVectorsAdded"] = len(masked)
    return found | delta_metrics(change, operation)
