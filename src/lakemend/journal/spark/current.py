"""The current rows of a journal as a frame: of each key the newest version, unless that is a deletion.

`session.py` puts it where a statement names the logical table. The deletions are taken out last: whoever takes them out
first, and then the newest row, brings deleted rows back.
"""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F

from lakemend.journal.spark.pinned import Pinned
from lakemend.table.names import quoted

# Keys that are sent to every task: at this number a set of them takes some ten megabytes.
_BROADCAST = 2_000_000
_RANK = "__lakemend_rank"
_KEY = "__lakemend_key_"
_VERSION = "__lakemend_version"


def current_rows(pinned: Pinned, key: Sequence[str], version: str, subsequent: str) -> DataFrame:
    """With all columns of the journal."""
    live = F.col(quoted(subsequent)).isNull()
    if pinned.settled is None:
        return newest_rows(pinned.journal, key, version).where(live)
    if pinned.recent is None:
        return pinned.settled
    # Only recent rows can be newer than another one: the journal is read once, and they are looked up.
    rows, names = pinned.journal, [f"{_KEY}{i}" for i in range(len(key))]
    newer = pinned.recent.select(
        *[F.col(quoted(k)).alias(name) for k, name in zip(key, names, strict=True)],
        F.col(quoted(version)).alias(_VERSION),
    )
    if not pinned.recent_is_one_version:
        newer = newer.groupBy(*names).agg(F.max(_VERSION).alias(_VERSION))
    if pinned.recent_rows is not None and pinned.recent_rows <= _BROADCAST:
        newer = F.broadcast(newer)
    same = [rows[quoted(k)] == newer[name] for k, name in zip(key, names, strict=True)]
    return rows.join(newer, [*same, rows[quoted(version)] < newer[_VERSION]], "left_anti").where(live)


def newest_rows(rows: DataFrame, key: Sequence[str], version: str) -> DataFrame:
    """Of each key the row of the highest version."""
    window = Window.partitionBy(*[F.col(quoted(k)) for k in key]).orderBy(F.col(quoted(version)).desc())
    return rows.withColumn(_RANK, F.row_number().over(window)).where(F.col(_RANK) == 1).drop(_RANK)
