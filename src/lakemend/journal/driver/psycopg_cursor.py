"""Cursors of a journaled psycopg connection: psycopg's own class, with the journal in front of its `execute`.

psycopg_connection.py makes their classes with `journaled` and `journaled_server`. Rows, description, row factories and
prepared statements are psycopg's; what is different is the text that is sent.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from functools import cache
from itertools import chain
from typing import Any, NoReturn

import psycopg
from psycopg import pq
from psycopg.rows import tuple_row

from lakemend.errors import JournalRefusedError, LakemendError
from lakemend.journal.driver import running
from lakemend.journal.driver.failures import as_of_driver, is_changed_table, meant
from lakemend.journal.driver.planned import Plan, Text, is_named
from lakemend.journal.driver.state import State

_IDLE = pq.TransactionStatus.IDLE


class Port:
    """The cursor's connection, for running.py and reading.py."""

    optimistic = True

    def __init__(self, connection: Any) -> None:
        self.connection = connection
        self.state: State = connection._journal

    @property
    def idle(self) -> bool:
        return bool(self.connection.pgconn.transaction_status == _IDLE)

    @property
    def own_transaction(self) -> bool:
        return bool(self.connection.autocommit) and self.idle

    def beside(self, text: Text, values: Any) -> Sequence[Sequence[Any]]:
        given = text.arguments(values)
        if text.as_given and not text.parameters:
            given = None  # the caller's values are for placeholders that this text has not
        kind: Any = psycopg.RawCursor if text.as_given else psycopg.Cursor
        with kind(self.connection, row_factory=tuple_row) as cursor:
            kind.execute(cursor, text.sql, given)
            if self.connection._pipeline is not None:
                self.connection._pipeline.sync()  # before it, no result is known
            return cursor.fetchall() if cursor.description else []

    def count(self, text: Text) -> int:
        with psycopg.Cursor(self.connection) as cursor:
            return psycopg.Cursor.execute(cursor, text.sql).rowcount

    def transaction(self) -> AbstractContextManager[Any]:
        return psycopg.Connection.transaction(self.connection)

    def query(self, sql: str) -> Sequence[Sequence[Any]]:
        return self.beside(Text(sql), None)


@contextmanager
def typed(connection: Any, plan: Plan | None = None) -> Iterator[None]:
    """Errors of the journal are psycopg's, too; those of the database are the journal's where it raised them."""
    try:
        yield
    except (LakemendError, psycopg.Error) as error:
        _raise(error, connection, plan)


def _raise(error: Exception, connection: Any, plan: Plan | None = None) -> NoReturn:
    if isinstance(error, LakemendError):
        raise as_of_driver(error, psycopg) from error.__cause__
    if plan is None:
        raise error
    if is_changed_table(error):
        connection._journal.doubt()
    own = meant(error, plan)
    if own is None:
        raise error
    raise as_of_driver(own, psycopg) from error


class _Planning:
    """What cursors of both kinds share: a statement's text and plan."""

    _conn: Any

    def _plan(self, query: Any, params: Any) -> Plan | None:
        state: State = self._conn._journal
        text = query if type(query) is str else self._text_of(query)
        port = Port(self._conn)
        plan = state.plan(text, self._paramstyle(params), port.query, idle=port.idle)
        if plan is None:
            state.seen(text)
        elif not plan.takes(params):
            raise psycopg.ProgrammingError(
                f"the query has {plan.placeholders} placeholders but {len(params)} parameters were passed"
            )
        return plan

    def _text_of(self, query: Any) -> str:
        if isinstance(query, bytes):
            return query.decode(self._conn.info.encoding)
        if hasattr(query, "as_string"):
            return str(query.as_string(self._conn))
        # A template string: its texts are looked at, its values are not.
        texts = getattr(query, "strings", None)
        if texts is None:
            return str(query)
        text = "…".join(texts)
        if self._conn._journal.planner.mentions(text):
            raise JournalRefusedError(
                "a template string names a journaled table",
                cause="journaled statements are rewritten before their parameters are known",
                remedy="pass the statement as text with %s placeholders, and its parameters apart",
                keyword="TEMPLATE",
            )
        return text

    def _paramstyle(self, params: Any) -> str:
        if params is None:
            return "none"
        if isinstance(self, (psycopg.RawCursor, psycopg.RawServerCursor)):
            return "numeric_dollar"
        return "pyformat" if is_named(params) else "format"

    def _only_queries(self, plan: Plan | None, what: str) -> None:
        if plan is not None and plan.kind != "select":
            raise JournalRefusedError(
                f"{what} takes queries of a journaled table, and this is {plan.kind.upper()}",
                remedy="use execute()",
                keyword=what,
            )


class JournalCursor(_Planning):
    """Goes in front of a subclass of psycopg.Cursor."""

    def execute(self, query: Any, params: Any = None, **options: Any) -> Any:
        with self._conn._journal.turn:
            return self._execute(super().execute, query, params, options)  # type: ignore[misc]

    def _execute(self, plain: Callable[..., Any], query: Any, params: Any, options: dict[str, Any]) -> Any:
        connection = self._conn
        plan = None
        try:
            plan = self._plan(query, params)
            if plan is None:
                return plain(query, params, **options)
            arguments = plan.first.arguments(params)
            if plan.counter is None:
                return plain(plan.first.sql, arguments, **options)
            run = self._synced(lambda: plain(plan.first.sql, arguments, **options))
            affected = running.change(Port(connection), plan, params, run)
        except (LakemendError, psycopg.Error) as error:
            _raise(error, connection, plan)
        self._told(plan, affected)
        return self

    def executemany(self, query: Any, params_seq: Iterable[Any], *, returning: bool = False) -> None:
        with self._conn._journal.turn:
            self._executemany(super().executemany, query, params_seq, returning)  # type: ignore[misc]

    def _executemany(self, plain: Callable[..., None], query: Any, params_seq: Iterable[Any], returning: bool) -> None:
        rest = iter(params_seq)
        first = next(rest, None)
        with typed(self._conn):
            plan = self._plan(query, first) if first is not None else None
        if first is None or plan is None:
            return plain(query, () if first is None else chain([first], rest), returning=returning)
        every = chain([first], rest)
        with typed(self._conn, plan):
            if plan.counter is None:
                return plain(plan.first.sql, map(plan.first.arguments, every), returning=returning)
            port = Port(self._conn)
            if plan.single:
                arguments = map(plan.first.arguments, every)
                run = self._synced(lambda: plain(plan.first.sql, arguments, returning=returning))
                running.changes(port, plan.counter, run)
                self._told(plan, None)
                return None
            count = 0

            def one_by_one() -> None:
                nonlocal count
                for params in every:
                    self.execute(query, params)
                    count += self.rowcount  # type: ignore[attr-defined]

            running.changes(port, plan.counter, one_by_one)
        self._told(plan, count)
        return None

    def stream(self, query: Any, params: Any = None, **options: Any) -> Iterator[Any]:
        with typed(self._conn):
            plan = self._plan(query, params)
            self._only_queries(plan, "STREAM")
        if plan is not None:
            query, params = plan.first.sql, plan.first.arguments(params)
        yield from super().stream(query, params, **options)  # type: ignore[misc]

    @contextmanager
    def copy(self, statement: Any, params: Any = None, **options: Any) -> Iterator[Any]:
        with typed(self._conn):
            self._only_queries(plan := self._plan(statement, params), "COPY")
            if plan is not None:
                raise JournalRefusedError(
                    "COPY of a journaled table is refused",
                    cause="what is copied in would be no versions, and what is copied out every one of them",
                    remedy="use executemany() to write and a query to read",
                    keyword="COPY",
                )
        with super().copy(statement, params, **options) as copy:  # type: ignore[misc]
            yield copy

    def _synced(self, run: Callable[[], object]) -> Callable[[], None]:
        """`run` with its result known at once: a change in a pipeline waits for what is before it, and for itself."""
        pipeline = self._conn._pipeline
        if pipeline is None:
            return run  # type: ignore[return-value]
        pipeline.sync()

        def synced() -> None:
            run()
            pipeline.sync()

        return synced

    def _told(self, plan: Plan, affected: int | None) -> None:
        """The row count and status of the statement as the caller wrote it."""
        if affected is not None:
            self._rowcount = affected
        if plan.kind != "insert" and self._rowcount >= 0:
            self._statusmessage = f"{plan.kind.upper()} {self._rowcount}".encode()


class JournalServerCursor(_Planning):
    """Goes in front of a subclass of psycopg.ServerCursor: named cursors, for queries."""

    def execute(self, query: Any, params: Any = None, **options: Any) -> Any:
        with typed(self._conn):
            plan = self._plan(query, params)
            self._only_queries(plan, "DECLARE")
        if plan is not None:
            query, params = plan.first.sql, plan.first.arguments(params)
        return super().execute(query, params, **options)  # type: ignore[misc]


@cache
def journaled(factory: type[Any]) -> type[Any]:
    """The journaled class of a psycopg.Cursor class."""
    return factory if issubclass(factory, JournalCursor) else _with(JournalCursor, factory)


@cache
def journaled_server(factory: type[Any]) -> type[Any]:
    return factory if issubclass(factory, JournalServerCursor) else _with(JournalServerCursor, factory)


def _with(front: type[Any], factory: type[Any]) -> type[Any]:
    return type(f"Journal{factory.__name__}", (front, factory), {"__module__": __name__})
