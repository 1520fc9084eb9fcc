"""CHAR and VARCHAR: strings to Delta, whose declared type stands as text in the metadata of the top-level column.

The text is that of the whole type, `struct<code:char(3),n:int>`: Spark enforces lengths at any depth by it, and takes
it for the type itself, so it must have the shape that the column has by now. Reading a table calls `aligned`; what
changes a definition works on `declared` types and ends with `stored`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from lakemend.schema import DataType, Struct, is_struct

KEY = "__CHAR_VARCHAR_TYPE_STRING"  # Spark's

_TEXT = re.compile(r"(var)?char\(\d{1,9}\)")
_CHAR = re.compile(r"char\((\d{1,9})\)")
_PLAIN_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_SQL_NAMES = {"byte": "tinyint", "short": "smallint", "integer": "int", "long": "bigint"}
_PARTS = ("elementType", "keyType", "valueType")
_DEEPEST = 100


def is_text(type: DataType) -> bool:
    """Whether it is CHAR or VARCHAR of some length."""
    return isinstance(type, str) and _TEXT.fullmatch(type) is not None


def length_of_char(field: Mapping[str, Any]) -> int | None:
    """The length that values of a top-level column are filled up to, if it is a CHAR."""
    text = (field.get("metadata") or {}).get(KEY)
    found = _CHAR.fullmatch(text.strip().lower()) if isinstance(text, str) and field["type"] == "string" else None
    return int(found[1]) if found else None


def holds_char(field: Mapping[str, Any]) -> bool:
    """Whether a CHAR is part of a top-level column, at any depth."""
    return re.search(r"(?<!var)char\(", str((field.get("metadata") or {}).get(KEY, "")).lower()) is not None


def aligned(schema: Struct) -> Struct:
    """The schema with a text on each top-level column that holds CHAR or VARCHAR, in the shape its type has."""
    return stored(declared(schema))


def declared(schema: Struct) -> Struct:
    """The schema with CHAR and VARCHAR as types, and no texts. A text that cannot be understood stays where it is."""
    return {**schema, "fields": [_declared_field(field, None) for field in schema["fields"]]}


def stored(schema: Struct) -> Struct:
    """The schema with strings for CHAR and VARCHAR, and their texts on the top-level columns."""
    fields = []
    for field in schema["fields"]:
        metadata = field.get("metadata") or {}
        if _holds_text(field["type"]):
            metadata = {**metadata, KEY: _spelled(field["type"])}
        fields.append({**field, "type": _as_strings(field["type"]), "metadata": metadata})
    return {**schema, "fields": fields}


def _declared_field(field: dict[str, Any], said: DataType | None) -> dict[str, Any]:
    metadata = field.get("metadata") or {}
    if KEY in metadata:
        own = _parsed(str(metadata[KEY]))
        if own is None:
            return field
        said, metadata = own, {key: value for key, value in metadata.items() if key != KEY}
    return {**field, "type": _declared(field["type"], said), "metadata": metadata}


def _declared(type: DataType, said: DataType | None) -> DataType:
    if not isinstance(type, dict):
        return said if type == "string" and said is not None and is_text(said) else type
    same = said if isinstance(said, dict) and said["type"] == type["type"] else {}
    copy = dict(type)
    if is_struct(type):
        copy["fields"] = [
            _declared_field(field, told)
            for field, told in zip(type["fields"], _told(type["fields"], same.get("fields", [])), strict=True)
        ]
    for part in _PARTS:
        if part in copy:
            copy[part] = _declared(copy[part], same.get(part))
    return copy


def _told(fields: list[dict[str, Any]], said: list[dict[str, Any]]) -> list[DataType | None]:
    """What a text says of each field: by its name, or by its place where a field was renamed and the text was not."""
    types = {field["name"].lower(): field["type"] for field in said}
    names = {field["name"].lower() for field in fields}
    return [
        types[field["name"].lower()]
        if field["name"].lower() in types
        else said[i]["type"]
        if len(said) == len(fields) and said[i]["name"].lower() not in names
        else None
        for i, field in enumerate(fields)
    ]


def _holds_text(type: DataType) -> bool:
    if not isinstance(type, dict):
        return is_text(type)
    return any(_holds_text(field["type"]) for field in type.get("fields", ())) or any(
        _holds_text(type[part]) for part in _PARTS if part in type
    )


def _as_strings(type: DataType) -> DataType:
    if not isinstance(type, dict):
        return "string" if is_text(type) else type
    copy = dict(type)
    if is_struct(type):
        copy["fields"] = [{**field, "type": _as_strings(field["type"])} for field in type["fields"]]
    for part in _PARTS:
        if part in copy:
            copy[part] = _as_strings(copy[part])
    return copy


def _spelled(type: DataType) -> str:
    """As Spark's parser of types reads it and, but for names in backticks, as Spark spells it."""
    if not isinstance(type, dict):
        return _SQL_NAMES.get(type, type)
    if is_struct(type):
        inside = [f"{_name(field['name'])}:{_spelled(field['type'])}" for field in type["fields"]]
        return f"struct<{','.join(inside)}>"
    return f"{type['type']}<{','.join(_spelled(type[part]) for part in _PARTS if part in type)}>"


def _name(name: str) -> str:
    return name if _PLAIN_NAME.fullmatch(name) else f"`{name.replace('`', '``')}`"


def _parsed(text: str) -> DataType | None:
    """A type from its text, as far as it matters here: leaves other than CHAR and VARCHAR are whatever they say."""
    try:
        found, rest = _type(text.strip(), 0)
    except ValueError:
        return None
    return found if not rest.strip() else None


def _type(text: str, depth: int) -> tuple[DataType, str]:
    if depth > _DEEPEST:
        raise ValueError("too deep")
    opening = re.match(r"\s*(array|map|struct)\s*<", text, re.IGNORECASE)
    if opening is None:
        leaf = re.match(r"[^<>,()]+(\([^()]*\))?", text)
        if leaf is None:
            raise ValueError(text)
        return leaf[0].strip().lower(), text[leaf.end() :]
    kind, rest = opening[1].lower(), text[opening.end() :]
    if kind == "struct":
        fields: list[dict[str, Any]] = []
        while not rest.startswith(">"):
            name, rest = _field_name(rest if not fields else _after(rest, ","))
            type, rest = _type(rest, depth + 1)
            fields.append({"name": name, "type": type})
        return {"type": "struct", "fields": fields}, rest[1:]
    parts: dict[str, Any] = {"type": kind}
    for i, part in enumerate(("elementType",) if kind == "array" else ("keyType", "valueType")):
        parts[part], rest = _type(rest if i == 0 else _after(rest, ","), depth + 1)
    return parts, _after(rest, ">")


def _field_name(text: str) -> tuple[str, str]:
    quoted = re.match(r"\s*`((?:[^`]|``)*)`\s*:", text)
    if quoted is not None:
        return quoted[1].replace("``", "`"), text[quoted.end() :]
    name, colon, rest = text.partition(":")
    if not colon:
        raise ValueError(text)
    return name.strip(), rest


def _after(text: str, mark: str) -> str:
    if not text.startswith(mark):
        raise ValueError(text)
    return text[1:]
