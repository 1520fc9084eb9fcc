"""A journal in a Delta table of Lakemend's catalog.

A statement's rows are one append, which conflicts with whatever else changed the journal since the statement looked at
it: the commit says that it has read every row, and carries the version as the number of a transaction, so that two
writers of one version cannot both land. That number is also where the highest version ever given stands; rows that were
written by hand, with versions of their own, are counted in by their statistics.
"""

from __future__ import annotations

import hashlib

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql import types as T

from lakemend.errors import CommitConflictError
from lakemend.formats.format import Snapshot
from lakemend.journal.spark.lake_archive import archive_lake, with_archive
from lakemend.journal.spark.pinned import Pinned
from lakemend.journal.spark.versions import Versions
from lakemend.redaction import logger
from lakemend.report import Report
from lakemend.schema import find
from lakemend.table import Table
from lakemend.table.names import quoted

log = logger(__name__)

# Transactions by which the log keeps numbers: the highest version; up to which one there is one row of each key, and in
# which files those rows are.
_LAST = "lakemend.journal"
_SETTLED, _SETTLED_FILES = "lakemend.journal.settled", "lakemend.journal.settled.files"
_DIGEST = (1 << 48) - 1


class LakeStorage:
    """See `pinned.Storage`."""

    def __init__(
        self, table: Table, archive: Table, key: tuple[str, ...], version: str, subsequent: str, kind: str
    ) -> None:
        self.table, self.archive_table = table, archive
        self.key, self.version, self.subsequent = key, version, subsequent
        self.name = table.name
        self.versions = Versions.of(kind, table.schema[version].dataType, table.name, version)

    @property
    def spark(self) -> SparkSession:
        return self.table.spark

    @property
    def schema(self) -> T.StructType:
        return self.table.schema

    def pin(self) -> Pinned:
        snapshot = self.table._brain.snapshot(self.table._address())
        journal = self.table.as_of(version=snapshot.version).to_df()
        bounds = _Bounds.of(snapshot, self.version)
        boundary = self._settled(snapshot, bounds)
        last = self._last(snapshot, bounds, journal)
        settled = recent = None
        one_version = False
        if boundary is not None:
            column, limit = F.col(quoted(self.version)), F.expr(self.versions.sql(boundary))
            later = bounds.low > boundary
            above = int(bounds.rows[later].sum())
            one_version = above > 0 and bounds.knows_high and len({*bounds.low[later], *bounds.high[later]}) == 1
            settled = journal if above == 0 else journal.where(column <= limit)
            recent = None if above == 0 else journal.where(column > limit)
            last = max(self.versions.after(boundary), boundary if last is None else last)
        return Pinned(
            snapshot.version,
            last,
            journal,
            settled,
            recent,
            int(bounds.rows.sum()) if bounds.counted else None,
            None if boundary is None else above,
            lambda: with_archive(self, journal),
            one_version,
        )

    def _last(self, snapshot: Snapshot, bounds: _Bounds, journal: DataFrame) -> int | None:
        given = snapshot.transaction(_LAST)
        if bounds.knows_high:
            by_hand = int(bounds.high.max()) if len(bounds.high) else None
        else:
            top = journal.agg(F.max(quoted(self.version)).alias("v"))
            by_hand = top.selectExpr(f"{self.versions.number_sql('v')} AS v").collect()[0]["v"]
        found = [number for number in (given, by_hand) if number is not None]
        return max(found, default=None)

    def _settled(self, snapshot: Snapshot, bounds: _Bounds) -> int | None:
        """Up to which version there is one row of each key, as was noted; None if the files are others by now."""
        boundary, files = snapshot.transaction(_SETTLED), snapshot.transaction(_SETTLED_FILES)
        if boundary is None or files is None or files & _DIGEST != bounds.fingerprint(boundary):
            return None
        return boundary

    def append(self, pinned: Pinned, rows: DataFrame, version: int, operation: str) -> int:
        writer = rows.writeTo(self.name).option("txnAppId", _LAST).option("txnVersion", str(version))
        report = self.table._run(operation, writer.append, read_at=pinned.number)
        if report.version is None:
            # Another writer has given this version, or a higher one, before.
            raise taken(operation, self.name, pinned.number, version)
        if pinned.is_empty and report.version == pinned.number + 1:
            self.settle(report.version, version)
        return report.version

    def settle(self, number: int, last: int) -> None:
        """Notes that a commit left one row of each key, none of them above version `last`."""
        snapshot = self.table._brain.snapshot(self.table._address(), number)
        boundary = self.versions.boundary(last)
        digest = _Bounds.of(snapshot, self.version).fingerprint(boundary)
        before = snapshot.transaction(_SETTLED_FILES) or 0
        if digest is None or (snapshot.transaction(_SETTLED) == boundary and before & _DIGEST == digest):
            return
        # The number of a transaction grows: which note it is stands above the digest.
        files = ((before >> _DIGEST.bit_length()) + 1 << _DIGEST.bit_length()) | digest
        nothing = self.spark.createDataFrame([], self.schema)
        try:
            # Whoever reads them looks whether the two belong together, and to the files that are there.
            for app, value in ((_SETTLED_FILES, files), (_SETTLED, boundary)):
                nothing.writeTo(self.name).option("txnAppId", app).option("txnVersion", str(value)).append()
        except CommitConflictError as error:
            log.info("what is settled in %s is noted another time: %s", self.name, error)

    def archive(self, retries: int) -> Report:
        return archive_lake(self, retries)


def taken(operation: str, name: str, number: int, version: int) -> CommitConflictError:
    return CommitConflictError(
        f"{operation} on version {number} of {name} conflicts with another statement",
        cause=f"the version {version} of the journal was given to another statement meanwhile",
        remedy="nothing was changed: run the statement again",
        operation=operation,
        version=number,
    )


class _Bounds:
    """Of each file of a journal its live rows and between which versions they are."""

    def __init__(self, files: pa.Table, low: np.ndarray, high: np.ndarray, knows_high: bool) -> None:
        self.names = files["path"].to_pylist()
        self.rows: np.ndarray = pc.subtract(pc.fill_null(files["rows"], 0), pc.fill_null(files["masked"], 0)).to_numpy()
        self.masked: np.ndarray = files["masked"].to_numpy()
        self.low, self.high, self.knows_high = low, high, knows_high
        self.counted = files["rows"].null_count == 0

    @classmethod
    def of(cls, snapshot: Snapshot, column: str) -> _Bounds:
        files = snapshot.files.combine_chunks()
        field = find(snapshot.metadata.schema, (column,))
        stats = None if field is None else snapshot.stats((field["name"],))
        if stats is None:
            none = np.full(files.num_rows, np.iinfo(np.int64).min)
            return cls(files, none, none, files.num_rows == 0)
        low, high = (_numbers(side) for side in (stats.min, stats.max))
        lowest = np.iinfo(np.int64).min
        return cls(
            files,
            pc.fill_null(low, lowest).to_numpy(zero_copy_only=False),
            pc.fill_null(high, lowest).to_numpy(zero_copy_only=False),
            high.null_count == 0,
        )

    def fingerprint(self, boundary: int) -> int | None:
        """The files that may have rows up to a version, as one number; None if rows cannot be counted."""
        if not self.counted:
            return None
        chosen = sorted(
            f"{name} {masked}"
            for name, masked, low in zip(self.names, self.masked.tolist(), self.low.tolist(), strict=True)
            if low <= boundary
        )
        digest = hashlib.sha256("\n".join([str(boundary), *chosen]).encode()).digest()
        return int.from_bytes(digest[:8], "big") & _DIGEST


def _numbers(bounds: pa.Array) -> pa.Array:
    if isinstance(bounds, pa.ChunkedArray):
        bounds = bounds.combine_chunks()
    if pa.types.is_timestamp(bounds.type):
        bounds = bounds.cast(pa.timestamp("us", bounds.type.tz))
    return bounds.cast(pa.int64())
