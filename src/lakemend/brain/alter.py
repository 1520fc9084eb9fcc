"""`alter`: ALTER TABLE, one version of metadata alone.

The service calls this. Two of them at once are ordered by the log: the loser looks at the new
definition and applies its changes to that, a bounded number of times.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from lakemend.brain.addresses import Address
from lakemend.brain.commit import commit as make_version
from lakemend.brain.description import table_answer
from lakemend.brain.load import answer_of
from lakemend.brain.tables import version_number
from lakemend.errors import CommitConflictError, InvalidInputError
from lakemend.formats.format import Change
from lakemend.redaction import logger

log = logger(__name__)

_ATTEMPTS = 5


def alter(address: Address, request: Mapping[str, Any]) -> dict[str, Any]:
    changes = list(request.get("changes") or ())
    if any("kind" not in change for change in changes):
        raise InvalidInputError("a change has no kind", remedy="see docs/architecture.md, alter changes")
    _require_kept_columns(address, changes)
    opened = address.open()
    checked = next((c["version"] for c in changes if c["kind"] == "add_check" and c.get("version") is not None), None)
    began_on: str | None = request.get("table_id")
    version: int | None = None
    for attempt in range(1, _ATTEMPTS + 1):
        base = opened.latest() if checked is None else opened.pinned(version_number(checked), began_on)
        if began_on is not None and base.metadata.id != began_on:
            raise CommitConflictError(
                f"the table {opened.location} was dropped and created again while the statement ran",
                cause=f"it began on the table {began_on}; there is the table {base.metadata.id}",
                remedy="nothing was changed: run the statement again",
                version=base.version,
            )
        base.require_writable()
        metadata = opened.format.altered_metadata(base, changes)
        if metadata == base.metadata:
            break
        parameters = {"changes": changes, **_shown(changes)}
        # A constraint holds for the rows it was checked on: rows that arrived since are a conflict, not a retry.
        read = None if checked is None else {"op": "ALWAYS_TRUE"}
        try:
            change = Change("alter", parameters, metadata=metadata, read_predicate=read)
            version = make_version(opened.table, base, change).version
            break
        except CommitConflictError:
            if attempt == _ATTEMPTS or checked is not None:
                raise
            log.info("another writer changed %s: altering it anew", opened.location)
    try:
        return answer_of(address, opened, opened.latest())
    except Exception as error:
        if version is None:
            raise
        # The version stands: the caller is told what was committed, not that it failed.
        log.warning("version %d of %s stands, but cannot be read: %s", version, opened.location, error)
        return table_answer(address, opened.location, opened.format, metadata, version)


def _require_kept_columns(address: Address, changes: list[dict[str, Any]]) -> None:
    """REPLACE COLUMNS comes as all columns dropped and others added: the values of all of them would be lost."""
    dropped = {tuple(c["path"]) for c in changes if c["kind"] == "drop_column"}
    added = [c["path"] for c in changes if c["kind"] == "add_column"]
    again = next((path for path in added if tuple(path) in dropped), next(iter(dropped), ()) if added else ())
    if again:
        raise InvalidInputError(
            f"REPLACE COLUMNS cannot be done to {address.shown}",
            cause=f"the column {'.'.join(again)} would be dropped "
            + ("and made anew, without its values" if list(again) in added else "with its values, and others made"),
            remedy="use ADD COLUMNS, DROP COLUMN, RENAME COLUMN and ALTER COLUMN; nothing was changed",
            column=".".join(again),
        )


def _shown(changes: list[dict[str, Any]]) -> dict[str, Any]:
    """What history tells of the changes."""
    properties = {c["key"]: c.get("value") for c in changes if c["kind"] == "set_property"}
    removed = [c["key"] for c in changes if c["kind"] == "remove_property"]
    columns = [".".join(c["path"]) for c in changes if c.get("path")]
    names = [c["name"] for c in changes if c["kind"] in ("add_check", "drop_check")]
    shown = {"properties": properties or removed, "columns": columns, "name": names[0] if names else None}
    return {key: value for key, value in shown.items() if value}
