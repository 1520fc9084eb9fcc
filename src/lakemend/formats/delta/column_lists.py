"""Properties that list columns: they follow a column that is renamed, and lose one that is dropped.

`alter_columns.py` calls this. Delta's own list holds paths, quoted where they need it; Lakemend's hold plain names.
"""

from __future__ import annotations

from collections.abc import Iterable

from lakemend.errors import InvalidInputError
from lakemend.formats.delta.columns import spelled
from lakemend.formats.delta.file_stats import column_path, split_columns
from lakemend.formats.properties import CHANGES_KEY, SORT_COLUMNS
from lakemend.schema import Path

_STATS = "delta.dataSkippingStatsColumns"
_PLAIN = (SORT_COLUMNS, CHANGES_KEY)


def rename(properties: dict[str, str], path: Path, new: str) -> None:
    if _STATS in properties:
        paths = [column_path(text) for text in split_columns(properties[_STATS])]
        renamed = [(*path[:-1], new, *p[len(path) :]) if _is_below(p, path) else p for p in paths]
        properties[_STATS] = ",".join(".".join(map(_quoted, p)) for p in renamed)
    for key in _PLAIN if len(path) == 1 else ():
        names = _plain_names(properties.get(key, ""))
        if not any(_same(name, path[0]) for name in names):
            continue
        if set(new) & set("`,") or new != new.strip():
            raise InvalidInputError(
                f"the column {spelled(path)} cannot be renamed to {new!r}",
                cause=f"the property {key} lists it, with commas between names",
                remedy=f"take it out of {key} first, or choose another name",
                column=spelled(path),
                property=key,
            )
        properties[key] = ", ".join(new if _same(name, path[0]) else name for name in names)


def drop(properties: dict[str, str], path: Path) -> None:
    if _STATS in properties:
        kept = [text for text in split_columns(properties[_STATS]) if not _is_below(column_path(text), path)]
        properties[_STATS] = ",".join(kept)
    if len(path) > 1:
        return
    if any(_same(name, path[0]) for name in _plain_names(properties.get(CHANGES_KEY, ""))):
        raise InvalidInputError(
            f"the column {spelled(path)} cannot be dropped",
            cause=f"the property {CHANGES_KEY} names it: by it rows are known in what changed",
            remedy=f"set {CHANGES_KEY} to other columns first, or unset it",
            column=spelled(path),
            property=CHANGES_KEY,
        )
    names = _plain_names(properties.get(SORT_COLUMNS, ""))
    if any(_same(name, path[0]) for name in names):
        rest = [name for name in names if not _same(name, path[0])]
        if rest:
            properties[SORT_COLUMNS] = ", ".join(rest)
        else:
            del properties[SORT_COLUMNS]


def _plain_names(text: str) -> list[str]:
    return [name for part in text.split(",") if (name := part.strip().strip("`"))]


def _same(name: str, other: str) -> bool:
    return name.lower() == other.lower()


def _is_below(path: Path, root: Path) -> bool:
    return _folded(path[: len(root)]) == _folded(root)


def _folded(path: Iterable[str]) -> list[str]:
    return [name.lower() for name in path]


def _quoted(name: str) -> str:
    return f"`{name.replace('`', '``')}`" if set(name) & set("`.,") else name
