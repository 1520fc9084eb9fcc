"""Which frames Spark may go on using when the columns of their table have changed.

Spark looks the table of a frame up again when the frame is run, and refuses the frame if the table's id is another one
or if a column is gone. It knows columns by their names: after `a` and `b` were swapped by RENAME, or `a` was dropped
and added again, the frame would show another column's values under the old name. So the id that Spark is told changes
whenever a name comes to mean another column, and with the session's time zone where the table holds local times. Frames
live in this process, and so does what it takes to know.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from lakemend.formats import char_types
from lakemend.formats.format import Metadata, Snapshot
from lakemend.formats.zone import in_zone, zone_name
from lakemend.schema import find

_TABLES = 10_000

Meanings = dict[str, str]


@dataclass
class _Seen:
    version: int
    metadata: Metadata
    meanings: Meanings
    changes: int


class Frames:
    """What the column names of each table have meant so far."""

    def __init__(self, tables: int = _TABLES) -> None:
        self._tables = tables
        self._seen: OrderedDict[tuple[str, str], _Seen] = OrderedDict()
        self._forgotten = 0
        self._lock = threading.Lock()

    def id_of(self, place: str, version: int, metadata: Metadata) -> str:
        """The table's id as Spark is told it, for the newest version of a table."""
        with self._lock:
            seen = self._note((place, metadata.id), version, metadata)
        return metadata.id if seen.changes == 0 else f"{metadata.id}/{seen.changes}"

    def _note(self, key: tuple[str, str], version: int, metadata: Metadata) -> _Seen:
        seen = self._seen.get(key)
        if seen is None:
            # After a table was forgotten its frames are refused, for nobody knows any more what its names meant.
            seen = self._seen[key] = _Seen(version, metadata, dict(_meanings(metadata)), self._forgotten)
            while len(self._seen) > self._tables:
                self._forgotten = max(self._forgotten, self._seen.popitem(last=False)[1].changes) + 1
        elif version > seen.version and metadata is not seen.metadata:
            now = dict(_meanings(metadata))
            if any(seen.meanings.get(name, meaning) != meaning for name, meaning in now.items()):
                seen.changes += 1
            # Names that are gone stay known: they may come back.
            seen.meanings = {**seen.meanings, **now}
            seen.version, seen.metadata = version, metadata
        self._seen.move_to_end(key)
        return seen


def zone_of_partitions(snapshot: Snapshot) -> str:
    """The session's time zone where partition values are local times, else nothing.

    Spark shares the rows it has cached between sessions, by the table's name and id; in another zone they are others.
    """
    fields = [find(snapshot.metadata.schema, part.source) for part in snapshot.metadata.partitioning]
    if not any(field is not None and field["type"] == "timestamp" for field in fields):
        return ""
    here = snapshot.files["partition"]
    with in_zone("UTC"):
        there = snapshot.files["partition"]
    return "" if here.equals(there) else f"@{zone_name()}"


def _meanings(metadata: Metadata) -> Iterator[tuple[str, str]]:
    """Each column by its path: its name in the data files, and the length it is filled up to."""
    for field, stored in zip(metadata.schema["fields"], metadata.physical["fields"], strict=True):
        yield field["name"].lower(), f"{stored['name']} {(field.get('metadata') or {}).get(char_types.KEY, '')}"
        yield from _within(field["type"], stored["type"], field["name"].lower())


def _within(type: Any, stored: Any, path: str) -> Iterator[tuple[str, str]]:
    if not isinstance(type, dict):
        return
    if type.get("type") == "struct":
        for field, below in zip(type["fields"], stored["fields"], strict=True):
            inner = f"{path}\0{field['name'].lower()}"
            yield inner, below["name"]
            yield from _within(field["type"], below["type"], inner)
    for part in ("elementType", "keyType", "valueType"):
        if part in type:
            yield from _within(type[part], stored[part], f"{path}\0{part}")
