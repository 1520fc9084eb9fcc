"""The errors of a journaled connection: ours, and the driver's own as PEP 249 and SQLAlchemy expect them.

`as_of_driver` gives an error of the journal a class that is also the driver's: a duplicate key is a DuplicateKeyError
and psycopg's UniqueViolation. `meant` reads an error of the database that the journal's own SQL made it raise.
"""

from __future__ import annotations

import importlib
import json
from types import ModuleType
from typing import Any

from lakemend.errors import (
    CardinalityError,
    CommitConflictError,
    DuplicateKeyError,
    JournalRefusedError,
    JournalSchemaError,
    JournalSqlError,
    LakemendError,
    NullKeyError,
)
from lakemend.journal.driver.counters import CHECK, COLUMNS, STALE, TYPES
from lakemend.journal.driver.planned import Plan

# Of each of our classes the driver's: psycopg's name, and PEP 249's for other drivers.
_KINDS: tuple[tuple[type[LakemendError], str, str], ...] = (
    (DuplicateKeyError, "UniqueViolation", "IntegrityError"),
    (NullKeyError, "NotNullViolation", "IntegrityError"),
    (CardinalityError, "CardinalityViolation", "ProgrammingError"),
    (CommitConflictError, "SerializationFailure", "OperationalError"),
    (JournalRefusedError, "FeatureNotSupported", "NotSupportedError"),
    (JournalSchemaError, "ProgrammingError", "ProgrammingError"),
    (JournalSqlError, "SyntaxError", "ProgrammingError"),
    (LakemendError, "ProgrammingError", "ProgrammingError"),
)
_CLASSES: dict[tuple[type[LakemendError], str], type[LakemendError]] = {}
_SERIALIZATION = ("40001", "40P01")


def as_of_driver(error: LakemendError, driver: ModuleType) -> LakemendError:
    """The same error; its class is a subclass of its own and of the driver's."""
    theirs: type[Exception] = driver.Error
    if isinstance(error, theirs):
        return error
    return _rebuilt(type(error), driver.__name__, error.problem, error.cause, error.remedy, error.values)


def _rebuilt(
    own: type[LakemendError], driver: str, problem: str, cause: str, remedy: str, values: dict[str, Any]
) -> LakemendError:
    return _class(own, driver)(problem, cause=cause, remedy=remedy, **values)


def _class(own: type[LakemendError], driver: str) -> type[LakemendError]:
    if (own, driver) in _CLASSES:
        return _CLASSES[own, driver]
    module = importlib.import_module(driver)
    specific, general = next((name, pep) for kind, name, pep in _KINDS if issubclass(own, kind))
    theirs = getattr(getattr(module, "errors", None), specific, None) or getattr(module, general)

    def reduced(self: LakemendError) -> Any:
        return _rebuilt, (own, driver, self.problem, self.cause, self.remedy, self.values)

    # What psycopg's errors have, which no result of the database stands behind here.
    body = {"_info": None, "_encoding": "utf-8", "_pgconn": None, "__reduce__": reduced, "__module__": own.__module__}
    made = type(own.__name__, (own, theirs), body)
    return _CLASSES.setdefault((own, driver), made)


def sqlstate_of(error: Exception) -> str:
    """psycopg says sqlstate, psycopg2 pgcode."""
    return str(getattr(error, "sqlstate", None) or getattr(error, "pgcode", None) or "")


def is_stale(error: Exception) -> bool:
    """Whether the statement's snapshot was older than the last commit to the table."""
    return STALE in str(error) or sqlstate_of(error) in _SERIALIZATION


def is_check(error: Exception) -> bool:
    return CHECK in str(error)


def is_changed_table(error: Exception) -> bool:
    """Whether the table may have other columns than the statement was written for."""
    if TYPES in str(error):
        return True
    return sqlstate_of(error) in ("42601", "42703", "42P01", "0A000") and CHECK not in str(error)


def meant(error: Exception, plan: Plan) -> LakemendError | None:
    """The journal's error behind one of the database, if it is one."""
    text = str(error)
    if (at := text.find(CHECK)) >= 0:
        number, _, row = text[at + len(CHECK) :].partition(":")
        values, _ = json.JSONDecoder(object_pairs_hook=lambda pairs: tuple(v for _, v in pairs)).raw_decode(row)
        return plan.error(int(number), values)
    state = sqlstate_of(error)
    if state == "23502" and (column := getattr(getattr(error, "diag", None), "column_name", None)) in plan.key:
        return NullKeyError(
            f"a key column of {plan.table} would be null ({column})",
            cause="a row without a key can be neither updated nor deleted",
            remedy=f"give each row a value for {', '.join(plan.key)}",
            table=plan.table,
        )
    if TYPES in text or (state == "42601" and _place(error) < plan.first.sql.find(COLUMNS)):
        return JournalSchemaError(
            f"the columns of {plan.table} are others than when this connection read them; nothing was written",
            cause="another connection altered the journal",
            remedy="run the statement again: it knows the columns then",
            table=plan.table,
        )
    if STALE in text or state in _SERIALIZATION:
        return conflict(plan.table, deadlock=state == "40P01")
    return None


def _place(error: Exception) -> int:
    """Where in the statement the database met the error; far behind it, if it does not say."""
    place = getattr(getattr(error, "diag", None), "statement_position", None)
    return int(place) if place else 1 << 30


def conflict(table: str, *, deadlock: bool = False) -> CommitConflictError:
    cause = (
        "two transactions wait for each other's tables"
        if deadlock
        else "another transaction committed a change of the table after this transaction's snapshot was taken"
    )
    return CommitConflictError(
        f"the change of {table} conflicts with a concurrent one; nothing of it was written"
        if table
        else "the transaction conflicts with a concurrent one; nothing of it was written",
        cause=cause,
        remedy="roll back and run the transaction again"
        + ("; change tables in the same order everywhere" if deadlock else ""),
        table=table,
    )
