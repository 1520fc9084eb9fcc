"""A change as one commit file of the Delta log.

The table calls `try_commit`, which puts the actions (`draft.py`), if absent, as exactly the next
version; the brain decides what happens when that is taken. A commit whose outcome is in doubt is
looked up by its token (`commitInfo.txnId`) before anything is said, and `landed` lets an abort prove
that nothing of a write is part of the table. `settle` follows a commit that landed.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

import orjson
from obstore.exceptions import InvalidPathError, NotSupportedError, PermissionDeniedError, UnauthenticatedError

from lakemend.errors import CommitUnknownError, LakemendError, StorageError
from lakemend.formats.delta import checkpoint_writer
from lakemend.formats.delta.draft import Draft, draft_commit
from lakemend.formats.delta.log import commit_path, commits_after
from lakemend.formats.format import Change, Snapshot, VersionTaken

if TYPE_CHECKING:
    from lakemend.formats.delta.snapshot import DeltaSnapshot
    from lakemend.formats.delta.table import DeltaTable

log = logging.getLogger(__name__)

# A put that fails like this has not reached the store's data.
_REFUSED = (PermissionDeniedError, UnauthenticatedError, NotSupportedError, InvalidPathError)


def try_commit(table: DeltaTable, base: Snapshot | None, change: Change) -> int:
    """Makes version base+1 (0 if base is None); see `format.Table.try_commit`."""
    before = _delta(base)
    draft = draft_commit(before, change)
    data = draft.lines()
    if draft.vector_file is not None:
        table.store.put(*draft.vector_file)
    try:
        _put(table, draft, data)
    except (VersionTaken, StorageError):
        # Both prove that the commit did not land, so nothing refers to its vectors. Nothing else proves it.
        if draft.vector_file is not None:
            table.store.delete([draft.vector_file[0]])
        raise
    log.info("%s made version %d of %s", draft.info["operation"], draft.version, table.store.url)
    return draft.version


def _delta(base: Snapshot | None) -> DeltaSnapshot | None:
    from lakemend.formats.delta.snapshot import DeltaSnapshot

    assert base is None or isinstance(base, DeltaSnapshot)
    return base


def _put(table: DeltaTable, draft: Draft, data: bytes) -> None:
    """Puts the commit; returns only if it landed, raises VersionTaken or what was wrong if it did not."""
    path = commit_path(draft.version)
    try:
        table.store.put_if_absent(path, data)
    except FileExistsError as error:
        # A store that repeats a request by itself may collide with its own first attempt.
        if _is_ours(table, path, draft.token):
            return
        raise VersionTaken(f"version {draft.version} of {table.store.url} is taken") from error
    except Exception as error:
        if isinstance(error, StorageError) and isinstance(error.__cause__, _REFUSED):
            raise
        _settle(table, draft, path, error)


def _settle(table: DeltaTable, draft: Draft, path: str, error: Exception) -> None:
    """After a put that failed half-way: returns if ours stands, VersionTaken if another does, else unknown."""
    try:
        ours = _is_ours(table, path, draft.token)
    except FileNotFoundError:
        if table.store.url.startswith("file:") and isinstance(error, StorageError):
            # A local disk has no request on its way any more.
            raise error from None
        raise _unknown(table, draft, error, "the version is not there yet, but the request may still arrive") from error
    except (LakemendError, OSError, ValueError) as unreadable:
        raise _unknown(table, draft, error, f"the version could not be read back: {unreadable}") from error
    if not ours:
        raise VersionTaken(f"version {draft.version} of {table.store.url} is taken") from error
    log.warning("the store reported an error, but version %d of %s landed: %s", draft.version, table.store.url, error)


def _unknown(table: DeltaTable, draft: Draft, error: Exception, cause: str) -> CommitUnknownError:
    return CommitUnknownError(
        f"whether version {draft.version} of {table.store.url} was committed is not known",
        cause=f"{cause}; the store said: {error}",
        remedy=f"look for the transaction {draft.token} in the table's history before running the statement again",
        version=draft.version,
        token=draft.token,
    )


def _is_ours(table: DeltaTable, path: str, token: str) -> bool:
    return _token_in(table.store.get(path)) == token


def _token_in(data: bytes) -> str | None:
    for line in data.split(b"\n"):
        if b'"commitInfo"' in line:
            info = orjson.loads(line).get("commitInfo")
            if info is not None:
                token = info.get("txnId")
                return None if token is None else str(token)
    return None


def landed(table: DeltaTable, token: str, since_version: int | None) -> bool | None:
    """Whether a commit with the token is among the versions after `since_version`; None if that cannot be told."""
    try:
        entries = commits_after(table.store, -1 if since_version is None else since_version)
        return any(_token_in(data) == token for data in table.store.get_many([entry.path for entry in entries]))
    except (LakemendError, OSError, ValueError) as error:
        log.warning("whether %s landed in %s cannot be told: %s", token, table.store.url, error)
        return None


def settle(table: DeltaTable, version: int) -> None:
    """A checkpoint where one is due, and log clean-up. Never raises: the commit stands."""
    try:
        snapshot = table.at_version(version)
    except Exception:
        log.warning("no checkpoint %d of %s: it cannot be read", version, table.store.url, exc_info=True)
        return
    if checkpoint_writer.is_due(version, snapshot.meta.configuration):
        checkpoint_writer.after_commit(table.store, snapshot)
