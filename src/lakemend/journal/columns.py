"""The columns of the logical tables, from sqlglot's kind of schema: `{table: {column: type}}`, or one level more.

`Rewriting` asks it for the columns of journaled tables; `scopes` for those of others.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from lakemend.errors import JournalSchemaError
from lakemend.journal.dialects import Dialect
from lakemend.journal.model import Model, Table

Columns = dict[str, str]


class Schema:
    """Columns of tables by their stored names, without the version columns."""

    def __init__(self, given: Mapping[str, Any] | None, model: Model, dialect: Dialect) -> None:
        self._dialect = dialect
        self._hidden = {dialect.fold(model.version), dialect.fold(model.subsequent)}
        self._tables: dict[tuple[str | None, str], Columns] = {}
        for name, below in (given or {}).items():
            if not isinstance(below, Mapping):
                raise JournalSchemaError(
                    f"the schema has {below!r} for {name}",
                    remedy="Give {table: {column: type}}, or {schema: {table: {column: type}}}",
                )
            if below and all(isinstance(inner, Mapping) for inner in below.values()):
                for table, columns in below.items():
                    self._add(dialect.fold(name), table, columns)
            else:
                self._add(None, name, below)
        self._model = model

    def _add(self, schema: str | None, table: str, columns: Mapping[str, Any]) -> None:
        self._tables[schema, self._dialect.fold(table)] = {str(c): str(t) for c, t in columns.items()}

    def of(self, name: str, schema: str | None) -> Columns | None:
        """The columns of any table, or None where they are not known. Names are folded."""
        found = self._tables.get((schema, name))
        if found is None and schema is not None:
            found = self._tables.get((None, name))
        return found

    def known(self, table: Table) -> Columns | None:
        fold = self._dialect.fold
        schemas = dict.fromkeys([table.schema, table.physical_schema, None])
        found: Columns | None = None
        for schema in schemas:
            found = found or self._tables.get((None if schema is None else fold(schema), fold(table.name)))
        if found is None:
            nested = [c for (s, n), c in self._tables.items() if n == fold(table.name) and s is not None]
            found = nested[0] if table.schema is None and len(nested) == 1 else None
        if found is None:
            return None
        columns = {c: t for c, t in found.items() if fold(c) not in self._hidden}
        for key in table.key:
            if key not in columns:
                raise JournalSchemaError(
                    f"{table} has no column {key}, which the model names as its key",
                    cause=f"its columns are {', '.join(columns)}",
                    remedy="Name the key columns in journalTables, with their exact stored names",
                    table=str(table),
                    column=key,
                )
        return columns

    def needed(self, table: Table, what: str) -> Columns:
        """The columns of a journaled table; an error that says what needs them."""
        found = self.known(table)
        if found is None:
            raise JournalSchemaError(
                f"{what} needs the columns of {table}",
                cause=f"the schema that was passed does not have {table}",
                remedy=f"Pass schema={{{table.name!r}: {{column: type, …}}}}",
                table=str(table),
            )
        return found


# Texts of these types are cut by a cast to their length where an assignment would fail.
_TEXTS = ("CHAR", "VARCHAR", "TEXT", "STRING", "BPCHAR", "CHARACTER", "NAME", "CITEXT", "NCHAR", "NVARCHAR")


def cast_type(type: str | None) -> str | None:
    """The type that a value may be cast to without another result than its assignment has; None for texts."""
    if not type:
        return None
    first = type.strip().upper().replace("(", " ").split()
    if not first or first[0] in _TEXTS:
        return None
    # Whatever is stored in a serial column is its integer.
    return {"SERIAL": "INTEGER", "BIGSERIAL": "BIGINT", "SMALLSERIAL": "SMALLINT"}.get(first[0], type)
