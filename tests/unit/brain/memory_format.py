"""A format whose tables live in memory, for tests of the brain: versions are lists of files with true rows."""

from __future__ import annotations

import threading
import uuid
from dataclasses import dataclass, field, replace
from typing import Any

import pyarrow as pa
from pyroaring import BitMap64

from lakemend.errors import InvalidInputError, TableNotFoundError, VersionNotFoundError
from lakemend.formats.format import (
    Change,
    ColumnStats,
    Committed,
    Metadata,
    PartitionField,
    VersionTaken,
)
from lakemend.schema import find, from_wire, leaves, to_arrow


@dataclass(frozen=True)
class MemoryFile:
    path: str
    size: int = 100
    rows: int | None = 1
    masked: frozenset[int] = frozenset()
    partition: tuple[Any, ...] = ()
    stats: dict[tuple[str, ...], tuple[Any, Any, int | None]] = field(default_factory=dict)


@dataclass
class MemorySnapshot:
    version: int
    metadata: Metadata
    data: list[MemoryFile]
    base: str = "file:///t"
    transactions: dict[str, int] = field(default_factory=dict)
    timestamp: int = 0
    asked: list[tuple[str, ...]] = field(default_factory=list)

    @property
    def files(self) -> pa.Table:
        parts = [(p.name, to_arrow(find(self.metadata.schema, p.source)["type"])) for p in self.metadata.partitioning]
        kind = pa.struct(parts)
        return pa.table(
            {
                "path": pa.array([f.path for f in self.data], pa.string()),
                "size": pa.array([f.size for f in self.data], pa.int64()),
                "modified": pa.array([7 for _ in self.data], pa.int64()),
                "rows": pa.array([f.rows for f in self.data], pa.int64()),
                "masked": pa.array([len(f.masked) for f in self.data], pa.int64()),
                "partition": pa.array([dict(zip([n for n, _ in parts], f.partition)) for f in self.data], kind),
            }
        )

    def stats(self, path):
        self.asked.append(path)
        types = dict(leaves(self.metadata.schema))
        if path not in types:
            return None
        entries = [f.stats.get(path, (None, None, None)) for f in self.data]
        kind = to_arrow(types[path])
        return ColumnStats(
            pa.array([e[0] for e in entries], kind),
            pa.array([e[1] for e in entries], kind),
            pa.array([e[2] for e in entries], pa.int64()),
            pa.array([e[0] is not None for e in entries], pa.bool_()),
        )

    def mask(self, row):
        from lakemend.formats.format import Mask

        dead = self.data[row].masked
        return Mask(len(dead), blob=b"\xd1\xd3\x39\x64" + BitMap64(dead).serialize()) if dead else None

    def sort_orders(self, rows):
        return None

    def url(self, path):
        return f"{self.base}/{path}"

    def require_writable(self):
        pass

    def transaction(self, app_id):
        return self.transactions.get(app_id)

    def detail(self):
        return {"memory": True}


class MemoryCommitted(Committed):
    brought: MemorySnapshot

    def stats(self, path):
        return self.brought.stats(path)


class MemoryTable:
    def __init__(self, store):
        self.store = store
        self.lock = threading.Lock()
        self.versions: list[MemorySnapshot] = []
        self.log: list[Change] = []

    def latest(self):
        if not self.versions or self.store.head("_memory") is None:
            raise TableNotFoundError("gone")
        return self.versions[-1]

    def at_version(self, version):
        if not 0 <= version < len(self.versions):
            raise VersionNotFoundError(f"version {version} does not exist", version=version)
        return self.versions[version]

    def at_timestamp(self, millis):
        return self.versions[-1]

    def changes_since(self, version):
        return [self._committed(number) for number in range(version + 1, len(self.versions))]

    def _committed(self, version):
        change, snapshot = self.log[version], self.versions[version]
        new = {file.path for file in change.added}
        brought = replace(snapshot, data=[file for file in snapshot.data if file.path in new])
        committed = MemoryCommitted(
            version=version,
            timestamp=0,
            operation=change.operation,
            added=brought.files,
            removed=frozenset(entry.path for entry in change.removed),
            masked=frozenset(entry.path for entry in change.masked),
            metadata_changed=change.metadata is not None,
            protocol_changed=False,
            data_change=change.data_change,
            blind_append=bool(change.added) and change.read_predicate is None and not (change.removed or change.masked),
            read_predicate=change.read_predicate,
            transactions=dict([change.transaction] if change.transaction else []),
            replaced=change.replaced,
            brings=change.brings,
        )
        object.__setattr__(committed, "brought", brought)
        return committed

    def settle(self, version):
        pass

    def landed(self, token, since):
        return any(c.parameters.get("token") == token for c in self.log)

    def history(self, limit=None):
        rows = [
            {
                "version": v,
                "timestamp": 1_700_000_000_000,
                "operation": c.operation,
                "parameters": c.parameters,
                "metrics": c.metrics,
                "user_metadata": c.user_metadata,
                "engine": "memory",
            }
            for v, c in enumerate(self.log)
        ]
        return rows[::-1][:limit]

    def try_commit(self, base, change):
        with self.lock:
            return self._try_commit(base, change)

    def _try_commit(self, base, change):
        expected = 0 if base is None else base.version + 1
        if expected != len(self.versions):
            raise VersionTaken
        metadata = change.metadata or base.metadata
        gone = {r.path for r in change.removed}
        dead = {m.path: frozenset(BitMap64.deserialize(m.positions)) for m in change.masked}
        data = []
        for f in [] if base is None or change.replaces_table else base.data:
            if f.path not in gone:
                data.append(replace(f, masked=f.masked | dead.get(f.path, frozenset())))
        for f in change.added:
            types = [find(metadata.schema, p.source)["type"] for p in metadata.partitioning]
            data.append(
                MemoryFile(
                    f.path,
                    f.size,
                    f.rows,
                    partition=tuple(from_wire(v, t) for v, t in zip(f.partition, types)),
                    stats={s.path: (s.min, s.max, s.nulls) for s in f.stats},
                )
            )
        transactions = dict(base.transactions) if base else {}
        if change.transaction:
            transactions[change.transaction[0]] = change.transaction[1]
        self.versions.append(MemorySnapshot(expected, metadata, data, self.store.url, transactions))
        self.log.append(change)
        if expected == 0:
            self.store.put("_memory", b"")
        return expected


class MemoryFormat:
    name = "memory"

    def __init__(self):
        self.tables: dict[str, MemoryTable] = {}

    def recognises(self, store):
        return store.head("_memory") is not None

    def open(self, store):
        table = self.tables.setdefault(store.url, MemoryTable(store))
        if store.head("_memory") is None:
            table.versions, table.log = [], []
        return table

    def new_metadata(self, request, base):
        names = [f["name"] for f in request["schema"]["fields"]]
        if len(names) != len(set(names)):
            raise InvalidInputError("duplicate columns")
        parts = tuple(
            PartitionField(".".join(p["source"]), tuple(p["source"]), p.get("transform", "identity"))
            for p in request.get("partitioning") or []
        )
        return Metadata(
            request["schema"],
            request["schema"],
            parts,
            dict(request.get("properties") or {}),
            request.get("comment"),
            dict(request.get("checks") or {}),
            id=str(uuid.uuid4()),
        )

    def altered_metadata(self, base, changes):
        metadata = base.metadata
        for change in changes:
            if change["kind"] == "set_property":
                metadata = replace(metadata, properties={**metadata.properties, change["key"]: change["value"]})
            elif change["kind"] == "add_column":
                added = {"name": change["path"][-1], "type": change["type"], "nullable": True, "metadata": {}}
                schema = {"type": "struct", "fields": [*metadata.schema["fields"], added]}
                metadata = replace(metadata, schema=schema, physical=schema)
            else:
                raise InvalidInputError(f"cannot {change['kind']}")
        return metadata

    def check_property(self, key, value):
        return

    def write_settings(self, metadata):
        return {"target_file_size": 1, "compression": None, "stats_columns": 32, "writer_options": {}}
