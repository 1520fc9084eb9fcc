"""Versions of journaled tables as numbers that can be compared and counted on, and as SQL of Spark.

A BIGINT version is its own number; that of a TIMESTAMP is its microseconds since the epoch. The storages give out
numbers, the statements get them as expressions that do not depend on the session's time zone.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from pyspark.sql import types as T

from lakemend.errors import JournalModelError

_EPOCH = datetime(1970, 1, 1)
_MILLISECOND = 1000
_TYPES: dict[str, tuple[type[T.DataType], ...]] = {
    "BIGINT": (T.LongType,),
    "TIMESTAMP": (T.TimestampType, T.TimestampNTZType),
}


@dataclass(frozen=True)
class Versions:
    """How one journal counts."""

    kind: str
    type: T.DataType

    @classmethod
    def of(cls, kind: str, type: T.DataType, journal: str, column: str) -> Versions:
        if not isinstance(type, _TYPES[kind]):
            raise JournalModelError(
                f"the versions of {journal} are {type.simpleString().upper()}, and those of the model {kind}",
                cause=f"the column {column} of {journal} has another type than journalVersionType says",
                remedy=f"write journalVersionType: {_kind_of(type)}" if _kind_of(type) else "give the column that type",
                journal=journal,
                column=column,
            )
        return cls(kind, type)

    def next(self, last: int | None, now: float | None = None) -> int:
        """A number above every one that was given so far."""
        if self.kind == "BIGINT":
            return 1 if last is None else last + 1
        clock = int((time.time() if now is None else now) * 1_000_000)
        return clock if last is None else max(clock, last + 1)

    def boundary(self, last: int) -> int:
        """From `last` up: a number that statistics can tell later versions from. They cut times to milliseconds."""
        return last if self.kind == "BIGINT" else (last // _MILLISECOND + 2) * _MILLISECOND

    def after(self, boundary: int) -> int:
        """The highest number that may stand in the way of the next one once a boundary was drawn."""
        return boundary if self.kind == "BIGINT" else boundary + 2 * _MILLISECOND

    def sql(self, number: int) -> str:
        """The version as an expression."""
        if self.kind == "BIGINT":
            return f"CAST({number} AS BIGINT)"
        if isinstance(self.type, T.TimestampNTZType):
            return f"TIMESTAMP_NTZ '{_EPOCH + timedelta(microseconds=number)}'"
        return f"timestamp_micros(CAST({number} AS BIGINT))"

    def number_sql(self, column: str) -> str:
        """A column of versions as numbers."""
        if self.kind == "BIGINT":
            return column
        if isinstance(self.type, T.TimestampNTZType):
            return f"timestampdiff(MICROSECOND, TIMESTAMP_NTZ '1970-01-01 00:00:00', {column})"
        return f"unix_micros({column})"

    def shown(self, number: int) -> int | str:
        """For reports: the number, or the time in UTC."""
        if self.kind == "BIGINT":
            return number
        at = _EPOCH + timedelta(microseconds=number)
        return str(at) if isinstance(self.type, T.TimestampNTZType) else at.replace(tzinfo=UTC).isoformat(sep=" ")


def _kind_of(type: T.DataType) -> str | None:
    return next((kind for kind, types in _TYPES.items() if isinstance(type, types)), None)
