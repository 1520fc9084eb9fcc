"""One version of a Delta table.

The table makes snapshots with `load` (from a checkpoint and commits) and `advance` (from the
snapshot before, when only commits were added). The brain sees `format.Snapshot`; the write side also
uses what the log alone knows: `protocol`, `meta`, `raw`, `stats_json`, `tombstones`, `transactions`
and `domains`, from which a checkpoint is written without loss.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakemend.errors import CorruptTableError
from lakemend.formats.delta.actions import Add, DomainMetadata, MetaData, Protocol, Txn
from lakemend.formats.delta.bounds import RawStats, column_stats
from lakemend.formats.delta.checkpoint import read_checkpoint
from lakemend.formats.delta.deletion_vector import Descriptor
from lakemend.formats.delta.log import Listing, Segment, commit_path, plain
from lakemend.formats.delta.mapping import (
    partition_names,
    partition_types,
    physical_path,
    require_known_types,
    to_metadata,
)
from lakemend.formats.delta.partition_values import decode_path, parse_column
from lakemend.formats.delta.protocol import (
    features,
    reader_features,
    require_readable,
    require_writable,
    supports,
    unsupported_writer_features,
    writer_features,
)
from lakemend.formats.delta.recent import CommitFile
from lakemend.formats.delta.replay import (
    Commits,
    add_schema,
    corrupt,
    keys,
    one_chunk,
    partition_type,
    reconcile,
    remove_schema,
)
from lakemend.formats.delta.sort_orders import sort_orders
from lakemend.formats.delta.stats import JsonStats, StatsSource
from lakemend.formats.format import ColumnStats, Mask, Metadata
from lakemend.formats.zone import zone_name
from lakemend.schema import Path, find, is_struct, to_arrow
from lakemend.storage import Store, join, normalise

log = logging.getLogger(__name__)

_ABSOLUTE = re.compile(r"^(/|[A-Za-z][A-Za-z0-9+.-]*:/)")
_ICT = "delta.enableInCommitTimestamps"
_ICT_VERSION = "delta.inCommitTimestampEnablementVersion"
# Beyond so many pieces the small ones are joined: each commit after a load adds one.
_MANY_PIECES = 16


@dataclass(frozen=True)
class Piece:
    """Live files read from one place: their columns, and where among `source`'s statistics each one's are."""

    raw: pa.Table
    source: StatsSource
    rows: np.ndarray | None = None  # None: in the same order

    @cached_property
    def keys(self) -> pa.Array:
        return keys(self.raw)

    def without(self, taken: pa.Array) -> Piece:
        """The files whose keys nothing newer took."""
        kept = _untaken(self.keys, taken)
        if kept is None:
            return self
        return Piece(self.raw.take(pa.array(kept)), self.source, kept if self.rows is None else self.rows[kept])

    def select(self, values: pa.Array) -> pa.Array:
        """The source's values for these files."""
        return values if self.rows is None else values.take(pa.array(self.rows))

    def as_partitioned(self, names: Sequence[str]) -> Piece:
        """With exactly these partition columns; a value the log does not have is null."""
        wanted = partition_type(names)
        values = self.raw.column("partitionValues")
        if values.type == wanted:
            return self
        old = one_chunk(values)
        arrays = [
            pc.struct_field(old, [n]) if old.type.get_field_index(n) >= 0 else pa.nulls(len(old), pa.string())
            for n in names
        ]
        new = pa.StructArray.from_arrays(arrays, fields=list(wanted)) if names else pa.nulls(len(old), wanted)
        index = self.raw.schema.get_field_index("partitionValues")
        return Piece(self.raw.set_column(index, pa.field("partitionValues", wanted), new), self.source, self.rows)


def _untaken(own: pa.Array, taken: pa.Array) -> np.ndarray | None:
    if not len(taken) or not len(own):
        return None
    dead = pc.is_in(own, value_set=taken)
    return np.flatnonzero(~dead.to_numpy(zero_copy_only=False)) if pc.any(dead).as_py() else None


class DeltaSnapshot:
    """See `format.Snapshot`. Rows of `files`, `raw` and every statistic are aligned."""

    def __init__(
        self,
        store: Store,
        version: int,
        timestamp: int,
        protocol: Protocol,
        meta: MetaData,
        pieces: Sequence[Piece],
        tombstones: pa.Table,
        transactions: Mapping[str, Txn],
        domains: Mapping[str, DomainMetadata],
        modified: int | None = None,
    ) -> None:
        self.store = store
        self.version = version
        self.timestamp = timestamp
        self.protocol = protocol
        self.meta = meta
        self.metadata: Metadata = to_metadata(meta)
        self.pieces = tuple(pieces)
        self.tombstones = tombstones  # columns as `replay.remove_schema`
        self.transactions = dict(transactions)
        self.domains = dict(domains)
        self.modified = timestamp if modified is None else modified  # the commit file's time, grown monotonously
        self._stats: dict[Path, ColumnStats | None] = {}
        self._files: dict[str, pa.Table] = {}  # by the zone in which local times were read

    @cached_property
    def capabilities(self) -> frozenset[str]:
        found = {"read", "versions", "constraints"}
        if not unsupported_writer_features(self.protocol, self.meta.schema) and self.protocol.min_writer <= 7:
            found.add("write")
        if self.meta.configuration.get("delta.enableDeletionVectors", "").lower() != "false":
            found.add("masks")
        return frozenset(found)

    @property
    def in_commit_timestamps(self) -> bool:
        """Whether commits carry their own time."""
        return has_in_commit_timestamps(self.protocol, self.meta)

    @cached_property
    def raw(self) -> pa.Table:
        """Live files as the log holds them, columns as `replay.add_schema`; statistics are `stats_json`."""
        names = partition_names(self.metadata)
        if not self.pieces:
            return add_schema(names).empty_table()
        return pa.concat_tables([p.raw for p in self.pieces])

    def stats_json(self) -> pa.Array:
        """Statistics of the live files as the log spells them; null where there are none."""
        return _concat([p.select(p.source.json()) for p in self.pieces], pa.string())

    @property
    def files(self) -> pa.Table:
        name = zone_name() if self._has_local_times else ""
        if name not in self._files:
            rows = _concat([p.select(p.source.rows()) for p in self.pieces], pa.int64())
            self._files[name] = file_table(self.raw, rows, self.metadata)
        return self._files[name]

    @cached_property
    def _has_local_times(self) -> bool:
        return "timestamp" in partition_types(self.metadata).values()

    def stats(self, path: Path) -> ColumnStats | None:
        path = tuple(path)
        if path not in self._stats:
            self._stats[path] = stats_of(self.pieces, self.metadata, self.meta, path)
        return self._stats[path]

    def descriptor(self, row: int) -> Descriptor | None:
        """The deletion vector of the file at `row`, as the log describes it."""
        body = self.raw.column("deletionVector")[row].as_py()
        return None if body is None else Descriptor.from_json(body)

    def mask(self, row: int) -> Mask | None:
        found = self.descriptor(row)
        return None if found is None else found.mask(self.store.url)

    def sort_orders(self, rows: pa.Array | None) -> list[list[str] | None] | None:
        return sort_orders(self.raw.column("tags"), rows, self.metadata)

    def add(self, row: int) -> Add:
        """The add action of the file at `row`, whole."""
        body = {name: self.raw.column(name)[row].as_py() for name in self.raw.column_names}
        stats = None
        for piece in self.pieces:
            if row < len(piece.raw):
                at = row if piece.rows is None else int(piece.rows[row])
                stats = piece.source.json()[at].as_py()
                break
            row -= len(piece.raw)
        vector = body["deletionVector"]
        return Add(
            path=body["path"],
            partition_values=dict(body["partitionValues"] or {}),
            size=body["size"],
            modified=body["modificationTime"] or 0,
            data_change=bool(body["dataChange"]),
            stats=stats,
            tags=None if body["tags"] is None else dict(body["tags"]),
            deletion_vector=None if vector is None else Descriptor.from_json(vector),
            base_row_id=body["baseRowId"],
            default_row_commit_version=body["defaultRowCommitVersion"],
            clustering_provider=body["clusteringProvider"],
        )

    def url(self, path: str) -> str:
        plain_path = decode_path(path)
        return normalise(plain_path) if _ABSOLUTE.match(path) else join(self.store.url, plain_path)

    def spelled(self, paths: Iterable[str]) -> list[str]:
        """Paths of another writer as this log spells them: writers differ in what they encode."""
        asked = list(paths)
        if not asked:
            return []
        known = one_chunk(self.raw.column("path"))
        plain = [decode_path(path) for path in asked]
        as_asked, as_plain = (pc.is_in(pa.array(p, pa.string()), value_set=known).to_pylist() for p in (asked, plain))
        return [
            a if here else p if there else self._encoded_paths.get(p, a)
            for a, p, here, there in zip(asked, plain, as_asked, as_plain, strict=True)
        ]

    @cached_property
    def _encoded_paths(self) -> dict[str, str]:
        """Paths that are not plain, by their plain spelling."""
        paths = self.raw.column("path")
        return {decode_path(path): path for path in paths.filter(pc.match_substring(paths, "%")).to_pylist()}

    def require_writable(self) -> None:
        require_writable(self.protocol, self.meta.schema, self.store.url)

    def transaction(self, app_id: str) -> int | None:
        found = self.transactions.get(app_id)
        return None if found is None else found.version

    def detail(self) -> dict[str, Any]:
        return {
            "id": self.meta.id,
            "name": self.meta.name,
            "description": self.meta.description,
            "created": self.meta.created,
            "partition_columns": list(self.meta.partition_columns),
            "min_reader_version": self.protocol.min_reader,
            "min_writer_version": self.protocol.min_writer,
            "reader_features": sorted(reader_features(self.protocol)),
            "writer_features": sorted(writer_features(self.protocol)),
            "table_features": sorted(features(self.protocol)),
            "files": self.raw.num_rows,
            "bytes": pc.sum(self.raw.column("size")).as_py() or 0,
            "transactions": {k: t.version for k, t in self.transactions.items()},
            "domains": sorted(self.domains),
        }


def file_table(raw: pa.Table, rows: pa.Array, metadata: Metadata) -> pa.Table:
    """Add actions as the brain's file table (`format.py`)."""
    vectors = raw.column("deletionVector")
    masked = pc.fill_null(pc.struct_field(vectors, ["cardinality"]), 0)
    _require_countable(raw, rows, masked)
    columns = [
        raw.column("path"),
        raw.column("size"),
        pc.fill_null(raw.column("modificationTime"), 0),
        rows,
        masked,
        _typed_partition(raw.column("partitionValues"), metadata),
    ]
    return pa.table(columns, names=["path", "size", "modified", "rows", "masked", "partition"])


def _require_countable(raw: pa.Table, rows: pa.Array, masked: pa.ChunkedArray) -> None:
    for row in pc.indices_nonzero(pc.fill_null(pc.greater(masked, rows), False)).to_pylist()[:1]:
        raise CorruptTableError(
            f"the file {raw.column('path')[row].as_py()} has fewer rows than its deletion vector",
            cause=f"the log says {rows[row].as_py()} rows, of which {masked[row].as_py()} are deleted",
            remedy="rewrite the file with the engine that wrote it, or read an older version of the table",
        )
    for name, column in (("rows", rows), ("bytes", raw.column("size"))):
        if (pc.sum(column.cast(pa.float64(), safe=False)).as_py() or 0) >= 2.0**62:
            raise CorruptTableError(
                f"the files of the table have more {name} than there can be",
                cause="a number in the log is wrong",
                remedy="restore the log from a backup, or read an older version of the table",
            )


def _typed_partition(values: pa.ChunkedArray, metadata: Metadata) -> pa.Array:
    if not metadata.partitioning:
        return pa.Array.from_buffers(pa.struct([]), len(values), [None])
    strings = one_chunk(values)
    arrays, fields = [], []
    for index, part in enumerate(metadata.partitioning):
        found = find(metadata.schema, part.source)
        kind = found["type"] if found else "string"
        arrays.append(parse_column(pc.struct_field(strings, [index]), kind, part.name))
        fields.append(pa.field(part.name, to_arrow(kind)))
    return pa.StructArray.from_arrays(arrays, fields=fields)


def stats_of(pieces: Sequence[Piece], metadata: Metadata, meta: MetaData, path: Path) -> ColumnStats | None:
    """Bounds of a leaf column over the files of all pieces."""
    field = find(metadata.schema, path)
    physical = physical_path(metadata.schema, metadata.physical, path)
    if field is None or physical is None or is_struct(field["type"]):
        return None
    if len(path) == 1 and any(p.source == path for p in metadata.partitioning):
        return None
    datatype, target = field["type"], to_arrow(field["type"])
    raws, tights, found = [], [], False
    for piece in pieces:
        raw = piece.source.leaf(metadata.physical, physical, datatype)
        found = found or raw is not None
        count = len(piece.source)
        raw = raw or RawStats(pa.nulls(count, target), pa.nulls(count, target), pa.nulls(count, pa.int64()))
        raws.append(RawStats(piece.select(raw.min), piece.select(raw.max), piece.select(raw.nulls)))
        tights.append(_tight(piece))
    if not found:
        return None
    low = _concat([r.min for r in raws], target)
    if datatype == "double" and _was_float(meta, path):
        # Bounds written for floats are shorter than the doubles the values became.
        low = pa.nulls(len(low), target)
    joined = RawStats(low, _concat([r.max for r in raws], target), _concat([r.nulls for r in raws], pa.int64()))
    return column_stats(joined, datatype, _concat(tights, pa.bool_()))


def _tight(piece: Piece) -> pa.Array:
    """Whether the bounds are those of the rows that live: as the writer says, else where no row is masked."""
    said = piece.select(piece.source.tight())
    unmasked = one_chunk(piece.raw.column("deletionVector")).is_null()
    return pc.coalesce(said, unmasked)


def _was_float(meta: MetaData, path: Path) -> bool:
    field = find(meta.schema, path)
    changes = ((field or {}).get("metadata") or {}).get("delta.typeChanges") or ()
    return any(change.get("fromType") == "float" for change in changes)


def _concat(arrays: Sequence[pa.Array], datatype: pa.DataType) -> pa.Array:
    if len(arrays) == 1:
        return arrays[0]
    return pa.concat_arrays(arrays) if arrays else pa.array([], datatype)


def has_in_commit_timestamps(protocol: Protocol, meta: MetaData) -> bool:
    return meta.configuration.get(_ICT, "").lower() == "true" and supports(protocol, "inCommitTimestamp")


def in_commit_timestamps_from(meta: MetaData) -> int:
    """The first version whose commit carries its own time, where the table has that switched on."""
    return int(meta.configuration.get(_ICT_VERSION, "0"))


def load(store: Store, listing: Listing, segments: Sequence[Segment]) -> DeltaSnapshot:
    """The snapshot of the first segment that can be read; CorruptTableError of the first if none can."""
    first: CorruptTableError | None = None
    for segment in segments:
        choices = [segment]
        if segment.compacted and (simple := plain(listing, segment)) is not None:
            choices.append(simple)
        for choice in choices:
            try:
                return _load_segment(store, choice)
            except CorruptTableError as error:
                first = first or error
                log.warning("version %d of %s: %s", segment.version, store.url, error)
    assert first is not None
    raise first


def _load_segment(store: Store, segment: Segment) -> DeltaSnapshot:
    commits = _read_commits(store, segment.logs)
    if segment.checkpoint is None:
        protocol, meta = commits.protocol, commits.metadata
        if protocol is None or meta is None:
            missing = "protocol" if protocol is None else "metaData"
            raise corrupt(segment.logs[0][1], f"the first commits hold no {missing} action")
        older = _Older((), None, {}, {})
    else:
        state = read_checkpoint(store, segment.checkpoint.paths)
        protocol, meta = commits.protocol or state.protocol, commits.metadata or state.metadata
        assert protocol is not None  # read_checkpoint sees to both
        assert meta is not None
        removes = pa.concat_tables(state.removes) if state.removes else None
        older = _Older([Piece(raw, source) for raw, source in state.adds], removes, state.transactions, state.domains)
    return _apply(store, segment.version, segment.modified, protocol, meta, older, commits)


@dataclass(frozen=True)
class _Older:
    """The state commits are applied to."""

    pieces: Sequence[Piece]
    tombstones: pa.Table | None
    transactions: Mapping[str, Txn]
    domains: Mapping[str, DomainMetadata]


def advance(base: DeltaSnapshot, files: Sequence[CommitFile]) -> DeltaSnapshot:
    """The snapshot after more commits, which follow `base` without a gap."""
    commits, modified = files[0].commits if len(files) == 1 else Commits(), base.modified
    for file in files:
        if len(files) > 1:
            commits.read(file.version, file.entry.path, file.data)
        modified = max(file.entry.modified, modified + 1)
    older = _Older(base.pieces, base.tombstones, base.transactions, base.domains)
    protocol, meta = commits.protocol or base.protocol, commits.metadata or base.meta
    return _apply(base.store, files[-1].version, modified, protocol, meta, older, commits)


def _read_commits(store: Store, logs: Sequence[tuple[int, str]]) -> Commits:
    commits = Commits()
    try:
        datas = store.get_many([path for _, path in logs])
    except FileNotFoundError as error:
        raise corrupt(str(error.args[0] if error.args else logs), "the file does not exist") from error
    for (version, path), data in zip(logs, datas, strict=True):
        commits.read(version, path, data)
    return commits


def _apply(
    store: Store,
    version: int,
    modified: int,
    protocol: Protocol,
    meta: MetaData,
    older: _Older,
    commits: Commits,
) -> DeltaSnapshot:
    # Before anything else is understood: an unknown feature may change the meaning of all of it.
    require_readable(protocol, store.url)
    metadata = to_metadata(meta)
    require_known_types(metadata)
    names = partition_names(metadata)
    adds, strings, add_versions = commits.adds(names)
    removes, remove_versions = commits.removes(names)
    pieces = list(older.pieces)
    tombstones = remove_schema(names).empty_table() if older.tombstones is None else older.tombstones
    if len(adds) or len(removes):
        alive = reconcile(adds, add_versions, removes, remove_versions)
        pieces = [piece.without(alive.keys) for piece in pieces]
        kept = _untaken(keys(tombstones), alive.keys)
        tombstones = tombstones if kept is None else tombstones.take(pa.array(kept))
        if len(alive.removes):
            tombstones = _joined(tombstones, removes.take(pa.array(alive.removes)), names)
        if len(alive.adds):
            every = len(alive.adds) == len(adds)
            raw = adds if every else adds.take(pa.array(alive.adds))
            pieces.append(Piece(raw, JsonStats(strings, len(strings)), None if every else alive.adds))
    pieces = [p.as_partitioned(names) for p in pieces if len(p.raw)]
    if len(pieces) > _MANY_PIECES:
        pieces = _merged(pieces)
    domains = {k: d for k, d in {**older.domains, **commits.domains}.items() if not d.removed}
    timestamp = modified
    if has_in_commit_timestamps(protocol, meta) and version >= in_commit_timestamps_from(meta):
        timestamp = _in_commit_timestamp(store, version, commits, modified)
    return DeltaSnapshot(
        store,
        version,
        timestamp,
        protocol,
        meta,
        pieces,
        tombstones,
        {**older.transactions, **commits.transactions},
        domains,
        modified,
    )


def _joined(old: pa.Table, new: pa.Table, names: Sequence[str]) -> pa.Table:
    if not len(old):
        return new
    if old.schema != new.schema:
        index = old.schema.get_field_index("partitionValues")
        old = old.set_column(index, new.schema.field(index), pa.nulls(len(old), partition_type(names)))
    return pa.concat_tables([old, new])


def _merged(pieces: list[Piece]) -> list[Piece]:
    """The largest piece as it is, with all it has parsed, and the others as one."""
    largest = max(range(len(pieces)), key=lambda i: len(pieces[i].raw))
    small = [p for i, p in enumerate(pieces) if i != largest]
    strings = pa.chunked_array([p.select(p.source.json()) for p in small], pa.string())
    joined = Piece(pa.concat_tables([p.raw for p in small]).combine_chunks(), JsonStats(strings, len(strings)))
    return [pieces[largest], joined]


def _in_commit_timestamp(store: Store, version: int, commits: Commits, modified: int) -> int:
    info = commits.info.get(version)
    if info is None:
        # The version is a checkpoint's or a compacted log's: its own commit may still be there.
        own = Commits()
        try:
            own.read(version, commit_path(version), store.get(commit_path(version)))
        except FileNotFoundError:
            return modified
        info = own.info.get(version)
    return require_in_commit_timestamp(info, version)


def require_in_commit_timestamp(info: Mapping[str, Any] | None, version: int) -> int:
    found = (info or {}).get("inCommitTimestamp")
    if not isinstance(found, int):
        raise corrupt(commit_path(version), "the table has in-commit timestamps and this commit carries none")
    return found
