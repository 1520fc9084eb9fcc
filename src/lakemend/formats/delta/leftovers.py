"""Which files below a Delta table no version needs.

`DeltaTable` calls `find` for a vacuum, and `needed` and `needed_after` again right before files are deleted. A version
within the retention is one that was the newest at some time since: it needs the files that are live now, those removed
since, the deletion vectors of both, and the change files of commits made since. When a file was removed, three clocks
tell, and the latest counts: that of the tombstone, and those of the store and of the writer for the commit.

Names that begin with `_` or `.` are nobody's business, as in Delta's own VACUUM, except `_change_data` and directories
of partition columns. A directory that holds a table of its own is not looked into. Of the rest only what the log has
named, or what has a name that writers of Delta give, can be a leftover.
"""

from __future__ import annotations

import os
import posixpath
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from lakemend.formats.below import Below, list_below
from lakemend.formats.delta.deletion_vector import FILE_PREFIX, FILE_SUFFIX, Descriptor
from lakemend.formats.delta.intervals import interval
from lakemend.formats.delta.log import DIRECTORY, list_log
from lakemend.formats.delta.mapping import partition_names
from lakemend.formats.delta.partition_values import decode_path, escape_hive
from lakemend.formats.delta.replay import Commits, one_chunk
from lakemend.formats.delta.snapshot import DeltaSnapshot
from lakemend.formats.leftovers import Kind, Leftover, Leftovers, Needed
from lakemend.locations import local_path
from lakemend.storage import Entry, Store

if TYPE_CHECKING:
    from lakemend.formats.delta.table import DeltaTable

DEFAULT_RETENTION = "interval 1 week"
CHANGE_DATA = "_change_data"
# How many commits are held at once.
_BATCH = 256


def find(table: DeltaTable, retain: int | None, now: int) -> Leftovers:
    # In this order: what is committed between the two look-ups is known to be needed.
    below = list_below(table.store, DIRECTORY)
    snapshot = table.latest()
    snapshot.require_writable()
    retention = interval(snapshot.meta.configuration, "delta.deletedFileRetentionDuration", DEFAULT_RETENTION)
    age = retention if retain is None else retain
    kept = _needed(table, snapshot, now - age, below.links)
    removed = removal_times(snapshot)
    files: list[Leftover] = []
    young = foreign = 0
    for path in _visible(below, snapshot):
        if path in kept:
            continue
        entry, kind = below.entry(path), _kind(path, removed)
        if entry is None:
            continue
        # A time that nobody knows is no age.
        if not 0 < entry.modified <= now - age:
            young += kind is not None
        elif kind is None:
            foreign += 1
        else:
            files.append(Leftover(path, entry.size, entry.modified, kind, removed.get(path)))
    files.sort(key=lambda file: (file.modified, file.path))
    return Leftovers(snapshot.version, retention, age, files, young, foreign, below.links)


def needed(table: DeltaTable, since: int, links: frozenset[str]) -> Needed:
    return _needed(table, table.latest(), since, links)


def needed_after(table: DeltaTable, version: int, links: frozenset[str]) -> Needed:
    head = table.latest()
    found = Needed(head.version, head.meta.id)
    for file in table.commits_after(version):
        if file.version <= head.version:
            _add_commits(found, head, file.commits)
    _add_linked(found, table.store.url, links)
    return found


def _needed(table: DeltaTable, snapshot: DeltaSnapshot, since: int, links: frozenset[str]) -> Needed:
    found = Needed(snapshot.version, snapshot.meta.id)
    _add(found, snapshot, snapshot.raw)
    times = pc.fill_null(snapshot.tombstones.column("deletionTimestamp"), 0)
    _add(found, snapshot, snapshot.tombstones.filter(pc.greater_equal(times, since)))
    for commits in _commits_since(table, snapshot, since):
        _add_commits(found, snapshot, commits)
    _add_linked(found, table.store.url, links)
    return found


def _commits_since(table: DeltaTable, snapshot: DeltaSnapshot, since: int) -> Iterator[Commits]:
    """What was done by commits made since then, as far as the log still has them."""
    listing = list_log(table.store)
    times = listing.timestamps()
    newest_first = sorted(listing.commits, reverse=True)
    recent = [version for version in newest_first if times[version] >= since]
    for start in range(0, len(recent), _BATCH):
        yield _read(table.store, [listing.commits[version] for version in reversed(recent[start : start + _BATCH])])
    if not snapshot.in_commit_timestamps:
        return
    # A commit's own time may be later than that of its file: the two come from different clocks.
    for version in newest_first[len(recent) :]:
        commits = _read(table.store, [listing.commits[version]])
        own = (commits.info.get(version) or {}).get("inCommitTimestamp")
        if not isinstance(own, int) or own < since:
            return
        yield commits


def _read(store: Store, entries: Sequence[Entry]) -> Commits:
    commits = Commits()
    for entry, data in zip(entries, store.get_many([entry.path for entry in entries]), strict=True):
        commits.read(int(entry.path.rsplit("/", 1)[-1][:20]), entry.path, data)
    return commits


def _add_commits(found: Needed, snapshot: DeltaSnapshot, commits: Commits) -> None:
    names = partition_names(snapshot.metadata)
    _add(found, snapshot, commits.adds(names)[0])
    _add(found, snapshot, commits.removes(names)[0])
    _add_paths(found, snapshot, (str(body["path"]) for body in commits.cdc if body.get("path")))


def _add(found: Needed, snapshot: DeltaSnapshot, actions: pa.Table) -> None:
    _add_paths(found, snapshot, actions.column("path").to_pylist())
    for url in _vectors(snapshot, actions):
        _add_url(found, snapshot, url)


def _add_paths(found: Needed, snapshot: DeltaSnapshot, paths: Iterable[str]) -> None:
    for path in paths:
        if "%" in path or ":" in path or "//" in path or "./" in path or path.startswith("/"):
            _add_url(found, snapshot, snapshot.url(path))
            # Not every writer encodes: the spelling itself may be the file's name.
            found.paths.add(path)
        else:
            found.paths.add(path)


def _add_url(found: Needed, snapshot: DeltaSnapshot, url: str) -> None:
    root = snapshot.store.url.rstrip("/") + "/"
    if url.startswith(root):
        found.paths |= {url[len(root) :], posixpath.normpath(url[len(root) :])}
    else:
        # It may be a file of this table all the same: a place has many spellings.
        found.names.add(url.rsplit("/", 1)[-1])


def _vectors(snapshot: DeltaSnapshot, actions: pa.Table) -> Iterator[str]:
    vectors = one_chunk(actions.column("deletionVector"))
    if vectors.null_count == len(vectors):
        return
    for body in vectors.drop_null().to_pylist():
        url = Descriptor.from_json(body).url(snapshot.store.url)
        if url is not None:
            yield url


def _add_linked(found: Needed, url: str, links: frozenset[str]) -> None:
    """Files that the log names by way of a link, under the names they have without."""
    root = local_path(url)
    if root is None or not links:
        return
    real = os.path.realpath(root) + os.sep
    for path in [path for path in found.paths if _leads_over(path, links)]:
        target = os.path.realpath(os.path.join(root, path))
        if target.startswith(real):
            found.paths.add(target[len(real) :])


def _leads_over(path: str, links: frozenset[str]) -> bool:
    parts = path.split("/")
    return any("/".join(parts[: end + 1]) in links for end in range(len(parts)))


def removal_times(snapshot: DeltaSnapshot) -> dict[str, int]:
    """When files left the table, where the log still tells."""
    removed: dict[str, int] = {}
    bodies, times = snapshot.tombstones, snapshot.tombstones.column("deletionTimestamp").to_pylist()
    for path, time in zip(bodies.column("path").to_pylist(), times, strict=True):
        plain = posixpath.normpath(decode_path(path))
        removed[plain] = max(time or 0, removed.get(plain, 0))
    vectors = bodies.column("deletionVector").to_pylist()
    root = snapshot.store.url.rstrip("/") + "/"
    for body, time in zip(vectors, times, strict=True):
        url = None if body is None else Descriptor.from_json(body).url(root)
        if url is not None and url.startswith(root):
            removed[url[len(root) :]] = max(time or 0, removed.get(url[len(root) :], 0))
    return removed


def _visible(below: Below, snapshot: DeltaSnapshot) -> Iterator[str]:
    """The files that can be the table's."""
    names = snapshot.meta.partition_columns
    physical = [field["name"] for field in snapshot.metadata.physical["fields"]]
    partitions = tuple(f"{escape_hive(name)}=" for name in {*names, *physical})
    others = _other_tables(below)
    hidden: dict[str, bool] = {}
    for path in below.files:
        folder, _, name = path.rpartition("/")
        if folder not in hidden:
            hidden[folder] = (folder + "/").startswith(others) or _is_hidden(folder, partitions)
        if not hidden[folder] and name[:1] not in ("", ".", "_"):
            yield path


def _is_hidden(folder: str, partitions: tuple[str, ...]) -> bool:
    parts = folder.split("/")
    inner = parts[1:] if parts[0] == CHANGE_DATA else parts
    return any(part.startswith((".", "_")) and not part.startswith(partitions) for part in inner)


def _other_tables(below: Below) -> tuple[str, ...]:
    """Directories below the table that are tables themselves, of this format or another. The table's own, spelled "",
    is among them if a table of another format lies at the very place: then every file may be its."""
    found = set()
    for path in (*below.directories, *below.links):
        above, _, name = path.rpartition("/")
        if (name == DIRECTORY and above) or name == ".hoodie" or (name == "metadata" and path in below.links):
            found.add(above)
    for path in below.files:
        for mark in (f"/{DIRECTORY}/", "/.hoodie/"):
            at = f"/{path}".find(mark)
            if at > 0 or (at == 0 and mark == "/.hoodie/"):
                found.add(path[: max(at - 1, 0)])
        if path.endswith((".metadata.json", ".metadata.json.gz")):
            above, _, folder = f"/{path}".rpartition("/")[0].rpartition("/")
            if folder == "metadata":
                found.add(above.strip("/"))
    return tuple(f"{directory}/" if directory else "" for directory in found)


def _kind(path: str, removed: dict[str, int]) -> Kind | None:
    """What the file is; None if nothing says that a table's writer made it."""
    name = path.rsplit("/", 1)[-1]
    if path.startswith(CHANGE_DATA + "/"):
        return "changes" if name.endswith(".parquet") else None
    if name.startswith(FILE_PREFIX) and name.endswith(FILE_SUFFIX):
        return "masks"
    return "data" if name.endswith(".parquet") or path in removed else None
