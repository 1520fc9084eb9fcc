"""Values as SQL literals: versions and keys. Called by the rewriter, `history` and those who run a `Rewrite`."""

from __future__ import annotations

import math
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

from lakemend.errors import InvalidInputError, JournalError
from lakemend.journal.dialects import Dialect, dialect_of
from lakemend.journal.model import Model


def version_literal(model: Model, value: Any, dialect: str | Dialect) -> str:
    """A version as a literal: an integer for BIGINT, a time for TIMESTAMP."""
    dialect = dialect_of(dialect)
    if model.version_type == "BIGINT":
        if isinstance(value, bool) or not isinstance(value, int):
            raise _bad(value, "an integer, as the model's versions are BIGINT")
        return f"CAST({value} AS BIGINT)"
    if isinstance(value, str):
        try:
            value = datetime.fromisoformat(value)
        except ValueError:
            raise _bad(value, "a time such as 2026-01-31 12:00:00") from None
    if not isinstance(value, datetime):
        raise _bad(value, "a datetime, as the model's versions are TIMESTAMP")
    if value.tzinfo is not None:
        value = value.astimezone(UTC)
        return f"CAST('{value.replace(tzinfo=None).isoformat(sep=' ')}+00:00' AS {_zoned(dialect)})"
    return f"CAST('{value.isoformat(sep=' ')}' AS {dialect.version_type('TIMESTAMP')})"


def _zoned(dialect: Dialect) -> str:
    return "TIMESTAMPTZ" if dialect.name in ("postgres", "duckdb") else "TIMESTAMP"


def _bad(value: Any, wanted: str) -> JournalError:
    return JournalError(f"{value!r} is not a version", remedy=f"Give {wanted}", value=repr(value))


def literal(value: Any, dialect: Dialect) -> str:
    """A value of a key as a literal."""
    match value:
        case bool():
            return "TRUE" if value else "FALSE"
        case int() | Decimal():
            return str(value)
        case float() if math.isfinite(value):
            return repr(value)
        case str():
            return string(value, dialect)
        case datetime():
            kind = "TIMESTAMP" if value.tzinfo is None else _zoned(dialect)
            return f"CAST('{value.isoformat(sep=' ')}' AS {kind})"
        case date():
            return f"CAST('{value.isoformat()}' AS DATE)"
        case bytes():
            if dialect.name == "postgres":
                return f"CAST('\\x{value.hex()}' AS BYTEA)"
            return f"X'{value.hex()}'" if dialect.name != "duckdb" else f"FROM_HEX('{value.hex()}')"
        case _ if type(value).__name__ == "UUID":
            return string(str(value), dialect)
        case _:
            raise InvalidInputError(
                f"{value!r} cannot be a key",
                cause=f"there is no literal for a {type(value).__name__}",
                remedy="Give numbers, texts, times, bytes or UUIDs",
            )


def string(value: str, dialect: Dialect) -> str:
    if "\0" in value and dialect.name == "postgres":
        raise InvalidInputError("a text has a zero byte in it, which PostgreSQL cannot store")
    if dialect.name in ("spark", "hive"):
        # `${` begins the name of a variable, also in a text.
        value = value.replace("\\", "\\\\").replace("${", "\\u0024{")
        return "'" + value.replace("'", "\\'") + "'"
    return "'" + value.replace("'", "''") + "'"
