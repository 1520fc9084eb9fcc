"""Which versions a span of changes means, and whether the log still tells what they did.

`feed.py` calls `versions_of`. A version's changes stand in its commit file and nowhere else: what a
checkpoint sums up can be read, but not what a single version before it changed.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

from lakemend.errors import InvalidInputError, VersionNotFoundError
from lakemend.formats.delta.changes import commit_info
from lakemend.formats.delta.commit_times import in_commit_timestamps_from, require_in_commit_timestamp
from lakemend.formats.delta.log import Listing
from lakemend.formats.delta.snapshot import DeltaSnapshot
from lakemend.formats.feed import Bound, Span

if TYPE_CHECKING:
    from lakemend.formats.delta.table import DeltaTable

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def versions_of(table: DeltaTable, latest: DeltaSnapshot, listing: Listing, span: Span) -> range:
    """The versions of the span, every one of which has its commit file; empty if the span holds none."""
    _check_order(table, span)
    oldest = _oldest_commit(listing, latest.version)
    if span.by_time:
        versions = _by_time(table, latest, listing, span, oldest)
    else:
        versions = _by_number(table, latest.version, span, oldest)
    if versions and versions.start < oldest:
        raise _gone(table, oldest, latest.version, f"version {versions.start}")
    return versions


def _check_order(table: DeltaTable, span: Span) -> None:
    if span.start is not None and span.end is not None and span.end.value < span.start.value:
        kind = "timestamp" if span.by_time else "version"
        first, last = _spelled(span.start, span.by_time), _spelled(span.end, span.by_time)
        raise InvalidInputError(
            f"changes of {table.store.url} from {kind} {first} to {kind} {last} make no span",
            cause="the end lies before the start",
            remedy="exchange the two",
        )


def _oldest_commit(listing: Listing, latest: int) -> int:
    """The first of the unbroken run of commits that leads to the newest version; latest + 1 if there is none."""
    version = latest + 1
    while version - 1 in listing.commits:
        version -= 1
    return version


def _by_number(table: DeltaTable, latest: int, span: Span, oldest: int) -> range:
    for bound in (span.start, span.end):
        if bound is not None and not 0 <= bound.value <= latest:
            raise VersionNotFoundError(
                f"version {bound.value} of {table.store.url} does not exist",
                cause=f"the versions whose changes can be read are {oldest} to {latest}",
                remedy=f"choose versions in that range; FROM VERSION {latest} EXCLUSIVE means what comes after it",
                version=bound.value,
                earliest=oldest,
                latest=latest,
            )
    first = 0 if span.start is None else span.start.value + (not span.start.inclusive)
    last = latest if span.end is None else span.end.value - (not span.end.inclusive)
    return range(first, last + 1)


def _by_time(table: DeltaTable, latest: DeltaSnapshot, listing: Listing, span: Span, oldest: int) -> range:
    time = _commit_times(table, latest, listing)
    first, last = oldest, latest.version
    if span.start is not None:
        # Commit times are whole milliseconds.
        start = -(-span.start.value // 1000) if span.start.inclusive else span.start.value // 1000 + 1
        first = _first_at_or_after(oldest, latest.version, start, time)
        if first == oldest > 0 and time(oldest) > start:
            at = _spelled(span.start, True)
            raise _gone(table, oldest, latest.version, f"versions from {at} on")
    elif oldest > 0:
        raise _gone(table, oldest, latest.version, "version 0")
    if span.end is not None:
        end = span.end.value // 1000 if span.end.inclusive else -(-span.end.value // 1000) - 1
        last = _first_at_or_after(oldest, latest.version, end + 1, time) - 1
    return range(first, max(last + 1, first))


def own_times_from(latest: DeltaSnapshot) -> int | None:
    """The first version whose commit carries its own time; None where that is the time of its file for all."""
    return in_commit_timestamps_from(latest.meta) if latest.in_commit_timestamps else None


def _commit_times(table: DeltaTable, latest: DeltaSnapshot, listing: Listing) -> Callable[[int], int]:
    """The time of a version in epoch milliseconds."""
    modified, own_from = listing.timestamps(), own_times_from(latest)

    def time(version: int) -> int:
        if own_from is None or version < own_from:
            return modified[version]
        path = listing.commits[version].path
        return require_in_commit_timestamp(commit_info(version, path, table.store.get(path)), version)

    return time


def _first_at_or_after(low: int, high: int, millis: int, time: Callable[[int], int]) -> int:
    """The first version of low … high that is not before `millis`, else high + 1. Times grow with versions."""
    high += 1
    while low < high:
        middle = (low + high) // 2
        if time(middle) < millis:
            low = middle + 1
        else:
            high = middle
    return low


def _spelled(bound: Bound, by_time: bool) -> str:
    if not by_time:
        return str(bound.value)
    return (_EPOCH + timedelta(microseconds=bound.value)).isoformat()


def _gone(table: DeltaTable, oldest: int, latest: int, what: str) -> VersionNotFoundError:
    return VersionNotFoundError(
        f"the changes of {what} of {table.store.url} are no longer in its log",
        cause=f"the log has been cleaned up: it tells the changes of versions {oldest} to {latest}",
        remedy=f"start at version {oldest} or later; delta.logRetentionDuration says how long the log is kept",
        earliest=oldest,
        latest=latest,
    )
