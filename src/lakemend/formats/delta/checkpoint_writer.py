"""Checkpoints: the whole state of a version in Parquet, so that opening the table need not replay the log.

The commit calls `after_commit` once a version has landed; nothing that goes wrong here fails the
commit, it is logged. Statistics are written as the log's JSON and, typed, as `stats_parsed`, from
which readers take single columns. With `delta.checkpointPolicy=v2` the files stand in sidecars, if the protocol tells
readers that they may: not every writer that sets the property sees to that.
"""

from __future__ import annotations

import io
import time
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import orjson
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from lakemend.errors import CorruptTableError, InvalidInputError
from lakemend.formats.delta import cleanup
from lakemend.formats.delta.actions import DomainMetadata, MetaData, Protocol, Txn
from lakemend.formats.delta.file_stats import indexed_columns
from lakemend.formats.delta.intervals import interval
from lakemend.formats.delta.log import DIRECTORY, LAST_CHECKPOINT, hinted_version
from lakemend.formats.delta.mapping import partition_names, to_metadata
from lakemend.formats.delta.partition_values import parse_column, to_map
from lakemend.formats.delta.properties import DEFAULT_CHECKPOINT_INTERVAL
from lakemend.formats.delta.protocol import supports
from lakemend.formats.delta.replay import STRINGS, VECTOR, one_chunk
from lakemend.formats.delta.stats import JsonStats
from lakemend.formats.format import Metadata
from lakemend.formats.properties import is_on, whole
from lakemend.formats.zone import in_zone
from lakemend.redaction import logger
from lakemend.schema import DataType, Path, find
from lakemend.storage import Store

if TYPE_CHECKING:
    from lakemend.formats.delta.snapshot import DeltaSnapshot

log = logger(__name__)

DEFAULT_TOMBSTONE_RETENTION = "interval 1 week"
_FILES_PER_SIDECAR = 250_000
_ROW_GROUP = 64 * 1024

_TXN = pa.struct([("appId", pa.string()), ("version", pa.int64()), ("lastUpdated", pa.int64())])
_FORMAT = pa.struct([("provider", pa.string()), ("options", STRINGS)])
_METADATA = pa.struct(
    [
        ("id", pa.string()),
        ("name", pa.string()),
        ("description", pa.string()),
        ("format", _FORMAT),
        ("schemaString", pa.string()),
        ("partitionColumns", pa.list_(pa.string())),
        ("configuration", STRINGS),
        ("createdTime", pa.int64()),
    ]
)
_PROTOCOL = pa.struct(
    [
        ("minReaderVersion", pa.int32()),
        ("minWriterVersion", pa.int32()),
        ("readerFeatures", pa.list_(pa.string())),
        ("writerFeatures", pa.list_(pa.string())),
    ]
)
_DOMAIN = pa.struct([("domain", pa.string()), ("configuration", pa.string()), ("removed", pa.bool_())])
_SIDECAR = pa.struct(
    [("path", pa.string()), ("sizeInBytes", pa.int64()), ("modificationTime", pa.int64()), ("tags", STRINGS)]
)
_CHECKPOINT = pa.struct([("version", pa.int64()), ("tags", STRINGS)])


@dataclass(frozen=True)
class State:
    """What a checkpoint holds. `adds` and `removes` are tables as `replay.py` makes them; `stats` is their JSON."""

    version: int
    protocol: Protocol
    metadata: MetaData
    transactions: Mapping[str, Txn]
    domains: Mapping[str, DomainMetadata]
    adds: pa.Table
    stats: pa.Array
    removes: pa.Table


def state_of(snapshot: DeltaSnapshot) -> State:
    return State(
        snapshot.version,
        snapshot.protocol,
        snapshot.meta,
        snapshot.transactions,
        snapshot.domains,
        snapshot.raw,
        snapshot.stats_json(),
        snapshot.tombstones,
    )


def is_due(version: int, properties: Mapping[str, str]) -> bool:
    every = max(whole(properties, "delta.checkpointInterval", DEFAULT_CHECKPOINT_INTERVAL), 1)
    return version > 0 and version % every == 0


def write_checkpoint(store: Store, state: State, now: int | None = None) -> None:
    """Writes the checkpoint and then `_last_checkpoint`; raises what storage raises."""
    moment = int(time.time() * 1000) if now is None else now
    properties = state.metadata.configuration
    metadata = to_metadata(state.metadata)
    rare = _rare_actions(state, moment)
    adds = _add_structs(state, metadata)
    removes = _remove_structs(_unexpired(state.removes, properties, moment))
    if properties.get("delta.checkpointPolicy", "classic").lower() == "v2" and supports(state.protocol, "v2Checkpoint"):
        size = _write_v2(store, state.version, rare, adds, removes, moment)
    else:
        size = len(data := _encode(_table([*rare, ("remove", removes), ("add", adds)])))
        _put_once(store, f"{DIRECTORY}/{state.version:020d}.checkpoint.parquet", data)
    _point_to(store, state.version, sum(len(a) for _, a in rare) + len(adds) + len(removes), size, len(adds))
    log.info("checkpoint %d of %s holds %d files", state.version, store.url, len(adds))


def _put_once(store: Store, path: str, data: bytes) -> None:
    try:
        store.put_if_absent(path, data)
    except FileExistsError:
        log.info("%s/%s is there already", store.url, path)


def _point_to(store: Store, version: int, actions: int, size: int, files: int) -> None:
    hint = hinted_version(store)
    if hint is not None and hint > version:
        return
    body = {"version": version, "size": actions, "sizeInBytes": size, "numOfAddFiles": files}
    store.put(LAST_CHECKPOINT, orjson.dumps(body))


def _rare_actions(state: State, now: int) -> list[tuple[str, pa.Array]]:
    protocol = {"readerFeatures": None, "writerFeatures": None} | state.protocol.to_json()
    metadata = state.metadata.to_json()
    metadata["format"] = metadata["format"] | {"options": list((metadata["format"].get("options") or {}).items())}
    metadata["configuration"] = list(metadata["configuration"].items())
    oldest = _oldest_transaction(state.metadata.configuration, now)
    transactions = [t.to_json() for t in state.transactions.values() if (t.last_updated or now) >= oldest]
    domains = [d.to_json() for d in state.domains.values() if not d.removed]
    return [
        ("protocol", pa.array([protocol], _PROTOCOL)),
        ("metaData", pa.array([metadata], _METADATA)),
        ("txn", pa.array(transactions, _TXN)),
        ("domainMetadata", pa.array(domains, _DOMAIN)),
    ]


def _oldest_transaction(properties: Mapping[str, str], now: int) -> int:
    key = "delta.setTransactionRetentionDuration"
    return _expired_until(properties, key, "interval 0 days", now) if key in properties else 0


def _unexpired(removes: pa.Table, properties: Mapping[str, str], now: int) -> pa.Table:
    if not len(removes):
        return removes
    cutoff = _expired_until(properties, "delta.deletedFileRetentionDuration", DEFAULT_TOMBSTONE_RETENTION, now)
    # A tombstone without a time counts as deleted at the beginning of time, as the protocol has it.
    return removes.filter(pc.greater(pc.fill_null(removes["deletionTimestamp"], 0), cutoff))


def _expired_until(properties: Mapping[str, str], key: str, default: str, now: int) -> int:
    """What is older may be left out. By a duration that cannot be read nothing expires: checkpoints grow instead."""
    try:
        return now - interval(properties, key, default)
    except InvalidInputError as error:
        log.warning("%s", error)
        return -1


def _struct(columns: Mapping[str, pa.Array]) -> pa.Array:
    return pa.StructArray.from_arrays(list(columns.values()), names=list(columns))


def _add_structs(state: State, metadata: Metadata) -> pa.Array:
    adds, properties = state.adds, state.metadata.configuration
    names = partition_names(metadata)
    columns: dict[str, pa.Array] = {
        "path": one_chunk(adds["path"]),
        "partitionValues": to_map(one_chunk(adds["partitionValues"])),
        "size": one_chunk(adds["size"]),
        "modificationTime": one_chunk(adds["modificationTime"]),
        "dataChange": pa.array([False] * len(adds), pa.bool_()),
        "tags": one_chunk(adds["tags"]),
        "deletionVector": one_chunk(adds["deletionVector"]).cast(VECTOR),
    }
    for optional in ("baseRowId", "defaultRowCommitVersion", "clusteringProvider"):
        column = one_chunk(adds[optional])
        if column.null_count < len(column):
            columns[optional] = column
    if is_on(properties, "delta.checkpoint.writeStatsAsJson", default=True):
        columns["stats"] = one_chunk(state.stats)
    if is_on(properties, "delta.checkpoint.writeStatsAsStruct", default=True):
        columns["stats_parsed"] = parsed_stats(one_chunk(state.stats), metadata)
        parsed = _parsed_partitions(adds, metadata, names) if names else None
        if parsed is not None:
            columns["partitionValues_parsed"] = parsed
    return _struct(columns)


def _parsed_partitions(adds: pa.Table, metadata: Metadata, names: Sequence[str]) -> pa.Array | None:
    """Partition values as typed columns; None if some are local times, which are others in each session."""
    strings = one_chunk(adds["partitionValues"])
    parsed = {}
    for name, field in zip(names, metadata.partitioning, strict=True):
        column = find(metadata.schema, field.source)
        assert column is not None
        texts = pc.struct_field(strings, [name])
        with in_zone("UTC"):
            parsed[name] = parse_column(texts, column["type"], name)
        if column["type"] == "timestamp" and not _are_instants(texts, parsed[name], name):
            return None
    return _struct(parsed)


def _are_instants(texts: pa.Array, parsed: pa.Array, name: str) -> bool:
    try:
        with in_zone("+01:00"):
            return bool(parse_column(texts, "timestamp", name).equals(parsed))
    except (CorruptTableError, OverflowError):
        return False  # the first hour of the year 1 is none there


def _remove_structs(removes: pa.Table) -> pa.Array:
    columns = {
        "path": one_chunk(removes["path"]),
        "deletionTimestamp": one_chunk(removes["deletionTimestamp"]),
        "dataChange": pa.array([False] * len(removes), pa.bool_()),
        "extendedFileMetadata": one_chunk(removes["extendedFileMetadata"]),
        "partitionValues": to_map(one_chunk(removes["partitionValues"])),
        "size": one_chunk(removes["size"]),
        "tags": one_chunk(removes["tags"]),
        "deletionVector": one_chunk(removes["deletionVector"]).cast(VECTOR),
        "baseRowId": one_chunk(removes["baseRowId"]),
        "defaultRowCommitVersion": one_chunk(removes["defaultRowCommitVersion"]),
    }
    return _struct(columns)


def parsed_stats(strings: pa.Array, metadata: Metadata) -> pa.Array:
    """Statistics as typed columns: numRecords, minValues, maxValues, nullCount, tightBounds."""
    source = JsonStats(pa.chunked_array([strings]), len(strings))
    low: dict[Path, pa.Array] = {}
    high: dict[Path, pa.Array] = {}
    nulls: dict[Path, pa.Array] = {}
    types = indexed_columns(metadata)
    floats = _float_maxima(strings, [path for path, type in types.items() if type in ("float", "double")])
    for path, type in types.items():
        raw = source.leaf(metadata.physical, path, type)
        if raw is None:
            continue
        nulls[path] = raw.nulls
        if _bounded(type):
            low[path] = raw.min
            high[path] = floats[path].cast(raw.min.type) if path in floats else raw.max
    columns = {"numRecords": source.rows(), "tightBounds": source.tight()}
    for name, leaves in (("minValues", low), ("maxValues", high), ("nullCount", nulls)):
        if leaves:
            columns[name] = _nested(leaves)
    return _struct(columns)


def _bounded(type: DataType) -> bool:
    return isinstance(type, str) and type not in ("binary", "boolean", "variant")


def _float_maxima(strings: pa.Array, paths: Sequence[Path]) -> dict[Path, pa.Array]:
    if not paths:
        return {}
    rows = [_maxima(text) for text in strings.to_pylist()]
    found = {}
    for path in paths:
        values = []
        for row in rows:
            value: Any = row
            for name in path:
                value = value.get(name) if isinstance(value, dict) else None
            values.append(float(value) if isinstance(value, int | float) and not isinstance(value, bool) else None)
        found[path] = pa.array(values, pa.float64())
    return found


def _maxima(text: str | None) -> Any:
    try:
        parsed = orjson.loads(text) if text else None
    except ValueError:
        return None
    return parsed.get("maxValues") if isinstance(parsed, dict) else None


def _nested(leaves: Mapping[Path, pa.Array], depth: int = 0) -> pa.Array:
    """Leaf columns by path as one struct; the order of the leaves is kept."""
    groups: dict[str, dict[Path, pa.Array]] = {}
    for path, column in leaves.items():
        groups.setdefault(path[depth], {})[path] = column
    columns = {}
    for name, group in groups.items():
        single = next(iter(group))
        columns[name] = group[single] if len(single) == depth + 1 else _nested(group, depth + 1)
    return _struct(columns)


def _table(actions: Sequence[tuple[str, pa.Array]]) -> pa.Table:
    """One row per action, in which all other columns are null."""
    total = sum(len(column) for _, column in actions)
    columns, before = {}, 0
    for name, column in actions:
        after = total - before - len(column)
        columns[name] = pa.chunked_array(
            [part for part in (pa.nulls(before, column.type), column, pa.nulls(after, column.type)) if len(part)],
            column.type,
        )
        before += len(column)
    return pa.table(columns)


def _encode(table: pa.Table) -> bytes:
    sink = io.BytesIO()
    pq.write_table(table, sink, row_group_size=_ROW_GROUP, compression="snappy", store_schema=False)
    return sink.getvalue()


def _write_v2(
    store: Store, version: int, rare: Sequence[tuple[str, pa.Array]], adds: pa.Array, removes: pa.Array, now: int
) -> int:
    """Sidecars with the files, then the top-level file that names them; returns the bytes of all."""
    sidecars, total = [], 0
    for start in range(0, max(len(adds), 1), _FILES_PER_SIDECAR):
        # Tombstones go with the first part.
        gone = removes if start == 0 else removes.slice(0, 0)
        table = _table([("add", adds.slice(start, _FILES_PER_SIDECAR)), ("remove", gone)])
        if not len(table):
            continue
        data = _encode(table)
        name = f"{uuid.uuid4()}.parquet"
        store.put(f"{cleanup.SIDECARS}/{name}", data)
        sidecars.append({"path": name, "sizeInBytes": len(data), "modificationTime": now, "tags": None})
        total += len(data)
    top = [
        ("checkpointMetadata", pa.array([{"version": version, "tags": None}], _CHECKPOINT)),
        *rare,
        ("sidecar", pa.array(sidecars, _SIDECAR)),
        # No file stands here, but other engines ask every file of a checkpoint for both columns.
        ("add", adds.slice(0, 0)),
        ("remove", removes.slice(0, 0)),
    ]
    data = _encode(_table(top))
    store.put_if_absent(f"{DIRECTORY}/{version:020d}.checkpoint.{uuid.uuid4()}.parquet", data)
    return total + len(data)


def after_commit(store: Store, snapshot: DeltaSnapshot) -> None:
    """The checkpoint of a version that has landed, then log clean-up. Never raises: the commit stands."""
    try:
        write_checkpoint(store, state_of(snapshot))
    except Exception:
        log.warning("checkpoint %d of %s failed; the commit stands", snapshot.version, store.url, exc_info=True)
        return
    # A feature was dropped: checkpoints hide from readers what came before, and may go only all together.
    if not supports(snapshot.protocol, "checkpointProtection"):
        cleanup.clean_log(store, snapshot.meta.configuration)
