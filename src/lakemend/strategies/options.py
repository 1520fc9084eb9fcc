"""The options of a merge, each of which has a meaning for some strategies and is an error for the others."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Any

from pyspark.sql import Column

from lakemend.errors import InvalidInputError

Names = str | Sequence[str]


@dataclass(frozen=True)
class Options:
    """What a merge was told besides its source, its keys and its strategy; None and False mean: not told."""

    columns: Names | None = None
    sequence_by: str | None = None
    delete_when: Any = None
    soft_delete: str | None = None
    when_changed_only: bool = False
    schema_evolution: bool = False
    rewrite_mode: str | None = None
    partition_by: Names = ()
    dedup_order_by: Names | None = None
    valid_from: str | None = None
    valid_to: str | None = None
    is_current: str | None = None
    retire_missing: bool = False

    def require_meaning(self, strategy: str, known: frozenset[str]) -> None:
        """Raises for an option that the strategy would have to ignore, and for lists that are none."""
        for field in fields(self):
            if field.name not in known and getattr(self, field.name) not in (None, False, (), []):
                raise InvalidInputError(
                    f"{field.name} has no meaning for the strategy {strategy}",
                    cause=f"{strategy} takes {', '.join(sorted(known))}",
                    remedy="leave it out, or use another strategy",
                    option=field.name,
                    strategy=strategy,
                )
        for name in ("columns", "dedup_order_by", "partition_by"):
            _require_names(name, getattr(self, name))
        for name in ("sequence_by", "soft_delete", "valid_from", "valid_to", "is_current"):
            given = getattr(self, name)
            if given is not None and not (isinstance(given, str) and given):
                raise InvalidInputError(f"{name} is {given!r}", remedy=f'pass {name}="a": one column', option=name)
        if self.delete_when is not None and not isinstance(self.delete_when, str | Column):
            raise InvalidInputError(
                f"delete_when is {self.delete_when!r}",
                remedy="pass an SQL condition such as \"op = 'D'\", or a Column",
                option="delete_when",
            )
        if self.columns is not None and not names(self.columns):
            raise InvalidInputError(
                "columns names no column",
                cause="an update of no column changes nothing, and all columns are not meant",
                remedy="name the columns, or leave it out for all of them",
                option="columns",
            )
        if self.rewrite_mode not in (None, "incremental", "full"):
            raise InvalidInputError(
                f"there is no rewrite_mode {self.rewrite_mode!r}", remedy="use 'incremental' or 'full', or leave it out"
            )


def _require_names(option: str, given: object) -> None:
    """A generator would be empty when it is asked again."""
    texts = given if isinstance(given, Sequence) else None
    if given is not None and (texts is None or not all(isinstance(text, str) for text in texts)):
        raise InvalidInputError(
            f"{option} is {given!r}", remedy=f'pass {option}="a", or {option}=["a", "b"]', option=option
        )


def names(given: Names | None) -> list[str]:
    return [given] if isinstance(given, str) else list(given or ())
