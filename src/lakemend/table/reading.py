"""How a `Table` is read: its rows, as a DataFrame or in Arrow, and what is known of it without a Spark job."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import date, datetime
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from lakemend.advice import JoinAdvice
from lakemend.errors import InvalidInputError
from lakemend.formats.zone import in_zone
from lakemend.session import join_settings
from lakemend.shown import Facts, Records
from lakemend.table.handle import Handle
from lakemend.table.names import column_names, quoted

if TYPE_CHECKING:
    from lakemend.table import Table


class Reading(Handle):
    """What a table says, and changes nothing."""

    def to_df(self) -> DataFrame:
        """The table as a DataFrame, at the version this object stands for."""
        self._load()
        reader = self.spark.read
        if self._version is not None:
            reader = reader.option("versionAsOf", self._version)
        if self._timestamp is not None:
            reader = reader.option("timestampAsOf", self._timestamp)
        return reader.table(self.name)

    def to_arrow(self, columns: str | Sequence[str] | None = None, where: str | Column | None = None) -> pa.Table:
        """The table, or some of its columns and rows, in this process's memory."""
        frame = self.to_df()
        if where is not None:
            frame = frame.where(where)
        if columns is not None:
            names = column_names(columns)
            frame = frame.select(*[F.col(quoted(c)) if c in frame.columns else F.col(c) for c in names])
        return frame.toArrow()

    def as_of(self, version: int | None = None, timestamp: str | datetime | date | None = None) -> Table:
        """The table as it was at a version, or at the newest version not after a timestamp."""
        if (version is None) == (timestamp is None):
            raise InvalidInputError(
                "as_of needs a version or a timestamp, and not both",
                remedy="call as_of(version=3) or as_of(timestamp='2026-01-31 12:00:00')",
            )
        if version is not None and (isinstance(version, bool) or not isinstance(version, int) or version < 0):
            raise InvalidInputError(
                f"{version!r} is not a version", remedy="versions are 0, 1, 2, …; history() lists them"
            )
        text: str | None = None
        if timestamp is not None:
            text = timestamp.isoformat(sep=" ") if isinstance(timestamp, datetime) else str(timestamp).strip()
            if not text or not isinstance(timestamp, str | date):
                raise InvalidInputError(
                    f"{timestamp!r} is not a timestamp",
                    remedy="pass a datetime, a date, or text such as '2026-01-31 12:00:00'",
                )
        return type(self._table)(self.spark, self.path or self.name, version=version, timestamp=text)

    def history(self, limit: int | None = None) -> list[dict[str, Any]]:
        """What was done to the table, newest first. Needs no Spark job."""
        return Records(self._brain.history(self._address(), limit))

    def files(self) -> pa.Table:
        """The data files of this version with their sizes, rows and partition values. Needs no Spark job."""
        with in_zone(self.spark.conf.get("spark.sql.session.timeZone")):
            return self._brain.files(self._address(), int(self._load()["version"]))

    def detail(self) -> dict[str, Any]:
        """Location, format, schema, partitioning, properties, sizes and features. Needs no Spark job."""
        return Facts(self._brain.detail(self._address(), int(self._load()["version"])))

    def join_advice(
        self,
        other: Table | str,
        on: str | Sequence[str | tuple[str, str]],
        *,
        options: Mapping[str, str] | None = None,
    ) -> JoinAdvice:
        """Whether an inner join with another table would shuffle rows in this session, and what stands in the way.

        `on` is a column, a list of columns, or a list of (left, right) pairs; `options` are those of both reads.
        Needs no Spark job.
        """
        tables = self, other if isinstance(other, Reading) else type(self)(self.spark, other)
        left, right = ((table._address(), int(table._load()["version"])) for table in tables)
        return self._brain.join_advice(left, right, on, join_settings(self.spark, options))
