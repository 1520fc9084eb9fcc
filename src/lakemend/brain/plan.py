"""`plan`: the files a scan reads, as the connector takes them (*files* in docs/architecture.md).

The service calls this for every scan. Tables of 100,000 files are common, so values are turned into
their wire form a column at a time, and only masked files are looked at one by one.
"""

from __future__ import annotations

import base64
import gc
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakemend.brain.predicates import Predicate, partition_column, spark_spelling
from lakemend.brain.pruning import kept_rows
from lakemend.formats.format import Mask, Snapshot
from lakemend.locations import for_spark
from lakemend.schema import to_wire


@contextmanager
def _uncollected() -> Iterator[None]:
    """Hundreds of thousands of new containers, none of them garbage: collecting takes longer than making them."""
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()


def plan(snapshot: Snapshot, predicates: Sequence[Predicate], without: Predicate | None = None) -> dict[str, Any]:
    with _uncollected():
        return described(snapshot, kept_rows(snapshot, predicates, without))


def described(snapshot: Snapshot, rows: pa.Array) -> dict[str, Any]:
    """The files at these rows of `Snapshot.files`."""
    files = snapshot.files
    every = len(rows) == files.num_rows and rows.equals(pa.array(np.arange(files.num_rows), rows.type))
    kept = files if every else files.take(rows)
    urls = file_urls(snapshot, kept["path"])
    names = [field.name for field in snapshot.metadata.partitioning]
    partitions: list[Any] = [[]] * len(urls)
    if names:
        partitions = [list(v) for v in zip(*(wire_values(partition_column(kept, n)) for n in names), strict=True)]
    masks: list[Any] = [None] * len(urls)
    for index in pc.indices_nonzero(pc.greater(kept["masked"], 0)).to_pylist():
        mask = snapshot.mask(index if every else rows[index].as_py())
        masks[index] = mask and mask_answer(mask)
    orders = snapshot.sort_orders(None if every else rows)
    columns = (urls, *(kept[name].to_pylist() for name in ("size", "rows", "modified")), partitions, masks)
    answer = {
        "version": str(snapshot.version),
        "total_files": files.num_rows,
        "total_rows": live_rows(files),
        "files": [
            {"path": p, "size": s, "rows": r, "modified": m, "partition": v, "mask": d}
            for p, s, r, m, v, d in zip(*columns, strict=True)
        ],
    }
    if orders is not None:
        answer["sorted"] = orders  # beside `files`
    return answer


def file_urls(snapshot: Snapshot, paths: pa.ChunkedArray) -> list[str]:
    """Each file's absolute location in Spark's spelling."""
    url = snapshot.url
    return [spark_spelling(url(path)) for path in paths.to_pylist()]


def live_rows(files: pa.Table) -> int | None:
    """Rows that are not masked; None if a file does not tell how many it holds."""
    if files["rows"].null_count:
        return None
    return int(pc.sum(files["rows"]).as_py() or 0) - int(pc.sum(files["masked"]).as_py() or 0)


def wire_values(values: pa.Array | pa.ChunkedArray) -> list[Any]:
    """`schema.to_wire` for a whole column."""
    kind = values.type
    if pa.types.is_date32(kind):
        return values.cast(pa.int32()).to_pylist()  # type: ignore[no-any-return]
    if pa.types.is_timestamp(kind):
        return values.cast(pa.timestamp("us", kind.tz)).cast(pa.int64()).to_pylist()  # type: ignore[no-any-return]
    if pa.types.is_floating(kind) and not pc.all(pc.is_finite(values)).as_py():
        return [to_wire(value) for value in values.to_pylist()]
    if pa.types.is_decimal(kind) or pa.types.is_binary(kind) or pa.types.is_large_binary(kind):
        return [to_wire(value) for value in values.to_pylist()]
    return values.to_pylist()  # type: ignore[no-any-return]


def mask_answer(mask: Mask) -> dict[str, Any]:
    if mask.blob is not None:
        return {"cardinality": mask.cardinality, "inline": base64.b64encode(mask.blob).decode()}
    return {
        "cardinality": mask.cardinality,
        "path": for_spark(mask.url or ""),
        "offset": mask.offset,
        "length": mask.length,
    }
