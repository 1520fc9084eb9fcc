"""Names of columns that Lakemend adds to rows on their way. Maintenance and strategies ask that no column has one."""

from __future__ import annotations

from collections.abc import Iterable

from lakemend.errors import InvalidInputError

PREFIX = "__lakemend_"


def require_free_names(names: Iterable[str], where: str) -> None:
    own = next((name for name in names if name.lower().startswith(PREFIX)), None)
    if own is not None:
        raise InvalidInputError(
            f"{where} has a column {own}",
            cause=f"names that begin with {PREFIX} are given to columns that are added to the rows on their way",
            remedy=f"rename the column {own} first. Nothing was changed",
            column=own,
        )
