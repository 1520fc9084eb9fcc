"""The files of `_delta_log`: which there are, and which make up a version.

The table and the snapshot call this. One listing, begun at the checkpoint `_last_checkpoint` hints
at, tells everything; the hint may be missing, stale or damaged and is never trusted beyond that.
A version's *segment* is a complete checkpoint (or none) and every commit after it, in which logs
compacted by other writers may stand for several commits. A gap is a CorruptTableError naming the file.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

import orjson

from lakemend.errors import CorruptTableError, NotATableError, StorageError, VersionNotFoundError
from lakemend.redaction import logger
from lakemend.storage import Entry, Store

log = logger(__name__)

DIRECTORY = "_delta_log"
LAST_CHECKPOINT = f"{DIRECTORY}/_last_checkpoint"

_COMMIT = re.compile(r"^(\d{20})\.json$")
_COMPACTED = re.compile(r"^(\d{20})\.(\d{20})\.compacted\.json$")
_CLASSIC = re.compile(r"^(\d{20})\.checkpoint\.parquet$")
_MULTI_PART = re.compile(r"^(\d{20})\.checkpoint\.(\d{10})\.(\d{10})\.parquet$")
_UUID = re.compile(r"^(\d{20})\.checkpoint\.[0-9a-fA-F-]{36}\.(?:json|parquet)$")


def commit_path(version: int) -> str:
    return f"{DIRECTORY}/{version:020d}.json"


@dataclass(frozen=True, slots=True)
class CheckpointFiles:
    """A complete checkpoint: one file, or all parts of one."""

    version: int
    paths: tuple[str, ...]
    modified: int


@dataclass(frozen=True)
class Listing:
    """What a listing of the log found. `start` is the version it began at: older files are unknown to it."""

    start: int
    commits: dict[int, Entry]
    checkpoints: tuple[CheckpointFiles, ...]  # complete ones, oldest first; of one version the preferred last
    compacted: tuple[tuple[int, int, str], ...]  # first version, last version, path

    @property
    def latest(self) -> int | None:
        found = [*self.commits, *(c.version for c in self.checkpoints)]
        return max(found, default=None)

    def timestamps(self) -> dict[int, int]:
        """Modification times of the commits, made to grow with the version."""
        out: dict[int, int] = {}
        previous = -(1 << 62)
        for version in sorted(self.commits):
            previous = max(self.commits[version].modified, previous + 1)
            out[version] = previous
        return out


@dataclass(frozen=True, slots=True)
class Segment:
    """The files that make up one version; `logs` are (version, path), oldest first."""

    version: int
    checkpoint: CheckpointFiles | None
    logs: tuple[tuple[int, str], ...]
    modified: int  # epoch milliseconds of the version's commit
    compacted: bool = False


def list_log(store: Store, start: int = 0) -> Listing:
    """Lists the log from version `start` on."""
    after = f"{DIRECTORY}/{start:020d}" if start else None
    return _classify(store.list(DIRECTORY, start_after=after), start)


def _classify(entries: Iterable[Entry], start: int) -> Listing:
    commits: dict[int, Entry] = {}
    checkpoints: list[CheckpointFiles] = []
    parts: dict[tuple[int, int], dict[int, Entry]] = {}
    compacted: list[tuple[int, int, str]] = []
    prefix = DIRECTORY + "/"
    for entry in entries:
        name = entry.path.removeprefix(prefix)
        if not name[:1].isdigit() or "/" in name:
            continue
        if match := _COMMIT.match(name):
            commits[int(match[1])] = entry
        elif match := _CLASSIC.match(name) or _UUID.match(name):
            checkpoints.append(CheckpointFiles(int(match[1]), (entry.path,), entry.modified))
        elif match := _MULTI_PART.match(name):
            parts.setdefault((int(match[1]), int(match[3])), {})[int(match[2])] = entry
        elif match := _COMPACTED.match(name):
            compacted.append((int(match[1]), int(match[2]), entry.path))
    for (version, count), found in parts.items():
        if set(found) == set(range(1, count + 1)):
            paths = tuple(found[i].path for i in sorted(found))
            checkpoints.append(CheckpointFiles(version, paths, max(e.modified for e in found.values())))
        else:
            log.warning("checkpoint %d of %d parts is incomplete and ignored", version, count)
    # Of one version the one in fewest files is tried first.
    checkpoints.sort(key=lambda c: (c.version, -len(c.paths)))
    return Listing(start, commits, tuple(checkpoints), tuple(compacted))


def hinted_version(store: Store) -> int | None:
    """The checkpoint `_last_checkpoint` names; None if it is missing or says nothing sensible."""
    try:
        hint = orjson.loads(store.get(LAST_CHECKPOINT))
        version = hint["version"]
        return version if isinstance(version, int) and version >= 0 else None
    except FileNotFoundError:
        return None
    except (ValueError, KeyError, TypeError) as error:
        log.warning("%s/%s is damaged and ignored: %s", store.url, LAST_CHECKPOINT, error)
        return None
    except StorageError as error:
        log.warning("%s/%s could not be read and is ignored: %s", store.url, LAST_CHECKPOINT, error)
        return None


def find_log(store: Store, version: int | None = None) -> Listing:
    """A listing that holds everything needed for `version` (the newest if None)."""
    hint = hinted_version(store)
    if hint is not None and (version is None or version >= hint):
        listing = list_log(store, hint)
        if any(c.version >= hint and (version is None or c.version <= version) for c in listing.checkpoints):
            return listing
    return list_log(store)


def choose(store: Store, listing: Listing, version: int | None = None) -> list[Segment]:
    """Segments that make up the version, the preferred first; the rest serve if its checkpoint is damaged.

    NotATableError if there is no log, VersionNotFoundError if it does not reach the version,
    CorruptTableError if no checkpoint and unbroken run of commits leads to it.
    """
    latest = listing.latest
    if latest is None:
        raise NotATableError(
            f"{store.url} is not a Delta table",
            cause=f"its {DIRECTORY} holds no commit",
            remedy="check the path",
            location=store.url,
        )
    target = latest if version is None else version
    if target > latest or target < 0:
        raise version_not_found(store, listing, target)
    found = []
    starts: list[CheckpointFiles | None] = [c for c in reversed(listing.checkpoints) if c.version <= target]
    if not listing.start:
        starts.append(None)
    missing: int | None = None
    for checkpoint in starts:
        segment = _segment(listing, checkpoint, target)
        if isinstance(segment, Segment):
            found.append(segment)
        elif missing is None:
            missing = segment
    if not found:
        raise _broken(store, listing, target, missing)
    return found


def _segment(listing: Listing, checkpoint: CheckpointFiles | None, target: int) -> Segment | int:
    """The segment on top of a checkpoint, or the first version that is missing."""
    first = checkpoint.version + 1 if checkpoint else 0
    logs: list[tuple[int, str]] = []
    compacted = False
    at = first
    while at <= target:
        jump = max(((y, path) for x, y, path in listing.compacted if x == at and at < y <= target), default=None)
        if jump is not None:
            logs.append(jump)
            at, compacted = jump[0] + 1, True
        elif at in listing.commits:
            logs.append((at, listing.commits[at].path))
            at += 1
        else:
            return at
    return Segment(target, checkpoint, tuple(logs), _modified(listing, checkpoint, target), compacted)


def plain(listing: Listing, segment: Segment) -> Segment | None:
    """The segment without compacted logs; None if a commit they stand for is gone."""
    made = _segment(Listing(listing.start, listing.commits, (), ()), segment.checkpoint, segment.version)
    return made if isinstance(made, Segment) else None


def _modified(listing: Listing, checkpoint: CheckpointFiles | None, target: int) -> int:
    found = listing.timestamps().get(target)
    if found is not None:
        return found
    return checkpoint.modified if checkpoint and checkpoint.version == target else 0


def _broken(store: Store, listing: Listing, target: int, missing: int | None) -> Exception:
    if missing is not None and listing.commits and missing < min(listing.commits) and target < min(listing.commits):
        return version_not_found(store, listing, target)
    name = commit_path(missing or 0)
    earliest = min(listing.commits, default=target)
    cause = f"the commit of version {missing} is missing"
    if missing is not None and missing < earliest:
        cause = f"commits start at version {earliest}, and there is no complete checkpoint to start from"
    return CorruptTableError(
        f"version {target} of {store.url} cannot be reconstructed: {name} is missing",
        cause=cause,
        remedy="restore the file from a backup, or read an older version of the table",
        file=name,
        version=target,
        missing=missing,
    )


def available(listing: Listing) -> tuple[int, int] | None:
    """The oldest and newest version that can be reconstructed from a whole listing."""
    latest = listing.latest
    if latest is None:
        return None
    start = latest
    # Walking back, a version is reachable if an unbroken run of commits leads to it from version 0 or a checkpoint.
    checkpoints = {c.version for c in listing.checkpoints}
    run = latest
    while run in listing.commits and run > 0:
        if run in checkpoints:
            start = run
        run -= 1
    if run in checkpoints or (run == 0 and 0 in listing.commits):
        start = run
    return start, latest


def version_not_found(store: Store, listing: Listing, version: int) -> VersionNotFoundError:
    whole = listing if not listing.start else list_log(store)
    reachable = available(whole)
    text = f"{reachable[0]} to {reachable[1]}" if reachable else "none"
    return VersionNotFoundError(
        f"version {version} of {store.url} does not exist",
        cause=f"the versions that can be read are {text}"
        + (" (older ones have been cleaned up)" if reachable and 0 <= version < reachable[0] else ""),
        remedy="choose a version in that range",
        version=version,
        earliest=reachable[0] if reachable else None,
        latest=reachable[1] if reachable else None,
    )


def commits_after(store: Store, version: int) -> list[Entry]:
    """Commit files after a version, oldest first, without a gap; CorruptTableError if there is one."""
    listing = list_log(store, version + 1)
    versions = sorted(v for v in listing.commits if v > version)
    for expected, found in enumerate(versions, version + 1):
        if expected != found:
            raise _broken(store, listing, found, expected)
    return [listing.commits[v] for v in versions]


def broken_after(store: Store, version: int) -> Exception:
    """The error for a log in which the commit after `version` is missing and a later one is there."""
    listing = list_log(store, version + 1)
    return _broken(store, listing, max(listing.commits, default=version + 2), version + 1)
