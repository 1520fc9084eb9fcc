"""`load` and `stage`: a table as it is, and a table as it will be.

The service calls these; the answers go to the connector. A staged table carries the exact metadata
it will be committed with, because data files are written under the names it holds.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from lakemend.brain.addresses import Address
from lakemend.brain.description import as_json, table_answer
from lakemend.brain.evolution import merged_changes
from lakemend.brain.frames import zone_of_partitions
from lakemend.brain.known_formats import format_named
from lakemend.brain.new_properties import require_same, with_defaults
from lakemend.brain.tables import OpenTable, describe, is_vacant, version_number
from lakemend.errors import InvalidInputError, NotATableError, SchemaMismatchError, TableError, TableExistsError
from lakemend.formats.format import Format, Metadata, Snapshot
from lakemend.locations import normalise
from lakemend.schema import struct
from lakemend.storage import open_store

_MODES = ("create", "replace", "create_or_replace", "alter", "merge_schema")


def load(address: Address, request: Mapping[str, Any]) -> dict[str, Any]:
    if request.get("creatable") and address.find() is None:
        return _creatable(address, request)
    opened, snapshot = look_up(address, request)
    answer = answer_of(address, opened, snapshot)
    asked = request.get("version"), request.get("timestamp"), _option(request, "versionasof")
    if any(value is not None for value in asked):
        answer["time_travel"] = True
        return answer
    return _for_frames(answer, address, snapshot)


def look_up(address: Address, request: Mapping[str, Any]) -> tuple[OpenTable, Snapshot]:
    """The table and the version asked for, also where another table took the place of one opened before."""
    opened = address.open()
    try:
        return opened, snapshot_for(opened, request)
    except (TableError, FileNotFoundError):
        if opened.format.recognises(opened.table.store):
            raise
    address.tables.forget(opened.location)
    opened = address.open()
    return opened, snapshot_for(opened, request)


def snapshot_for(opened: OpenTable, request: Mapping[str, Any]) -> Snapshot:
    """The version or time a request asks for, else the newest version."""
    version, timestamp = request.get("version"), request.get("timestamp")
    if version is None and timestamp is None:
        version = _option(request, "versionasof")
    if version is not None and timestamp is not None:
        raise InvalidInputError("both a version and a timestamp were given", remedy="give one of them")
    if version is not None:
        return opened.at_version(version_number(version))
    if timestamp is not None:
        return opened.at_timestamp(int(timestamp) // 1000)
    return opened.latest()


def answer_of(address: Address, opened: OpenTable, snapshot: Snapshot) -> dict[str, Any]:
    return table_answer(address, opened.location, opened.format, snapshot.metadata, snapshot.version)


def _for_frames(answer: dict[str, Any], address: Address, newest: Snapshot) -> dict[str, Any]:
    frame_id = address.tables.frames.id_of(answer["place"], newest.version, newest.metadata)
    return {**answer, "frame_id": frame_id + zone_of_partitions(newest)}


def _option(request: Mapping[str, Any], name: str) -> Any:
    return next((v for k, v in (request.get("options") or {}).items() if k.lower() == name), None)


def _creatable(address: Address, request: Mapping[str, Any]) -> dict[str, Any]:
    """A table that the first write to it will make."""
    require_vacant(address.location)
    format = format_named(address.tables.formats, request.get("format"))
    nothing = Metadata(struct(), struct(), (), {})
    return table_answer(address, address.location, format, nothing, None)


def require_vacant(location: str) -> None:
    """Raises NotATableError if making a table here would mix it with other files."""
    store = open_store(location)
    if not is_vacant(store):
        raise NotATableError(
            f"no table can be made at {store.url}",
            cause=f"{describe(store)}; it is not a table, and a new one would be mixed with what lies there",
            remedy="choose an empty place, or move the files away",
            location=store.url,
        )


def stage(address: Address, request: Mapping[str, Any]) -> dict[str, Any]:
    mode = request.get("mode", "create")
    if mode not in _MODES:
        raise InvalidInputError(f"{mode!r} is no way to stage a table", remedy=f"use one of: {', '.join(_MODES)}")
    existing = address.find()
    if mode in ("alter", "merge_schema"):
        return _stage_alter(address, existing or address.open(), request)
    if mode == "create" and (existing is not None or _is_taken(address, request)):
        raise _exists(address)
    if mode == "replace" and existing is None:
        address.open()  # raises what is wrong
    if existing is not None:
        return _stage_replace(address, existing, request)
    return _stage_create(address, request)


def _is_taken(address: Address, request: Mapping[str, Any]) -> bool:
    if address.catalog is None or not address.catalog.is_taken(address.namespace, address.name):
        return False
    location = request.get("location")
    return not location or not address.catalog.is_reserved(address.namespace, address.name, location)


def _exists(address: Address) -> TableExistsError:
    if address.catalog:
        return address.catalog.taken(address.namespace, address.name)
    return TableExistsError(
        f"there is a table at {address.location} already",
        remedy="append to it, overwrite it, or choose another path",
        table=address.shown,
    )


def _stage_create(address: Address, request: Mapping[str, Any]) -> dict[str, Any]:
    location, pointer = address.location, False
    if address.catalog:
        address.catalog.require_namespace(address.namespace)
        if request.get("location"):
            location = normalise(request["location"])
            pointer = location != normalise(address.catalog.place(address.namespace, address.name))
    present = address.tables.find(location)
    if present is not None:
        return _stage_adoption(address, present, request)
    require_vacant(location)
    format = format_named(address.tables.formats, request.get("format"))
    if not request.get("schema", {}).get("fields"):
        raise InvalidInputError(
            f"table {address.shown} has no columns",
            cause="a table needs at least one, unless LOCATION points at a table that has them",
            remedy="name the columns, or use AS SELECT",
        )
    metadata = format.new_metadata(with_defaults(request, format), None)
    staged = _staged("create", format, location, metadata, None, pointer)
    return table_answer(address, location, format, metadata, None, staged=staged)


def _stage_adoption(address: Address, present: OpenTable, request: Mapping[str, Any]) -> dict[str, Any]:
    """A name for a table that is there: its own definition stands, and a different one is an error."""
    snapshot = present.latest()
    metadata = snapshot.metadata
    asked = request.get("schema", {}).get("fields") or []
    if asked and [(f["name"], f["type"]) for f in asked] != [(f["name"], f["type"]) for f in metadata.schema["fields"]]:
        raise SchemaMismatchError(
            f"table {address.shown} cannot be created at {present.location} with these columns",
            cause="a table with other columns lies there",
            remedy="leave the columns out to use the table as it is, or choose another location",
            location=present.location,
        )
    partitioning = [list(p["source"]) for p in request.get("partitioning") or []]
    if partitioning and partitioning != [list(p.source) for p in metadata.partitioning]:
        raise SchemaMismatchError(
            f"table {address.shown} cannot be created at {present.location} with this partitioning",
            cause="the table that lies there is partitioned otherwise",
            remedy="leave PARTITIONED BY out, or choose another location",
            location=present.location,
        )
    require_same(request, present.format, metadata, address.shown, present.location)
    staged = _staged("adopt", present.format, present.location, metadata, snapshot, True)
    return table_answer(address, present.location, present.format, metadata, None, staged)


def _stage_replace(address: Address, existing: OpenTable, request: Mapping[str, Any]) -> dict[str, Any]:
    if request.get("format") and format_named(address.tables.formats, request["format"]).name != existing.format.name:
        raise InvalidInputError(
            f"table {address.shown} cannot be replaced by a {request['format']} table",
            cause=f"it is a {existing.format.name} table",
            remedy="drop it first, or keep its format",
        )
    if request.get("location") and normalise(request["location"]) != existing.location:
        raise InvalidInputError(
            f"table {address.shown} cannot move to {request['location']}",
            cause=f"it lies at {existing.location}",
            remedy="leave LOCATION out, or drop the table first",
        )
    base = existing.latest()
    base.require_writable()
    metadata = existing.format.new_metadata(with_defaults(request, existing.format), base)
    staged = _staged("replace", existing.format, existing.location, metadata, base, False)
    return table_answer(address, existing.location, existing.format, metadata, None, staged)


def _stage_alter(address: Address, opened: OpenTable, request: Mapping[str, Any]) -> dict[str, Any]:
    """The table with more or wider columns, for a write that brings them; the version stays the base's."""
    base = (
        opened.pinned(version_number(request["version"]), request.get("table_id"))
        if request.get("version") is not None
        else opened.latest()
    )
    base.require_writable()
    changes = request.get("changes")
    if request["mode"] == "merge_schema":
        changes = merged_changes(base.metadata.schema, request.get("schema") or struct())
    metadata = opened.format.altered_metadata(base, changes) if changes else base.metadata
    staged = _staged("alter", opened.format, opened.location, metadata, base, False) if changes else None
    answer = table_answer(address, opened.location, opened.format, metadata, base.version, staged)
    return _for_frames(answer, address, base)


def _staged(
    kind: str, format: Format, location: str, metadata: Metadata, base: Snapshot | None, pointer: bool
) -> dict[str, Any]:
    return {
        "kind": kind,
        "format": format.name,
        "location": location,
        "metadata": as_json(metadata),
        "base": None if base is None else base.version,
        "base_id": None if base is None else base.metadata.id,
        "pointer": pointer,
    }
