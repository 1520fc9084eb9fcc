"""An earlier version of a Delta table made the newest again.

`DeltaTable.restoration` calls `compare` for the brain's plan, `commit.py` calls `draft_restore` on every attempt. Files
and their deletion vectors become those of then, and so does the definition. What belongs to the log and to the life of
the table stays as it is: its id, its protocol (which only grows), in-commit timestamps, the highest column id that was
ever given, transactions of idempotent writers.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from lakemend.errors import UnsupportedFeatureError
from lakemend.formats.delta.actions import Add, DomainMetadata, MetaData, Protocol
from lakemend.formats.delta.commit_info import commit_info, token_of
from lakemend.formats.delta.deletion_vector import Descriptor
from lakemend.formats.delta.draft import Draft, check_paths, own_time, removal, with_enablement
from lakemend.formats.delta.leftovers import removal_times
from lakemend.formats.delta.partition_values import decode_path
from lakemend.formats.delta.properties import MAX_COLUMN_ID
from lakemend.formats.delta.protocol import features, upgraded
from lakemend.formats.delta.replay import one_chunk, vector_ids
from lakemend.formats.delta.snapshot import DeltaSnapshot
from lakemend.formats.format import Change, Snapshot
from lakemend.formats.properties import is_on
from lakemend.formats.restoration import Restoration, Wanted

# Properties that tell of the log, not of the table's rows.
_OF_THE_LOG = (
    "delta.enableInCommitTimestamps",
    "delta.inCommitTimestampEnablementVersion",
    "delta.inCommitTimestampEnablementTimestamp",
    "delta.requireCheckpointProtectionBeforeVersion",
)


def compare(head: Snapshot, target: Snapshot) -> Restoration:
    assert isinstance(head, DeltaSnapshot)
    assert isinstance(target, DeltaSnapshot)
    now, then = _files(head), _files(target)
    leaving = [row for path, (row, _) in now.items() if path not in then]
    back = [row for path, (row, _) in then.items() if path not in now]
    remasked = [(row, then[path][0]) for path, (row, vector) in now.items() if path in then and then[path][1] != vector]
    meta, protocol = _definition(head, target)
    redefines = meta != head.meta or protocol != head.protocol or bool(_domains(head, target))
    wanted = _wanted(head, target, back, [row for _, row in remasked])
    return Restoration(leaving, back, remasked, redefines, wanted)


def _files(snapshot: DeltaSnapshot) -> dict[str, tuple[int, str]]:
    """By plain path, a file's row and the id of its deletion vector."""
    vectors = vector_ids(one_chunk(snapshot.raw.column("deletionVector"))).to_pylist()
    paths = snapshot.raw.column("path").to_pylist()
    return {decode_path(path): (row, vector) for row, (path, vector) in enumerate(zip(paths, vectors, strict=True))}


def _wanted(head: DeltaSnapshot, target: DeltaSnapshot, back: Sequence[int], remasked: Sequence[int]) -> list[Wanted]:
    removed, root = removal_times(head), head.store.url.rstrip("/") + "/"
    found: dict[str, Wanted] = {}

    def want(url: str, size: int, exact: bool) -> None:
        known = found.get(url)
        if known is None or known.size < size:
            found[url] = Wanted(url, size, exact, removed.get(url.removeprefix(root), 0))

    for body in _bodies(target, back):
        want(target.url(body["path"]), body["size"], True)
    for body in _bodies(target, [*back, *remasked]):
        vector = _vector(body)
        url = None if vector is None else vector.url(target.store.url)
        if vector is not None and url is not None:
            want(url, (vector.offset or 0) + vector.size + 8, False)
    return list(found.values())


def _bodies(snapshot: DeltaSnapshot, rows: Sequence[int]) -> list[dict[str, Any]]:
    return snapshot.raw.take(pa.array(rows, pa.int64())).to_pylist() if rows else []


def _vector(body: dict[str, Any]) -> Descriptor | None:
    return None if body["deletionVector"] is None else Descriptor.from_json(body["deletionVector"])


def draft_restore(base: DeltaSnapshot | None, change: Change) -> Draft:
    assert base is not None
    target = change.restores
    assert isinstance(target, DeltaSnapshot)
    now, token = int(time.time() * 1000), token_of(change)
    plan = compare(base, target)
    _require_rows_may_go(base, plan)
    meta, protocol = _definition(base, target)
    version = base.version + 1
    timestamp = own_time(base, meta, protocol, now)
    meta = with_enablement(base, meta, protocol, version, timestamp)
    draft = Draft(version, token, {})
    draft.protocol = None if protocol == base.protocol else protocol
    draft.metadata = None if meta == base.meta else meta
    draft.domains = _domains(base, target)
    draft.removes = [
        removal(body, now, True) for body in _bodies(base, [*plan.leaving, *(r for r, _ in plan.remasked)])
    ]
    draft.adds = _adds(target, [*plan.back, *(r for _, r in plan.remasked)])
    check_paths(draft)
    draft.info = commit_info(
        change,
        token=token,
        now=now,
        base_version=base.version,
        metrics={
            "numRestoredFiles": len(draft.adds),
            "restoredFilesSize": sum(add.size for add in draft.adds),
            "numRemovedFiles": len(draft.removes),
            "removedFilesSize": sum(remove.size or 0 for remove in draft.removes),
            "numOfFilesAfterRestore": target.raw.num_rows,
            "tableSizeAfterRestore": int(pc.sum(target.raw.column("size")).as_py() or 0),
        },
        partition_columns=meta.partition_columns,
        in_commit_timestamp=timestamp,
    )
    return draft


def _adds(target: DeltaSnapshot, rows: Sequence[int]) -> list[Add]:
    stats = target.stats_json().take(pa.array(rows, pa.int64())).to_pylist() if rows else []
    return [
        Add(
            path=body["path"],
            partition_values=dict(body["partitionValues"] or {}),
            size=body["size"],
            modified=body["modificationTime"] or 0,
            data_change=True,
            stats=told,
            tags=None if body["tags"] is None else dict(body["tags"]),
            deletion_vector=_vector(body),
            base_row_id=body["baseRowId"],
            default_row_commit_version=body["defaultRowCommitVersion"],
            clustering_provider=body["clusteringProvider"],
        )
        for body, told in zip(_bodies(target, rows), stats, strict=True)
    ]


def _definition(head: DeltaSnapshot, target: DeltaSnapshot) -> tuple[MetaData, Protocol]:
    configuration = {k: v for k, v in target.meta.configuration.items() if k not in _OF_THE_LOG}
    configuration |= {k: v for k, v in head.meta.configuration.items() if k in _OF_THE_LOG}
    given = [s.meta.configuration[MAX_COLUMN_ID] for s in (head, target) if MAX_COLUMN_ID in s.meta.configuration]
    if given:
        # An id is given once, and columns may be mapped again: files of the versions between may still be read.
        configuration[MAX_COLUMN_ID] = max(given, key=int)
    meta = replace(target.meta, id=head.meta.id, configuration=configuration)
    return meta, upgraded(head.protocol, features(target.protocol))


def _domains(head: DeltaSnapshot, target: DeltaSnapshot) -> list[DomainMetadata]:
    gone = [replace(domain, removed=True) for name, domain in head.domains.items() if name not in target.domains]
    return gone + [domain for name, domain in target.domains.items() if head.domains.get(name) != domain]


def _require_rows_may_go(base: DeltaSnapshot, plan: Restoration) -> None:
    if not is_on(base.meta.configuration, "delta.appendOnly") or not (plan.leaving or plan.remasked):
        return
    raise UnsupportedFeatureError(
        f"RESTORE is not allowed on {base.store.url}",
        cause="the table has delta.appendOnly=true: rows are only ever added",
        remedy="ALTER TABLE … SET TBLPROPERTIES ('delta.appendOnly' = 'false') first",
        property="delta.appendOnly",
        feature="appendOnly",
    )
