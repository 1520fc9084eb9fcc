"""Commit files in bulk: lines → Arrow columns, and which adds are alive after them.

The snapshot hands in the bytes of commit files, oldest first. Rare actions (protocol, metadata,
transactions, domains, commitInfo) become values; adds and removes become two tables, parsed by
Arrow in one go. A file's key is (path, deletion vector id); the newest action of a key wins.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import reduce
from typing import Any

import numpy as np
import orjson
import pyarrow as pa
import pyarrow.compute as pc

from lakemend.errors import CorruptTableError
from lakemend.formats.delta.actions import DomainMetadata, MetaData, Protocol, Txn
from lakemend.formats.delta.json_lines import Lines, parse
from lakemend.formats.delta.partition_values import decode_path

VECTOR = pa.struct(
    [
        ("storageType", pa.string()),
        ("pathOrInlineDv", pa.string()),
        ("offset", pa.int32()),
        ("sizeInBytes", pa.int32()),
        ("cardinality", pa.int64()),
    ]
)
STRINGS = pa.map_(pa.string(), pa.string())
# As compact JSON and as Python's own writer spaces it.
_ADD = (b'{"add":{', b'{"add": {')
_REMOVE = (b'{"remove":{', b'{"remove": {')
REQUIRED = {"add": ("path", "size"), "remove": ("path",), "cdc": ("path", "size")}


def partition_type(names: Sequence[str]) -> pa.StructType:
    """partitionValues as one string field per partition column, by physical name."""
    return pa.struct([(name, pa.string()) for name in names])


def add_schema(names: Sequence[str]) -> pa.Schema:
    """The columns of live files as the log holds them; statistics travel beside them (`stats.py`)."""
    return pa.schema(
        [
            ("path", pa.string()),
            ("partitionValues", partition_type(names)),
            ("size", pa.int64()),
            ("modificationTime", pa.int64()),
            ("dataChange", pa.bool_()),
            ("tags", STRINGS),
            ("deletionVector", VECTOR),
            ("baseRowId", pa.int64()),
            ("defaultRowCommitVersion", pa.int64()),
            ("clusteringProvider", pa.string()),
        ]
    )


def remove_schema(names: Sequence[str]) -> pa.Schema:
    """The columns of tombstones."""
    return pa.schema(
        [
            ("path", pa.string()),
            ("deletionTimestamp", pa.int64()),
            ("dataChange", pa.bool_()),
            ("extendedFileMetadata", pa.bool_()),
            ("partitionValues", partition_type(names)),
            ("size", pa.int64()),
            ("stats", pa.string()),
            ("tags", STRINGS),
            ("deletionVector", VECTOR),
            ("baseRowId", pa.int64()),
            ("defaultRowCommitVersion", pa.int64()),
        ]
    )


@dataclass
class Commits:
    """The actions of consecutive commit files. Versions of adds and removes stand beside their lines."""

    protocol: Protocol | None = None
    metadata: MetaData | None = None
    transactions: dict[str, Txn] = field(default_factory=dict)
    domains: dict[str, DomainMetadata] = field(default_factory=dict)  # removed ones included
    info: dict[int, dict[str, Any]] = field(default_factory=dict)  # commitInfo by version
    cdc: list[dict[str, Any]] = field(default_factory=list)
    sidecars: list[dict[str, Any]] = field(default_factory=list)
    _adds: Lines = field(default_factory=Lines)
    _removes: Lines = field(default_factory=Lines)
    _add_counts: list[tuple[int, int]] = field(default_factory=list)
    _remove_counts: list[tuple[int, int]] = field(default_factory=list)
    _names: dict[int, str] = field(default_factory=dict)
    _tables: dict[str, tuple[pa.Schema, pa.Table]] = field(default_factory=dict)

    def read(self, version: int, name: str, data: bytes) -> None:
        """Takes in one commit file; CorruptTableError names it if it cannot be parsed."""
        self._names[version] = name
        self._tables.clear()
        adds, removes = len(self._adds), len(self._removes)
        if not data or data.isspace():
            raise corrupt(name, "the file is empty")
        view, end = memoryview(data), -1
        while end < len(data):
            start = end + 1
            for prefix, lines in ((_ADD, self._adds), (_REMOVE, self._removes)):
                if data.startswith(prefix, start):
                    end, count = _run(data, start, prefix)
                    lines.append(view[start:end], count)
                    break
            else:
                end = _line_end(data, start)
                line = data[start:end]
                if line and not line.isspace():
                    self._read_rare(version, name, line)
        self._add_counts.append((version, len(self._adds) - adds))
        self._remove_counts.append((version, len(self._removes) - removes))

    def _read_rare(self, version: int, name: str, line: bytes) -> None:
        try:
            action = orjson.loads(line)
            if not isinstance(action, dict):
                raise ValueError("a line is not an object")
            for kind, body in action.items():
                if isinstance(body, dict):
                    self._take(version, kind, body)
        except (ValueError, KeyError, TypeError, AttributeError, OverflowError, RecursionError) as error:
            raise corrupt(name, f"a line cannot be parsed: {str(error)[:500]}") from error

    def _take(self, version: int, kind: str, body: dict[str, Any]) -> None:
        if kind == "add":
            self._adds.append(orjson.dumps({"add": body}))
        elif kind == "remove":
            self._removes.append(orjson.dumps({"remove": body}))
        elif kind == "commitInfo":
            self.info[version] = body
        elif kind == "txn":
            txn = Txn.from_json(body)
            self.transactions[txn.app_id] = txn
        elif kind == "metaData":
            self.metadata = MetaData.from_json(body)
        elif kind == "protocol":
            self.protocol = Protocol.from_json(body)
        elif kind == "domainMetadata":
            domain = DomainMetadata.from_json(body)
            self.domains[domain.domain] = domain
        elif kind == "cdc":
            self.cdc.append(body)
        elif kind == "sidecar":
            self.sidecars.append(body)

    @property
    def add_count(self) -> int:
        return len(self._adds)

    @property
    def remove_count(self) -> int:
        return len(self._removes)

    def adds(self, names: Sequence[str]) -> tuple[pa.Table, pa.ChunkedArray, np.ndarray]:
        """Adds as `add_schema`, their statistics as JSON strings, and the version of each."""
        schema = add_schema(names)
        stored = schema.append(pa.field("stats", pa.string()))
        table = self._parsed("add", self._adds, self._add_counts, stored)
        return table.select(schema.names), table.column("stats"), _versions(self._add_counts)

    def removes(self, names: Sequence[str]) -> tuple[pa.Table, np.ndarray]:
        table = self._parsed("remove", self._removes, self._remove_counts, remove_schema(names))
        return table, _versions(self._remove_counts)

    def _parsed(self, kind: str, lines: Lines, counts: list[tuple[int, int]], schema: pa.Schema) -> pa.Table:
        """Parsed once: the newest commits are looked at by every writer, and become part of the next snapshot."""
        known = self._tables.get(kind)
        if known is None or known[0] != schema:
            known = self._tables[kind] = (schema, self._parse(kind, lines, counts, schema))
        return known[1]

    def _parse(self, kind: str, lines: Lines, counts: list[tuple[int, int]], schema: pa.Schema) -> pa.Table:
        if not len(lines):
            return schema.empty_table()
        table = _parse_fast(kind, lines, schema)
        if table is None:
            table = self._parse_slowly(kind, lines, counts, schema)
        if fault := unsound(kind, table):
            row, cause = fault
            raise corrupt(self._names[int(_versions(counts)[row])], cause)
        return table

    def _parse_slowly(self, kind: str, lines: Lines, counts: list[tuple[int, int]], schema: pa.Schema) -> pa.Table:
        bodies = []
        versions = _versions(counts)
        for row, line in enumerate(lines.split()):
            try:
                bodies.append(_conform(orjson.loads(line)[kind], schema))
            except (ValueError, KeyError, TypeError, AttributeError, OverflowError, pa.ArrowException) as error:
                name = self._names[int(versions[row])]
                raise corrupt(name, f"an {kind} action cannot be parsed: {error}") from error
        return with_vectors(pa.Table.from_pylist(bodies, schema))


def unsound(kind: str, table: pa.Table) -> tuple[int, str] | None:
    """The first row of actions that cannot be, and why."""
    for column in REQUIRED[kind]:
        if table.column(column).null_count:
            return pc.index(table.column(column).is_null(), True).as_py(), f"an {kind} action has no {column}"
    negative = pc.fill_null(pc.less(table.column("size"), 0), False)
    if pc.any(negative).as_py():
        return pc.index(negative, True).as_py(), f"the size of an {kind} action is negative"
    paths = table.column("path")
    if pc.any(odd := pc.match_substring_regex(paths, _ODD_PATH)).as_py():
        for row in pc.indices_nonzero(odd).to_pylist():
            if fault := _path_fault(paths[row].as_py()):
                return row, f"the path of an {kind} action {fault}"
    vectors = table.column("deletionVector")
    if vectors.null_count < len(vectors):
        for name in ("offset", "sizeInBytes", "cardinality"):
            negative = pc.fill_null(pc.less(pc.struct_field(vectors, [name]), 0), False)
            if pc.any(negative).as_py():
                return pc.index(negative, True).as_py(), f"the {name} of a deletion vector is negative"
        for name in ("storageType", "pathOrInlineDv", "sizeInBytes", "cardinality"):
            lacking = pc.and_(vectors.is_valid(), pc.struct_field(vectors, [name]).is_null())
            if pc.any(lacking).as_py():
                return pc.index(lacking, True).as_py(), f"the deletion vector of an {kind} action has no {name}"
    return None


# What a path is looked at closely for: it is empty, or may hold NUL or lead out of the table.
_ODD_PATH = r"^$|\x00|%00|\.\.|%2[eE]"


def _path_fault(path: str) -> str | None:
    plain = decode_path(path)
    if not plain:
        return "is empty"
    if "\x00" in plain:
        return "holds the character NUL"
    if ".." in plain.split("/"):
        return f"leads out of the table: {path[:200]!r}"
    return None


def with_vectors(table: pa.Table) -> pa.Table:
    """The table without the vectors that are structs of nulls, as some writers spell none."""
    vectors = one_chunk(table.column("deletionVector"))
    if vectors.null_count == len(vectors):
        return table
    told = [pc.struct_field(vectors, [f.name]) for f in VECTOR]
    absent = vectors.is_null()
    empty = pc.and_(pc.invert(absent), reduce(pc.and_, (part.is_null() for part in told)))
    if not pc.any(empty).as_py():
        return table
    found = pa.StructArray.from_arrays(told, fields=list(VECTOR), mask=pc.or_(absent, empty))
    return table.set_column(table.schema.get_field_index("deletionVector"), pa.field("deletionVector", VECTOR), found)


def _line_end(data: bytes, start: int) -> int:
    found = data.find(b"\n", start)
    return len(data) if found < 0 else found


def _run(data: bytes, start: int, prefix: tuple[bytes, ...]) -> tuple[int, int]:
    """Where the lines from `start` on that begin with the prefix end, and how many they are."""
    end, count = _line_end(data, start), 1
    find, starts = data.find, data.startswith
    while starts(prefix, end + 1):
        end = find(b"\n", end + 1)
        count += 1
        if end < 0:
            return len(data), count
    return end, count


def _parse_fast(kind: str, lines: Lines, schema: pa.Schema) -> pa.Table | None:
    """Arrow's own parser; None where a line does not fit and a closer look must tell why."""
    # A map is an object in the log but a list to Arrow's parser: it only tells which lines have tags.
    fields = [pa.field(f.name, pa.struct([])) if f.name == "tags" else f for f in schema]
    parsed = parse(lines.slices(), pa.schema([(kind, pa.struct(fields))]))
    if parsed is None or parsed.num_rows != len(lines):
        return None
    body = parsed.column(kind)
    tagged = pc.struct_field(body, ["tags"]).is_valid()
    tags: pa.Array | None = None
    if pc.any(tagged).as_py():
        pairs = zip(lines.split(), tagged.to_pylist(), strict=True)
        tags = _string_maps(orjson.loads(line)[kind]["tags"] if has else None for line, has in pairs)
    return conform(body, schema, tags)


def conform(body: pa.ChunkedArray, schema: pa.Schema, tags: pa.Array | None = None) -> pa.Table:
    """A chunked struct as a table of exactly the schema; absent fields are null."""
    columns = []
    for f in schema:
        index = body.type.get_field_index(f.name)
        if f.name == "tags" and not (index >= 0 and pa.types.is_map(body.type.field(index).type)):
            columns.append(pa.nulls(len(body), f.type) if tags is None else tags)
        elif index < 0:
            columns.append(pa.nulls(len(body), f.type))
        else:
            columns.append(pc.struct_field(body, [index]))
    table = pa.Table.from_arrays([_cast(c, f.type) for c, f in zip(columns, schema, strict=True)], schema=schema)
    return with_vectors(table)


def _cast(column: pa.ChunkedArray | pa.Array, datatype: pa.DataType) -> pa.ChunkedArray:
    chunked = column if isinstance(column, pa.ChunkedArray) else pa.chunked_array([column])
    return chunked if chunked.type == datatype else chunked.cast(datatype)


def _conform(body: dict[str, Any], schema: pa.Schema) -> dict[str, Any]:
    out: dict[str, Any] = {}
    for f in schema:
        value = body.get(f.name)
        if value is not None:
            if pa.types.is_map(f.type):
                value = [(str(k), None if v is None else str(v)) for k, v in value.items()]
            elif pa.types.is_int64(f.type):
                if isinstance(value, float) and not value.is_integer():
                    raise ValueError(f"{f.name} is {value}, which is no whole number")
                value = int(value)
            elif f.name == "partitionValues":
                value = {n.name: _text(value.get(n.name)) for n in f.type}
            elif f.name == "deletionVector":
                value = {n.name: value.get(n.name) for n in f.type}
            pa.scalar(value, f.type)
        out[f.name] = value
    return out


def _text(value: Any) -> str | None:
    if value is None or isinstance(value, str):
        return value
    return ("true" if value else "false") if isinstance(value, bool) else str(value)


def _string_maps(values: Iterable[dict[str, Any] | None]) -> pa.Array:
    rows = [None if v is None else [(str(k), None if x is None else str(x)) for k, x in v.items()] for v in values]
    return pa.array(rows, STRINGS)


def _versions(counts: list[tuple[int, int]]) -> np.ndarray:
    return np.repeat(np.array([v for v, _ in counts], np.int64), [n for _, n in counts])


def corrupt(name: str, cause: str) -> CorruptTableError:
    return CorruptTableError(
        f"the log file {name} is corrupt",
        cause=cause,
        remedy="restore the file from a backup, or read an older version of the table",
        file=name,
    )


def keys(table: pa.Table) -> pa.Array:
    """The key of each action: its plain path, with its deletion vector's id if it has one."""
    paths = one_chunk(table.column("path"))
    letters = paths.buffers()[2]
    if letters is not None and np.any(np.frombuffer(letters, np.uint8) == 0x25):
        # Writers differ in what they encode; the plain path is the file's identity.
        paths = pa.array([decode_path(p) for p in paths.to_pylist()], pa.string())
    vectors = one_chunk(table.column("deletionVector"))
    if vectors.null_count == len(vectors):
        return paths
    return pc.if_else(vectors.is_null(), paths, pc.binary_join_element_wise(paths, vector_ids(vectors), "\n"))


def vector_ids(vectors: pa.StructArray) -> pa.Array:
    """Unique ids of deletion vectors, as `Descriptor.id` makes them; "" where there is none."""
    offsets = pc.struct_field(vectors, ["offset"])
    start = pc.if_else(
        offsets.is_null(), "", pc.binary_join_element_wise("@", pc.fill_null(offsets, 0).cast(pa.string()), "")
    )
    storage = pc.fill_null(pc.struct_field(vectors, ["storageType"]), "")
    where = pc.fill_null(pc.struct_field(vectors, ["pathOrInlineDv"]), "")
    return pc.binary_join_element_wise(storage, where, start, "")


def one_chunk(column: pa.ChunkedArray | pa.Array) -> pa.Array:
    if isinstance(column, pa.ChunkedArray):
        if column.num_chunks == 1:
            return column.chunk(0)
        if not column.num_chunks:
            return pa.array([], column.type)
        if pa.types.is_string(column.type) and column.nbytes >= 2**31:
            column = column.cast(pa.large_string())
        return pa.concat_arrays(column.chunks)
    return column


@dataclass(frozen=True)
class Survivors:
    """Rows of the newer adds and removes that count, and the keys they take from anything older."""

    adds: np.ndarray
    removes: np.ndarray
    keys: pa.Array


def reconcile(adds: pa.Table, add_versions: np.ndarray, removes: pa.Table, remove_versions: np.ndarray) -> Survivors:
    """The newest action of each key; in one version an add counts over a remove of the same key."""
    add_keys, remove_keys = keys(adds), keys(removes)
    if not len(removes):
        both, order = add_keys, np.arange(len(adds))
    else:
        both = pa.concat_arrays([remove_keys, add_keys])
        versions = np.concatenate([remove_versions, add_versions])
        order = np.argsort(versions, kind="stable")
    encoded = both.dictionary_encode()
    codes = encoded.indices.to_numpy()[order]
    newest = np.zeros(len(encoded.dictionary), np.int64)
    newest[codes] = order  # a repeated index keeps the last assignment, which is the newest
    newest.sort()
    split = len(removes)
    return Survivors(newest[newest >= split] - split, newest[newest < split], encoded.dictionary)
