"""Rows at known places are masked in one commit, and no row is read again to find them.

`deduplicate.py` calls this. The places come as bits of each file, an eighth of a byte for each of its rows at most. The
brain proves, as it does for any statement, that so many rows die as were named, and holds the commit against other
writers as one that has read the whole table.
"""

from __future__ import annotations

import base64
import uuid
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
from pyroaring import BitMap64
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from lakemend.brain.plan import file_urls
from lakemend.formats.format import Snapshot
from lakemend.session import renew_cached

if TYPE_CHECKING:
    from lakemend.table import Table

_FILE, _POSITION = "_file", "_pos"
# The bits of a bucket, as Spark's functions have them, and how many buckets may come to the driver: 128 MiB.
_BUCKET = 32_768
_BUCKETS = 32_768
_REQUEST = "lakemend.request"
_AUTO_COMPACT = "spark.databricks.delta.autoCompact.enabled"


def mask_places(table: Table, frame: DataFrame, places: DataFrame, found: Mapping[str, int]) -> bool:
    """Masks the rows that were found in `frame`, a read of the table. False, and nothing is done, where the table wants
    its files written again: `found` tells how many rows of which files would die."""
    loaded = table._brain.ask("load", {"table": table._address(), "version": _version_of(frame)})
    write = loaded["write"]
    if write["modes"]["merge"] != "merge-on-read" or write.get("feed"):
        return False
    snapshot = table._brain.snapshot(table._address(), int(loaded["version"]))
    if not _only_masks(snapshot, found, float(write["max_dead_share"])):
        return False
    masks = _positions(places)
    spark = table.spark
    request: dict[str, Any] = {
        "table": table._address(),
        "table_id": loaded["table_id"],
        "version": str(loaded["version"]),
        "time_zone": str(spark.conf.get("spark.sql.session.timeZone")),
        "operation": "mask_rows",
        "command": "MERGE",
        "added": [],
        "removed": [],
        "masked": {file: base64.b64encode(rows.serialize()).decode() for file, rows in masks.items()},
        "predicates": [],
        "read_predicates": None,
        "reads_more": True,
        "tally": {"copied": 0, "updated": 0, "deleted": sum(found.values()), "inserted": 0},
        "files_scanned": snapshot.files.num_rows,
        "files_skipped": 0,
        "options": {},
        "token": str(uuid.uuid4()),
        "request": spark.sparkContext.getLocalProperty(_REQUEST),
    }
    compacts = spark.conf.get(_AUTO_COMPACT, None)
    table._brain.ask("commit", request if compacts is None else request | {"auto_compact": compacts})
    renew_cached(spark, loaded["place"])
    return True


def _version_of(frame: DataFrame) -> str:
    """The version that the frame is pinned to."""
    return str(frame._jdf.queryExecution().analyzed().collectLeaves().head().table().version())


def _only_masks(snapshot: Snapshot, found: Mapping[str, int], share: float) -> bool:
    """Whether no file would have more dead rows than the table allows, and the bits are not too many."""
    files = snapshot.files
    urls = file_urls(snapshot, files["path"])
    at = [row for row, url in enumerate(urls) if url in found]
    touched = files.take(pa.array(at, pa.int64()))
    if len(at) < len(found) or touched["rows"].null_count:
        return False
    rows = touched["rows"].to_numpy().astype(np.int64)
    dead = touched["masked"].to_numpy().astype(np.int64) + np.array([found[urls[row]] for row in at], np.int64)
    mostly_dead = (dead < rows) & (dead > share * rows)
    return not mostly_dead.any() and int((rows // _BUCKET + 1).sum()) <= _BUCKETS


def _positions(places: DataFrame) -> dict[str, BitMap64]:
    """The rows of each file."""
    counted_from_1 = F.col(_POSITION) + 1
    bits = (
        places.groupBy(_FILE, F.bitmap_bucket_number(counted_from_1).alias("bucket"))
        .agg(F.bitmap_construct_agg(F.bitmap_bit_position(counted_from_1)).alias("bits"))
        .toArrow()
    )
    found: dict[str, BitMap64] = {}
    for file, bucket, mask in zip(*(bits[name].to_pylist() for name in (_FILE, "bucket", "bits")), strict=True):
        inside = np.flatnonzero(np.unpackbits(np.frombuffer(mask, np.uint8), bitorder="little"))
        found.setdefault(file, BitMap64()).update((inside + (bucket - 1) * _BUCKET).tolist())
    return found
