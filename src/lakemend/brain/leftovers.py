"""`vacuum`: which files of a table no version needs any more.

`Table.vacuum` and `lakemend vacuum` call this through the service. It only looks; what is found is
the `plan` of the report, and whoever deletes files will start from it.
"""

from __future__ import annotations

import re
import time
from datetime import timedelta
from typing import Any

from lakemend.brain.tables import OpenTable
from lakemend.errors import InvalidInputError, UnsupportedFeatureError
from lakemend.formats.leftovers import KnowsLeftovers, Leftovers
from lakemend.report import Report

_UNITS = {"s": 1, "second": 1, "m": 60, "minute": 60, "h": 3600, "hour": 3600, "d": 86_400, "day": 86_400}
_UNITS |= {"w": 7 * 86_400, "week": 7 * 86_400}


def require_dry_run(dry_run: bool) -> None:
    if not dry_run:
        raise InvalidInputError(
            "vacuum does not delete files yet",
            cause="only its dry run exists, which lists the files that no version needs",
            remedy="ask for the dry run: vacuum(dry_run=True), or lakemend vacuum --dry-run",
        )


def milliseconds(age: str | timedelta | None) -> int | None:
    """`12 hours`, `90m`, `0` (of whatever unit) or a timedelta; None stays None."""
    if age is None:
        return None
    if isinstance(age, timedelta):
        seconds = age.total_seconds()
    else:
        match = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([a-z]*)", age.strip().lower())
        unit = 0 if match is None else _UNITS.get(match[2]) or _UNITS.get(match[2].removesuffix("s"))
        if match is not None and not match[2] and float(match[1]) == 0:
            unit = 1
        if match is None or not unit:
            raise InvalidInputError(
                f"{age!r} is not an age",
                cause="an age is a number and a unit: seconds, minutes, hours, days or weeks",
                remedy='say for example "12 hours" or "7 days"',
                age=age,
            )
        seconds = float(match[1]) * unit
    if seconds < 0:
        raise InvalidInputError(f"an age of {age} makes no sense", remedy="pass 0 or more", age=str(age))
    return round(seconds * 1000)


def look(opened: OpenTable, name: str, older_than: str | timedelta | None, now: int | None = None) -> Report:
    """The dry run of a vacuum: files no version within the table's retention refers to, older than `older_than`."""
    table = opened.table
    if not isinstance(table, KnowsLeftovers):
        raise UnsupportedFeatureError(
            f"{name} cannot be vacuumed",
            cause=f"Lakemend does not know what the files of a {opened.format.name} table are for",
            remedy="use the tools of that format",
        )
    moment = round(time.time() * 1000) if now is None else now
    found = table.leftovers(milliseconds(older_than), moment)
    return Report(
        operation="vacuum",
        table=name,
        dry_run=True,
        files_removed=len(found.files),
        bytes_removed=sum(file.size for file in found.files),
        plan=_plan(found, moment),
    )


def _plan(found: Leftovers, now: int) -> dict[str, Any]:
    return {
        "version": found.version,
        "retention": found.retention / 1000,
        "older_than": found.older_than / 1000,
        "younger": found.young,
        "files": [
            {
                "path": file.path,
                "kind": file.kind,
                "size": file.size,
                "modified": file.modified,
                "age": (now - file.modified) / 1000,
                "removed": file.removed,
            }
            for file in found.files
        ],
    }
