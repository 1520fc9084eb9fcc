"""Opens tables: a location or an identity of the wire becomes a format and a table of it.

Every operation of the brain and the CLI comes through here. Tables stay open in a cache keyed by
normalised location, so a second look costs what changed since; a few snapshots stay with them, so
that the steps of one statement see one version. Threads share all of it under one lock; nothing is
read from storage while the lock is held.
"""

from __future__ import annotations

import os
import posixpath
import re
import threading
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, field

from lakemend.brain.frames import Frames
from lakemend.errors import CorruptTableError, NotATableError, TableNotFoundError, VersionNotFoundError
from lakemend.formats.format import Format, Snapshot, Table
from lakemend.locations import local_path, normalise
from lakemend.redaction import logger
from lakemend.storage import Entry, Store, open_store

log = logger(__name__)

# Data files of a write that makes its table; the connector names them so (write/DataFile.scala).
FIRST_WRITE = re.compile(r"\.?part-\d{5,}-[0-9a-f-]{36}-first(\.\w+)*\.parquet(\.crc)?")
_OPEN_TABLES = 64
_SNAPSHOTS_PER_TABLE = 3


@dataclass
class OpenTable:
    """A table at a location, with the snapshots that statements under way may come back to."""

    format: Format
    table: Table
    location: str
    _snapshots: OrderedDict[tuple[int, str], Snapshot] = field(default_factory=OrderedDict)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def latest(self) -> Snapshot:
        return self._kept(self.table.latest)

    def at_version(self, version: int) -> Snapshot:
        """A version as the log has it now."""
        return self._kept(lambda: self.table.at_version(version))

    def at_timestamp(self, millis: int) -> Snapshot:
        return self._kept(lambda: self.table.at_timestamp(millis))

    def pinned(self, version: int, table_id: str | None = None) -> Snapshot:
        """The snapshot a statement has loaded before, or the version from the log.

        `table_id` is that of the table the statement began on: a version of another one, which has taken its
        place since, is not found.
        """
        with self._lock:
            for key in reversed(self._snapshots):
                if key[0] == version and table_id in (None, key[1]):
                    self._snapshots.move_to_end(key)
                    return self._snapshots[key]
        found = self.at_version(version)
        if table_id is not None and found.metadata.id != table_id:
            raise VersionNotFoundError(
                f"version {version} of the table at {self.location} is gone",
                cause=f"the table with the id {table_id} was dropped while the statement ran, and one with the id "
                f"{found.metadata.id} created in its place",
                remedy="run the statement again",
                version=version,
                table_id=table_id,
            )
        return found

    def _kept(self, find: Callable[[], Snapshot]) -> Snapshot:
        try:
            snapshot = find()
        except CorruptTableError as error:
            # A log names its files by their place in the table alone.
            raise error.at(self.location) from error.__cause__
        with self._lock:
            key = (snapshot.version, snapshot.metadata.id)
            self._snapshots[key] = snapshot
            self._snapshots.move_to_end(key)
            while len(self._snapshots) > _SNAPSHOTS_PER_TABLE:
                self._snapshots.popitem(last=False)
        return snapshot


class Tables:
    """Every table opened so far."""

    def __init__(self, formats: dict[str, Format]) -> None:
        self.formats = formats
        self.frames = Frames()
        self._open: OrderedDict[str, OpenTable] = OrderedDict()
        self._lock = threading.Lock()

    def known(self, location: str) -> OpenTable | None:
        """The table if it was opened before; whether it is still there, its next look at the log shows."""
        url = normalise(location)
        with self._lock:
            if url in self._open:
                self._open.move_to_end(url)
            return self._open.get(url)

    def find(self, location: str) -> OpenTable | None:
        """The table at a location, None if no format recognises one there now."""
        url = normalise(location)
        known = self.known(url)
        if known is not None:
            if known.format.recognises(known.table.store):
                return known
            self.forget(url)
        store = open_store(url)
        for format in self.formats.values():
            if format.recognises(store):
                return self.remember(OpenTable(format, format.open(store), url))
        return None

    def is_table(self, location: str) -> bool:
        """Whether a table lies there, without opening it."""
        store = open_store(location)
        return any(format.recognises(store) for format in self.formats.values())

    def open(self, location: str) -> OpenTable:
        """The table at a location, or the error that says what lies there instead."""
        found = self.known(location) or self.find(location)
        if found is None:
            raise self.nothing_at(location)
        return found

    def remember(self, opened: OpenTable) -> OpenTable:
        with self._lock:
            winner = self._open.setdefault(opened.location, opened)
            while len(self._open) > _OPEN_TABLES:
                self._open.popitem(last=False)
        return winner

    def forget(self, location: str) -> None:
        with self._lock:
            self._open.pop(normalise(location), None)

    def nothing_at(self, location: str, name: str | None = None) -> TableNotFoundError | NotATableError:
        """The error for a location without a table."""
        url = normalise(location)
        called = f"table {name}" if name else f"{url}"
        store = open_store(url)
        if not store.exists():
            return TableNotFoundError(
                f"{called} does not exist",
                cause=f"nothing lies at {url}" if name else "nothing lies there",
                remedy="check the spelling, or create the table",
                location=url,
            )
        cause = describe(store)
        parent = self._table_above(url)
        return NotATableError(
            f"{called} is not a table",
            cause=f"{cause}{f'; it lies inside the table at {parent}' if parent else ''}",
            remedy=f"open {parent} and filter"
            if parent
            else f"point at a directory with a {self._names()} table in it",
            location=url,
        )

    def _names(self) -> str:
        return " or ".join(self.formats)

    def _table_above(self, url: str) -> str | None:
        above = url
        for _ in range(4):
            above = posixpath.dirname(above)
            if above.count("/") < 4:
                return None
            if self.is_table(above):
                return above
        return None


def describe(store: Store) -> str:
    """What lies at a place that holds no table, in a few words."""
    path = local_path(store.url)
    directories, entries = store.list_directory()
    if not directories and not entries:
        return "it is a file" if path is not None and os.path.isfile(path) else "the directory is empty"
    names = [*(f"{name}/" for name in directories), *(entry.path for entry in entries)]
    parquet = sum(entry.path.endswith(".parquet") for entry in entries)
    shown = ", ".join(names[:3]) + (", …" if len(names) > 3 else "")
    kind = f"a directory with {parquet} Parquet files and no table log" if parquet else "a directory"
    return f"{kind}: {shown}"


def is_vacant(store: Store) -> bool:
    """Whether a new table may be made here: nothing lies there but names that start with `_` or `.`, and what a writer
    left that died before it had made the table. Its files belong to no version, here or elsewhere."""
    if not store.exists():
        return True
    path = local_path(store.url)
    directories, entries = store.list_directory()
    if not directories and not entries and path is not None:
        return not os.path.isfile(path)
    shown = [name for name in directories if not name.startswith(("_", "."))]
    if any("=" not in name for name in shown) or not all(_is_debris(entry) for entry in entries):
        return False
    return all(_is_debris(entry) for name in shown for entry in store.list(name))


def _is_debris(entry: Entry) -> bool:
    """Of hidden names, of the first write to a table, or an object that stands for a partition's directory."""
    name = posixpath.basename(entry.path)
    if entry.path.startswith(("_", ".")) or FIRST_WRITE.fullmatch(name):
        return True
    return not entry.size and "=" in name


def version_number(text: str | int) -> int:
    """A version as the wire spells it."""
    try:
        number = int(text)
    except ValueError:
        number = -1
    if number < 0:
        raise VersionNotFoundError(
            f"{text!r} is not a version",
            cause="versions are whole numbers from 0",
            remedy="see the table's history",
            version=str(text),
        )
    return number
