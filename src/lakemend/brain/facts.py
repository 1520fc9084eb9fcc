"""What people ask of a table without Spark: its history, its files, its facts.

`table/` and the CLI call these on an open table.
"""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from lakemend.brain.plan import file_urls, live_rows
from lakemend.brain.tables import OpenTable
from lakemend.errors import InvalidInputError
from lakemend.formats.format import Snapshot
from lakemend.redaction import redacted_record


def history(opened: OpenTable, limit: int | None = None) -> list[dict[str, Any]]:
    """Newest first."""
    if limit is not None and limit < 0:
        raise InvalidInputError(f"a history of {limit} versions makes no sense", remedy="pass a limit of 0 or more")
    return [redacted_record(entry) for entry in opened.table.history(limit)]


def files(snapshot: Snapshot) -> pa.Table:
    """One row per data file: path, size, rows, masked, modified, and a struct of partition values."""
    listed = snapshot.files
    urls = pa.array(file_urls(snapshot, listed["path"]), pa.string())
    columns = {
        "path": urls,
        "size": listed["size"],
        "rows": listed["rows"],
        "masked": listed["masked"],
        "modified": listed["modified"].cast(pa.timestamp("ms", "UTC")),
    }
    if snapshot.metadata.partitioning:
        columns["partition"] = listed["partition"]
    return pa.table(columns)


def detail(opened: OpenTable, snapshot: Snapshot, name: str) -> dict[str, Any]:
    listed, metadata = snapshot.files, snapshot.metadata
    return {
        **snapshot.detail(),
        "name": name,
        "location": opened.location,
        "format": opened.format.name,
        "id": metadata.id,
        "version": snapshot.version,
        "created": metadata.created,
        "last_modified": snapshot.timestamp,
        "comment": metadata.comment,
        "schema": metadata.schema,
        "partitioning": [
            ".".join(f.source) if f.transform == "identity" else f"{f.transform}({'.'.join(f.source)})"
            for f in metadata.partitioning
        ],
        "properties": metadata.properties,
        "checks": metadata.checks,
        "files": listed.num_rows,
        "bytes": int(pc.sum(listed["size"]).as_py() or 0),
        "rows": live_rows(listed),
        "masked_rows": int(pc.sum(listed["masked"]).as_py() or 0),
    }
