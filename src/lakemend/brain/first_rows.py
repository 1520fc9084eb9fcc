"""The first rows of a version, read by Arrow, in a process without Spark.

`service.py` calls this for `lakemend head`.
"""

from __future__ import annotations

import pyarrow as pa

from lakemend.brain.file_rows import arrow_schema, batches_of
from lakemend.brain.tables import OpenTable
from lakemend.formats.format import Snapshot

_BATCH = 1024


def first_rows(opened: OpenTable, snapshot: Snapshot, limit: int) -> pa.Table:
    """At most `limit` rows, file after file."""
    wanted = arrow_schema(snapshot)
    found, missing = [], limit
    for row in range(snapshot.files.num_rows):
        for batch in batches_of(opened, snapshot, row, range(len(wanted)), _BATCH):
            if missing <= 0:
                break
            found.append(batch.slice(0, missing))
            missing -= found[-1].num_rows
        if missing <= 0:
            break
    return pa.Table.from_batches(found, wanted)
