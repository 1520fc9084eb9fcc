"""The one type language: Spark's JSON schema, as plain dicts.

A struct is `{"type": "struct", "fields": [{"name", "type", "nullable", "metadata"}]}`, an array
`{"type": "array", "elementType", "containsNull"}`, a map `{"type": "map", "keyType", "valueType",
"valueContainsNull"}`, a leaf a string such as `"integer"`, `"decimal(10,2)"` or `"timestamp_ntz"`.
Delta stores it as it is, Spark parses it as it is; other formats translate. Formats, the brain and
the tables call this; it knows none of them.

A *wire value* is how a typed value travels as JSON: numbers as numbers (NaN and infinities as
strings), decimals as strings, binary as base64, dates as days and timestamps as microseconds since
the epoch.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Iterator
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any

import pyarrow as pa

DataType = str | dict[str, Any]
Struct = dict[str, Any]
Path = tuple[str, ...]

_DECIMAL = re.compile(r"^decimal\(\s*(\d+)\s*,\s*(-?\d+)\s*\)$")
_ARROW: dict[str, pa.DataType] = {
    "boolean": pa.bool_(),
    "byte": pa.int8(),
    "short": pa.int16(),
    "integer": pa.int32(),
    "long": pa.int64(),
    "float": pa.float32(),
    "double": pa.float64(),
    "string": pa.string(),
    "binary": pa.binary(),
    "date": pa.date32(),
    "timestamp": pa.timestamp("us", tz="UTC"),
    "timestamp_ntz": pa.timestamp("us"),
    "void": pa.null(),
}
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def struct(*fields: tuple[str, DataType] | dict[str, Any]) -> Struct:
    """A struct of nullable fields, written short: `struct(("id", "long"), ("name", "string"))`."""
    return {"type": "struct", "fields": [field(*f) if isinstance(f, tuple) else f for f in fields]}


def field(name: str, type: DataType, nullable: bool = True, metadata: dict[str, Any] | None = None) -> dict[str, Any]:
    return {"name": name, "type": type, "nullable": nullable, "metadata": metadata or {}}


def nullable(type: DataType) -> Any:
    """The same type with NULL allowed in every field, element and value."""
    if not isinstance(type, dict):
        return type
    copy = dict(type)
    if "fields" in copy:
        copy["fields"] = [{**f, "type": nullable(f["type"]), "nullable": True} for f in copy["fields"]]
    for part, contains in (("elementType", "containsNull"), ("valueType", "valueContainsNull")):
        if part in copy:
            copy |= {part: nullable(copy[part]), contains: True}
    if "keyType" in copy:
        copy["keyType"] = nullable(copy["keyType"])
    return copy


def is_struct(type: DataType) -> bool:
    return isinstance(type, dict) and type["type"] == "struct"


def find(schema: Struct, path: Path) -> dict[str, Any] | None:
    """The field at a path of names through nested structs; exact case first, else the only one that fits."""
    fields = schema["fields"]
    found: dict[str, Any] | None = None
    for depth, name in enumerate(path):
        found = next((f for f in fields if f["name"] == name), None)
        if found is None:
            folded = [f for f in fields if f["name"].lower() == name.lower()]
            found = folded[0] if len(folded) == 1 else None
        if found is None:
            return None
        if depth + 1 < len(path):
            if not is_struct(found["type"]):
                return None
            fields = found["type"]["fields"]
    return found


def unknown_kinds(type: Any, path: Path = ()) -> Iterator[tuple[Path, str]]:
    """Types that are none of Spark's own, with the columns that have them. A `udt` would name classes to be loaded."""
    if not isinstance(type, dict):
        return
    kind = type.get("type")
    if kind == "struct":
        for f in type["fields"]:
            yield from unknown_kinds(f["type"], (*path, f["name"]))
    elif kind == "array":
        yield from unknown_kinds(type["elementType"], (*path, "element"))
    elif kind == "map":
        yield from unknown_kinds(type["keyType"], (*path, "key"))
        yield from unknown_kinds(type["valueType"], (*path, "value"))
    else:
        yield path, str(kind)


def leaves(schema: Struct, prefix: Path = ()) -> Iterator[tuple[Path, DataType]]:
    """Every leaf reached through structs only (the columns statistics exist for), with its type."""
    for f in schema["fields"]:
        path = (*prefix, f["name"])
        if is_struct(f["type"]):
            yield from leaves(f["type"], path)
        else:
            yield path, f["type"]


def decimal_of(type: DataType) -> tuple[int, int] | None:
    match = _DECIMAL.match(type) if isinstance(type, str) else None
    return (int(match[1]), int(match[2])) if match else None


def to_arrow(type: DataType) -> pa.DataType:
    """The Arrow type of a Spark type; variants are read as their two binary parts."""
    if isinstance(type, dict):
        kind = type["type"]
        if kind == "struct":
            return pa.struct([pa.field(f["name"], to_arrow(f["type"]), f["nullable"]) for f in type["fields"]])
        if kind == "array":
            return pa.list_(pa.field("element", to_arrow(type["elementType"]), type["containsNull"]))
        if kind == "map":
            value = pa.field("value", to_arrow(type["valueType"]), type["valueContainsNull"])
            return pa.map_(to_arrow(type["keyType"]), value)
        raise ValueError(f"unknown type {type!r}")
    if precision := decimal_of(type):
        return pa.decimal128(*precision)
    if type in _ARROW:
        return _ARROW[type]
    if type.startswith(("char(", "varchar(", "string")):
        return pa.string()
    if type == "variant":
        return pa.struct([pa.field("value", pa.binary(), False), pa.field("metadata", pa.binary(), False)])
    if type.startswith("interval"):
        return pa.int64()
    raise ValueError(f"unknown type {type!r}")


def to_wire(value: Any) -> Any:
    """A Python value as it travels in JSON."""
    if value is None or isinstance(value, bool | int | str):
        return value
    if isinstance(value, float):
        return value if value - value == 0 else ("NaN" if value != value else "Infinity" if value > 0 else "-Infinity")
    if isinstance(value, Decimal):
        return format(value, "f")
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    if isinstance(value, datetime):
        aware = value if value.tzinfo else value.replace(tzinfo=UTC)
        return (aware - _EPOCH) // timedelta(microseconds=1)
    if isinstance(value, date):
        return value.toordinal() - date(1970, 1, 1).toordinal()
    raise TypeError(f"no wire form for {value!r}")


def from_wire(value: Any, type: DataType) -> Any:
    """A wire value as the Python value that Arrow takes for the type."""
    if value is None:
        return None
    if type in ("float", "double"):
        return float(value)
    if decimal_of(type):
        return Decimal(value)
    if type == "binary":
        return base64.b64decode(value)
    if type == "date":
        return _date(value)
    if type == "timestamp":
        return _EPOCH + timedelta(microseconds=value)
    if type == "timestamp_ntz":
        return (_EPOCH + timedelta(microseconds=value)).replace(tzinfo=None)
    return value


def _date(days: int) -> date:
    return date.fromordinal(days + date(1970, 1, 1).toordinal())
