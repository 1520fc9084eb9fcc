"""Reading checkpoints: classic, multi-part and V2 with sidecars.

The log chooses a checkpoint's files; the snapshot reads it here into pieces of live files, whose
statistics stay in the file's bytes until somebody asks. A checkpoint that cannot be read raises
CorruptTableError, upon which the log falls back to an older one.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import unquote
from weakref import WeakKeyDictionary

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from lakemend.formats.delta.actions import DomainMetadata, MetaData, Protocol, Txn
from lakemend.formats.delta.bounds import RawStats, counts_of
from lakemend.formats.delta.mapping import partition_types, to_metadata
from lakemend.formats.delta.partition_values import lookup
from lakemend.formats.delta.replay import (
    STRINGS,
    Commits,
    add_schema,
    conform,
    corrupt,
    one_chunk,
    partition_type,
    remove_schema,
    unsound,
)
from lakemend.formats.delta.stats import JsonStats, StatsSource, leaf_of, to_json
from lakemend.schema import DataType, Path, Struct
from lakemend.storage import Store

_RARE = ("protocol", "metaData", "txn", "domainMetadata", "sidecar")


@dataclass
class Checkpoint:
    """The state a checkpoint holds. Adds are one table (as `add_schema`) and one source of statistics per file."""

    protocol: Protocol | None = None
    metadata: MetaData | None = None
    transactions: dict[str, Txn] = field(default_factory=dict)
    domains: dict[str, DomainMetadata] = field(default_factory=dict)
    adds: list[tuple[pa.Table, StatsSource]] = field(default_factory=list)
    removes: list[pa.Table] = field(default_factory=list)


def read_checkpoint(store: Store, paths: Sequence[str]) -> Checkpoint:
    """Reads a complete checkpoint from its top-level files; sidecars are found from there."""
    state = Checkpoint()
    try:
        datas = store.get_many(paths)
    except FileNotFoundError as error:
        raise corrupt(str(error.args[0] if error.args else paths[0]), "the file does not exist") from error
    sidecars: list[str] = []
    opened: list[tuple[str, Commits | pq.ParquetFile, bytes]] = []
    for path, data in zip(paths, datas, strict=True):
        top: Commits | pq.ParquetFile
        if path.endswith(".json"):
            top = Commits()
            top.read(0, path, data)
            _take_json(state, top)
            found = top.sidecars
        else:
            top = _open(path, data)
            found = _take_rare(state, top, path)
        sidecars += [_sidecar_path(body) for body in found]
        opened.append((path, top, data))
    if state.protocol is None or state.metadata is None:
        missing = "protocol" if state.protocol is None else "metaData"
        raise corrupt(paths[0], f"the checkpoint has no {missing} action")
    partition = partition_types(to_metadata(state.metadata))
    for path, top, _ in opened:
        _take_files(state, top, path, partition)
    try:
        contents = store.get_many(sidecars)
    except FileNotFoundError as error:
        raise corrupt(str(error.args[0] if error.args else "sidecar"), "the sidecar does not exist") from error
    for path, data in zip(sidecars, contents, strict=True):
        _take_files(state, _open(path, data), path, partition)
    return state


def _sidecar_path(body: dict[str, Any]) -> str:
    # However it is spelled, a sidecar lies in the table's own directory for them.
    name = unquote(str(body["path"])).rsplit("/", 1)[-1]
    return f"_delta_log/_sidecars/{name}"


def _open(path: str, data: bytes) -> pq.ParquetFile:
    try:
        # INT96 holds any day; nanoseconds in 64 bits end in the year 2262.
        return pq.ParquetFile(pa.BufferReader(data), coerce_int96_timestamp_unit="us")
    except pa.ArrowException as error:
        raise corrupt(path, f"it is not a Parquet file: {str(error).splitlines()[0]}") from error


# Arrow's reader crashes when two threads read from it at once, and statistics are read whenever they are asked for.
_readers: WeakKeyDictionary[pq.ParquetFile, threading.Lock] = WeakKeyDictionary()


def _read(file: pq.ParquetFile, columns: list[str], path: str) -> pa.Table:
    try:
        with _readers.setdefault(file, threading.Lock()):
            return file.read(columns, use_threads=True)
    except (pa.ArrowException, OSError) as error:
        raise corrupt(path, str(error).splitlines()[0]) from error


def _take_json(state: Checkpoint, commits: Commits) -> None:
    state.protocol = commits.protocol or state.protocol
    state.metadata = commits.metadata or state.metadata
    state.transactions |= commits.transactions
    state.domains |= {k: d for k, d in commits.domains.items() if not d.removed}


def _take_rare(state: Checkpoint, file: pq.ParquetFile, path: str) -> list[dict[str, Any]]:
    """Reads everything but files; returns the sidecars."""
    present = [name for name in _RARE if file.schema_arrow.get_field_index(name) >= 0]
    table = _read(file, present, path)
    sidecars: list[dict[str, Any]] = []
    try:
        for name in present:
            # A map is a dict whatever is in it: by its values an empty one cannot be told from an empty list.
            rows = table.column(name).filter(table.column(name).is_valid()).to_pylist(maps_as_pydicts="lossy")
            for row in rows:
                _take_action(state, name, row, sidecars)
    except (KeyError, TypeError, ValueError) as error:
        raise corrupt(path, f"an action cannot be parsed: {error}") from error
    return sidecars


# The field that tells an action from the struct of nulls some writers put for an absent one.
_KEY = {
    "protocol": "minReaderVersion",
    "metaData": "schemaString",
    "txn": "appId",
    "domainMetadata": "domain",
    "sidecar": "path",
}


def _take_action(state: Checkpoint, name: str, body: dict[str, Any], sidecars: list[dict[str, Any]]) -> None:
    if body.get(_KEY[name]) is None:
        return
    if name == "protocol":
        state.protocol = Protocol.from_json(body)
    elif name == "metaData":
        state.metadata = MetaData.from_json(body)
    elif name == "txn":
        txn = Txn.from_json(body)
        state.transactions[txn.app_id] = txn
    elif name == "domainMetadata":
        domain = DomainMetadata.from_json(body)
        if not domain.removed:
            state.domains[domain.domain] = domain
    else:
        sidecars.append(body)


def _take_files(state: Checkpoint, top: Commits | pq.ParquetFile, path: str, partition: Mapping[str, DataType]) -> None:
    names = list(partition)
    if isinstance(top, Commits):
        if top.add_count:
            adds, strings, _ = top.adds(names)
            state.adds.append((adds, JsonStats(strings, len(adds))))
        if top.remove_count:
            state.removes.append(top.removes(names)[0])
        return
    if (add := _read_action(top, "add", add_schema(names), partition, path)) is not None:
        table, rows = add
        if len(table):
            state.adds.append((table, _source(top, rows, path)))
    remove = _read_action(top, "remove", remove_schema(names), partition, path)
    if remove is not None and len(remove[0]):
        state.removes.append(remove[0])


def _read_action(
    file: pq.ParquetFile, name: str, schema: pa.Schema, partition: Mapping[str, DataType], path: str
) -> tuple[pa.Table, np.ndarray] | None:
    """The rows of one action as a table of the schema, with their row numbers in the file."""
    index = file.schema_arrow.get_field_index(name)
    if index < 0:
        return None
    kind = file.schema_arrow.field(index).type
    wanted = [f.name for f in schema if kind.get_field_index(f.name) >= 0]
    if "path" not in wanted:
        raise corrupt(path, f"its {name} actions have no path")
    if (
        partition
        and name == "add"
        and "partitionValues" not in wanted
        and kind.get_field_index("partitionValues_parsed") >= 0
    ):
        wanted.append("partitionValues_parsed")
    body = _read(file, [f"{name}.{column}" for column in wanted], path).column(name)
    paths = pc.struct_field(body, ["path"])
    rows = np.flatnonzero(one_chunk(paths.is_valid()).to_numpy(zero_copy_only=False))
    body = _take(body, rows)
    try:
        values = _partition_strings(body, partition)
        table = conform(_without_maps(body), _skeleton(schema))
    except (pa.ArrowException, ValueError) as error:
        raise corrupt(path, f"its {name} actions do not have the expected types: {error}") from error
    table = table.set_column(schema.get_field_index("partitionValues"), schema.field("partitionValues"), values)
    tags = body.type.get_field_index("tags")
    if tags >= 0 and pa.types.is_map(body.type.field(tags).type):
        column = pc.struct_field(body, [tags])
        if column.null_count < len(column):
            cast = column.cast(STRINGS)
            table = table.set_column(schema.get_field_index("tags"), schema.field("tags"), cast)
    if fault := unsound(name, table):
        raise corrupt(path, fault[1])
    return table, rows


def _take(column: Any, rows: np.ndarray) -> Any:
    """Rows of a column, without a copy where they follow each other, as they mostly do."""
    if len(rows) and rows[-1] - rows[0] + 1 == len(rows):
        return column.slice(int(rows[0]), len(rows))
    return column.take(pa.array(rows))


def _skeleton(schema: pa.Schema) -> pa.Schema:
    """The schema with an empty struct for partition values, which are filled in apart."""
    index = schema.get_field_index("partitionValues")
    return schema.set(index, pa.field("partitionValues", pa.struct([])))


def _without_maps(body: pa.ChunkedArray) -> pa.ChunkedArray:
    kept = [
        f
        for f in body.type
        if not pa.types.is_map(f.type) and f.name not in ("partitionValues", "partitionValues_parsed")
    ]
    chunks = []
    for chunk in body.chunks:
        arrays = [pc.struct_field(chunk, [f.name]) for f in kept]
        chunks.append(pa.StructArray.from_arrays(arrays, fields=[pa.field(f.name, f.type) for f in kept]))
    return pa.chunked_array(chunks, pa.struct([pa.field(f.name, f.type) for f in kept]))


def _partition_strings(body: pa.ChunkedArray, partition: Mapping[str, DataType]) -> pa.Array:
    """partitionValues as a struct of strings; from the typed columns where only those are there."""
    names = list(partition)
    target = partition_type(names)
    if body.type.get_field_index("partitionValues") >= 0:
        values = one_chunk(pc.struct_field(body, ["partitionValues"]))
        absent = values.is_null() if values.null_count else None
        if not names:
            return _empty_structs(len(body), absent)
        arrays = [one_chunk(lookup(values, name)).cast(pa.string()) for name in names]
        return pa.StructArray.from_arrays(arrays, fields=list(target), mask=absent)
    if not names:
        return _empty_structs(len(body), None)
    index = body.type.get_field_index("partitionValues_parsed")
    if index < 0:
        return pa.nulls(len(body), target)
    typed = one_chunk(pc.struct_field(body, [index]))
    arrays = [_strings(pc.struct_field(typed, [name]), datatype) for name, datatype in partition.items()]
    return pa.StructArray.from_arrays(arrays, fields=list(target))


def _empty_structs(length: int, absent: pa.BooleanArray | None) -> pa.Array:
    present = None if absent is None else pc.invert(absent).buffers()[1]
    return pa.Array.from_buffers(pa.struct([]), length, [present])


def _strings(values: pa.Array, datatype: DataType) -> pa.Array:
    if pa.types.is_string(values.type):
        return values
    if pa.types.is_timestamp(values.type):
        unzoned = values.cast(pa.timestamp("us", values.type.tz)).cast(pa.int64()).cast(pa.timestamp("us"))
        text = unzoned.cast(pa.string())
        return text if datatype == "timestamp_ntz" else pc.binary_join_element_wise(text, "Z", "")
    return values.cast(pa.string())


def _source(file: pq.ParquetFile, rows: np.ndarray, path: str) -> StatsSource:
    kind = file.schema_arrow.field("add").type
    has_json, has_parsed = kind.get_field_index("stats") >= 0, kind.get_field_index("stats_parsed") >= 0
    strings = JsonStats(lambda: _stats_strings(file, rows, path, has_json), len(rows))
    if has_parsed and pa.types.is_struct(kind.field("stats_parsed").type):
        parsed = ParsedStats(file, rows, path, strings if has_json else None)
        if not has_json or parsed.complete():
            return parsed
    return strings


def _stats_strings(file: pq.ParquetFile, rows: np.ndarray, path: str, present: bool) -> pa.Array:
    if not present:
        return pa.nulls(len(rows), pa.string())
    column = one_chunk(pc.struct_field(_read(file, ["add.stats"], path).column("add"), ["stats"]))
    return _take(column, rows)


class ParsedStats:
    """Statistics in a checkpoint's `stats_parsed`, read column by column out of the file's bytes."""

    def __init__(self, file: pq.ParquetFile, rows: np.ndarray, path: str, strings: JsonStats | None) -> None:
        self._file = file
        self._rows = rows
        self._path = path
        self._strings = strings
        self._type = file.schema_arrow.field("add").type.field("stats_parsed").type
        self._leaves: dict[tuple[Path, str], RawStats] = {}

    def __len__(self) -> int:
        return len(self._rows)

    def complete(self) -> bool:
        """Whether every file with statistics as a string has them parsed too, as the footer tells."""
        counts = {"add.stats": 0, "add.stats_parsed.numRecords": 0}
        footer = self._file.metadata
        paths = {footer.schema.column(i).path: i for i in range(footer.num_columns)}
        if not counts.keys() <= paths.keys():
            return False
        for group in range(footer.num_row_groups):
            for name in counts:
                statistics = footer.row_group(group).column(paths[name]).statistics
                if statistics is None or not statistics.has_null_count:
                    return False
                counts[name] += statistics.null_count
        return counts["add.stats"] == counts["add.stats_parsed.numRecords"]

    def rows(self) -> pa.Array:
        found = self._column("numRecords")
        return pa.nulls(len(self), pa.int64()) if found is None else counts_of(found)

    def tight(self) -> pa.Array:
        found = self._column("tightBounds")
        return pa.nulls(len(self), pa.bool_()) if found is None or not pa.types.is_boolean(found.type) else found

    def json(self) -> pa.Array:
        if self._strings is not None:
            return self._strings.json()
        return to_json(self._read_all())

    def leaf(self, physical: Struct, path: Path, datatype: DataType) -> RawStats | None:
        key = (path, str(datatype))
        if key not in self._leaves:
            wanted = [kind for kind in ("minValues", "maxValues", "nullCount") if self._has(kind, path)]
            columns = [".".join(("add", "stats_parsed", kind, *path)) for kind in wanted]
            found = leaf_of(self._stats(_read(self._file, columns, self._path)), path, datatype) if wanted else None
            if found is None:
                return None
            self._leaves[key] = found
        return self._leaves[key]

    def _has(self, kind: str, path: Path) -> bool:
        here: pa.DataType = self._type
        for name in (kind, *path):
            if not pa.types.is_struct(here) or here.get_field_index(name) < 0:
                return False
            here = here.field(name).type
        return True

    def _column(self, name: str) -> pa.Array | None:
        if not self._has(name, ()):
            return None
        table = self._stats(_read(self._file, [f"add.stats_parsed.{name}"], self._path))
        return one_chunk(table.column(name))

    def _read_all(self) -> pa.Table:
        return self._stats(_read(self._file, ["add.stats_parsed"], self._path))

    def _stats(self, table: pa.Table) -> pa.Table:
        column = pc.struct_field(table.column("add"), ["stats_parsed"])
        column = _take(column, self._rows)
        names = [f.name for f in column.type]
        return pa.table([pc.struct_field(column, [i]) for i in range(len(names))], names=names)
