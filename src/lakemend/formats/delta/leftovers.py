"""Which files below a Delta table no version needs.

`DeltaTable.leftovers` calls `find`. A version within `delta.deletedFileRetentionDuration` is one that was the newest
at some time since: it needs the files that are live now, those removed since, the deletion vectors of both, and the
change files of commits made since. Names that begin with `_` or `.` are nobody's business, as in Delta's own VACUUM,
except `_change_data` and directories of partition columns. A directory with a log of its own is another table.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

import pyarrow as pa

from lakemend.formats.delta.deletion_vector import Descriptor
from lakemend.formats.delta.intervals import interval
from lakemend.formats.delta.log import DIRECTORY, list_log
from lakemend.formats.delta.partition_values import escape_hive
from lakemend.formats.delta.replay import Commits
from lakemend.formats.delta.snapshot import DeltaSnapshot
from lakemend.formats.leftovers import Kind, Leftover, Leftovers
from lakemend.storage import Entry, Store

if TYPE_CHECKING:
    from lakemend.formats.delta.table import DeltaTable

DEFAULT_RETENTION = "interval 1 week"
CHANGE_DATA = "_change_data"


def find(table: DeltaTable, older_than: int | None, now: int) -> Leftovers:
    # In this order: what is committed between the two look-ups is known to be needed.
    entries = table.store.list()
    snapshot = table.latest()
    retention = interval(snapshot.meta.configuration, "delta.deletedFileRetentionDuration", DEFAULT_RETENTION)
    age = retention if older_than is None else older_than
    candidates = list(_visible(entries, snapshot))
    needed, removed = _references(snapshot, now - retention)
    if any(entry.path.startswith(CHANGE_DATA + "/") for entry in candidates):
        needed |= _change_files(table.store, snapshot, now - retention)
    unneeded = [entry for entry in candidates if entry.path not in needed]
    old = [entry for entry in unneeded if entry.modified <= now - age]
    files = [Leftover(e.path, e.size, e.modified, _kind(e.path), removed.get(e.path)) for e in old]
    files.sort(key=lambda file: (file.modified, file.path))
    return Leftovers(snapshot.version, retention, age, files, len(unneeded) - len(old))


def _visible(entries: Iterable[Entry], snapshot: DeltaSnapshot) -> Iterator[Entry]:
    """The files that can be the table's."""
    names = snapshot.meta.partition_columns
    physical = [field["name"] for field in snapshot.metadata.physical["fields"]]
    partitions = tuple(f"{escape_hive(name)}=" for name in {*names, *physical})
    every = list(entries)
    mark = f"/{DIRECTORY}/"
    others = tuple({entry.path[: entry.path.index(mark) + 1] for entry in every if mark in entry.path})
    for entry in every:
        if not entry.path.startswith(others) and not any(_is_hidden(p, partitions) for p in entry.path.split("/")):
            yield entry


def _is_hidden(part: str, partitions: tuple[str, ...]) -> bool:
    return part.startswith((".", "_")) and part != CHANGE_DATA and not part.startswith(partitions)


def _references(snapshot: DeltaSnapshot, since: int) -> tuple[set[str], dict[str, int]]:
    """Files that a version since then needs, and when the others were removed, where the log still tells."""
    needed = {path for _, path in _files(snapshot, snapshot.raw)}
    removed: dict[str, int] = {}
    times = snapshot.tombstones.column("deletionTimestamp").to_pylist()
    for row, path in _files(snapshot, snapshot.tombstones):
        time = times[row] or 0
        if time >= since:
            needed.add(path)
        else:
            removed[path] = max(time, removed.get(path, 0))
    return needed, removed


def _files(snapshot: DeltaSnapshot, actions: pa.Table) -> Iterator[tuple[int, str]]:
    """Data and vector files below the table, each with the row of its action."""
    root = snapshot.store.url.rstrip("/") + "/"
    for row, path in enumerate(actions.column("path").to_pylist()):
        url = snapshot.url(path)
        if url.startswith(root):
            yield row, url[len(root) :]
    vectors = actions.column("deletionVector")
    if vectors.null_count == len(vectors):
        return
    for row, body in enumerate(vectors.to_pylist()):
        vector = None if body is None else Descriptor.from_json(body).url(root)
        if vector is not None and vector.startswith(root):
            yield row, vector[len(root) :]


def _change_files(store: Store, snapshot: DeltaSnapshot, since: int) -> set[str]:
    """Change files of commits made since then."""
    listing = list_log(store)
    times = listing.timestamps()
    entries = [entry for version, entry in sorted(listing.commits.items()) if times[version] >= since]
    commits = Commits()
    for entry, data in zip(entries, store.get_many([e.path for e in entries]), strict=True):
        commits.read(int(entry.path.rsplit("/", 1)[-1][:20]), entry.path, data)
    root = snapshot.store.url.rstrip("/") + "/"
    urls = [snapshot.url(body["path"]) for body in commits.cdc if body.get("path")]
    return {url[len(root) :] for url in urls if url.startswith(root)}


def _kind(path: str) -> Kind:
    if path.startswith(CHANGE_DATA + "/"):
        return "changes"
    name = path.rsplit("/", 1)[-1]
    if name.startswith("deletion_vector_") and name.endswith(".bin"):
        return "masks"
    return "data" if name.endswith(".parquet") else "other"
