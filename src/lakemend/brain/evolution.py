"""Schema evolution on write: what ALTER TABLE would have to do for incoming rows to fit.

`stage` and `commit` call `merged_changes` where a write asks for it (mergeSchema). Columns the table
lacks are added at the end of their struct, types widen where every old value keeps its meaning; which
widenings the table may have, the format decides. Columns the rows lack stay as they are.
"""

from __future__ import annotations

from typing import Any

from lakemend.errors import SchemaMismatchError
from lakemend.schema import DataType, Path, Struct, decimal_of, is_struct

_INTEGERS = ("byte", "short", "integer", "long")


def merged_changes(table: Struct, incoming: Struct, prefix: Path = ()) -> list[dict[str, Any]]:
    """Alter changes (docs/architecture.md) that make `table` take rows of `incoming`."""
    changes: list[dict[str, Any]] = []
    by_name = {field["name"].lower(): field for field in table["fields"]}
    for field in incoming["fields"]:
        present = by_name.get(field["name"].lower())
        path = (*prefix, present["name"] if present else field["name"])
        if present is None:
            changes.append(
                {
                    "kind": "add_column",
                    "path": list(path),
                    "type": field["type"],
                    "nullable": True,
                    "comment": (field.get("metadata") or {}).get("comment"),
                }
            )
        else:
            changes += _type_changes(present["type"], field["type"], path)
    return changes


def _type_changes(old: DataType, new: DataType, path: Path) -> list[dict[str, Any]]:
    if old == new:
        return []
    if isinstance(old, dict) and isinstance(new, dict) and old["type"] == new["type"]:
        if is_struct(old):
            return merged_changes(old, new, path)
        if old["type"] == "array":
            return _type_changes(old["elementType"], new["elementType"], (*path, "element"))
        if old["type"] == "map":
            keys = _type_changes(old["keyType"], new["keyType"], (*path, "key"))
            return keys + _type_changes(old["valueType"], new["valueType"], (*path, "value"))
    if fits(new, old):
        return []
    if fits(old, new):
        return [{"kind": "update_type", "path": list(path), "type": new}]
    raise SchemaMismatchError(
        f"column {'.'.join(path)} of type {_spelled(old)} cannot take {_spelled(new)}",
        cause="neither type holds every value of the other",
        remedy="cast the column before writing, or replace the table",
        column=".".join(path),
        expected=_spelled(old),
        actual=_spelled(new),
    )


def fits(narrow: DataType, wide: DataType) -> bool:
    """Whether every value of `narrow` is one of `wide`."""
    if narrow == wide or narrow == "void":
        return True
    if not isinstance(narrow, str) or not isinstance(wide, str):
        return False
    if narrow in _INTEGERS:
        if wide in _INTEGERS:
            return _INTEGERS.index(narrow) < _INTEGERS.index(wide)
        return (wide == "double" and narrow != "long") or (wide == "float" and narrow in ("byte", "short"))
    if narrow == "float":
        return wide == "double"
    old, new = decimal_of(narrow), decimal_of(wide)
    if old and new:
        return new[1] >= old[1] and new[0] - new[1] >= old[0] - old[1]
    return narrow.startswith(("char(", "varchar(")) and wide == "string"


def _spelled(type: DataType) -> str:
    return type if isinstance(type, str) else str(type.get("type"))
