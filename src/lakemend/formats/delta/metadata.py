"""The definition of a Delta table: from a CREATE or REPLACE request, to and from the metaData action.

The format hands `new_metadata` and `write_settings` to the brain; `alter.py` and `commit.py` convert
with `delta_schema` and `to_action`. `Metadata` holds all there is to know: names and ids of data
files stand in its physical schema, CHECK constraints apart from the properties. Only the record of
type changes is not in it; `to_action` derives that from the base's schema.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Mapping
from typing import Any

from lakemend.errors import InvalidInputError
from lakemend.formats import char_types
from lakemend.formats.delta import columns
from lakemend.formats.delta.actions import MetaData
from lakemend.formats.delta.deletion_vector import file_form
from lakemend.formats.delta.features import needed_features
from lakemend.formats.delta.feed_columns import check_feed_names
from lakemend.formats.delta.file_stats import column_path, indexed_columns, split_columns
from lakemend.formats.delta.mapping import FIELD_ID, ID, NESTED_IDS, PHYSICAL_NAME, mode_of, to_metadata
from lakemend.formats.delta.properties import (
    CHECK_PREFIX,
    FEATURE_PREFIX,
    FEED,
    MAPPING_MODE,
    MAX_COLUMN_ID,
    VECTORS,
    checked,
    compacts_itself,
)
from lakemend.formats.format import Metadata, Snapshot
from lakemend.formats.properties import is_on, mode, settings
from lakemend.schema import DataType, Path, Struct, find

TYPE_CHANGES = "delta.typeChanges"
# Properties that ask for a protocol and are not kept as properties.
_PROTOCOL_KEYS = ("delta.minReaderVersion", "delta.minWriterVersion")
# What Spark's catalogs add to the properties of every table.
_SPARK_KEYS = ("provider", "location", "owner", "external", "is_managed_location", "comment", "path")


def new_metadata(request: dict[str, Any], base: Snapshot | None) -> Metadata:
    """The definition a CREATE (or, with a base, REPLACE) TABLE asks for; raises if it makes no sense."""
    kept = base.metadata.properties if base is not None else {}
    properties = _requested_properties(request.get("properties") or {}, kept)
    asked = columns.to_delta(request["schema"])
    assert isinstance(asked, dict)
    schema = char_types.stored(asked)
    _check_schema(schema)
    mapped = properties.get(MAPPING_MODE, "none").lower() != "none"
    columns.check_names(schema, mapped)
    partitioning = _partition_columns(schema, request.get("partitioning") or ())
    checks = {str(name): str(sql) for name, sql in (request.get("checks") or {}).items()}
    check_constraint_names(checks)
    # Ids of the replaced table are not used again: its files may still be read through time travel.
    last_used = int(base.metadata.properties.get(MAX_COLUMN_ID, 0)) if base is not None else 0
    if mapped:
        schema, last_used = columns.with_mapping(schema, last_used, keep_names=False)
    if last_used:
        properties[MAX_COLUMN_ID] = str(last_used)
    configuration = properties | {CHECK_PREFIX + name: sql for name, sql in checks.items()}
    check_stats_columns(schema, properties)
    check_feed_names(schema, properties)
    needed_features(schema, configuration)
    return to_metadata(
        MetaData(
            id=str(uuid.uuid4()),
            schema=schema,
            partition_columns=tuple(partitioning),
            configuration=configuration,
            description=request.get("comment"),
            created=int(time.time() * 1000),
        )
    )


def _requested_properties(asked: dict[str, Any], kept: dict[str, str]) -> dict[str, str]:
    """What is asked for, checked; a property the base has is good as it is, whoever set it."""
    properties: dict[str, str] = {}
    for key, value in asked.items():
        if key in _SPARK_KEYS or key.startswith("option."):
            continue
        if key.lower().startswith(CHECK_PREFIX):
            raise no_check_property(key)
        if key.lower() == MAX_COLUMN_ID.lower():
            continue
        name, text = (key, value) if kept.get(key) == value else checked(key, str(value))
        properties[name] = text
    if properties.get("delta.enableDeletionVectors") != "false":
        # Rows are masked by default. The reader feature comes with the first mask: until then every engine can read.
        for verb in ("update", "delete", "merge"):
            properties.setdefault(f"write.{verb}.mode", "merge-on-read")
    return properties


def no_check_property(key: str) -> InvalidInputError:
    return InvalidInputError(
        f"the property {key} cannot be set",
        cause="CHECK constraints are not properties",
        remedy="use ALTER TABLE … ADD CONSTRAINT … CHECK (…)",
        property=key,
    )


def _check_schema(schema: Struct) -> None:
    if not schema["fields"]:
        raise InvalidInputError("the table has no columns", remedy="declare at least one column")
    columns.check_types(schema)


def check_constraint_names(checks: dict[str, str]) -> None:
    if len({name.lower() for name in checks}) != len(checks) or not all(checks):
        raise InvalidInputError(
            "a CHECK constraint has no name, or two have the same",
            remedy="give each constraint a name of its own",
            constraints=sorted(checks),
        )


def _partition_columns(schema: Struct, asked: Any) -> list[str]:
    names = []
    for entry in asked:
        if entry.get("transform", "identity") != "identity":
            raise InvalidInputError(
                f"the table cannot be partitioned by {entry['transform']}",
                cause="Delta tables are partitioned by the values of columns alone",
                remedy="partition by a column, a generated one if need be",
                transform=entry["transform"],
            )
        source = entry["source"]
        path: Path = (source,) if isinstance(source, str) else tuple(source)
        if len(path) != 1:
            raise InvalidInputError(
                f"the table cannot be partitioned by {columns.spelled(path)}",
                cause="partition columns are top-level columns",
                remedy="add a top-level column with its value and partition by that",
                column=columns.spelled(path),
            )
        found = find(schema, path)
        names.append(found["name"] if found else path[0])
    columns.check_partitioning(schema, names)
    return names


def check_stats_columns(schema: Struct, properties: dict[str, str]) -> None:
    """Raises for columns in delta.dataSkippingStatsColumns that do not exist."""
    for text in split_columns(properties.get("delta.dataSkippingStatsColumns", "")):
        if find(schema, column_path(text)) is None:
            raise InvalidInputError(
                f"there is no column {text} to keep statistics of",
                cause="delta.dataSkippingStatsColumns names it",
                remedy="correct the property",
                column=text,
            )


def delta_schema(metadata: Metadata) -> Struct:
    """The schema in Delta's own spelling: ids and physical names back in the fields' metadata."""
    mapped = mode_of(metadata.properties) != "none"
    joined = _joined(metadata.schema, metadata.physical, mapped)
    assert isinstance(joined, dict)
    return joined


def _joined(logical: DataType, physical: DataType, mapped: bool) -> DataType:
    if not isinstance(logical, dict) or not isinstance(physical, dict):
        return logical
    copy = dict(logical)
    if copy["type"] == "struct":
        copy["fields"] = [
            {
                "name": field["name"],
                "type": _joined(field["type"], stored["type"], mapped),
                "nullable": field["nullable"],
                "metadata": field["metadata"] | (_mapping_of(stored) if mapped else {}),
            }
            for field, stored in zip(logical["fields"], physical["fields"], strict=True)
        ]
    for part in ("elementType", "keyType", "valueType"):
        if part in copy:
            copy[part] = _joined(logical[part], physical[part], mapped)
    return copy


def _mapping_of(stored: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = {PHYSICAL_NAME: stored["name"]}
    if FIELD_ID in stored["metadata"]:
        found[ID] = stored["metadata"][FIELD_ID]
    if "parquet.field.nested.ids" in stored["metadata"]:
        found[NESTED_IDS] = stored["metadata"]["parquet.field.nested.ids"]
    return found


def to_action(metadata: Metadata, base: MetaData | None) -> MetaData:
    """The metaData action of a definition. `base` is what it goes on from; None for a table made anew."""
    schema = delta_schema(metadata)
    if base is not None:
        schema = _with_type_changes(schema, base.schema, mode_of(metadata.properties) != "none")
    kept = {
        key: value
        for key, value in metadata.properties.items()
        if key not in _PROTOCOL_KEYS and not key.startswith(FEATURE_PREFIX)
    }
    return MetaData(
        id=metadata.id,
        schema=schema,
        partition_columns=tuple(field.source[0] for field in metadata.partitioning),
        configuration=kept | {CHECK_PREFIX + name: sql for name, sql in metadata.checks.items()},
        name=base.name if base is not None else None,
        description=metadata.comment,
        created=metadata.created,
        format=base.format if base is not None else {"provider": "parquet", "options": {}},
    )


def _with_type_changes(new: Struct, old: Struct, mapped: bool) -> Struct:
    """`new` with the type changes recorded in `old`, and one more wherever a type differs from the old one."""

    def key(field: dict[str, Any]) -> str:
        # A base without mapping has only names, and those become the physical names.
        name = (field.get("metadata") or {}).get(PHYSICAL_NAME) if mapped else None
        return str(name or field["name"])

    before = {key(field): field for field in old["fields"]}
    fields = []
    for field in new["fields"]:
        previous = before.get(key(field))
        if previous is None:
            fields.append(field)
            continue
        type, differences = _compared(field["type"], previous["type"], mapped, ())
        recorded = list((previous.get("metadata") or {}).get(TYPE_CHANGES, ())) + differences
        metadata = field["metadata"] | ({TYPE_CHANGES: recorded} if recorded else {})
        fields.append({**field, "type": type, "metadata": metadata})
    return {"type": "struct", "fields": fields}


def _compared(new: DataType, old: DataType, mapped: bool, path: Path) -> tuple[DataType, list[dict[str, str]]]:
    """`new` with the records of its own fields, and the differences the field that holds it must record."""
    if isinstance(new, dict) and isinstance(old, dict) and new["type"] == old["type"]:
        if new["type"] == "struct":
            return _with_type_changes(new, old, mapped), []
        copy, found = dict(new), []
        for part, name in (("elementType", "element"), ("keyType", "key"), ("valueType", "value")):
            if part in copy:
                copy[part], more = _compared(new[part], old[part], mapped, (*path, name))
                found += more
        return copy, found
    if new == old or not columns.widens(old, new):
        return new, []
    change = {"fromType": str(old), "toType": str(new)}
    return new, [change | ({"fieldPath": ".".join(path)} if path else {})]


def write_settings(metadata: Metadata) -> dict[str, Any]:
    """How data files of the table are to be written: see `write` in the wire's table."""
    properties = metadata.properties
    return {
        **settings(
            properties,
            size=properties.get("delta.targetFileSize"),
            codec=properties.get("delta.parquet.compression.codec"),
            auto_compact=compacts_itself(properties),
        ),
        "stats_columns": [list(path) for path in indexed_columns(metadata)],
        "isolation": _isolation(properties.get("delta.isolationLevel", "")),
        "feed": is_on(properties, FEED),
        "modes": {verb: _mode(properties, verb) for verb in ("update", "delete", "merge")},
        "mask_file": file_form(),
        "kept_properties": [MAX_COLUMN_ID],
    }


def _mode(properties: Mapping[str, str], verb: str) -> str:
    """How a verb changes rows. Tables of other writers are masked only if they ask for deletion vectors.

    An engine that drops a feature leaves a barrier in the log and, of vectors, no property: whoever took them out of
    the table does not want them back with the next row change.
    """
    vectors = properties.get(VECTORS, "").lower()
    if vectors == "false" or (not vectors and _BARRIER in properties):
        return "copy-on-write"
    return mode(properties, verb) or ("merge-on-read" if vectors == "true" else "copy-on-write")


_BARRIER = "delta.requireCheckpointProtectionBeforeVersion"
_ISOLATION = {"snapshotisolation": "snapshot", "writeserializable": "write-serializable"}


def _isolation(level: str) -> str:
    return _ISOLATION.get(level.lower(), "serializable")
