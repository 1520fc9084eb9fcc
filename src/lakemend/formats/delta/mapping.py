"""Column mapping: the schema users see, and the names and ids inside the data files.

The snapshot calls `to_metadata`; create and alter start from Delta's own schema too. In mode `name`
the physical name of a field is in its metadata; in mode `id` data files are read by Parquet field
id, which is handed on as `parquet.field.id`. Partition values and statistics use physical names in
both modes. Without mapping both schemas have the same names.
"""

from __future__ import annotations

from typing import Any

from lakemend.errors import CorruptTableError
from lakemend.formats import char_types
from lakemend.formats.delta.actions import MetaData
from lakemend.formats.format import Metadata, PartitionField
from lakemend.schema import DataType, Path, Struct, is_struct, leaves, to_arrow

MODE = "delta.columnMapping.mode"
MAX_ID = "delta.columnMapping.maxColumnId"
ID = "delta.columnMapping.id"
PHYSICAL_NAME = "delta.columnMapping.physicalName"
NESTED_IDS = "delta.columnMapping.nested.ids"
FIELD_ID = "parquet.field.id"
CHECK = "delta.constraints."

# Field metadata only Delta knows; the rest (comments, char/varchar, defaults, generation) stays visible.
_TYPE_CHANGES = "delta.typeChanges"
_HIDDEN = frozenset({ID, PHYSICAL_NAME, NESTED_IDS, FIELD_ID, _TYPE_CHANGES, "parquet.field.nested.ids"})
WIDENED = "widened"


def mode_of(configuration: dict[str, str]) -> str:
    mode = configuration.get(MODE, "none").lower()
    if mode not in ("none", "name", "id"):
        raise CorruptTableError(
            f"the column mapping mode {mode!r} is unknown",
            cause=f"the table property {MODE} must be none, name or id",
            remedy="repair the property with the engine that set it",
            mode=mode,
        )
    return mode


def logical_schema(schema: Struct) -> Struct:
    """Delta's schema without what only Delta knows."""
    return _rebuild_struct(schema, lambda f: (f["name"], _visible(f)))


def physical_schema(schema: Struct, mode: str) -> Struct:
    """The same shape with the names used in data files and, where fields have ids, `parquet.field.id`.

    A field that some files may hold in a narrower type is marked with `widened`.
    """
    if mode == "none":
        return _rebuild_struct(schema, lambda f: (f["name"], _widened(f)))
    return _rebuild_struct(schema, lambda f: (physical_name(f), _ids(f) | _widened(f)))


def physical_name(field: dict[str, Any], mode: str = "name") -> str:
    """The name of a field of Delta's schema in data files, partition values and statistics."""
    if mode == "none":
        return str(field["name"])
    found = (field.get("metadata") or {}).get(PHYSICAL_NAME)
    if not found:
        raise CorruptTableError(
            f"column {field['name']!r} has no physical name",
            cause="the table uses column mapping and its schema lacks delta.columnMapping.physicalName",
            remedy="repair the schema with the engine that wrote it",
            column=field["name"],
        )
    return str(found)


def physical_path(logical: Struct, physical: Struct, path: Path) -> Path | None:
    """A logical path through structs as the physical one; None if there is no such field."""
    out: list[str] = []
    here, there = logical, physical
    for depth, name in enumerate(path):
        index = next((i for i, f in enumerate(here["fields"]) if f["name"] == name), None)
        if index is None:
            return None
        out.append(there["fields"][index]["name"])
        if depth + 1 < len(path):
            kind = here["fields"][index]["type"]
            if not is_struct(kind):
                return None
            here, there = kind, there["fields"][index]["type"]
    return tuple(out)


# Deeper than anybody nests, and shallow enough for functions that call themselves for every level.
_DEEPEST = 100


def _require_sound(datatype: Any, depth: int = 0) -> None:
    """Raises ValueError where Delta's schema is none. Which types there are, the protocol has a say in."""
    if depth > _DEEPEST:
        raise ValueError(f"its types are nested more than {_DEEPEST} deep")
    if isinstance(datatype, str):
        return
    if not isinstance(datatype, dict) or not isinstance(datatype.get("type"), str):
        raise ValueError(f"{str(datatype)[:100]!r} is no type")
    if datatype["type"] == "struct":
        fields = datatype.get("fields")
        if not isinstance(fields, list):
            raise ValueError("a struct has no fields")
        names = set()
        for field in fields:
            if not isinstance(field, dict) or not isinstance(field.get("name"), str):
                raise ValueError("a field has no name")
            if field["name"] in names:
                raise ValueError(f"there are two fields {field['name']!r}")
            names.add(field["name"])
            if not isinstance(field.get("metadata") or {}, dict):
                raise ValueError(f"the metadata of {field['name']!r} is no object")
            _require_sound(field.get("type"), depth + 1)
    parts = {"array": ("elementType",), "map": ("keyType", "valueType")}.get(datatype["type"], ())
    for part in parts:
        _require_sound(datatype.get(part), depth + 1)
    if not parts and datatype["type"] != "struct":
        raise ValueError(f"{datatype['type']!r} is no nested type")


def require_known_types(metadata: Metadata) -> None:
    """Raises CorruptTableError for a type that there is none of, once the protocol is known to be ours."""
    for path, datatype in leaves(metadata.schema):
        try:
            to_arrow(datatype)
        except (ValueError, KeyError, TypeError) as error:
            raise _contradicting(f"the type of column {'.'.join(path)} is unknown", str(error)[:500]) from error


def _contradicting(problem: str, cause: str) -> CorruptTableError:
    return CorruptTableError(problem, cause=cause, remedy="repair the table with the engine that wrote it")


def to_metadata(action: MetaData) -> Metadata:
    """What the brain sees of a metaData action."""
    try:
        _require_sound(action.schema)
    except ValueError as error:
        raise _contradicting("the schema of the table cannot be understood", str(error)) from error
    mode = mode_of(action.configuration)
    logical = char_types.aligned(logical_schema(action.schema))
    names = {f["name"]: f["name"] for f in logical["fields"]}
    folded = {name.lower(): name for name in names}
    partitioning = []
    for column in action.partition_columns:
        name = names.get(column) or folded.get(column.lower())
        if name is None:
            raise CorruptTableError(
                f"partition column {column!r} is not in the schema",
                cause="the table's metadata contradicts itself",
                remedy="repair the table with the engine that wrote it",
                column=column,
            )
        partitioning.append(PartitionField(name, (name,)))
    return Metadata(
        schema=logical,
        physical=physical_schema(action.schema, mode),
        partitioning=tuple(partitioning),
        properties={k: v for k, v in action.configuration.items() if not k.startswith(CHECK)},
        comment=action.description,
        checks={k[len(CHECK) :]: v for k, v in action.configuration.items() if k.startswith(CHECK)},
        by_id=mode == "id",
        id=action.id,
        created=action.created,
    )


def partition_names(metadata: Metadata) -> tuple[str, ...]:
    """Physical names of the partition columns, as partitionValues spells them."""
    physical = {
        f["name"]: p["name"] for f, p in zip(metadata.schema["fields"], metadata.physical["fields"], strict=True)
    }
    return tuple(physical[p.source[0]] for p in metadata.partitioning)


def partition_types(metadata: Metadata) -> dict[str, DataType]:
    """The types of the partition columns, by physical name."""
    types = {f["name"]: f["type"] for f in metadata.physical["fields"]}
    return {name: types[name] for name in partition_names(metadata)}


def _visible(field: dict[str, Any]) -> dict[str, Any]:
    return {k: v for k, v in (field.get("metadata") or {}).items() if k not in _HIDDEN}


def _widened(field: dict[str, Any]) -> dict[str, Any]:
    return {WIDENED: True} if (field.get("metadata") or {}).get(_TYPE_CHANGES) else {}


def _ids(field: dict[str, Any]) -> dict[str, Any]:
    metadata = field.get("metadata") or {}
    out: dict[str, Any] = {}
    if ID in metadata:
        out[FIELD_ID] = int(metadata[ID])
    if NESTED_IDS in metadata:
        # By path: "<physical name>.element", "<physical name>.key", "….value".
        out["parquet.field.nested.ids"] = metadata[NESTED_IDS]
    return out


def _rebuild_struct(schema: Struct, rename: Any) -> Struct:
    fields = []
    for f in schema["fields"]:
        name, metadata = rename(f)
        fields.append(
            {
                "name": name,
                "type": _rebuild(f["type"], rename),
                "nullable": bool(f.get("nullable", True)),
                "metadata": metadata,
            }
        )
    return {"type": "struct", "fields": fields}


# Names of types that Spark still reads and no longer writes.
_OLD_NAMES = {"null": "void", "decimal": "decimal(10,0)", "timestamp_ltz": "timestamp"}


def _rebuild(datatype: DataType, rename: Any) -> DataType:
    if isinstance(datatype, str):
        return _OLD_NAMES.get(datatype, datatype)
    if datatype["type"] == "struct":
        return _rebuild_struct(datatype, rename)
    if datatype["type"] == "array":
        return {**datatype, "elementType": _rebuild(datatype["elementType"], rename)}
    return {
        **datatype,
        "keyType": _rebuild(datatype["keyType"], rename),
        "valueType": _rebuild(datatype["valueType"], rename),
    }
