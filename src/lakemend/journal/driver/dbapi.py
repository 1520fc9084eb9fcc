"""A journaled connection around one of another DB-API driver for PostgreSQL: psycopg2.

connect.py calls `wrapped`. What is not PEP 249's is handed on to the driver's own connection and cursors.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from types import ModuleType
from typing import Any

from lakemend.errors import InvalidInputError, JournalRefusedError, LakemendError
from lakemend.journal.driver import running
from lakemend.journal.driver.facts import facts_of
from lakemend.journal.driver.failures import as_of_driver, is_changed_table, meant
from lakemend.journal.driver.planned import Plan, Text, is_named
from lakemend.journal.driver.state import State
from lakemend.journal.model import Model

_ERRORS = frozenset(
    {
        "Warning",
        "Error",
        "InterfaceError",
        "DatabaseError",
        "DataError",
        "OperationalError",
        "IntegrityError",
        "InternalError",
        "ProgrammingError",
        "NotSupportedError",
    }
)


class JournalConnection:
    """PEP 249's connection; `driver_connection` is the one it stands around."""

    def __init__(self, connection: Any, driver: ModuleType, model: Model) -> None:
        self.driver_connection = connection
        self._driver = driver
        port = _Port(self, None)
        try:
            facts = facts_of(port.query, model)
            missing = [s.counter for s in facts.stored if not s.counted]
            if missing:
                with self._block():
                    for counter in missing:
                        for statement in counter.ddl():
                            port.beside(Text(statement), None)
                facts = facts_of(port.query, model)
        finally:
            if not self._autocommit:
                connection.rollback()
        self._journal = State(model, facts)

    def __getattr__(self, name: str) -> Any:
        if name in _ERRORS:
            return getattr(self._driver, name)
        return getattr(self.__dict__["driver_connection"], name)

    def __setattr__(self, name: str, value: Any) -> None:
        own = name in ("driver_connection", "_driver", "_journal")
        object.__setattr__(self if own else self.driver_connection, name, value)

    def __enter__(self) -> JournalConnection:
        self.driver_connection.__enter__()
        return self

    def __exit__(self, *exception: Any) -> Any:
        self._journal.released()
        return self.driver_connection.__exit__(*exception)

    def __repr__(self) -> str:
        return f"<journaled connection of {self._driver.__name__}>"

    @property
    def _autocommit(self) -> bool:
        return bool(getattr(self.driver_connection, "autocommit", False))

    def cursor(self, *arguments: Any, **options: Any) -> JournalCursor:
        return JournalCursor(self, self.driver_connection.cursor(*arguments, **options))

    def commit(self) -> None:
        self._journal.released()
        with _typed(self, None):
            self.driver_connection.commit()

    def rollback(self) -> None:
        self._journal.released()
        self.driver_connection.rollback()

    def history(self, table: str, key: Any) -> JournalCursor:
        """A cursor with every version of the row with this key, oldest first."""
        from lakemend.journal.driver import reading

        with _typed(self, None):
            cursor = self.cursor()
            cursor.driver_cursor.execute(reading.history(_Port(self, None), table, key))
            return cursor

    def archive(self, table: str) -> int:
        """Moves the superseded versions of a table to its archive, in one transaction; how many there were."""
        from lakemend.journal.driver import reading

        with _typed(self, None):
            return reading.archive(_Port(self, None), table)

    @contextmanager
    def _block(self) -> Iterator[None]:
        if not self._autocommit:
            yield
            self.driver_connection.commit()
            return
        cursor = self.driver_connection.cursor()
        try:
            cursor.execute("BEGIN")
            try:
                yield
            except BaseException:
                cursor.execute("ROLLBACK")
                raise
            cursor.execute("COMMIT")
        finally:
            cursor.close()


class JournalCursor:
    """PEP 249's cursor; `driver_cursor` is the driver's own."""

    def __init__(self, connection: JournalConnection, cursor: Any) -> None:
        self.connection = connection
        self.driver_cursor = cursor
        self._count: int | None = None

    def __getattr__(self, name: str) -> Any:
        if name in ("copy_from", "copy_to", "copy_expert"):
            raise JournalRefusedError(
                f"{name} is refused on a journaled connection",
                remedy="copy on a connection without a journal",
                keyword="COPY",
            )
        return getattr(self.__dict__["driver_cursor"], name)

    def __setattr__(self, name: str, value: Any) -> None:
        own = name in ("connection", "driver_cursor", "_count")
        object.__setattr__(self if own else self.driver_cursor, name, value)

    def __enter__(self) -> JournalCursor:
        return self

    def __exit__(self, *exception: Any) -> None:
        self.driver_cursor.close()

    def __iter__(self) -> Iterator[Any]:
        return iter(self.driver_cursor)

    def __next__(self) -> Any:
        return next(self.driver_cursor)

    @property
    def rowcount(self) -> int:
        return int(self.driver_cursor.rowcount) if self._count is None else self._count

    def execute(self, operation: Any, parameters: Any = None, **options: Any) -> Any:
        self._count = None
        with _typed(self.connection, None):
            plan = self._plan(operation, parameters)
        if plan is None:
            return self._plain(operation, parameters, **options)
        with _typed(self.connection, plan):
            if plan.counter is None:
                return self._plain(plan.first.sql, plan.first.arguments(parameters), **options)
            port = _Port(self.connection, self)
            self._count = running.change(
                port, plan, parameters, lambda: self._plain(plan.first.sql, plan.first.arguments(parameters), **options)
            )
        return None

    def executemany(self, operation: Any, seq_of_parameters: Iterable[Any], **options: Any) -> Any:
        every = list(seq_of_parameters)
        self._count = None
        with _typed(self.connection, None):
            plan = self._plan(operation, every[0]) if every else None
        if plan is None:
            return self.driver_cursor.executemany(operation, every, **options)
        count = 0

        def one_by_one() -> None:
            nonlocal count
            for parameters in every:
                self.execute(operation, parameters, **options)
                count += self.rowcount

        with _typed(self.connection, plan):
            if plan.counter is None:
                return self.driver_cursor.executemany(
                    plan.first.sql, [plan.first.arguments(p) for p in every], **options
                )
            running.changes(_Port(self.connection, self), plan.counter, one_by_one)
        self._count = count
        return None

    def callproc(self, *arguments: Any, **options: Any) -> Any:
        self.connection._journal.seen("CALL")
        return self.driver_cursor.callproc(*arguments, **options)

    def _plain(self, operation: Any, parameters: Any, **options: Any) -> Any:
        arguments = () if parameters is None else (parameters,)
        return self.driver_cursor.execute(operation, *arguments, **options)

    def _plan(self, operation: Any, parameters: Any) -> Plan | None:
        connection = self.connection
        text = operation
        if isinstance(operation, bytes):
            text = operation.decode()
        elif not isinstance(operation, str):
            text = operation.as_string(connection.driver_connection)
        port = _Port(connection, self)
        plan = connection._journal.plan(text, _paramstyle(connection._driver, parameters), port.query, idle=False)
        if plan is None:
            connection._journal.seen(text)
        elif not plan.takes(parameters):
            raise connection.ProgrammingError(
                f"the statement has {plan.placeholders} placeholders, and {len(parameters)} parameters were passed"
            )
        return plan


class _Port:
    """The cursor's connection, for running.py and reading.py."""

    def __init__(self, connection: JournalConnection, cursor: JournalCursor | None) -> None:
        self.connection = connection
        self.cursor = cursor

    @property
    def state(self) -> State:
        return self.connection._journal

    optimistic = False

    @property
    def idle(self) -> bool:
        """Whether no transaction is open, however the last one began and ended."""
        connection = self.connection
        return bool(connection.driver_connection.info.transaction_status == _idle(connection._driver))

    @property
    def own_transaction(self) -> bool:
        return self.connection._autocommit and self.idle

    def beside(self, text: Text, values: Any) -> Sequence[Sequence[Any]]:
        rows: Sequence[Sequence[Any]] = self._with(
            text, values, lambda cursor: cursor.fetchall() if cursor.description else []
        )
        return rows

    def count(self, text: Text) -> int:
        return int(self._with(text, None, lambda cursor: cursor.rowcount))

    def _with(self, text: Text, values: Any, found: Callable[[Any], Any]) -> Any:
        cursor = self.connection.driver_connection.cursor()
        try:
            cursor.execute(text.sql, *(() if values is None else (text.arguments(values),)))
            return found(cursor)
        finally:
            cursor.close()

    def transaction(self) -> AbstractContextManager[Any]:
        return self.connection._block()

    def query(self, sql: str) -> Sequence[Sequence[Any]]:
        return self.beside(Text(sql), None)


def wrapped(connection: Any, model: Model) -> JournalConnection:
    driver = _driver_of(connection)
    return JournalConnection(connection, driver, model)


def _driver_of(connection: Any) -> ModuleType:
    """The module with PEP 249's names that the connection's class comes from."""
    name = type(connection).__module__
    while name:
        module = sys.modules.get(name)
        if module is not None and hasattr(module, "paramstyle") and hasattr(module, "Error"):
            if name == "psycopg2":
                return module
            break
        name = name.rpartition(".")[0]
    raise InvalidInputError(
        f"a connection of {type(connection).__module__} cannot be journaled",
        cause="the journal writes PostgreSQL's SQL, with the placeholders of psycopg or psycopg2",
        remedy="connect with psycopg",
    )


def _idle(driver: ModuleType) -> int:
    return int(driver.extensions.TRANSACTION_STATUS_IDLE)


def _paramstyle(driver: ModuleType, parameters: Any) -> str:
    if parameters is None:
        return "none"
    style = str(driver.paramstyle)
    if style in ("format", "pyformat"):
        return "pyformat" if is_named(parameters) else "format"
    return style


@contextmanager
def _typed(connection: JournalConnection, plan: Plan | None) -> Iterator[None]:
    driver: Any = connection._driver
    try:
        yield
    except driver.Error as error:
        if isinstance(error, LakemendError) or plan is None:
            raise
        if is_changed_table(error):
            connection._journal.doubt()
        own = meant(error, plan)
        if own is None:
            raise
        raise as_of_driver(own, driver) from error
    except LakemendError as error:
        raise as_of_driver(error, driver) from error.__cause__
