"""Live files by the place they were read from, as the brain's file table and as bounds of their columns.

`assemble.py` makes pieces out of checkpoints and commits, `snapshot.py` and `changes.py` ask them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakemend.errors import CorruptTableError
from lakemend.formats.char_types import length_of_char
from lakemend.formats.delta.actions import MetaData
from lakemend.formats.delta.bounds import RawStats, column_stats
from lakemend.formats.delta.mapping import (
    physical_path,
)
from lakemend.formats.delta.partition_values import parse_column
from lakemend.formats.delta.replay import (
    keys,
    one_chunk,
    partition_type,
)
from lakemend.formats.delta.stats import JsonStats, StatsSource
from lakemend.formats.format import ColumnStats, Metadata
from lakemend.formats.zone import chars_are_padded
from lakemend.schema import Path, find, is_struct, to_arrow


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
        kept = untaken(self.keys, taken)
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


def untaken(own: pa.Array, taken: pa.Array) -> np.ndarray | None:
    if not len(taken) or not len(own):
        return None
    dead = pc.is_in(own, value_set=taken)
    return np.flatnonzero(~dead.to_numpy(zero_copy_only=False)) if pc.any(dead).as_py() else None


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
        typed = parse_column(pc.struct_field(strings, [index]), kind, part.name)
        length = length_of_char(found) if found and chars_are_padded() else None
        arrays.append(typed if length is None else pc.utf8_rpad(typed, length))
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
    low = concat([r.min for r in raws], target)
    if datatype == "double" and _was_float(meta, path):
        # Bounds written for floats are shorter than the doubles the values became.
        low = pa.nulls(len(low), target)
    joined = RawStats(low, concat([r.max for r in raws], target), concat([r.nulls for r in raws], pa.int64()))
    return column_stats(joined, datatype, concat(tights, pa.bool_()))


def _tight(piece: Piece) -> pa.Array:
    """Whether the bounds are those of the rows that live: as the writer says, else where no row is masked."""
    said = piece.select(piece.source.tight())
    unmasked = one_chunk(piece.raw.column("deletionVector")).is_null()
    return pc.coalesce(said, unmasked)


def _was_float(meta: MetaData, path: Path) -> bool:
    field = find(meta.schema, path)
    changes = ((field or {}).get("metadata") or {}).get("delta.typeChanges") or ()
    return any(change.get("fromType") == "float" for change in changes)


def concat(arrays: Sequence[pa.Array], datatype: pa.DataType) -> pa.Array:
    if len(arrays) == 1:
        return arrays[0]
    return pa.concat_arrays(arrays) if arrays else pa.array([], datatype)


def merged(pieces: list[Piece]) -> list[Piece]:
    """The largest piece as it is, with all it has parsed, and the others as one."""
    largest = max(range(len(pieces)), key=lambda i: len(pieces[i].raw))
    small = [p for i, p in enumerate(pieces) if i != largest]
    strings = pa.chunked_array([p.select(p.source.json()) for p in small], pa.string())
    joined = Piece(pa.concat_tables([p.raw for p in small]).combine_chunks(), JsonStats(strings, len(strings)))
    return [pieces[largest], joined]
