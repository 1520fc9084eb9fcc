"""ALTER TABLE: wire changes applied to a table's definition, one after the other.

The format hands `altered_metadata` to the brain. Changes of columns stand in `alter_columns.py`;
properties, constraints and the comment here.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence

from lakemend.errors import InvalidInputError
from lakemend.formats import char_types
from lakemend.formats.delta import alter_columns, columns
from lakemend.formats.delta.actions import MetaData
from lakemend.formats.delta.alter_columns import Draft, Wire
from lakemend.formats.delta.features import needed_features
from lakemend.formats.delta.feed_columns import check_feed_names
from lakemend.formats.delta.mapping import mode_of, to_metadata
from lakemend.formats.delta.metadata import check_constraint_names, check_stats_columns, delta_schema, no_check_property
from lakemend.formats.delta.properties import CHECK_PREFIX, MAPPING_MODE, MAX_COLUMN_ID, checked, spelled
from lakemend.formats.delta.protocol import types_of
from lakemend.formats.format import Metadata, Snapshot


def altered_metadata(base: Snapshot, changes: Sequence[Wire]) -> Metadata:
    """The definition after the changes; raises, naming the column or property, for one that cannot be made."""
    before = base.metadata
    draft = Draft(
        char_types.declared(copy.deepcopy(delta_schema(before))),
        [field.source[0] for field in before.partitioning],
        dict(before.properties),
        dict(before.checks),
        before.comment,
    )
    for change in changes:
        kind = change.get("kind", "")
        apply = _KINDS.get(kind)
        if apply is None:
            raise InvalidInputError(
                f"Delta tables cannot be altered by {kind!r}",
                remedy=f"use one of {', '.join(_KINDS)}",
                kind=kind,
            )
        apply(draft, change)
    draft.schema = char_types.stored(draft.schema)
    there = delta_schema(before)
    columns.check_types(draft.schema, known=frozenset(types_of(there)))
    columns.check_names(draft.schema, draft.mapped, known={path[-1] for path, _ in columns.walk(there)})
    columns.check_partitioning(draft.schema, draft.partition_columns)
    check_stats_columns(draft.schema, draft.properties)
    check_feed_names(draft.schema, draft.properties)
    configuration = draft.properties | {CHECK_PREFIX + name: sql for name, sql in draft.checks.items()}
    needed_features(draft.schema, configuration)
    return to_metadata(
        MetaData(
            id=before.id,
            schema=draft.schema,
            partition_columns=tuple(draft.partition_columns),
            configuration=configuration,
            description=draft.comment,
            created=before.created,
        )
    )


def _set_property(draft: Draft, change: Wire) -> None:
    if change["key"] == "comment":
        draft.comment = change["value"]
        return
    if change["key"].lower().startswith(CHECK_PREFIX):
        raise no_check_property(change["key"])
    key, value = checked(change["key"], str(change["value"]))
    if key == MAX_COLUMN_ID:
        raise _protected(key)
    if key == MAPPING_MODE:
        _set_mapping_mode(draft, value.lower())
        return
    draft.properties[key] = value


def _set_mapping_mode(draft: Draft, mode: str) -> None:
    now = mode_of(draft.properties)
    if mode == now:
        return
    if now != "none" or mode == "id":
        raise InvalidInputError(
            f"the column mapping mode cannot change from {now} to {mode}",
            cause="the data files there are were written for the present mode",
            remedy="only a change from none to name is possible; for any other, write the table anew",
            property=MAPPING_MODE,
        )
    draft.map_columns(f"the property {MAPPING_MODE}")


def _protected(key: str) -> InvalidInputError:
    return InvalidInputError(
        f"the property {key} cannot be changed",
        cause="the format keeps it to read the data files",
        remedy="leave it as it is",
        property=key,
    )


def _remove_property(draft: Draft, change: Wire) -> None:
    key = change["key"] if change["key"] in draft.properties else spelled(change["key"])
    if key == "comment":
        draft.comment = None
        return
    if key.startswith(CHECK_PREFIX):
        raise no_check_property(key)
    if key == MAX_COLUMN_ID or (key == MAPPING_MODE and draft.mapped):
        raise _protected(key)
    draft.properties.pop(key, None)


def _add_check(draft: Draft, change: Wire) -> None:
    name = change["name"]
    if any(known.lower() == name.lower() for known in draft.checks):
        raise InvalidInputError(
            f"there is a constraint {name} already",
            cause=f"CHECK ({draft.checks.get(name, '…')})",
            remedy="drop it first, or choose another name",
            constraint=name,
        )
    draft.checks[name] = change["sql"]
    check_constraint_names(draft.checks)


def _drop_check(draft: Draft, change: Wire) -> None:
    name = next((known for known in draft.checks if known.lower() == change["name"].lower()), None)
    if name is not None:
        del draft.checks[name]
    elif not change.get("if_exists"):
        raise InvalidInputError(
            f"there is no constraint {change['name']}",
            remedy=f"the table has {', '.join(draft.checks) or 'none'}",
            constraint=change["name"],
        )


def _set_comment(draft: Draft, change: Wire) -> None:
    draft.comment = change.get("comment")


_KINDS: dict[str, Callable[[Draft, Wire], None]] = {
    "add_column": alter_columns.add_column,
    "rename_column": alter_columns.rename_column,
    "drop_column": alter_columns.drop_column,
    "update_type": alter_columns.update_type,
    "update_nullability": alter_columns.update_nullability,
    "update_comment": alter_columns.update_comment,
    "update_position": alter_columns.update_position,
    "update_default": alter_columns.update_default,
    "set_property": _set_property,
    "remove_property": _remove_property,
    "add_check": _add_check,
    "drop_check": _drop_check,
    "set_comment": _set_comment,
}
