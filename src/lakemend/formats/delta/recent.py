"""The newest commit files of a log, each found and read once.

The table asks for what came after a version, to bring a snapshot up to date and to tell the conflict rules
what other writers did: the same few files, by every writer in this process. A commit file never changes
once it is there, so what was read stays; `forget` is for a log that was replaced in its place.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property

import pyarrow as pa

from lakemend.formats.delta.log import broken_after, commit_path, commits_after
from lakemend.formats.delta.replay import Commits, corrupt
from lakemend.formats.delta.stats import JsonStats
from lakemend.storage import Entry, Store

_KEPT_BYTES = 8 << 20
# A local disk lists the whole directory however few of its files are asked for.
_PROBES = 16


@dataclass(frozen=True)
class CommitFile:
    """One commit file, and its actions once somebody has asked for them."""

    version: int
    entry: Entry
    data: bytes
    _actions: dict[tuple[str, ...], CommitActions] = field(default_factory=dict, compare=False, repr=False)

    @cached_property
    def commits(self) -> Commits:
        found = Commits()
        found.read(self.version, self.entry.path, self.data)
        return found

    def actions(self, partition_names: Sequence[str]) -> CommitActions:
        names = tuple(partition_names)
        found = self._actions.get(names)
        if found is None:
            adds, strings, _ = self.commits.adds(names)
            removes, _ = self.commits.removes(names)
            found = self._actions[names] = CommitActions(self.commits, adds, JsonStats(strings, len(adds)), removes)
        return found


@dataclass(frozen=True, slots=True)
class CommitActions:
    """What one commit did: rare actions in `commits`, the others as tables of `replay.py`."""

    commits: Commits
    adds: pa.Table
    stats: JsonStats
    removes: pa.Table


class RecentCommits:
    """May be used from several threads: two may read one file twice, and nothing else comes of it."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._files: OrderedDict[int, CommitFile] = OrderedDict()
        self._bytes = 0
        self._forgotten = 0  # how often: what was read before belongs to another table
        self._lock = threading.Lock()

    def after(self, version: int, last: int | None = None) -> list[CommitFile]:
        """The commits after a version (up to `last`), oldest first; CorruptTableError if one is missing between."""
        began = self._forgotten
        found = self._known(version, last)
        at = found[-1].version if found else version
        if last is not None and at >= last:
            return found
        entries = self._new_entries(at, last)
        try:
            datas = self._store.get_many([entry.path for entry in entries])
        except FileNotFoundError as error:
            raise corrupt(str(error), "it was there when the log was listed and is gone now") from error
        new = [CommitFile(n, e, d) for n, (e, d) in enumerate(zip(entries, datas, strict=True), at + 1)]
        self._keep(new, began)
        return found + new

    def forget(self) -> None:
        with self._lock:
            self._files.clear()
            self._bytes = 0
            self._forgotten += 1

    def _known(self, version: int, last: int | None) -> list[CommitFile]:
        found: list[CommitFile] = []
        with self._lock:
            at = version + 1
            while (file := self._files.get(at)) is not None and (last is None or at <= last):
                found.append(file)
                at += 1
        return found

    def _keep(self, new: list[CommitFile], began: int) -> None:
        with self._lock:
            for file in new if began == self._forgotten else ():
                if file.version not in self._files:
                    self._files[file.version] = file
                    self._bytes += len(file.data)
            while self._bytes > _KEPT_BYTES:
                _, oldest = self._files.popitem(last=False)
                self._bytes -= len(oldest.data)

    def _new_entries(self, version: int, last: int | None) -> list[Entry]:
        most = None if last is None else last - version
        if not self._store.url.startswith("file:"):
            return commits_after(self._store, version)[:most]
        entries: list[Entry] = []
        while len(entries) < _PROBES and len(entries) != most:
            at = version + len(entries) + 1
            entry = self._store.head(commit_path(at))
            if entry is None:
                if self._store.head(commit_path(at + 1)) is not None and self._store.head(commit_path(at)) is None:
                    raise broken_after(self._store, at - 1)
                return entries
            entries.append(entry)
        return entries if len(entries) == most else (entries + commits_after(self._store, version + _PROBES))[:most]
