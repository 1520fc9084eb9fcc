"""The table a write goes to, and the snapshot it was planned on.

`write.py` asks before it makes the change: the table may be there, be staged, or be made by this write, which may also
bring columns. A table that took the place of another is never written to.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from lakemend.brain.addresses import Address
from lakemend.brain.description import from_json
from lakemend.brain.evolution import merged_changes
from lakemend.brain.known_formats import format_named
from lakemend.brain.predicates import conjunction
from lakemend.brain.tables import OpenTable, version_number
from lakemend.errors import (
    CommitConflictError,
    InvalidInputError,
    UnsupportedFeatureError,
)
from lakemend.formats.format import Metadata, Snapshot
from lakemend.storage import open_store

_TRUE = ("true", "1", "yes", "on")


@dataclass(frozen=True)
class Target:
    """The table a write goes to and the snapshot it was planned on (None: the write creates the table)."""

    opened: OpenTable
    base: Snapshot | None
    metadata: Metadata | None  # the definition the write brings, if it changes
    replaces: bool = False
    pointer: bool = False


class Options:
    """Write options, whose names Spark compares without case."""

    def __init__(self, options: Mapping[str, Any] | None) -> None:
        self._options = {key.lower(): value for key, value in (options or {}).items()}

    def get(self, name: str) -> str | None:
        value = self._options.get(name.lower())
        return None if value is None else str(value)

    def flag(self, name: str) -> bool:
        return (self.get(name) or "").strip().lower() in _TRUE

    @property
    def transaction(self) -> tuple[str, int] | None:
        app_id, version = self.get("txnAppId"), self.get("txnVersion")
        if app_id is None and version is None:
            return None
        try:
            number = int(version or "")
        except ValueError:
            number = -1
        if not app_id or number < 0:
            raise InvalidInputError(
                f"the transaction {app_id!r} {version!r} is not complete",
                cause="an idempotent write needs txnAppId and txnVersion, a whole number",
                remedy="set both options, or neither",
            )
        return app_id, number


def target_of(address: Address, request: Mapping[str, Any], options: Options) -> Target:
    staged = request.get("staged")
    if staged:
        return _staged_target(address, staged)
    if request.get("version") is None:
        return _created_target(address, request)
    opened = address.open()
    base = _base(opened, version_number(request["version"]), request.get("table_id"))
    return Target(opened, base, _evolved(opened, base, request, options))


def _staged_target(address: Address, staged: Mapping[str, Any]) -> Target:
    metadata = from_json(staged["metadata"])
    if staged["base"] is not None:
        opened = address.tables.open(staged["location"])
        base = _base(opened, staged["base"], staged["base_id"])
        return Target(opened, base, metadata, replaces=staged["kind"] == "replace", pointer=staged["pointer"])
    format = address.tables.formats[staged["format"]]
    opened = OpenTable(format, format.open(open_store(staged["location"])), staged["location"])
    return Target(opened, None, metadata, pointer=staged["pointer"])


def _created_target(address: Address, request: Mapping[str, Any]) -> Target:
    """The first write to a path makes the table."""
    location = address.location
    if address.tables.find(location) is not None:
        raise CommitConflictError(
            f"the table {location} was created by another writer",
            cause="it did not exist when this statement began",
            remedy="nothing was changed: run the statement again",
            operation=request.get("operation"),
            version=0,
        )
    if not request.get("schema", {}).get("fields"):
        raise InvalidInputError(
            f"{address.shown} cannot be created",
            cause="the write names no columns",
            remedy="write a frame with columns",
        )
    format = format_named(address.tables.formats, request.get("format"))
    keys = ("schema", "partitioning", "properties", "comment", "checks")
    metadata = format.new_metadata({key: request.get(key) for key in keys if request.get(key) is not None}, None)
    return Target(OpenTable(format, format.open(open_store(location)), location), None, metadata)


def _base(opened: OpenTable, version: int, table_id: str | None) -> Snapshot:
    """The snapshot that a write began on. A table that was dropped and made anew meanwhile must never be built upon."""
    began = table_id if table_id is not None else opened.pinned(version).metadata.id
    head = opened.latest()
    if head.version >= version and head.metadata.id == began:
        return opened.pinned(version, began)
    raise CommitConflictError(
        f"the table {opened.location} was replaced, or dropped and created again, while the statement ran",
        cause=f"it began on version {version} of table {began}; there is version {head.version} "
        f"of table {head.metadata.id}",
        remedy="nothing was changed: run the statement again",
        version=head.version,
    )


def _evolved(opened: OpenTable, base: Snapshot, request: Mapping[str, Any], options: Options) -> Metadata | None:
    """The definition after schema evolution asked for with the write itself."""
    schema = request.get("schema")
    if request.get("schema_changes"):
        metadata = opened.format.altered_metadata(base, request["schema_changes"])
    elif schema and options.flag("overwriteSchema") and request["operation"] == "overwrite":
        if conjunction(request.get("predicates") or []) != {"op": "ALWAYS_TRUE"}:
            raise InvalidInputError(
                "overwriteSchema needs every row to be replaced",
                cause="rows outside the predicate would keep the old columns",
                remedy="leave overwriteSchema out, or overwrite the whole table",
            )
        kept = {"properties": base.metadata.properties, "comment": base.metadata.comment}
        metadata = opened.format.new_metadata(
            {**kept, "schema": schema, "partitioning": request.get("partitioning") or [], "checks": {}}, base
        )
    elif schema and options.flag("mergeSchema"):
        steps = merged_changes(base.metadata.schema, schema)
        if not steps:
            return None
        metadata = opened.format.altered_metadata(base, steps)
    else:
        return None
    _require_same_names(base.metadata, metadata)
    return metadata


def _require_same_names(old: Metadata, new: Metadata) -> None:
    """Files were written before the new columns had physical names: both names must be the same."""
    known = {field["name"] for field in old.schema["fields"]}
    for logical, physical in zip(new.schema["fields"], new.physical["fields"], strict=True):
        if logical["name"] not in known and logical["name"] != physical["name"]:
            raise UnsupportedFeatureError(
                f"column {logical['name']} cannot be added by this write",
                cause="the table maps column names, and the files were written before the column had its own",
                remedy="add the column with ALTER TABLE first",
                column=logical["name"],
            )
