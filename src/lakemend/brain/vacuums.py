"""Vacuums that may still be deleting, as the log tells it.

`vacuum.py` commits VACUUM START before it deletes anything and VACUUM END after; `restore.py` asks here whether files
that it would bring back may be on their way out. A vacuum of ours deletes nothing after `LONGEST`; one that has not
said that it ended within `OVER` was killed.
"""

from __future__ import annotations

import time
from typing import Any

from lakemend.formats.format import Table

START, END, STARTED = "vacuum_start", "vacuum_end", "started"
# Seconds.
LONGEST = 12 * 3600.0
OVER = 24 * 3600.0
_FIRST_LOOK = 64


def open_since(table: Table, now: int | None = None) -> int | None:
    """The time from which on files that were removed are safe from every vacuum under way; None if there is none.

    What was removed before it may be deleted at any moment.
    """
    moment = round(time.time() * 1000) if now is None else now
    ended: set[str] = set()
    ours: dict[str, int] = {}
    others: list[int] = []  # of other engines, whose ends do not tell of which vacuum they are
    for entry in reversed(_since(table, moment - int(OVER * 1000))):
        operation = str(entry.get("operation") or "").lower().replace(" ", "_")
        parameters = entry.get("parameters") or {}
        if operation == END and parameters.get(STARTED):
            ended.add(str(parameters[STARTED]))
        elif operation == END and others:
            others.remove(min(others))  # the one that keeps the most: what may still be deleted is told too much of
        elif operation == START:
            kept = int(entry["timestamp"]) - _retained(parameters)
            if entry.get("engine") == "Lakemend":
                ours[str(entry.get("token"))] = kept
            else:
                others.append(kept)
    under_way = [*others, *(kept for token, kept in ours.items() if token not in ended)]
    return max(under_way, default=None)


def _since(table: Table, oldest: int) -> list[dict[str, Any]]:
    """History that reaches back to a time, newest first."""
    limit = _FIRST_LOOK
    while True:
        entries = table.history(limit)
        if len(entries) < limit or entries[-1]["timestamp"] < oldest:
            return [entry for entry in entries if entry["timestamp"] >= oldest]
        limit *= 4


def _retained(parameters: dict[str, Any]) -> int:
    """Milliseconds for which the vacuum keeps what was removed; other engines may leave out that it is the default."""
    for name in ("specifiedRetentionMillis", "defaultRetentionMillis"):
        try:
            return int(parameters[name])
        except (KeyError, TypeError, ValueError):
            continue
    return 0
