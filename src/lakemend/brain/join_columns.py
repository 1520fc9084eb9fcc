"""The `on` of a join as pairs of columns that both tables have.

`join_advice` calls `join_columns` with what the user passed: a name, names, or (left, right) pairs of names.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from lakemend.errors import InvalidInputError
from lakemend.formats import char_types
from lakemend.formats.format import Metadata
from lakemend.schema import DataType, Path, find


@dataclass(frozen=True, slots=True)
class Column:
    """A join column in the table's own spelling. `is_padded`: Spark compares it with blanks added, as CHAR is read."""

    path: Path
    type: DataType
    is_padded: bool

    @property
    def name(self) -> str:
        return ".".join(self.path)


@dataclass(frozen=True, slots=True)
class Pair:
    left: Column
    right: Column


def join_columns(left_name: str, left: Metadata, right_name: str, right: Metadata, on: object) -> tuple[Pair, ...]:
    """Each pair once, as Spark has them: saying the same twice changes nothing."""
    pairs: dict[tuple[Path, Path], Pair] = {}
    for one, other in _names(on):
        pair = Pair(_column(left_name, left, one), _column(right_name, right, other))
        pairs[pair.left.path, pair.right.path] = pair
    if not pairs:
        raise _no_columns(on)
    return tuple(pairs.values())


def _names(on: object) -> Iterator[tuple[str, str]]:
    if isinstance(on, str):
        yield on, on
        return
    if not isinstance(on, Sequence):
        raise _no_columns(on)
    for entry in on:
        if isinstance(entry, str):
            yield entry, entry
        elif isinstance(entry, tuple) and len(entry) == 2 and all(isinstance(name, str) for name in entry):
            yield entry
        else:
            raise _no_columns(on)


def _no_columns(on: object) -> InvalidInputError:
    return InvalidInputError(
        f"on={on!r} names no columns to join on",
        cause="it takes a name, a list of names, or a list of (left, right) pairs of names",
        remedy="pass for example on=['day', 'id'] or on=[('day', 'order_day'), ('id', 'order_id')]",
    )


def _column(table: str, metadata: Metadata, name: str) -> Column:
    """A name with dots is a column of that very name, else a field of a struct."""
    for path in ((name,), tuple(name.split("."))):
        field = find(metadata.schema, path)
        if field is not None:
            declared = (find(char_types.declared(metadata.schema), path) or field)["type"]
            spelled = (*_spelled(metadata, path[:-1]), field["name"])
            return Column(spelled, field["type"], str(declared).startswith("char("))
    known = [field["name"] for field in metadata.schema["fields"]]
    raise InvalidInputError(
        f"{table} has no column {name!r}",
        cause=f"its columns are {', '.join(known)}",
        remedy="join on a column that both tables have, or pass (left, right) pairs where the names differ",
        column=name,
        available=known,
    )


def _spelled(metadata: Metadata, path: Path) -> Iterator[str]:
    for depth in range(1, len(path) + 1):
        field = find(metadata.schema, path[:depth])
        assert field is not None  # a part of a path that was found
        yield field["name"]
