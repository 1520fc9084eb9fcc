"""`changes`: the files that hold the row changes of some versions, and how to read them.

The service calls this for `CHANGES FROM …`, `spark.read.changes` and the option `readChangeFeed`;
the connector reads the files as the answer says and decides nothing; `write.py` asks whether the
records a statement leaves are complete. Each file is of one *part*:

    plain     its rows are changes as they stand
    pairable  a row of it may be one half of an update, to be found by the key columns
    mixed     the same, and rows may merely have been copied: equal rows that were deleted and inserted
              by one version cancel each other out

With `across`, equal rows then cancel out over all versions, which leaves what differs in the end.

A version whose writer kept a change feed is plain. What another version did is worked out from the
files it added and removed, where a copy looks like a deletion and an insertion.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from lakemend.brain.addresses import Address
from lakemend.brain.description import table_answer
from lakemend.brain.load import look_up
from lakemend.brain.plan import mask_answer, wire_values
from lakemend.brain.predicates import partition_column, spark_spelling
from lakemend.brain.tables import version_number
from lakemend.errors import InvalidInputError, UnsupportedFeatureError
from lakemend.formats.feed import Bound, ChangedFiles, Changes, KeepsChanges, Span, VersionChanges
from lakemend.formats.format import Change, Metadata
from lakemend.formats.properties import CHANGES_KEY
from lakemend.schema import field, find, nullable

CHANGE_TYPE, VERSION, TIMESTAMP = "_change_type", "_commit_version", "_commit_timestamp"
_ADDED = ((CHANGE_TYPE, "string"), (VERSION, "long"), (TIMESTAMP, "timestamp"))
# What a statement may do to a row; an update leaves two rows of changes, anything else one.
_COUNTED = {
    "update": ("updated",),
    "delete": ("deleted",),
    "merge": ("inserted", "updated", "deleted"),
    "replace_where": ("inserted", "deleted"),
    "replace_using": ("inserted", "deleted"),
    "replace_on": ("inserted", "deleted"),
}
_MODES = ("none", "dropCarryovers", "netChanges")


def changes(address: Address, request: Mapping[str, Any]) -> dict[str, Any]:
    """`span` {by_time, start, end, start_inclusive, end_inclusive}, `deduplicate`, `updates`, `key`: see the wire."""
    mode = request.get("deduplicate") or _MODES[1]
    if mode not in _MODES:
        raise InvalidInputError(f"there is no deduplication mode {mode!r}", remedy=f"use one of: {', '.join(_MODES)}")
    opened, _ = look_up(address, {})
    if not isinstance(opened.table, KeepsChanges):
        raise UnsupportedFeatureError(
            f"the changes of {address.shown} cannot be read",
            cause=f"{opened.format.name} tables do not record what each version changed",
            remedy="compare two versions of the table instead",
        )
    found = opened.table.row_changes(_span(request.get("span") or {}))
    metadata = found.snapshot.metadata
    _check_names(address, metadata)
    key = _key_columns(address, metadata, request.get("key"))
    if request.get("updates") and not (key and mode != "none"):
        _check_images(address, found.versions, across=mode == "netChanges")
    answer = table_answer(address, opened.location, opened.format, metadata, found.snapshot.version)
    if (request.get("span") or {}).get("end") is not None:
        answer["time_travel"] = True
    files = [file for version in found.versions for file in _files(found, version, mode, bool(key))]
    return {
        **_with_changes(answer),
        "key": key if mode != "none" else [],
        "across": mode == "netChanges",
        "files": files,
    }


def require_complete(change: Change) -> None:
    """Raises unless the records that a row change leaves tell of every row, once: readers look nowhere else."""
    told, counts = sum(file.rows for file in change.feed), change.metrics
    known = _COUNTED.get(change.operation, ())
    if not change.feed or not known or any(name not in counts for name in known):
        return
    expected = sum(counts[name] * (2 if name == "updated" else 1) for name in known)
    if told != expected:
        raise InvalidInputError(
            f"the change data feed of the {change.operation} does not fit what it did",
            cause=f"{told} rows of changes were written, and {expected} were expected of "
            + ", ".join(f"{counts[name]} {name}" for name in known),
            remedy="nothing was changed; this is a defect: report it with the statement",
            operation=change.operation,
        )


def _span(wire: Mapping[str, Any]) -> Span:
    by_time = bool(wire.get("by_time"))

    def bound(name: str) -> Bound | None:
        value = wire.get(name)
        if value is None:
            return None
        return Bound(int(value) if by_time else version_number(value), bool(wire.get(f"{name}_inclusive", True)))

    return Span(bound("start"), bound("end"), by_time)


def _check_names(address: Address, metadata: Metadata) -> None:
    taken = {name for name, _ in _ADDED}
    clash = next((f["name"] for f in metadata.schema["fields"] if f["name"].lower() in taken), None)
    if clash is not None:
        raise InvalidInputError(
            f"the changes of {address.shown} cannot be read",
            cause=f"the table has a column {clash}, and changes come with a column of that name",
            remedy=f"rename the column {clash}",
            column=clash,
        )


def _key_columns(address: Address, metadata: Metadata, asked: str | None) -> list[str]:
    """The columns that tell which row is which, by the option or else by the table's property."""
    text = asked if asked is not None else metadata.properties.get(CHANGES_KEY, "")
    where = "the option key" if asked is not None else f"the table property {CHANGES_KEY}"
    names = []
    for part in (p.strip().strip("`") for p in text.split(",") if p.strip()):
        found = find(metadata.schema, (part,))
        if found is None or isinstance(found["type"], dict) or found["type"] == "variant":
            cause = "there is no such column" if found is None else f"it is of type {found['type']}"
            raise InvalidInputError(
                f"{part} cannot tell rows of {address.shown} apart",
                cause=f"{where} names it, and {cause}",
                remedy="name top-level columns of a plain type, with commas between them",
                column=part,
            )
        names.append(found["name"])
    return names


def _check_images(address: Address, versions: Sequence[VersionChanges], across: bool) -> None:
    """Raises unless every update is known as one, though no key columns are."""
    cause = "net changes compare whole rows, and nothing says which of them are one row before and after"
    if not across:
        guessed = [v.version for v in versions if not v.exact and {g.kind for g in v.groups} >= {"insert", "delete"}]
        if not guessed:
            return
        cause = f"version {guessed[0]} deleted and inserted rows without a change data feed"
    raise InvalidInputError(
        f"which rows of {address.shown} were updated cannot be told",
        cause=cause,
        remedy=f"name the columns that identify a row, by the option key or the table property {CHANGES_KEY}, "
        "with deduplicationMode dropCarryovers or netChanges; or leave computeUpdates out",
    )


def _with_changes(answer: dict[str, Any]) -> dict[str, Any]:
    """The table with the three columns of changes. They are the same for all rows of a file, as partition values are,
    but for the type of change in a file that was written as a record of changes. Rows of earlier versions need not
    satisfy what the last one says of NULL."""
    extra = [field(name, type) for name, type in _ADDED]
    return {
        **answer,
        "schema": {"type": "struct", "fields": nullable(answer["schema"])["fields"] + extra},
        "physical": {"type": "struct", "fields": nullable(answer["physical"])["fields"] + extra},
        "partitioning": answer["partitioning"]
        + [{"name": name, "source": [name], "transform": "identity"} for name in (VERSION, TIMESTAMP, CHANGE_TYPE)],
    }


def _files(found: Changes, version: VersionChanges, mode: str, paired: bool) -> list[dict[str, Any]]:
    names = [part.name for part in found.snapshot.metadata.partitioning]
    partitions = [_partitions(group, names) for group in version.groups]
    sides: dict[str, set[tuple[Any, ...]]] = {"insert": set(), "delete": set(), "feed": set()}
    for group, values in zip(version.groups, partitions, strict=True):
        sides[group.kind].update(values)
    # Equal rows lie in the same partition.
    shared = sides["insert"] & sides["delete"]
    two_sided = bool(sides["insert"] and sides["delete"]) and not version.exact

    def part(partition: tuple[Any, ...]) -> str:
        if mode == "none" or not two_sided:
            return "plain"
        return "mixed" if partition in shared else "pairable" if paired else "plain"

    files = []
    for group, values in zip(version.groups, partitions, strict=True):
        columns = (group.files[name].to_pylist() for name in ("path", "size", "rows", "modified"))
        for path, size, rows, modified, partition, mask in zip(*columns, values, group.masks, strict=True):
            files.append(
                {
                    "path": spark_spelling(found.snapshot.url(path)),
                    "size": size,
                    "rows": rows,
                    "modified": modified,
                    "partition": [*partition, version.version, version.timestamp * 1000, group.kind],
                    "mask": mask and mask_answer(mask),
                    "part": part(partition),
                }
            )
    return files


def _partitions(group: ChangedFiles, names: Sequence[str]) -> list[tuple[Any, ...]]:
    if not names:
        return [()] * group.files.num_rows
    return list(zip(*(wire_values(partition_column(group.files, name)) for name in names), strict=True))
