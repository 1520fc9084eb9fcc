"""A Delta table at a location, and the Delta format.

The brain opens tables with `DeltaFormat` and calls `DeltaTable`. The newest snapshot is kept and
brought up to date by what was committed since: two look-ups if that is nothing. Versions that statements
under way come back to are kept, or made from a kept one by the commits between (`recent.py`).
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from lakemend.errors import CorruptTableError, VersionNotFoundError
from lakemend.formats.delta.assemble import advance, load
from lakemend.formats.delta.changes import DeltaCommitted, commit_info, describe, read_change, respelled
from lakemend.formats.delta.commit_times import in_commit_timestamps_from, require_in_commit_timestamp
from lakemend.formats.delta.log import (
    LAST_CHECKPOINT,
    Listing,
    available,
    choose,
    commit_path,
    find_log,
    list_log,
    version_not_found,
)
from lakemend.formats.delta.recent import CommitFile, RecentCommits
from lakemend.formats.delta.replay import corrupt
from lakemend.formats.delta.snapshot import DeltaSnapshot
from lakemend.formats.feed import Changes, Span
from lakemend.formats.format import Change, Committed, Metadata, Snapshot
from lakemend.formats.leftovers import Leftovers, Needed
from lakemend.formats.restoration import Restoration
from lakemend.formats.upkeep import Checkpointed, LogFacts
from lakemend.shown import time_text
from lakemend.storage import Entry, Store

# Older snapshots that statements under way may have been planned on: a few of any size, more if they are small.
_KEPT, _KEPT_SMALL, _SMALL_FILES = 4, 32, 100_000
# Further from a known version than this, a checkpoint is the shorter way.
_ADVANCED = 32
_HISTORY_BATCH = 64


class DeltaTable:
    """See `format.Table`. May be used from several threads."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self._lock = threading.RLock()
        self._latest: DeltaSnapshot | None = None
        # The newest commit known: as long as it is there, unchanged, the log is the one that was read before.
        self._latest_commit: Entry | None = None
        self._older: OrderedDict[int, DeltaSnapshot] = OrderedDict()
        self._recent = RecentCommits(store)
        self._looks = self._last_look = 0

    def latest(self) -> DeltaSnapshot:
        before = self._looks
        with self._lock:
            known = self._latest
            if known is not None and self._last_look > before:
                return known  # another thread began to look after we asked: it has seen all that we could
            self._looks = look = self._looks + 1
            if known is not None and self._is_the_same_log():
                found = self._updated(known)
            else:
                self._forget()
                found = self._remember(self._load(None))
            self._last_look = look
            return found

    def _forget(self) -> None:
        """Nothing is known, or the log is not the one it was: the table was replaced in its place."""
        self._latest = self._latest_commit = None
        self._older.clear()
        self._recent.forget()

    def _updated(self, known: DeltaSnapshot) -> DeltaSnapshot:
        if self.store.head(commit_path(known.version + 1)) is None:
            return known
        new = self._recent.after(known.version)
        if not new:
            return known
        self._keep(known)
        return self._remember(advance(known, new), new[-1].entry)

    def _remember(self, snapshot: DeltaSnapshot, commit: Entry | None = None) -> DeltaSnapshot:
        self._latest = snapshot
        self._latest_commit = commit or self.store.head(commit_path(snapshot.version))
        return snapshot

    def _keep(self, snapshot: DeltaSnapshot) -> None:
        self._older[snapshot.version] = snapshot
        self._older.move_to_end(snapshot.version)
        files = sum(kept.raw.num_rows for kept in self._older.values())
        while len(self._older) > (_KEPT_SMALL if files <= _SMALL_FILES else _KEPT):
            _, dropped = self._older.popitem(last=False)
            files -= dropped.raw.num_rows

    def _load(self, version: int | None) -> DeltaSnapshot:
        listing = find_log(self.store, version)
        try:
            return load(self.store, listing, choose(self.store, listing, version))
        except CorruptTableError:
            # The hinted checkpoint may be damaged, or clean-up may have overtaken the listing.
            whole = list_log(self.store)
            if whole == listing:
                raise
            return load(self.store, whole, choose(self.store, whole, version))

    def at_version(self, version: int) -> DeltaSnapshot:
        with self._lock:
            if not self._is_the_same_log():
                self._forget()
            if self._latest is not None and self._latest.version == version:
                return self._latest
            found = self._older.get(version) or self._advanced(version) or self._load(version)
            self._keep(found)
            if self._latest_commit is None:
                self._latest_commit = self.store.head(commit_path(version))
            return found

    def reread(self, version: int) -> DeltaSnapshot:
        """A version from the log alone, whatever was known before."""
        with self._lock:
            self._forget()
            return self._load(version)

    def still_holds(self, snapshot: DeltaSnapshot) -> bool:
        """Whether the log is known to be the one that the snapshot was read from."""
        with self._lock:
            latest = self._latest
            return latest is not None and latest.meta.id == snapshot.meta.id and self._is_the_same_log()

    def _advanced(self, version: int) -> DeltaSnapshot | None:
        """The version from the nearest known one before it, if that is the shorter way."""
        known = [s for s in (*self._older.values(), self._latest) if s is not None and s.version < version]
        nearest = max(known, key=lambda s: s.version, default=None)
        if nearest is None or version - nearest.version > _ADVANCED:
            return None
        try:
            files = self._recent.after(nearest.version, version)
        except CorruptTableError:
            return None  # the log may have been cleaned up since: a checkpoint tells more than what is known
        if not files or files[-1].version != version:
            return None
        found = advance(nearest, files)
        if nearest is self._latest:
            self._keep(nearest)
            self._remember(found, files[-1].entry)
        return found

    def _is_the_same_log(self) -> bool:
        commit = self._latest_commit
        return commit is not None and commit.is_same(self.store.head(commit.path))

    def at_timestamp(self, millis: int) -> DeltaSnapshot:
        latest = self.latest()
        listing = list_log(self.store)
        reach = available(listing)
        if reach is None:
            raise version_not_found(self.store, listing, latest.version)
        version = self._version_at(millis, latest, listing, reach[0])
        return latest if version == latest.version else self.at_version(version)

    def _version_at(self, millis: int, latest: DeltaSnapshot, listing: Listing, earliest: int) -> int:
        modified = {v: t for v, t in listing.timestamps().items() if earliest <= v <= latest.version}
        modified.setdefault(latest.version, latest.timestamp)
        if latest.in_commit_timestamps:
            first = in_commit_timestamps_from(latest.meta)
            own = [v for v in sorted(modified) if v >= first]
            found = _last_at_or_before(own, millis, self._own_time)
            if found is not None:
                return found
            modified = {v: t for v, t in modified.items() if v < first}
        found = _last_at_or_before(sorted(modified), millis, modified.__getitem__)
        if found is not None:
            return found
        oldest = min(modified, default=latest.version)
        begin = modified.get(oldest, latest.timestamp)
        raise VersionNotFoundError(
            f"{self.store.url} has no version at or before {time_text(millis, exact=True)} UTC",
            cause=f"the oldest version that can be read is {oldest}, committed at {time_text(begin, exact=True)} UTC; "
            f"the newest is {latest.version}, committed at {time_text(latest.timestamp, exact=True)} UTC",
            remedy="choose a timestamp in that range",
            timestamp=millis,
            earliest=oldest,
            latest=latest.version,
        )

    def _own_time(self, version: int) -> int:
        path = commit_path(version)
        (data,) = self._get([path])
        return require_in_commit_timestamp(commit_info(version, path, data), version)

    def _get(self, paths: Sequence[str]) -> Sequence[bytes]:
        try:
            return self.store.get_many(paths)
        except FileNotFoundError as error:
            raise corrupt(str(error), "it was there when the log was listed and is gone now") from error

    def changes_since(self, version: int) -> list[Committed]:
        base = self.at_version(version)
        changes: list[DeltaCommitted] = []
        modified, redefined = base.modified, False
        for file in self._recent.after(version):
            modified = max(file.entry.modified, modified + 1)
            redefined = bool(changes) and (redefined or changes[-1].metadata_changed)
            changes.append(read_change(base, file, modified, redefined))
        return list[Committed](respelled(changes))

    def row_changes(self, span: Span) -> Changes:
        """See `feed.KeepsChanges`."""
        from lakemend.formats.delta.feed import row_changes

        return row_changes(self, span)

    def leftovers(self, retain: int | None, now: int) -> Leftovers:
        """See `leftovers.KnowsLeftovers`."""
        from lakemend.formats.delta.leftovers import find

        return find(self, retain, now)

    def needed(self, since: int, links: frozenset[str]) -> Needed:
        """See `leftovers.KnowsLeftovers`."""
        from lakemend.formats.delta.leftovers import needed

        return needed(self, since, links)

    def stored_at(self, version: int) -> int:
        """See `leftovers.KnowsLeftovers`: an in-commit timestamp is a writer's."""
        snapshot = self.at_version(version)
        return min(snapshot.timestamp, snapshot.modified)

    def needed_after(self, version: int, links: frozenset[str]) -> Needed:
        """See `leftovers.KnowsLeftovers`."""
        from lakemend.formats.delta.leftovers import needed_after

        return needed_after(self, version, links)

    def restoration(self, head: Snapshot, target: Snapshot) -> Restoration:
        """See `restoration.Restores`."""
        from lakemend.formats.delta.restore import compare

        return compare(head, target)

    def checkpoint(self, *, dry_run: bool = False) -> Checkpointed:
        """See `upkeep.KeepsLog`."""
        from lakemend.formats.delta.log_upkeep import checkpoint

        return checkpoint(self, dry_run=dry_run)

    def log_facts(self) -> LogFacts:
        """See `upkeep.KeepsLog`."""
        from lakemend.formats.delta.log_upkeep import log_facts

        return log_facts(self)

    def commits_after(self, version: int) -> list[CommitFile]:
        return self._recent.after(version)

    def try_commit(self, base: Snapshot | None, change: Change) -> int:
        from lakemend.formats.delta.commit import try_commit

        return try_commit(self, base, change)

    def settle(self, version: int) -> None:
        from lakemend.formats.delta.commit import settle

        settle(self, version)

    def landed(self, token: str, since: int | None) -> bool | None:
        from lakemend.formats.delta.commit import landed

        return landed(self, token, since)

    def history(self, limit: int | None = None) -> list[dict[str, Any]]:
        return list(self._history(limit))

    def _history(self, limit: int | None) -> Iterator[dict[str, Any]]:
        listing = list_log(self.store)
        if listing.latest is None:
            choose(self.store, listing)
        timestamps = listing.timestamps()
        versions = sorted(listing.commits, reverse=True)[: limit if limit is None else max(limit, 0)]
        for start in range(0, len(versions), _HISTORY_BATCH):
            batch = versions[start : start + _HISTORY_BATCH]
            paths = [listing.commits[v].path for v in batch]
            for version, path, data in zip(batch, paths, self._get(paths), strict=True):
                yield describe(version, timestamps[version], commit_info(version, path, data))


def _last_at_or_before(versions: Sequence[int], millis: int, time: Callable[[int], int]) -> int | None:
    """The last version whose time is not after `millis`; times grow with versions."""
    low, high = 0, len(versions)
    while low < high:
        middle = (low + high) // 2
        if time(versions[middle]) <= millis:
            low = middle + 1
        else:
            high = middle
    return versions[low - 1] if low else None


class DeltaFormat:
    """See `format.Format`."""

    name = "delta"

    def recognises(self, store: Store) -> bool:
        if store.head(LAST_CHECKPOINT) is not None or store.head(commit_path(0)) is not None:
            return True
        return list_log(store).latest is not None

    def open(self, store: Store) -> DeltaTable:
        return DeltaTable(store)

    def new_metadata(self, request: dict[str, Any], base: Snapshot | None) -> Metadata:
        from lakemend.formats.delta.metadata import new_metadata

        return new_metadata(request, base)

    def altered_metadata(self, base: Snapshot, changes: Sequence[dict[str, Any]]) -> Metadata:
        from lakemend.formats.delta.alter import altered_metadata

        return altered_metadata(base, changes)

    def check_property(self, key: str, value: str) -> None:
        from lakemend.formats.delta.properties import checked

        checked(key, value)

    def write_settings(self, metadata: Metadata) -> dict[str, Any]:
        from lakemend.formats.delta.metadata import write_settings

        return write_settings(metadata)
