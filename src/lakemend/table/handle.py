"""What every part of a `Table` needs: which table it is, in which session, at which version, and how a write is run.

The parts (`reading.py`, `writing.py`, `changing.py`, `maintaining.py`) are built on this, and do not know each other.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext, suppress
from typing import TYPE_CHECKING, Any, cast

from py4j.protocol import Py4JNetworkError
from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from lakemend.brain.service import Brain
from lakemend.errors import InvalidInputError, NotATableError, TableError, TableNotFoundError
from lakemend.incoming import to_frame
from lakemend.progress import progress
from lakemend.redaction import redacted
from lakemend.report import Report
from lakemend.session import bars_wanted, brain, running, share_done, timestamp_micros, warehouse_of
from lakemend.session.refusals import mismatch_without_table
from lakemend.table.names import is_bare_path, name_parts, path_in, quoted

if TYPE_CHECKING:
    from lakemend.table import Table

_REQUEST = "lakemend.request"
_LONG = 3.0  # seconds from which on a statement shows how far it is
# The catalog that knows tables by their path alone.
_PATH_CATALOG = "lakemend"


class Handle:
    """One table, present or to be created: found by its name or path whenever it is asked for."""

    def __init__(
        self, spark: SparkSession, where: str, *, version: int | None = None, timestamp: str | None = None
    ) -> None:
        if not isinstance(where, str) or not where.strip():
            raise InvalidInputError(
                f"{where!r} names no table", remedy='pass a name such as "db.orders" or a path', where=str(where)
            )
        self._spark = spark
        self._version = version
        self._timestamp = timestamp
        parts = [] if is_bare_path(where) else name_parts(running(spark, where), where)
        self.path = where if not parts else path_in(parts)
        self.parts = [_PATH_CATALOG, self.path] if self.path else parts
        self.name = ".".join(quoted(part) for part in self.parts)

    @property
    def spark(self) -> SparkSession:
        """The session it was made in; once that is stopped, the one that runs."""
        return running(self._spark, self.path or self.name)

    def _require_session(self) -> None:
        """Raises where no session runs: not even a Column can be made then."""
        running(self._spark, self.path or self.name)

    def exists(self) -> bool:
        """Whether there is a table at this place, of a format that is known."""
        try:
            self._load()
        except (TableNotFoundError, NotATableError):
            return False
        return True

    @property
    def schema(self) -> StructType:
        """The columns, as Spark's types."""
        return StructType.fromJson(self._load()["schema"])

    @property
    def version(self) -> int:
        """The newest version, or the one `as_of` chose."""
        return int(self._load()["version"])

    @property
    def _brain(self) -> Brain:
        return brain()

    @property
    def _table(self) -> Table:
        """The whole that this is a part of."""
        return cast("Table", self)

    def _address(self) -> dict[str, Any]:
        if self.path:
            return {"path": self.path}
        return {
            "catalog": self.parts[0],
            "namespace": self.parts[1:-1],
            "name": self.parts[-1],
            "warehouse": warehouse_of(self.spark, self.parts[0]),
        }

    def _load(self) -> dict[str, Any]:
        request: dict[str, Any] = {"table": self._address()}
        if self._version is not None:
            request["version"] = str(self._version)
        if self._timestamp is not None:
            request["timestamp"] = timestamp_micros(self.spark, self._timestamp)
        return self._brain.ask("load", request)

    def _frame(self, rows: Any, or_else: str = "") -> DataFrame:
        """A DataFrame from what people have: a DataFrame, pandas, Polars, Arrow, or rows as dicts."""
        self._require_newest()
        return to_frame(self.spark, rows, self._columns, or_else)

    def _require_newest(self) -> None:
        if self._version is not None or self._timestamp is not None:
            raise TableError(
                f"{self.name} as of an earlier version is read-only",
                cause="versions do not change; what is written makes a new one of the newest",
                remedy="write to lakemend.table(spark, …) without as_of",
            )

    def _columns(self) -> StructType:
        """The columns of rows that say nothing about themselves."""
        try:
            return self.schema
        except TableNotFoundError as error:
            raise InvalidInputError(
                f"{self.name} cannot be created of no rows",
                cause="nothing says which columns it is to have",
                remedy="pass a frame with columns, or create the table first",
            ) from error

    @contextmanager
    def _named_in_errors(self) -> Iterator[None]:
        """Spark does not say whose columns the values of an UPDATE or a MERGE do not fit."""
        try:
            yield
        except AnalysisException as error:
            unfit = mismatch_without_table(error, self.name)
            if unfit is None:
                raise
            raise unfit from error

    def _run(self, operation: str, statement: Callable[[], object], read_at: int | None = None) -> Report:
        """Runs one write under a request id, by which the brain keeps its report for us.

        `read_at`: the version of which the caller has read every row. The write conflicts with whoever changed one
        since.
        """
        request = uuid.uuid4().hex
        context = self.spark.sparkContext
        before = context.getLocalProperty(_REQUEST)
        context.setLocalProperty(_REQUEST, request)
        started = time.perf_counter()
        shown, label = bars_wanted(self.spark), f"{operation} {redacted(self.path or self.name)}"
        try:
            having_read = nullcontext() if read_at is None else self._brain.having_read(request, read_at)
            bar = progress(label, 1.0, shown, running=share_done(self.spark), after=_LONG)
            with having_read, bar, self._named_in_errors():
                statement()
        finally:
            # An interrupt has ended the JVM's thread, and with it its properties.
            with suppress(Py4JNetworkError):
                context.setLocalProperty(_REQUEST, cast(str, before))
        report = self._brain.pop_report(request)
        if report is None:
            report = Report(operation=operation, table=self.name, version=None)
        return report.timed(time.perf_counter() - started)
