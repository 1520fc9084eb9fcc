"""A psycopg connection that keeps a journal: `opened` gives a connection of psycopg this class.

connect.py calls it. The connection stays the object it was, with all that was set on it, and its class is a subclass of
the one it had: programs, pools and SQLAlchemy, which look at the class, see a psycopg connection.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any

import psycopg
from psycopg import pq
from psycopg.rows import tuple_row

from lakemend.errors import CommitConflictError, InvalidInputError
from lakemend.journal.driver import reading
from lakemend.journal.driver.facts import Facts, facts_of
from lakemend.journal.driver.failures import as_of_driver, conflict
from lakemend.journal.driver.psycopg_cursor import Port, journaled, journaled_server, typed
from lakemend.journal.driver.state import State
from lakemend.journal.model import Model

_IDLE = pq.TransactionStatus.IDLE
_CONFLICTS = (psycopg.errors.SerializationFailure, psycopg.errors.DeadlockDetected)


class JournalConnection(psycopg.Connection[Any]):
    """psycopg's connection with the journal in front. It adds no slots: an open connection can become one."""

    _journal: State

    @property
    def cursor_factory(self) -> type[Any]:
        return journaled(self.__dict__["cursor_factory"])

    @cursor_factory.setter
    def cursor_factory(self, factory: type[Any]) -> None:
        self.__dict__["cursor_factory"] = factory

    @property
    def server_cursor_factory(self) -> type[Any]:
        return journaled_server(self.__dict__["server_cursor_factory"])

    @server_cursor_factory.setter
    def server_cursor_factory(self, factory: type[Any]) -> None:
        self.__dict__["server_cursor_factory"] = factory

    def commit(self) -> None:
        self._journal.released()
        with _committing():
            super().commit()

    def rollback(self) -> None:
        self._journal.released()
        super().rollback()

    @contextmanager
    def transaction(self, *arguments: Any, **options: Any) -> Iterator[Any]:
        with _committing():
            try:
                with super().transaction(*arguments, **options) as transaction:
                    yield transaction
            finally:
                self._journal.released()

    def history(self, table: str, key: Any) -> Any:
        """A cursor with every version of the row with this key, oldest first."""
        with typed(self):
            sql = reading.history(Port(self), table, key)
            cursor = self.cursor()
            psycopg.Cursor.execute(cursor, sql)
            return cursor

    def archive(self, table: str) -> int:
        """Moves the superseded versions of a table to its archive, in one transaction; how many there were."""
        with typed(self), self._journal.turn:
            return reading.archive(Port(self), table)


def opened(connection: psycopg.Connection[Any], model: Model) -> Any:
    """The connection itself, journaled from now on."""
    if isinstance(connection, JournalConnection):
        raise InvalidInputError(
            "this connection is journaled already", remedy="make one connection for each journal model"
        )
    if connection.closed:
        raise psycopg.OperationalError("the connection is closed")
    idle = connection.info.transaction_status == _IDLE
    facts = _facts(connection, model, may_make=idle)
    journaled: Any = connection
    journaled._journal = State(model, facts)
    kind: Any = type(connection)
    journaled.__class__ = _journaled(kind)
    return journaled


def _facts(connection: psycopg.Connection[Any], model: Model, *, may_make: bool) -> Facts:
    """What the database says; counters that are missing are made where this role may."""

    def query(sql: str) -> list[Any]:
        return psycopg.Cursor(connection, row_factory=tuple_row).execute(sql).fetchall()

    if not may_make:
        return facts_of(query, model)
    try:
        facts = facts_of(query, model)
        missing = [s.counter for s in facts.stored if not s.counted]
        if not missing:
            return facts
        connection.rollback()
        try:
            with connection.transaction():
                for counter in missing:
                    for statement in counter.ddl():
                        psycopg.Cursor(connection).execute(statement)
        except (psycopg.errors.InsufficientPrivilege, psycopg.errors.ReadOnlySqlTransaction):
            return facts
        except (psycopg.errors.UniqueViolation, psycopg.errors.DuplicateTable):
            pass  # another connection made it at the same moment
        return facts_of(query, model)
    finally:
        if not connection.closed:
            connection.rollback()


@contextmanager
def _committing() -> Iterator[None]:
    try:
        yield
    except _CONFLICTS as error:
        if isinstance(error, CommitConflictError):
            raise
        deadlock = isinstance(error, psycopg.errors.DeadlockDetected)
        raise as_of_driver(conflict("", deadlock=deadlock), psycopg) from error


@cache
def _journaled(kind: Any) -> type[Any]:
    if kind is psycopg.Connection:
        return JournalConnection
    return type(f"Journal{kind.__name__}", (JournalConnection, kind), {"__module__": __name__})


__all__ = ["JournalConnection", "opened"]
