"""A snapshot out of a checkpoint and commits, or out of the snapshot before and more commits.

The table calls `load` with what the log holds, and `advance` when only commits were added.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import pyarrow as pa

from lakemend.errors import CorruptTableError
from lakemend.formats.delta.actions import DomainMetadata, MetaData, Protocol, Txn
from lakemend.formats.delta.checkpoint import read_checkpoint
from lakemend.formats.delta.commit_times import (
    has_in_commit_timestamps,
    in_commit_timestamps_from,
    require_in_commit_timestamp,
)
from lakemend.formats.delta.log import Listing, Segment, commit_path, plain
from lakemend.formats.delta.mapping import (
    partition_names,
    require_known_types,
    to_metadata,
)
from lakemend.formats.delta.pieces import Piece, merged, untaken
from lakemend.formats.delta.protocol import (
    require_readable,
)
from lakemend.formats.delta.recent import CommitFile
from lakemend.formats.delta.replay import (
    Commits,
    corrupt,
    keys,
    partition_type,
    reconcile,
    remove_schema,
)
from lakemend.formats.delta.snapshot import DeltaSnapshot
from lakemend.formats.delta.stats import JsonStats
from lakemend.redaction import logger
from lakemend.storage import Store

log = logger(__name__)

# Beyond so many pieces the small ones are joined: each commit after a load adds one.
_MANY_PIECES = 16


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
        kept = untaken(keys(tombstones), alive.keys)
        tombstones = tombstones if kept is None else tombstones.take(pa.array(kept))
        if len(alive.removes):
            tombstones = _joined(tombstones, removes.take(pa.array(alive.removes)), names)
        if len(alive.adds):
            every = len(alive.adds) == len(adds)
            raw = adds if every else adds.take(pa.array(alive.adds))
            pieces.append(Piece(raw, JsonStats(strings, len(strings)), None if every else alive.adds))
    pieces = [p.as_partitioned(names) for p in pieces if len(p.raw)]
    if len(pieces) > _MANY_PIECES:
        pieces = merged(pieces)
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
