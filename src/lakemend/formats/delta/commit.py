"""A change as one commit file of the Delta log.

The table calls `try_commit`, which puts the actions (`draft.py`, `restore.py`), if absent, as exactly the next
version; the brain decides what happens when that is taken. There are three outcomes: it returns (the version
landed), it raises VersionTaken or a StorageError (it did not land, and never will), or it raises
CommitUnknownError. Whatever the store says, the version is read back before anything is told: a commit is known
by its token (`commitInfo.txnId`). `landed` lets an abort look for a token in the whole log. `settle` follows
a commit that landed.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import orjson

from lakemend.errors import CommitUnknownError, LakemendError, StorageError, TableError
from lakemend.formats.delta import checkpoint_writer
from lakemend.formats.delta.draft import Draft, draft_commit
from lakemend.formats.delta.log import commit_path, commits_after
from lakemend.formats.delta.restore import draft_restore
from lakemend.formats.format import Change, Snapshot, VersionTaken
from lakemend.puts import nothing_written
from lakemend.redaction import logger

if TYPE_CHECKING:
    from lakemend.formats.delta.snapshot import DeltaSnapshot
    from lakemend.formats.delta.table import DeltaTable

log = logger(__name__)

# How long to wait before each further try to read a version back; stores try again by themselves, too.
_PAUSES = (0.5,)


def try_commit(table: DeltaTable, base: Snapshot | None, change: Change) -> int:
    """Makes version base+1 (0 if base is None); see `format.Table.try_commit`."""
    before = _delta(base)
    draft = draft_commit(before, change) if change.restores is None else draft_restore(before, change)
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
    if before is not None:
        _require_same_log(table, before, draft, change)
    log.info("%s made version %d of %s", draft.info["operation"], draft.version, table.store.url)
    return draft.version


def _delta(base: Snapshot | None) -> DeltaSnapshot | None:
    from lakemend.formats.delta.snapshot import DeltaSnapshot

    assert base is None or isinstance(base, DeltaSnapshot)
    return base


def _put(table: DeltaTable, draft: Draft, data: bytes) -> None:
    """Puts the commit; returns only if it landed, raises VersionTaken or StorageError only if it never will."""
    path = commit_path(draft.version)
    try:
        table.store.put_if_absent(path, data)
        return
    except Exception as error:
        try:
            token = _read_back(table, path)
        except FileNotFoundError:
            if nothing_written(error):
                raise error from None
            cause = "the version is not there, but the request may still arrive"
            raise _unknown(table, draft, error, cause) from error
        except (LakemendError, OSError, ValueError) as unreadable:
            if nothing_written(error):
                raise error from None
            raise _unknown(table, draft, error, f"the version could not be read back: {unreadable}") from error
        if token != draft.token:
            raise VersionTaken(f"version {draft.version} of {table.store.url} is taken") from error
        said = str(error).split("\n", 1)[0]
        log.warning("the store said: %s; but version %d of %s landed", said, draft.version, table.store.url)


def _read_back(table: DeltaTable, path: str) -> str | None:
    """The token of the commit that stands there."""
    for pause in _PAUSES:
        try:
            return _token_in(table.store.get(path))
        except FileNotFoundError:
            raise
        except (LakemendError, OSError, ValueError):
            time.sleep(pause)
    return _token_in(table.store.get(path))


def _require_same_log(table: DeltaTable, base: DeltaSnapshot, draft: Draft, change: Change) -> None:
    """After a put: if the table was dropped and made again just before it, the version belongs to neither of them."""
    wanted = base.meta.id if change.metadata is None else (change.metadata.id or base.meta.id)
    try:
        if table.still_holds(base) or table.reread(draft.version).meta.id == wanted:
            return
        cause = "there is another table at the place"
    except (TableError, FileNotFoundError) as error:
        cause = str(error)
    except Exception as error:
        log.warning("version %d of %s landed, but cannot be read: %s", draft.version, table.store.url, error)
        return
    raise CommitUnknownError(
        f"version {draft.version} of {table.store.url} was committed, but not on top of version {base.version}",
        cause=f"the table was dropped, or dropped and created again, in the same moment: {cause}",
        remedy=f"look whether {commit_path(draft.version)} with the transaction {draft.token} is part of the table "
        "there is now, and delete that file if it is not",
        version=draft.version,
        token=draft.token,
    )


def _unknown(table: DeltaTable, draft: Draft, error: Exception, cause: str) -> CommitUnknownError:
    return CommitUnknownError(
        f"whether version {draft.version} of {table.store.url} was committed is not known",
        cause=f"{cause}; the store said: {error}",
        remedy=f"look for the transaction {draft.token} in the table's history before running the statement again",
        version=draft.version,
        token=draft.token,
    )


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
