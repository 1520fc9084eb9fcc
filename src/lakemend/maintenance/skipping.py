"""How many files a query need not read, before and after: by the bounds that the log has of them.

`optimize.py` asks for queries that look for one row (a point) and for about 1 % of the rows (a range), each by all
columns of the clustering at once.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakemend.formats.format import Snapshot
from lakemend.schema import Path

_QUERIES = 32
_SHARE = 0.01
# (smallest, largest) of each column; None: the column says nothing
Box = tuple[tuple[pa.Scalar, pa.Scalar] | None, ...]
# min and max of each file, for each column; None: unknown for all
Bounds = list[tuple[pa.Array, pa.Array] | None]


@dataclass(frozen=True)
class Queries:
    points: list[Box]
    ranges: list[Box]


def queries_of(sample: pa.Table) -> Queries:
    """The same ones every time."""
    random = np.random.default_rng(7)
    ordered = [_ordered(column) for column in sample.columns]
    known = sum(column is not None for column in ordered)
    if not known or not len(sample):
        return Queries([], [])
    side = _SHARE ** (1 / known)
    points, ranges = [], []
    for _ in range(_QUERIES):
        row = int(random.integers(len(sample)))
        values = [column[row] for column in sample.columns]
        points.append(
            tuple((v, v) if o is not None and v.is_valid else None for v, o in zip(values, ordered, strict=True))
        )
        ranges.append(tuple(None if o is None else _range(o, side, random) for o in ordered))
    return Queries(points, ranges)


def bounds_in_log(snapshot: Snapshot, rows: Sequence[int] | np.ndarray, columns: Sequence[Path]) -> Bounds:
    at = pa.array(rows, pa.int64())
    found: Bounds = []
    for path in columns:
        stats = snapshot.stats(path)
        found.append(None if stats is None else (stats.min.take(at), stats.max.take(at)))
    return found


def bounds_of_sample(sample: pa.Table, files: np.ndarray, count: int) -> Bounds:
    """What the bounds would be: of a dry run."""
    found: Bounds = []
    for name in sample.column_names:
        try:
            by_file = (
                pa.table({"f": pa.array(files), "v": sample[name]})
                .group_by("f")
                .aggregate([("v", "min"), ("v", "max")])
            )
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
            found.append(None)
            continue
        at = pc.index_in(pa.array(range(count), pa.int64()), value_set=by_file["f"].combine_chunks())
        found.append((by_file["v_min"].take(at).combine_chunks(), by_file["v_max"].take(at).combine_chunks()))
    return found


def skipped(queries: Sequence[Box], bounds: Bounds, files: int) -> float:
    """Of so many files, how many a query skips on average."""
    if not queries:
        return 0.0
    return float(np.mean([files - int(_may_match(box, bounds, files).sum()) for box in queries]))


def _may_match(box: Box, bounds: Bounds, files: int) -> np.ndarray:
    found = np.ones(files, bool)
    for interval, of_files in zip(box, bounds, strict=True):
        if interval is None or of_files is None:
            continue
        (low, high), (least, most) = interval, of_files
        try:
            above = pc.greater_equal(most, low.cast(most.type))
            below = pc.less_equal(least, high.cast(least.type))
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
            continue
        found &= pc.fill_null(pc.and_kleene(above, below), True).to_numpy(zero_copy_only=False)
    return found


def _ordered(column: pa.ChunkedArray) -> Any:
    """The column's values in order; None if Arrow has no order for them."""
    values = column.combine_chunks().drop_null()
    try:
        return values.take(pc.sort_indices(values)) if len(values) else None
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError, TypeError):
        return None


def _range(ordered: pa.Array, side: float, random: np.random.Generator) -> tuple[pa.Scalar, pa.Scalar]:
    start = int(random.random() * (1 - side) * len(ordered))
    return ordered[start], ordered[min(len(ordered) - 1, start + int(side * len(ordered)))]


def skipping(queries: Queries, before: tuple[Bounds, int], after: tuple[Bounds, int]) -> dict[str, dict[str, float]]:
    """Averages over all queries of a kind."""
    return {
        kind: {
            "files_before": before[1],
            "skipped_before": round(skipped(boxes, *before), 1),
            "files_after": after[1],
            "skipped_after": round(skipped(boxes, *after), 1),
        }
        for kind, boxes in (("point", queries.points), ("range", queries.ranges))
    }


def added_up(parts: Sequence[dict[str, dict[str, float]]]) -> dict[str, dict[str, float]]:
    """Of several partitions: a query looks into all of them."""
    kinds = ("point", "range")
    names = ("files_before", "skipped_before", "files_after", "skipped_after")
    return {kind: {name: round(sum(part[kind][name] for part in parts), 1) for name in names} for kind in kinds}
