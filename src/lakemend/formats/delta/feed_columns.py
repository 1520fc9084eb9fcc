"""Whether rows of an older definition of a table can be read as rows of a newer one, nothing lost.

`feed.py` calls `require_same_table` for each change of metadata within a span of changes. New
columns (null in older rows), renamed columns (data files know them by another name anyway) and wider
types are fine. A dropped column is not: that an older version changed it would be hidden. Create and
alter call `check_feed_names`: records of changes have a column that the table's own may not hide.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from lakemend.errors import InvalidInputError, SchemaMismatchError
from lakemend.formats.delta.actions import MetaData
from lakemend.formats.delta.columns import widens
from lakemend.formats.delta.mapping import FIELD_ID, partition_names, to_metadata
from lakemend.formats.delta.properties import FEED
from lakemend.formats.properties import is_on
from lakemend.schema import DataType, Struct

RESERVED = ("_change_type", "_commit_version", "_commit_timestamp")


def require_same_table(old: MetaData, new: MetaData, version: int, span: tuple[int, int], url: str) -> None:
    """Raises SchemaMismatchError if the change from `old` to `new`, made by `version`, loses something."""
    before, after = to_metadata(old), to_metadata(new)
    problem = _lost(before.schema, before.physical, after.physical, after.by_id)
    if problem is None and partition_names(before) != partition_names(after):
        problem = "the table was partitioned otherwise"
    if problem is None:
        return
    first, last = span
    remedy = f"read versions {first} to {version - 1} and what comes after version {version} apart"
    if version == first:
        remedy = f"start after version {version}: the rows it removed have other columns"
    raise SchemaMismatchError(
        f"the changes of versions {first} to {last} of {url} cannot be read as rows of one table",
        cause=f"with version {version} {problem}",
        remedy=remedy,
        version=version,
        starting_version=first,
        ending_version=last,
    )


def check_feed_names(schema: Struct, properties: Mapping[str, str]) -> None:
    """Raises for columns of a table with a change data feed that have a name the feed needs itself."""
    taken = next((f["name"] for f in schema["fields"] if f["name"].lower() in RESERVED), None)
    if taken is not None and is_on(properties, FEED):
        raise InvalidInputError(
            f"a table with a change data feed cannot have a column {taken}",
            cause=f"{FEED}=true, and changes come with the columns {', '.join(RESERVED)}",
            remedy=f"give the column {taken} another name, or leave the feed off",
            column=taken,
            property=FEED,
        )


def _lost(logical: Struct, old: Struct, new: Struct, by_id: bool, prefix: str = "") -> str | None:
    """What rows of `old` have that rows of `new` cannot show, in words."""
    known = {_key(field, by_id): field for field in new["fields"]}
    for shown, field in zip(logical["fields"], old["fields"], strict=True):
        name = prefix + shown["name"]
        found = known.get(_key(field, by_id))
        if found is None:
            return f"column {name} was dropped"
        problem = _lost_in(shown["type"], field["type"], found["type"], by_id, name)
        if problem is not None:
            return problem
    return None


def _key(field: dict[str, Any], by_id: bool) -> Any:
    return field["metadata"].get(FIELD_ID, field["name"]) if by_id else field["name"]


def _lost_in(logical: DataType, old: DataType, new: DataType, by_id: bool, name: str) -> str | None:
    if isinstance(old, dict) and isinstance(new, dict) and isinstance(logical, dict) and old["type"] == new["type"]:
        if old["type"] == "struct":
            return _lost(logical, old, new, by_id, f"{name}.")
        for part, label in (("elementType", "element"), ("keyType", "key"), ("valueType", "value")):
            if part in old:
                problem = _lost_in(logical[part], old[part], new[part], by_id, f"{name}.{label}")
                if problem is not None:
                    return problem
        return None
    if old == new or widens(old, new):
        return None
    return f"column {name} became {_spelled(new)} instead of {_spelled(old)}"


def _spelled(type: DataType) -> str:
    return type if isinstance(type, str) else str(type["type"])
