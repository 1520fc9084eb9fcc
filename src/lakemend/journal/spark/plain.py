"""A journal of plain Parquet files: storage that can only be added to, where claims (`claims.py`) say which files
count.

Files that others have written into the table's own directory, such as a journal made by hand, count as they are.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any, cast
from uuid import uuid4

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql import types as T

from lakemend.errors import CommitConflictError, CorruptTableError, InvalidInputError
from lakemend.journal.spark.claims import DATA, Claims, DataFile, State, conflict
from lakemend.journal.spark.current import current_rows
from lakemend.journal.spark.lake_archive import superseded_rows, united
from lakemend.journal.spark.pinned import Pinned
from lakemend.journal.spark.versions import Versions
from lakemend.locations import for_spark, join
from lakemend.redaction import logger
from lakemend.report import Report
from lakemend.storage import Entry, open_store
from lakemend.table.names import quoted

log = logger(__name__)

_TIMES = "spark.sql.parquet.outputTimestampType"


class PlainStorage:
    """See `pinned.Storage`."""

    def __init__(
        self,
        spark: SparkSession,
        name: str,
        location: str,
        schema: T.StructType,
        key: tuple[str, ...],
        version: str,
        subsequent: str,
        kind: str,
    ) -> None:
        self.spark, self.name = spark, name
        self.key, self.version, self.subsequent = key, version, subsequent
        # Whoever wrote the files may have put a null anywhere.
        self.schema = T.StructType([T.StructField(f.name, f.dataType, True, f.metadata) for f in schema.fields])
        self.versions = Versions.of(kind, schema[version].dataType, name, version)
        self.store = open_store(location)
        self.claims = Claims(self.store)

    def pin(self) -> Pinned:
        return self._pinned(*self._state())

    def _state(self) -> tuple[State, list[Entry]]:
        """What is claimed, and what others have put there; the highest version takes in both."""
        state = self.claims.state()
        others = [entry for entry in self._others() if _seen(entry) not in state.absorbed]
        new = [entry for entry in others if _seen(entry) not in state.seen]
        if new:
            top = self._read(entry.path for entry in new).agg(F.max(quoted(self.version)).alias("v"))
            highest = top.selectExpr(f"{self.versions.number_sql('v')} AS v").collect()[0]["v"]
            known = [number for number in (state.last, highest) if number is not None]
            seen = state.seen | {_seen(entry) for entry in new}
            state = replace(state, last=max(known, default=None), seen=seen)
        return state, others

    def _others(self) -> list[Entry]:
        _, entries = self.store.list_directory()
        return [entry for entry in entries if _is_data(entry.path)]

    def _pinned(self, state: State, others: list[Entry]) -> Pinned:
        by_hand = [entry.path for entry in others]
        settled = [file.path for file in state.journal if file.settled]
        recent = [file.path for file in state.journal if not file.settled]
        journal = self._read([*by_hand, *settled, *recent])
        above = [*by_hand, *recent]
        return Pinned(
            state.number,
            state.last,
            journal,
            self._read(settled) if settled else None,
            self._read(above) if above else None,
            None if by_hand else state.rows,
            None if by_hand else state.unsettled,
            lambda: self._history(state, journal),
            not others and len({path.rsplit("/", 1)[0] for path in recent}) == 1,
            (state, others),
        )

    def _history(self, state: State, journal: DataFrame) -> DataFrame:
        if not state.archive:
            return journal
        archive = self._read(file.path for file in state.archive)
        return united(journal, archive, self.key, self.version, self.subsequent)

    def _read(self, paths: Iterable[str]) -> DataFrame:
        urls = [for_spark(join(self.store.url, path)) for path in paths]
        if not urls:
            return self.spark.createDataFrame([], self.schema)
        # Paths are what they are, and no patterns; a claimed file that is not there, or is none, is an error.
        reader = self.spark.read.schema(self.schema).option("__globPaths__", "false")
        return reader.option("ignoreMissingFiles", "false").option("ignoreCorruptFiles", "false").parquet(*urls)

    def append(self, pinned: Pinned, rows: DataFrame, version: int, operation: str) -> int:
        before, others = cast(tuple[State, list[Entry]], pinned.moment)
        files, count = self._write(rows, operation)
        if pinned.is_empty:
            files = [replace(file, settled=True) for file in files]
        self._require_same(before, others, operation)
        state = replace(
            before,
            number=before.number + 1,
            last=version,
            journal=(*before.journal, *files),
            rows=before.rows + count,
            unsettled=before.unsettled + (0 if pinned.is_empty else count),
        )
        self._claim(before, state, operation, files)
        return state.number

    def _require_same(self, before: State, others: list[Entry], operation: str) -> None:
        known = {_seen(entry) for entry in others} | before.absorbed
        if any(_seen(entry) not in known for entry in self._others()):
            raise conflict(operation, self.store.url, before.number + 1)

    def _write(self, rows: DataFrame, operation: str) -> tuple[list[DataFile], int]:
        """Into a directory of their own, which nobody reads until it is claimed."""
        self._require_microseconds()
        place = f"{DATA}/{uuid4().hex}"
        columns = [F.col(quoted(name)) for name in self.schema.names]
        rows.select(*columns).write.parquet(for_spark(join(self.store.url, place)))
        found = [DataFile(entry.path, entry.size) for entry in self.store.list(place) if _is_data(entry.path)]
        expected, written = rows.count(), self._read(file.path for file in found).count()
        if written != expected:
            raise CorruptTableError(
                f"the {operation} at {self.store.url} wrote {written:,} rows of {expected:,}",
                cause="its files do not hold what Spark was given to write",
                remedy="nothing was changed: look for what else writes into this directory",
                location=self.store.url,
            )
        return found, written

    def _require_microseconds(self) -> None:
        """Versions may be that close together."""
        kept = str(self.spark.conf.get(_TIMES, "INT96")).upper()
        if kept == "TIMESTAMP_MILLIS" and isinstance(self.versions.type, T.TimestampType):
            raise InvalidInputError(
                f"{self.name} cannot be changed where {_TIMES} is {kept}",
                cause="its files would keep times to the millisecond, and its versions are of microseconds",
                remedy=f"set {_TIMES} to TIMESTAMP_MICROS",
                setting=_TIMES,
            )

    def _claim(self, before: State, state: State, operation: str, files: list[DataFile]) -> None:
        try:
            self.claims.claim(before, state, operation)
        except CommitConflictError:
            # The claim is somebody else's, so that these files will never have one.
            self.store.delete([file.path for file in files])
            raise

    def archive(self, retries: int) -> Report:
        for attempt in range(retries + 1):
            try:
                return replace(self._archive(), attempts=attempt + 1)
            except CommitConflictError as error:
                if attempt == retries:
                    raise
                log.info("the archival of %s lost to another statement and runs again: %s", self.name, error)
        raise AssertionError("unreachable")

    def _archive(self) -> Report:
        """The current rows are written again, the others into the archive; one claim puts both in place."""
        before, others = self._state()
        pinned = self._pinned(before, others)
        report = Report("archive", self.name)
        if pinned.is_empty:
            return report
        gone = superseded_rows(pinned, self.key, self.version, self.subsequent, self.name)
        count = gone.count()
        if count == 0 and pinned.recent is None:
            return report
        live, rows = self._write(current_rows(pinned, self.key, self.version, self.subsequent), "archive")
        archived, _ = self._write(gone, "archive") if count else ([], 0)
        if rows + count != pinned.journal.count():
            raise CorruptTableError(
                f"the journal {self.name} cannot be archived",
                cause=f"{rows:,} of its rows are current and {count:,} are not, and that is not all of them",
                remedy="nothing was changed: look for rows that have both key and version in common",
                table=self.name,
            )
        self._require_same(before, others, "archive")
        state = replace(
            before,
            number=before.number + 1,
            journal=tuple(replace(file, settled=True) for file in live),
            archive=(*before.archive, *archived),
            rows=rows,
            unsettled=0,
            absorbed=before.absorbed | {_seen(entry) for entry in others},
        )
        self._claim(before, state, "archive", [*live, *archived])
        files: dict[str, Any] = {"files_added": len(live) + len(archived), "files_removed": len(before.journal)}
        return replace(report, version=state.number, inserted=count, deleted=count, total=rows, **files)


def _is_data(path: str) -> bool:
    """What Spark takes for a file of rows."""
    name = path.rsplit("/", 1)[-1]
    return not name.startswith(("_", ".")) and not name.endswith("._COPYING_")


def _seen(entry: Entry) -> str:
    return f"{entry.path} {entry.size}"
