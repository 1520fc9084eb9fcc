"""Rules for columns of Delta tables: names, types, mapping ids, and expressions that use a column.

`metadata.py` (CREATE, REPLACE) and `alter.py` (ALTER) call these on whole schemas. Column mapping
gives every field, at any depth, an id that is never used twice and a physical name that never changes.
"""

from __future__ import annotations

import re
import uuid
from collections.abc import Collection, Iterator
from typing import Any

from lakemend.errors import InvalidInputError, UnsupportedFeatureError
from lakemend.formats.delta.mapping import ID, PHYSICAL_NAME
from lakemend.schema import DataType, Path, Struct, decimal_of

GENERATION = "delta.generationExpression"
INVARIANTS = "delta.invariants"
DEFAULT = "CURRENT_DEFAULT"

# Parquet readers split or trip on these, so without column mapping no column may have them in its name.
_SPECIAL = set(" ,;{}()\n\t=")
_MAX_NAME_BYTES = 255
_ATOMIC = frozenset(
    {"boolean", "byte", "short", "integer", "long", "float", "double", "string", "binary"}
    | {"date", "timestamp", "timestamp_ntz", "variant"}
)
_WIDER = {
    "byte": ("short", "integer", "long", "double"),
    "short": ("integer", "long", "double"),
    "integer": ("long", "double"),
    "float": ("double",),
    "date": ("timestamp_ntz",),
}


def spelled(path: Path) -> str:
    return ".".join(path)


def walk(type: DataType, prefix: Path = ()) -> Iterator[tuple[Path, dict[str, Any]]]:
    """Every field at any depth with its path; inside arrays and maps the path goes on with element, key, value."""
    if not isinstance(type, dict):
        return
    for field in type.get("fields", ()):
        path = (*prefix, field["name"])
        yield path, field
        yield from walk(field["type"], path)
    for part, name in (("elementType", "element"), ("keyType", "key"), ("valueType", "value")):
        if part in type:
            yield from walk(type[part], (*prefix, name))


def to_delta(type: DataType) -> DataType:
    """A type of Spark's with the metadata of its fields in Delta's terms; CHAR and VARCHAR are what they were."""
    if not isinstance(type, dict):
        # Comparing bytes is what strings do anyway.
        return "string" if type == "string collate UTF8_BINARY" else type
    copy = dict(type)
    if copy["type"] == "struct":
        copy["fields"] = [_delta_field(field) for field in copy["fields"]]
    for part in ("elementType", "keyType", "valueType"):
        if part in copy:
            copy[part] = to_delta(copy[part])
    return copy


def _delta_field(field: dict[str, Any]) -> dict[str, Any]:
    metadata = dict(field.get("metadata") or {})
    if "GENERATION_EXPRESSION" in metadata:
        metadata[GENERATION] = metadata.pop("GENERATION_EXPRESSION")
    # Delta fills rows written before a column existed with NULL, never with a default.
    metadata.pop("EXISTS_DEFAULT", None)
    refused = next((key for key in metadata if key.startswith(("delta.identity.", "IDENTITY", "__COLLATIONS"))), None)
    if refused is not None:
        raise UnsupportedFeatureError(
            f"the column {field['name']} cannot be kept in a Delta table",
            cause=f"it is declared with {refused.lower().strip('_')}, which Lakemend does not write",
            remedy="declare the column without it",
            column=field["name"],
        )
    return {
        "name": field["name"],
        "type": to_delta(field["type"]),
        "nullable": field.get("nullable", True),
        "metadata": metadata,
    }


def check_types(type: DataType, path: Path = (), known: Collection[str] = ()) -> None:
    """Raises for a type Delta has no place for; those that the table has already, by another writer, are `known`."""
    if isinstance(type, dict):
        for field in type.get("fields", ()):
            check_types(field["type"], (*path, field["name"]), known)
        if type["type"] == "struct" and not type["fields"] and path:
            _no_such_type("struct<>", path, "a struct needs at least one field")
        for part, name in (("elementType", "element"), ("keyType", "key"), ("valueType", "value")):
            if part in type:
                check_types(type[part], (*path, name), known)
        return
    precision = decimal_of(type)
    if precision is not None and not (1 <= precision[0] <= 38 and 0 <= precision[1] <= precision[0]):
        _no_such_type(type, path, "the precision is at most 38 and the scale lies between 0 and the precision")
    if precision is None and type not in _ATOMIC and type not in known:
        _no_such_type(type, path, "Delta tables have no such type")


def _no_such_type(type: str, path: Path, cause: str) -> None:
    raise InvalidInputError(
        f"the column {spelled(path)} cannot be of type {type}",
        cause=cause,
        remedy="cast the column to another type, such as string",
        column=spelled(path),
        type=type,
    )


def check_names(schema: Struct, mapped: bool, known: Collection[str] = ()) -> None:
    """Raises for names that are empty, occur twice or cannot be written to Parquet without column mapping.

    Names that the table has already are `known`: other writers need no mapping for them.
    """
    for path, inner in [((), schema), *((path, field["type"]) for path, field in walk(schema))]:
        for struct_path, struct in _structs(inner, path):
            _check_unique(struct_path, struct)
    for path, _ in walk(schema):
        name = path[-1]
        special = sorted(set(name) & _SPECIAL)
        if special and not mapped and name not in known:
            raise InvalidInputError(
                f"the column name {name!r} cannot be used",
                cause=f"it holds {special[0]!r}; names with any of ' ,;{{}}()\\n\\t=' need column mapping",
                remedy="rename the column, or set the table property delta.columnMapping.mode=name",
                column=spelled(path),
            )


def _structs(type: DataType, path: Path) -> Iterator[tuple[Path, Struct]]:
    """The struct this type is, or is an array or map of."""
    if not isinstance(type, dict):
        return
    if type["type"] == "struct":
        yield path, type
        return
    for part in ("elementType", "keyType", "valueType"):
        if part in type:
            yield from _structs(type[part], path)


def _check_unique(path: Path, struct: Struct) -> None:
    seen: dict[str, str] = {}
    for field in struct["fields"]:
        name = field["name"]
        if not name:
            raise InvalidInputError(
                f"a column of {spelled(path) or 'the table'} has no name",
                remedy="give every column a name",
                column=spelled(path),
            )
        if name.lower() in seen:
            raise InvalidInputError(
                f"the column {spelled((*path, name))} occurs twice",
                cause=f"names are compared without case, and there is {seen[name.lower()]!r} already",
                remedy="rename one of them",
                column=spelled((*path, name)),
            )
        seen[name.lower()] = name


def check_partitioning(schema: Struct, names: list[str]) -> None:
    """Raises unless the partition columns are some, not all, of the atomic top-level columns."""
    for name in names:
        field = next((f for f in schema["fields"] if f["name"] == name), None)
        if field is None:
            raise InvalidInputError(
                f"there is no column {name} to partition by",
                cause="partition columns are top-level columns of the table",
                remedy=f"choose among {', '.join(f['name'] for f in schema['fields'])}",
                column=name,
            )
        if not isinstance(field["type"], str) or field["type"] == "variant":
            raise InvalidInputError(
                f"the table cannot be partitioned by {name}",
                cause="its type is nested; partition columns hold plain values",
                remedy="partition by a column of a plain type",
                column=name,
            )
        if len(name.encode()) > _MAX_NAME_BYTES - 2:
            raise InvalidInputError(
                f"the table cannot be partitioned by {name[:40]}…",
                cause=f"the name has {len(name.encode())} bytes, and a directory name {_MAX_NAME_BYTES} at most",
                remedy="choose a shorter name",
                column=name,
            )
    if len({name.lower() for name in names}) != len(names):
        raise InvalidInputError("a partition column is named twice", remedy="name each once", columns=names)
    if names and len(names) == len(schema["fields"]):
        raise InvalidInputError(
            "the table cannot be partitioned by all of its columns",
            cause="data files would hold no column",
            remedy="leave one column out of the partitioning",
            columns=names,
        )


def with_mapping(schema: Struct, last_id: int, keep_names: bool) -> tuple[Struct, int]:
    """The schema with an id and a physical name on each field that has none, and the highest id in use.

    `keep_names`: the fields exist in data files already, so their physical names are their names.
    """
    known = [field["metadata"].get(ID, 0) for _, field in walk(schema)]
    last = max([last_id, *known])

    def mapped(type: DataType) -> DataType:
        nonlocal last
        if not isinstance(type, dict):
            return type
        copy = dict(type)
        if copy["type"] == "struct":
            fields = []
            for field in copy["fields"]:
                metadata = dict(field["metadata"])
                if ID not in metadata:
                    last += 1
                    metadata[ID] = last
                metadata.setdefault(PHYSICAL_NAME, field["name"] if keep_names else f"col-{uuid.uuid4()}")
                fields.append({**field, "type": mapped(field["type"]), "metadata": metadata})
            copy["fields"] = fields
        for part in ("elementType", "keyType", "valueType"):
            if part in copy:
                copy[part] = mapped(copy[part])
        return copy

    result = mapped(schema)
    assert isinstance(result, dict)
    return result, last


def widens(old: DataType, new: DataType) -> bool:
    """Whether every value of `old` is a value of `new` that files of `old` can be read as."""
    before, after = decimal_of(old), decimal_of(new)
    if before and after:
        scale = after[1] - before[1]
        return scale >= 0 and after[0] - before[0] >= scale
    return isinstance(old, str) and isinstance(new, str) and new in _WIDER.get(old, ())


def uses(sql: str, column: str) -> bool:
    """Whether an expression may refer to a column: its name occurs outside of string literals.

    Where it is not plain what is a literal (other quotes, escapes, raw text, comments), text counts as well.
    """
    plain = re.search(r"""["\\]|--|/\*|\br'""", sql, re.IGNORECASE) is None
    text = (re.sub(r"'(?:[^']|'')*'", "''", sql) if plain else sql).lower()
    name = column.lower()
    if f"`{name.replace('`', '``')}`" in text:
        return True
    return re.search(rf"(?<![\w`]){re.escape(name)}(?![\w`])", text) is not None
