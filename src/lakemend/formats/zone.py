"""How the session whose request is being answered reads stored values: its time zone, and whether CHAR values are
filled up with blanks.

The brain sets it for each request and each call from Python; a format asks for the zone where a stored value is a local
time: Delta's timestamp partition values without a zone. CHAR partition values that another writer stored without
blanks are filled up, as Spark does it to columns. Whatever is kept of such values is kept for each way of reading.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from datetime import UTC, timedelta, timezone, tzinfo
from zoneinfo import ZoneInfo

from lakemend.errors import SessionError

_OFFSET = re.compile(r"(?:UTC|GMT|UT)?([+-])(\d{1,2})(?::?(\d{2}))?(?::?(\d{2}))?")
_name: ContextVar[str] = ContextVar("lakemend_zone", default="UTC")
_padded: ContextVar[bool] = ContextVar("lakemend_padded", default=False)


@contextmanager
def in_zone(name: str | None) -> Iterator[None]:
    """Local times are read in this zone, as Java names it; None leaves it as it is."""
    token = _name.set(name or _name.get())
    try:
        yield
    finally:
        _name.reset(token)


@contextmanager
def padding_chars(padded: bool) -> Iterator[None]:
    token = _padded.set(padded)
    try:
        yield
    finally:
        _padded.reset(token)


def chars_are_padded() -> bool:
    return _padded.get()


def zone_name() -> str:
    return _name.get()


def zone() -> tzinfo:
    name = zone_name()
    if name in ("UTC", "Z", "GMT", "UT", "Etc/UTC"):
        return UTC
    if found := _OFFSET.fullmatch(name):
        sign, hours, minutes, seconds = found.groups(default="0")
        offset = timedelta(hours=int(hours), minutes=int(minutes), seconds=int(seconds))
        return timezone(-offset if sign == "-" else offset)
    try:
        return ZoneInfo(name)
    except (KeyError, ValueError, OSError) as error:
        raise SessionError(
            f"the time zone {name!r} of the session is unknown to Python",
            cause="the table has timestamps without a zone, which are in the session's",
            remedy="install the package tzdata, or set spark.sql.session.timeZone to a zone such as UTC or +02:00",
            zone=name,
        ) from error
