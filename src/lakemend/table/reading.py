"""How a `Table` is read: its rows, as a DataFrame or in Arrow, and what is known of it without a Spark job."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from datetime import date, datetime
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyspark.errors import AnalysisException
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StringType, StructField, StructType

from lakemend.advice import JoinAdvice
from lakemend.errors import InvalidInputError
from lakemend.formats.zone import in_zone
from lakemend.session import join_settings
from lakemend.session.refusals import not_understood
from lakemend.shown import Facts, Records
from lakemend.table.handle import Handle
from lakemend.table.names import column_names, quoted

if TYPE_CHECKING:
    from lakemend.table import Table

# The metadata column with a file's location.
_FILE = "_file"


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

    def to_arrow(
        self,
        columns: str | Sequence[str] | None = None,
        where: str | Column | None = None,
        *,
        include_file_path: bool = False,
    ) -> pa.Table:
        """The table, or some of its columns and rows, in this process's memory.

        `include_file_path` adds the column `_file`, the location of the file that a row lies in. Without a condition
        Arrow reads the files itself, and no Spark job runs, unless a value could look otherwise than in Spark.
        """
        names = None if columns is None else column_names(columns)
        if include_file_path:
            self._require_no_column_of_files()
        found = self._read_by_arrow(names, include_file_path) if where is None else None
        if found is not None:
            return found
        frame = self.to_df()
        if where is not None:
            frame = frame.where(where)
        if names is not None or include_file_path:
            own = frame.columns
            chosen = [F.col(quoted(c)) if c in own else F.col(c) for c in (own if names is None else names)]
            try:
                frame = frame.select(*chosen, *([F.col(_FILE)] if include_file_path else []))
            except AnalysisException as error:
                raise not_understood(error, "columns", self.name, own) from error
        found = frame.toArrow()
        if include_file_path:
            # What Spark says of a metadata column is for Spark.
            plain = found.schema.field(found.num_columns - 1).remove_metadata()
            found = found.set_column(found.num_columns - 1, plain, found.column(found.num_columns - 1))
        return found

    def _read_by_arrow(self, names: list[str] | None, include_file_path: bool) -> pa.Table | None:
        """What Spark would answer, types and all; None where it has to."""
        loaded, conf = self._load(), self.spark.conf
        schema = StructType.fromJson(loaded["schema"])
        chosen = schema.names if names is None else names
        if len(set(chosen)) < len(chosen) or not set(chosen) <= set(schema.names):
            return None
        zone, file_column = conf.get("spark.sql.session.timeZone"), _FILE if include_file_path else None
        found = self._brain.every_row(self._address(), int(loaded["version"]), chosen, file_column, str(zone))
        if found is None:
            return None
        fields = [schema[name] for name in chosen]
        fields += [StructField(_FILE, StringType(), False)] if include_file_path else []
        large = conf.get("spark.sql.execution.arrow.useLargeVarTypes") == "true"
        with suppress(pa.ArrowException):
            return found.cast(to_arrow_schema(StructType(fields), timezone="UTC", prefers_large_types=large))
        return None

    def _require_no_column_of_files(self) -> None:
        own = next((name for name in self.schema.names if name.lower() == _FILE), None)
        if own is not None:
            raise InvalidInputError(
                f"the files of {self.name} cannot be told beside its rows",
                cause=f"the table's own column {own} has the name that the column of locations would have",
                remedy="leave include_file_path out, or rename the column first",
                column=own,
            )

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
