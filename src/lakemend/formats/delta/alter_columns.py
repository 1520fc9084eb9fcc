"""ALTER TABLE on columns: add, rename, drop, widen, move, describe.

`alter.py` calls one function per kind of change on a `Draft`, the definition in Delta's own spelling
while it changes. A change that would lose or reinterpret data is refused.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from lakemend.errors import InvalidInputError, SchemaMismatchError
from lakemend.formats.char_types import is_text
from lakemend.formats.delta import column_lists, columns
from lakemend.formats.delta.mapping import mode_of
from lakemend.formats.delta.properties import MAPPING_MODE, MAX_COLUMN_ID
from lakemend.formats.invariants import expression
from lakemend.redaction import logger
from lakemend.schema import DataType, Path, Struct, is_struct

log = logger(__name__)

Wire = dict[str, Any]
_PARTS = {"element": "elementType", "key": "keyType", "value": "valueType"}


@dataclass
class Draft:
    """The definition while it changes. In its schema CHAR and VARCHAR are types."""

    schema: Struct
    partition_columns: list[str]
    properties: dict[str, str]
    checks: dict[str, str]
    comment: str | None

    @property
    def mapped(self) -> bool:
        return mode_of(self.properties) != "none"

    def map_columns(self, why: str) -> None:
        """Turns on column mapping by name; data files keep the names they have."""
        if self.mapped:
            return
        log.info("%s needs column mapping: setting %s=name", why, MAPPING_MODE)
        self.schema, last = columns.with_mapping(self.schema, self._last_id(), keep_names=True)
        self.properties[MAPPING_MODE] = "name"
        self.properties[MAX_COLUMN_ID] = str(last)

    def map_new_columns(self) -> None:
        if self.mapped:
            self.schema, last = columns.with_mapping(self.schema, self._last_id(), keep_names=False)
            self.properties[MAX_COLUMN_ID] = str(last)

    def _last_id(self) -> int:
        return int(self.properties.get(MAX_COLUMN_ID, 0))


def _parent(draft: Draft, path: Path) -> Struct:
    """The struct that holds the last name of the path; arrays and maps are entered by element, key and value."""
    here: DataType = draft.schema
    for depth, name in enumerate(path[:-1]):
        if is_struct(here):
            here = _field(here, path[: depth + 1])["type"]  # type: ignore[arg-type]
        elif isinstance(here, dict) and _PARTS.get(name.lower()) in here:
            here = here[_PARTS[name.lower()]]
        else:
            raise _no_column(path[: depth + 1])
    if not is_struct(here):
        raise InvalidInputError(
            f"{columns.spelled(path[:-1])} has no fields",
            cause="it is no struct; fields of structs in arrays and maps are named with element, key or value",
            remedy=f"for an array write {columns.spelled(path[:-1])}.element.{path[-1]}",
            column=columns.spelled(path),
        )
    assert isinstance(here, dict)
    return here


def _no_column(path: Path) -> InvalidInputError:
    return InvalidInputError(
        f"there is no column {columns.spelled(path)}",
        remedy="check the name against the table's schema",
        column=columns.spelled(path),
    )


def _field(struct: Struct, path: Path) -> dict[str, Any]:
    name = path[-1]
    found = [f for f in struct["fields"] if f["name"] == name] or [
        f for f in struct["fields"] if f["name"].lower() == name.lower()
    ]
    if len(found) != 1:
        raise _no_column(path)
    field: dict[str, Any] = found[0]
    return field


def _found(draft: Draft, change: Wire) -> tuple[Path, Struct, dict[str, Any]]:
    path: Path = tuple(change["path"])
    parent = _parent(draft, path)
    return path, parent, _field(parent, path)


def _place(struct: Struct, field: dict[str, Any], position: Any) -> None:
    """Puts the field, which is not among the fields, at its position; last without one."""
    fields = struct["fields"]
    if position is None:
        fields.append(field)
    elif position == "first":
        fields.insert(0, field)
    else:
        after = _field(struct, (position["after"],))
        fields.insert(next(i for i, f in enumerate(fields) if f is after) + 1, field)


def add_column(draft: Draft, change: Wire) -> None:
    path: Path = tuple(change["path"])
    name = columns.spelled(path)
    if any(f["name"].lower() == path[-1].lower() for f in _parent(draft, path)["fields"]):
        if change.get("if_exists") or change.get("if_not_exists"):
            return
        raise InvalidInputError(f"there is a column {name} already", remedy="choose another name", column=name)
    if change.get("nullable") is False:
        raise InvalidInputError(
            f"the column {name} cannot be added as NOT NULL",
            cause="the rows the table has already would hold NULL in it",
            remedy="add it without NOT NULL",
            column=name,
        )
    if change.get("default") is not None:
        raise InvalidInputError(
            f"the column {name} cannot be added with a default",
            cause="Delta tables fill rows that exist already with NULL",
            remedy="add the column first, then ALTER COLUMN … SET DEFAULT, and UPDATE the rows there are",
            column=name,
        )
    metadata = {"comment": change["comment"]} if change.get("comment") else {}
    field = {"name": path[-1], "type": change["type"], "nullable": True, "metadata": metadata}
    added = columns.to_delta({"type": "struct", "fields": [field]})
    assert isinstance(added, dict)
    _place(_parent(draft, path), added["fields"][0], change.get("position"))
    draft.map_new_columns()


def _refuse_if_used(draft: Draft, path: Path, doing: str) -> None:
    """Raises if a CHECK constraint, an invariant or a generated column names it: the text would no longer hold."""
    for name, sql in draft.checks.items():
        if columns.uses(sql, path[-1]):
            raise InvalidInputError(
                f"the column {columns.spelled(path)} cannot be {doing}",
                cause=f"the CHECK constraint {name} uses it: {sql}",
                remedy=f"drop the constraint {name} first, and add it again afterwards",
                column=columns.spelled(path),
                constraint=name,
            )
    for other, field in columns.walk(draft.schema):
        sql = field["metadata"].get(columns.GENERATION)
        if sql and other != path and columns.uses(sql, path[-1]):
            raise InvalidInputError(
                f"the column {columns.spelled(path)} cannot be {doing}",
                cause=f"the column {columns.spelled(other)} is generated from it: {sql}",
                remedy=f"drop the column {columns.spelled(other)} first",
                column=columns.spelled(path),
            )
        invariant = expression(field["metadata"].get(columns.INVARIANTS))
        # A column that goes takes its own invariant with it.
        if columns.uses(invariant, path[-1]) and not (other == path and doing == "dropped"):
            raise InvalidInputError(
                f"the column {columns.spelled(path)} cannot be {doing}",
                cause=f"an invariant of the column {columns.spelled(other)} uses it: {invariant}",
                remedy="make the table again without the invariant: CREATE OR REPLACE TABLE … AS SELECT …",
                column=columns.spelled(path),
            )


def rename_column(draft: Draft, change: Wire) -> None:
    path, _, field = _found(draft, change)
    _refuse_if_used(draft, path, "renamed")
    draft.map_columns(f"renaming the column {columns.spelled(path)}")
    # The mapping made the schema anew.
    _, _, field = _found(draft, change)
    old, new = field["name"], change["to"]
    field["name"] = new
    if len(path) == 1:
        draft.partition_columns = [new if name == old else name for name in draft.partition_columns]
    column_lists.rename(draft.properties, (*path[:-1], old), new)


def drop_column(draft: Draft, change: Wire) -> None:
    try:
        path, parent, field = _found(draft, change)
    except InvalidInputError:
        if change.get("if_exists"):
            return
        raise
    name = columns.spelled(path)
    if len(path) == 1 and field["name"] in draft.partition_columns:
        raise InvalidInputError(
            f"the column {name} cannot be dropped",
            cause="the table is partitioned by it",
            remedy="write the table anew with another partitioning",
            column=name,
        )
    if len(parent["fields"]) == 1:
        raise InvalidInputError(
            f"the column {name} cannot be dropped",
            cause="it is the only one left",
            remedy="drop the table or the struct that holds it",
            column=name,
        )
    _refuse_if_used(draft, path, "dropped")
    column_lists.drop(draft.properties, path)
    draft.map_columns(f"dropping the column {name}")
    path, parent, field = _found(draft, change)
    parent["fields"][:] = [f for f in parent["fields"] if f is not field]


def update_type(draft: Draft, change: Wire) -> None:
    path: Path = tuple(change["path"])
    holder, part = _type_slot(draft, path)
    old, new = holder[part], columns.to_delta(change["type"])
    if old == new:
        return
    if _is_string(old) and _is_string(new):
        _check_length(path, str(old), str(new))
        holder[part] = new
        return
    if not columns.widens(old, new):
        raise SchemaMismatchError(
            f"the type of {columns.spelled(path)} cannot change from {old} to {new}",
            cause="not every value of the old type could be read as the new one",
            remedy="add a column of the new type and fill it with UPDATE",
            column=columns.spelled(path),
            old=old,
            new=new,
        )
    _refuse_if_used(draft, path, "changed in type")
    if old == "float" and len(path) == 1 and holder["name"] in draft.partition_columns:
        raise SchemaMismatchError(
            f"the type of {columns.spelled(path)} cannot change from float to {new}",
            cause="the table is partitioned by it, and the text of a partition value does not tell a float from a "
            "double: 0.1 would become another number",
            remedy="write the table anew with the new type: CREATE OR REPLACE TABLE … AS SELECT …",
            column=columns.spelled(path),
            old=old,
            new=new,
        )
    holder[part] = new
    if draft.properties.get("delta.enableTypeWidening", "").lower() != "true":
        log.info("widening %s to %s: setting delta.enableTypeWidening=true", columns.spelled(path), new)
        draft.properties["delta.enableTypeWidening"] = "true"


def _type_slot(draft: Draft, path: Path) -> tuple[dict[str, Any], str]:
    """What holds the type at a path (a field, an array or a map), and under which key."""
    holder: dict[str, Any] = {"type": draft.schema}
    part = "type"
    for depth, name in enumerate(path):
        here = holder[part]
        if is_struct(here):
            holder, part = _field(here, path[: depth + 1]), "type"
        elif isinstance(here, dict) and _PARTS.get(name.lower()) in here:
            holder, part = here, _PARTS[name.lower()]
        else:
            raise _no_column(path[: depth + 1])
    return holder, part


def _is_string(type: DataType) -> bool:
    return type == "string" or is_text(type)


def _check_length(path: Path, old: str, new: str) -> None:
    before, after = _length(old), _length(new)
    if new != "string" and (before is None or after is None or after < before):
        raise SchemaMismatchError(
            f"the type of {columns.spelled(path)} cannot change from {old} to {new}",
            cause="values the column holds already might be too long",
            remedy="add a column of the new type and fill it with UPDATE",
            column=columns.spelled(path),
            old=old,
            new=new,
        )


def _length(type: str) -> int | None:
    return int(type[type.index("(") + 1 : -1]) if type.startswith("varchar(") else None


def update_nullability(draft: Draft, change: Wire) -> None:
    path, _, field = _found(draft, change)
    if change["nullable"]:
        field["nullable"] = True
    elif field["nullable"]:
        raise InvalidInputError(
            f"the column {columns.spelled(path)} cannot become NOT NULL",
            cause="rows the table has already may hold NULL in it",
            remedy=f"add a constraint: ALTER TABLE … ADD CONSTRAINT … CHECK ({columns.spelled(path)} IS NOT NULL)",
            column=columns.spelled(path),
        )


def update_comment(draft: Draft, change: Wire) -> None:
    _, _, field = _found(draft, change)
    if change.get("comment"):
        field["metadata"]["comment"] = change["comment"]
    else:
        field["metadata"].pop("comment", None)


def update_position(draft: Draft, change: Wire) -> None:
    path, parent, field = _found(draft, change)
    position = change["position"]
    if position != "first" and position["after"].lower() == field["name"].lower():
        raise InvalidInputError(
            f"the column {columns.spelled(path)} cannot stand after itself", remedy="name another", column=path[-1]
        )
    parent["fields"][:] = [f for f in parent["fields"] if f is not field]
    _place(parent, field, position)


def update_default(draft: Draft, change: Wire) -> None:
    _, _, field = _found(draft, change)
    if change.get("default") is None:
        field["metadata"].pop(columns.DEFAULT, None)
    else:
        field["metadata"][columns.DEFAULT] = change["default"]
