"""A piece of SQL that can be run: a string that knows its parameters and the place of the version.

`rewrite` makes them; whoever runs them asks for `bound` (the version) and `arguments` (the caller's values).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from lakemend.errors import InvalidInputError

# Stands in a statement where the version of the change belongs. A word that no caller may use.
VERSION_MARKER = "lakemend_version_marker"


class Sql(str):
    """SQL with the caller's own style of placeholders.

    `parameters` names, for each placeholder from left to right, the position (from 0) or the name of the caller's
    parameter.
    """

    __slots__ = ("columns", "parameters", "query", "renumbers")
    parameters: tuple[int | str, ...]
    # Of a statement that appends, `INSERT INTO <journal> (<columns>) <query>`: its columns and the query of its rows.
    columns: tuple[str, ...]
    query: Sql | None
    # Whether each placeholder takes a value of its own (`?`, `%s`), or names one (`$1`, `:name`).
    renumbers: bool

    def __new__(
        cls,
        text: str,
        parameters: Sequence[int | str] = (),
        *,
        columns: Sequence[str] = (),
        query: Sql | None = None,
        renumbers: bool = True,
    ) -> Sql:
        made = super().__new__(cls, text)
        made.parameters = tuple(parameters)
        made.columns = tuple(columns)
        made.query = query
        made.renumbers = renumbers
        return made

    def __repr__(self) -> str:
        return f"Sql({str(self)!r}, parameters={self.parameters!r})" if self.parameters else f"Sql({str(self)!r})"

    @property
    def needs_version(self) -> bool:
        return VERSION_MARKER in self

    def bound(self, version: str) -> Sql:
        """The same with SQL of yours in place of the version: a literal or an expression."""
        query = None if self.query is None else self.query.bound(version)
        return Sql(
            self.replace(VERSION_MARKER, version),
            self.parameters,
            columns=self.columns,
            query=query,
            renumbers=self.renumbers,
        )

    def arguments(self, values: Any = None) -> Any:
        """The caller's values as this text wants them: put in order and repeated, or picked by name."""
        if not isinstance(values, Mapping) and (not self.parameters or not self.renumbers):
            return tuple(values) if self.parameters else ()
        try:
            if isinstance(values, Mapping):
                return {name: values[name] for name in dict.fromkeys(self.parameters)}
            return tuple(values[position] for position in self.parameters)
        except (KeyError, IndexError, TypeError) as error:
            raise self._unbound(values) from error

    def _unbound(self, values: Any) -> InvalidInputError:
        first = next(iter(self.parameters))
        if isinstance(values, Mapping):
            missing = next(name for name in self.parameters if name not in values)
            what = f"the placeholder {missing}" if isinstance(missing, str) else "placeholders that have no name"
            return InvalidInputError(
                f"there is no value for {what}",
                cause=f"the values that were passed are for {', '.join(map(str, values)) or 'nothing'}",
                remedy="pass a value for each placeholder" + ("" if isinstance(missing, str) else ", in a list"),
            )
        count = len(values) if isinstance(values, Sequence) else 0
        wanted = f"a value for {first}, by its name" if isinstance(first, str) else "one value for each placeholder"
        return InvalidInputError(
            "a placeholder of the statement has no value",
            cause=f"{count} values were passed",
            remedy=f"pass {wanted}",
        )
