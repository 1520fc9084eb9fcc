"""The columns that a call names: to cluster by, to tell rows apart, to rank them.

`optimize.py` and `deduplicate.py` ask before anything is read.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import orjson

from lakemend.errors import InvalidInputError
from lakemend.maintenance.rewrite_plan import Opened
from lakemend.schema import Path


@dataclass(frozen=True)
class Named:
    """A column as the table spells it; `spelled` is its name in SQL."""

    path: Path
    type: Any

    @property
    def spelled(self) -> str:
        return ".".join("`" + part.replace("`", "``") + "`" for part in self.path)


def clustering_columns(opened: Opened, names: object) -> list[Named]:
    columns = named_columns(opened, names, "zorder_columns")
    if not columns:
        raise InvalidInputError("zorder_columns names no column", remedy='pass zorder_columns=["a", "b"]')
    if len(columns) > 16:
        raise InvalidInputError(f"zorder_columns names {len(columns)} columns", remedy="name 16 at most")
    parts = {tuple(field.source) for field in opened.snapshot.metadata.partitioning}
    orderable = opened.table.spark._jvm.org.apache.spark.sql.lakemend.Ranges.areOrderable  # type: ignore[union-attr]
    for column in columns:
        name = ".".join(column.path)
        if column.path in parts:
            raise InvalidInputError(
                f"{name} is a partition column", cause="all rows of a file have one value of it", remedy="leave it out"
            )
        if not orderable(orjson.dumps(column.type).decode()):
            raise InvalidInputError(
                f"{name} has no order",
                cause=f"its type is {column.type}",
                remedy="name another column, or a part of it",
            )
    return columns


def named_columns(opened: Opened, names: object, argument: str) -> list[Named]:
    """Each once; a part of a struct is named with dots."""
    given = [names] if isinstance(names, str) else names
    if not isinstance(given, Sequence) or not all(isinstance(name, str) for name in given):
        raise InvalidInputError(f"{argument} is {names!r}", remedy=f'pass {argument}=["a", "b"]')
    found = [_find(opened, name, argument) for name in given]
    twice = next((c for i, c in enumerate(found) if c.path in [other.path for other in found[:i]]), None)
    if twice is not None:
        raise InvalidInputError(f"{argument} names {'.'.join(twice.path)} twice", remedy="name it once")
    return found


def _find(opened: Opened, name: str, argument: str) -> Named:
    case = str(opened.table.spark.conf.get("spark.sql.caseSensitive")).lower() == "true"
    for parts in ((name,), tuple(name.split("."))):
        path: Path = ()
        fields, type = opened.snapshot.metadata.schema["fields"], None
        for part in parts:
            exact = [f for f in fields if f["name"] == part]
            same = exact or ([] if case else [f for f in fields if f["name"].lower() == part.lower()])
            if len(same) != 1:
                break
            path, type = (*path, same[0]["name"]), same[0]["type"]
            fields = type["fields"] if isinstance(type, dict) and type["type"] == "struct" else []
        if len(path) == len(parts):
            return Named(path, type)
    columns = ", ".join(f["name"] for f in opened.snapshot.metadata.schema["fields"])
    raise InvalidInputError(
        f"{opened.table.name} has no column {name}",
        cause=f"{argument} names it; there are {columns}",
        remedy="check the spelling",
        column=name,
    )
