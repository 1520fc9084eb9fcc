"""The rows each version of a Delta table inserted and deleted, from its commit files.

`DeltaTable.row_changes` calls this for the brain. A commit with `cdc` actions says itself what
changed. Any other is read from its adds and removes: rows of an added file were inserted, those of a
removed file deleted, and where a file only changed its deletion vector, the rows in which the two
vectors differ. Actions without `dataChange` moved rows and changed none.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import reduce
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyroaring import BitMap64

from lakemend.formats.delta.actions import MetaData
from lakemend.formats.delta.changes import neutral_operation
from lakemend.formats.delta.commit_times import require_in_commit_timestamp
from lakemend.formats.delta.deletion_vector import Descriptor
from lakemend.formats.delta.feed_columns import require_same_table
from lakemend.formats.delta.feed_span import own_times_from, versions_of
from lakemend.formats.delta.log import commit_path, list_log
from lakemend.formats.delta.mapping import partition_names
from lakemend.formats.delta.partition_values import decode_path
from lakemend.formats.delta.pieces import file_table
from lakemend.formats.delta.properties import FEED
from lakemend.formats.delta.replay import Commits, add_schema, corrupt, one_chunk, partition_type, unsound
from lakemend.formats.delta.snapshot import DeltaSnapshot
from lakemend.formats.delta.stats import JsonStats
from lakemend.formats.feed import ChangedFiles, Changes, Kind, Span, VersionChanges
from lakemend.formats.footers import stored_rows
from lakemend.formats.format import Mask
from lakemend.formats.masks import encode_blob, masked_positions, require_inside
from lakemend.formats.properties import is_on

if TYPE_CHECKING:
    from lakemend.formats.delta.table import DeltaTable

_BATCH = 64


def row_changes(table: DeltaTable, span: Span) -> Changes:
    latest = table.latest()
    listing = list_log(table.store)
    versions = versions_of(table, latest, listing, span)
    if not versions:
        return Changes(latest, ())
    snapshot = latest if versions[-1] == latest.version else table.at_version(versions[-1])
    paths = [listing.commits[version].path for version in versions]
    commits = list(_read(table, versions, paths))
    definitions = _definitions(table, snapshot, commits)
    modified, own_from = listing.timestamps(), own_times_from(latest)
    found = []
    for version, commit in commits:
        groups = _of_commit(table, snapshot, version, commit)
        if groups:
            # A restore brings back what a compaction has rewritten since: rows of both look like changes.
            told = is_on(definitions[version].configuration, FEED) and not _is_restore(commit, version)
            exact = bool(commit.cdc) or told
            time = modified[version]
            if own_from is not None and version >= own_from:
                time = require_in_commit_timestamp(commit.info.get(version), version)
            found.append(VersionChanges(version, time, groups, exact))
    return Changes(snapshot, found)


def _is_restore(commit: Commits, version: int) -> bool:
    return neutral_operation(commit.info.get(version) or {}) == "restore"


def _read(table: DeltaTable, versions: range, paths: Sequence[str]) -> Iterator[tuple[int, Commits]]:
    for start in range(0, len(paths), _BATCH):
        batch = paths[start : start + _BATCH]
        try:
            datas = table.store.get_many(batch)
        except FileNotFoundError as error:
            raise corrupt(str(error), "it was there when the log was listed and is gone now") from error
        for version, path, data in zip(versions[start : start + _BATCH], batch, datas, strict=True):
            commit = Commits()
            commit.read(version, path, data)
            yield version, commit


def _definitions(
    table: DeltaTable, snapshot: DeltaSnapshot, commits: Sequence[tuple[int, Commits]]
) -> dict[int, MetaData]:
    """The metadata in effect at each version; raises if rows of the first cannot be read as rows of the last."""
    changed = [version for version, commit in commits if commit.metadata is not None]
    if not changed:
        return {version: snapshot.meta for version, _ in commits}
    first = commits[0][0]
    current: MetaData | None = None
    if changed[0] > first or (changed[0] > 0 and commits[0][1].remove_count):
        current = table.at_version(changed[0] - 1).meta
    definitions: dict[int, MetaData] = {}
    for version, commit in commits:
        if commit.metadata is not None:
            # Without an older definition there are no rows of before the change in the span.
            if current is not None:
                require_same_table(current, commit.metadata, version, (first, snapshot.version), table.store.url)
            current = commit.metadata
        assert current is not None
        definitions[version] = current
    return definitions


def _of_commit(table: DeltaTable, snapshot: DeltaSnapshot, version: int, commit: Commits) -> list[ChangedFiles]:
    if commit.cdc:
        raw = _cdc_files(commit.cdc, version, partition_names(snapshot.metadata))
        return [_group("feed", snapshot, raw, pa.nulls(len(raw), pa.int64()))]
    names = partition_names(snapshot.metadata)
    adds, strings, _ = commit.adds(names)
    removes, _ = commit.removes(names)
    counts = JsonStats(strings, len(adds)).rows()
    changing = _changes_data(adds)
    adds, counts = adds.filter(changing), counts.filter(changing)
    removes = removes.filter(_changes_data(removes))
    added, removed = _places(adds), _places(removes)
    both = sorted(added.keys() & removed.keys())
    gone = _as_adds(table, removes, version, names)
    groups = [
        _group("insert", snapshot, *_without(adds, counts, [added[path] for path in both])),
        _group("delete", snapshot, *_without(gone, None, [removed[path] for path in both])),
        *_remasked(snapshot, adds, counts, removes, [(added[path], removed[path]) for path in both]),
    ]
    return [group for group in groups if group.files.num_rows]


def _changes_data(actions: pa.Table) -> pa.ChunkedArray:
    # An absent flag counts as a change: that is the careful reading.
    return pc.fill_null(actions.column("dataChange"), True)


def _places(actions: pa.Table) -> dict[str, int]:
    return {decode_path(path): row for row, path in enumerate(actions.column("path").to_pylist())}


def _without(raw: pa.Table, counts: pa.Array | None, rows: Sequence[int]) -> tuple[pa.Table, pa.Array]:
    counts = pa.nulls(len(raw), pa.int64()) if counts is None else counts
    if not rows:
        return raw, counts
    kept = pa.array(np.delete(np.arange(len(raw)), rows))
    return raw.take(kept), counts.take(kept)


def _group(kind: Kind, snapshot: DeltaSnapshot, raw: pa.Table, counts: pa.Array) -> ChangedFiles:
    vectors = raw.column("deletionVector").to_pylist()
    told = zip(vectors, raw.column("path").to_pylist(), counts.to_pylist(), strict=True)
    masks = [None if v is None else Descriptor.from_json(v).mask(snapshot.store.url, p, n) for v, p, n in told]
    return ChangedFiles(kind, file_table(raw, counts, snapshot.metadata), masks)


def _remasked(
    snapshot: DeltaSnapshot, adds: pa.Table, counts: pa.Array, removes: pa.Table, pairs: Sequence[tuple[int, int]]
) -> list[ChangedFiles]:
    """Files that stay under another vector: rows newly masked were deleted, rows no longer masked inserted."""
    found: dict[Kind, list[tuple[int, Mask]]] = {"delete": [], "insert": []}
    for add, remove in pairs:
        path, count = adds.column("path")[add].as_py(), counts[add].as_py()
        after, before = (_vector(snapshot, actions, row, count) for actions, row in ((adds, add), (removes, remove)))
        rows: dict[Kind, BitMap64] = {"delete": after - before, "insert": before - after}
        for kind in found:
            if rows[kind]:
                found[kind].append((add, _only(rows[kind], _count(snapshot, path, count), path)))
    groups = []
    for kind, entries in found.items():
        taken = pa.array([add for add, _ in entries], pa.int64())
        files = file_table(adds.take(taken), counts.take(taken), snapshot.metadata)
        groups.append(ChangedFiles(kind, files, [mask for _, mask in entries]))
    return groups


def _vector(snapshot: DeltaSnapshot, actions: pa.Table, row: int, count: int | None) -> BitMap64:
    body, path = (actions.column(name)[row].as_py() for name in ("deletionVector", "path"))
    mask = None if body is None else Descriptor.from_json(body).mask(snapshot.store.url, path, count)
    return masked_positions(mask, snapshot.store)


def _count(snapshot: DeltaSnapshot, path: str, told: int | None) -> int:
    return told if told is not None else stored_rows(snapshot.store, snapshot.url(path))


def _only(rows: BitMap64, count: int, path: str) -> Mask:
    """A mask of all rows but these."""
    require_inside(rows, count, path)
    others = rows.flip(0, count)
    others.run_optimize()
    return Mask(len(others), blob=encode_blob(others), file=path, rows=count)


def _as_adds(table: DeltaTable, removes: pa.Table, version: int, names: Sequence[str]) -> pa.Table:
    """Removed files in the columns of added ones; what a remove leaves out, the version before it knows."""
    needed = ["size"] + (["partitionValues"] if names else [])
    if any(removes.column(name).null_count for name in needed) or (names and _says_nothing(removes, names)):
        base = table.at_version(version - 1).raw
        places = _places(base)
        rows = pa.array([places.get(path) for path in _places(removes)], pa.int64())
        if rows.null_count:
            gone = removes.column("path")[pc.index(rows.is_null(), True).as_py()].as_py()
            raise corrupt(commit_path(version), f"it removes {gone}, which is no file of the version before")
        for name in needed:
            index = removes.schema.get_field_index(name)
            removes = removes.set_column(index, removes.schema.field(index), base.column(name).take(rows))
    return removes.append_column("modificationTime", pa.nulls(len(removes), pa.int64()))


def _says_nothing(removes: pa.Table, names: Sequence[str]) -> bool:
    """Whether a remove that does not vouch for its metadata has no partition value: `{}` is no word of NULL."""
    values = one_chunk(removes.column("partitionValues"))
    empty = reduce(pc.and_, [pc.struct_field(values, [name]).is_null() for name in names])
    told = pc.fill_null(one_chunk(removes.column("extendedFileMetadata")), False)
    return bool(pc.any(pc.and_not(empty, told)).as_py())


def _cdc_files(bodies: Sequence[dict[str, Any]], version: int, names: Sequence[str]) -> pa.Table:
    schema = add_schema(names)
    try:
        values = [body.get("partitionValues") or {} for body in bodies]
        columns: dict[str, pa.Array] = {
            "path": pa.array([str(body["path"]) for body in bodies], pa.string()),
            "partitionValues": pa.array([{n: v.get(n) for n in names} for v in values], partition_type(names)),
            "size": pa.array([int(body["size"]) for body in bodies], pa.int64()),
        }
    except (KeyError, TypeError, ValueError, AttributeError, OverflowError, pa.ArrowException) as error:
        raise corrupt(commit_path(version), f"a cdc action cannot be parsed: {error!r}") from error
    table = pa.table([columns.get(f.name, pa.nulls(len(bodies), f.type)) for f in schema], schema=schema)
    if fault := unsound("cdc", table):
        raise corrupt(commit_path(version), fault[1])
    return table
