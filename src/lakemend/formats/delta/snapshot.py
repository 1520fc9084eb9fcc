"""One version of a Delta table.

`assemble.py` makes snapshots. The brain sees `format.Snapshot`; the write side also
uses what the log alone knows: `protocol`, `meta`, `raw`, `stats_json`, `tombstones`, `transactions`
and `domains`, from which a checkpoint is written without loss.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from lakemend.formats.char_types import length_of_char
from lakemend.formats.delta.actions import Add, DomainMetadata, MetaData, Protocol, Txn
from lakemend.formats.delta.commit_times import has_in_commit_timestamps
from lakemend.formats.delta.deletion_vector import Descriptor
from lakemend.formats.delta.mapping import (
    partition_names,
    partition_types,
    to_metadata,
)
from lakemend.formats.delta.partition_values import decode_path
from lakemend.formats.delta.pieces import Piece, concat, file_table, stats_of
from lakemend.formats.delta.protocol import (
    features,
    reader_features,
    require_writable,
    writer_features,
)
from lakemend.formats.delta.replay import (
    add_schema,
    one_chunk,
)
from lakemend.formats.delta.sort_orders import sort_orders
from lakemend.formats.format import ColumnStats, Mask, Metadata
from lakemend.formats.zone import chars_are_padded, zone_name
from lakemend.locations import join, normalise
from lakemend.schema import Path, find
from lakemend.storage import Store

_ABSOLUTE = re.compile(r"^(/|[A-Za-z][A-Za-z0-9+.-]*:/)")


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
        # By the zone in which local times were read, and whether CHAR values were filled up.
        self._files: dict[tuple[str, bool], pa.Table] = {}

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
        return concat([p.select(p.source.json()) for p in self.pieces], pa.string())

    @property
    def files(self) -> pa.Table:
        key = (zone_name() if self._has_local_times else "", self._has_chars and chars_are_padded())
        if key not in self._files:
            rows = concat([p.select(p.source.rows()) for p in self.pieces], pa.int64())
            self._files[key] = file_table(self.raw, rows, self.metadata)
        return self._files[key]

    @cached_property
    def _has_local_times(self) -> bool:
        return "timestamp" in partition_types(self.metadata).values()

    @cached_property
    def _has_chars(self) -> bool:
        columns = [find(self.metadata.schema, part.source) for part in self.metadata.partitioning]
        return any(column is not None and length_of_char(column) is not None for column in columns)

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
        if found is None:
            return None
        return found.mask(self.store.url, self.raw.column("path")[row].as_py(), self.files["rows"][row].as_py())

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
        if _ABSOLUTE.match(path):
            return normalise(plain_path)
        # As Hadoop has it: `./x` and `.//x` are `x`.
        odd = "//" in plain_path or "./" in plain_path
        return join(self.store.url, posixpath.normpath(plain_path) if odd else plain_path)

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
