"""The columns of the logical tables, from sqlglot's kind of schema: `{table: {column: type}}`, or one level more.

`Rewriting` asks it for the columns of journaled tables; `scopes` for those of others.
"""

from __future__ import annotations

import re
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

    def version_type(self, table: Table, version: str) -> str | None:
        """The type of a table's version column, if the schema has it."""
        fold = self._dialect.fold
        for schema in dict.fromkeys([table.schema, table.physical_schema, None]):
            found = self._tables.get((None if schema is None else fold(schema), fold(table.name)), {})
            if version in found:
                return found[version]
        return None

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


_PADDING = re.compile(r"CHAR(?:ACTER)?\s*\(\s*(\d+)\s*\)\s*\Z", re.IGNORECASE)


def padded_length(type: str | None, dialect: Dialect) -> int | None:
    """The length to which a column fills up a text with spaces, where the engine compares them, too."""
    found = _PADDING.match(type.strip()) if type and dialect.name == "spark" else None
    return int(found.group(1)) if found is not None else None


_LENGTH = re.compile(r"\s*\(\s*\d+\s*\)")
_TEXTS = ("VARCHAR", "TEXT", "STRING", "CHARACTER VARYING", "NVARCHAR", "CHAR VARYING")
_PADDED = ("CHAR", "CHARACTER", "BPCHAR", "NCHAR")
_SERIALS = {"SERIAL": "INTEGER", "BIGSERIAL": "BIGINT", "SMALLSERIAL": "SMALLINT"}


def cast_type(type: str | None, dialect: Dialect) -> str | None:
    """The type that a value may be cast to with no other result than its assignment has; None if there is none.

    A cast to a text of a length would cut it where an assignment fails, so texts are cast to texts of any length.
    """
    if not type or not type.strip():
        return None
    bare = _LENGTH.sub("", type).strip()
    base = bare.upper().removesuffix("[]")
    if base in _TEXTS or base in _PADDED:
        if bare.endswith("]"):
            return bare
        if dialect.name in ("spark", "hive"):
            return "STRING"
        if base in _PADDED:
            return "BPCHAR" if dialect.name == "postgres" else "VARCHAR"
        return bare
    if base == "BIT":
        return None  # without a length it is one bit
    if base in ("BIT VARYING", "VARBIT", "BINARY", "VARBINARY"):
        return bare
    # Whatever is stored in a serial column is its integer.
    return _SERIALS.get(base, type)


_CUT = re.compile(r"(?:VARCHAR|CHARACTER\s+VARYING|CHAR\s+VARYING)\s*\(\s*(\d+)\s*\)\s*\Z", re.IGNORECASE)


def cut_length(type: str | None, dialect: Dialect) -> int | None:
    """The length to which a column cuts the spaces at the end of a text; None if it stores them all."""
    found = _CUT.match(type.strip()) if type and dialect.name == "postgres" else None
    return int(found.group(1)) if found is not None else None


_EXACT = re.compile(
    r"(?:TINY|SMALL|BIG)?INT(?:EGER)?[248]?|DATE|UUID|BOOL(?:EAN)?|LONG|SHORT|BYTE|TIMESTAMP(?:TZ|_NTZ|_LTZ)?"
    r"|TIMESTAMP\s+WITH(?:OUT)?\s+TIME\s+ZONE|(?:DECIMAL|NUMERIC)\s*\(\s*\d+\s*,\s*\d+\s*\)",
    re.IGNORECASE,
)


def is_exact(type: str | None) -> bool:
    """Whether equal values of a type are the same value: 1 and 1.0 are not, nor are texts of some collations."""
    bare = _LENGTH.sub("", type or "").strip()
    return _EXACT.fullmatch(_SERIALS.get(bare.upper(), bare)) is not None


def is_text(type: str | None) -> bool:
    return bool(type) and _LENGTH.sub("", str(type)).strip().upper() in (*_TEXTS, *_PADDED)
