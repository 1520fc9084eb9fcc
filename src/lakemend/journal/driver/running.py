"""How a planned change runs on a connection, whatever its driver: `change`, `changes`.

psycopg_cursor.py and dbapi.py call these with a `Port` to their cursor. A change under autocommit is one statement in a
transaction of its own, tried without the lock first; where its snapshot was stale it runs again behind the lock, so it
waits for the other writer as an UPDATE of a plain table does. Inside a transaction the lock comes first and stays until
the transaction ends; an error leaves the transaction as an error of a plain table does.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from typing import Any, Protocol

from lakemend.journal.driver.counters import Counter
from lakemend.journal.driver.failures import is_check, is_stale
from lakemend.journal.driver.planned import Plan, Text
from lakemend.journal.driver.state import State


class Port(Protocol):
    """What `change` needs of a cursor and its connection."""

    @property
    def state(self) -> State: ...
    @property
    def optimistic(self) -> bool:
        """Whether a change may be tried without the lock first."""
        ...

    @property
    def own_transaction(self) -> bool:
        """Whether a statement would be a transaction of its own now: autocommit, and none is open."""
        ...

    @property
    def idle(self) -> bool: ...
    def beside(self, text: Text, values: Any) -> Sequence[Sequence[Any]]:
        """Runs on another cursor of the connection."""
        ...

    def transaction(self) -> AbstractContextManager[Any]: ...


def change(port: Port, plan: Plan, values: Any, run: Callable[[], object]) -> int | None:
    """Runs a change; `run` runs `plan.first` on the caller's cursor. How many rows, if that cursor cannot say."""
    if port.idle:
        port.state.released()
    if not port.own_transaction:
        return _within(port, plan, values, run)
    if plan.single and port.optimistic:
        try:
            run()
            return None
        except Exception as error:
            # A check may have seen rows that a concurrent transaction was about to change.
            if not (is_stale(error) or is_check(error)):
                raise
    try:
        with port.transaction():
            return _within(port, plan, values, run)
    finally:
        port.state.released()


def changes(port: Port, counter: Counter, run: Callable[[], None]) -> None:
    """Runs several changes of one table (`run`) in one transaction."""
    if port.idle:
        port.state.released()
    if not port.own_transaction:
        lock(port, counter)
        run()
        return
    try:
        with port.transaction():
            lock(port, counter)
            run()
    finally:
        port.state.released()


def _within(port: Port, plan: Plan, values: Any, run: Callable[[], object]) -> int | None:
    assert plan.counter
    lock(port, plan.counter)
    run()
    for text in plan.rest:
        port.beside(text, values)
    if plan.affected is None:
        return None
    return int(port.beside(plan.affected, values)[0][0])


def lock(port: Port, counter: Counter) -> None:
    if not port.state.holds(counter):
        port.beside(Text(counter.lock), None)
        port.state.held(counter)
