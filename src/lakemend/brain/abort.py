"""`abort`: the files of a write that came to nothing are deleted.

The service calls this with the connector's requests. Spark also aborts after a commit that failed: files are deleted
only where it is proven that no version will ever hold them.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

from lakemend.brain import outcomes
from lakemend.brain.addresses import Address
from lakemend.brain.tables import version_number
from lakemend.errors import InvalidInputError
from lakemend.locations import local_path
from lakemend.redaction import logger
from lakemend.storage import open_store

log = logger(__name__)


def abort(address: Address, request: Mapping[str, Any], staged_at: str | None = None) -> None:
    """Deletes the files of a write that is proven not to have landed, and whose token the log does not hold either.

    `staged_at` is where a table that was to be created has its files, if not where its name says.
    """
    token, files = request.get("token"), list(request.get("files") or ())
    if not files:
        return
    if not token:
        raise InvalidInputError("the aborted write has no token", remedy="vacuum the table to delete its files")
    for path in files:
        if path.startswith("/") or ".." in path.split("/"):
            raise InvalidInputError(
                f"{path!r} is not a file of the table", remedy="this is a defect of the caller; report it"
            )
    if outcomes.is_open(token):
        log.warning("whether the write %s to %s landed is not known: its files stay", token, address.shown)
        return
    opened = address.tables.find(staged_at) if staged_at else address.find()
    since = None if request.get("version") is None else version_number(request["version"])
    if opened is not None and opened.table.landed(token, since) is not False:
        log.warning("the write %s to %s may have landed after all: its files stay", token, opened.location)
        return
    store = opened.table.store if opened is not None else open_store(staged_at or address.location)
    failed = store.delete(files)
    if opened is None:
        _remove_empty_directories(store.url)
    log.info("deleted %d files of the write %s that did not land", len(files) - len(failed), token)


def _remove_empty_directories(location: str) -> None:
    """Of a table that was never made, on a local disk."""
    root = local_path(location)
    if root is None:
        return
    for directory, _, _ in os.walk(root, topdown=False):
        try:
            os.rmdir(directory)
        except OSError:
            continue  # something lies in it
