"""What a journaled connection knows between statements: facts, plans, which counters its transaction holds.

psycopg_connection.py keeps one for each connection; psycopg_cursor.py and running.py ask it. `seen` hears of every
statement that is not the journal's.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Sequence
from typing import Any

from lakemend.errors import JournalSchemaError
from lakemend.journal.driver.counters import Counter
from lakemend.journal.driver.facts import Facts, facts_of
from lakemend.journal.driver.planned import Plan, Planner
from lakemend.journal.model import Model

Query = Callable[[str], Sequence[Sequence[Any]]]

# Statements after which a held lock is still held, and nothing that was asked of the database has changed.
_HARMLESS = re.compile(r"\s*(select|insert|update|delete|merge|with|values|show|table|fetch|copy)\b", re.IGNORECASE)
# What is asked of the past is partly in archives, which another connection may have made meanwhile.
_PAST = re.compile(r"\bas\s+of\b", re.IGNORECASE)
_CHANGING = re.compile(
    r"\b(search_path|standard_conforming_strings|alter|create|drop|reset|discard|rollback|abort|role|authorization)\b",
    re.IGNORECASE,
)


class State:
    def __init__(self, model: Model, facts: Facts) -> None:
        self._model = model
        self.planner = Planner(_placed(model, facts), facts)
        # Threads may share a connection: a transaction that is opened for one statement is for that statement alone.
        self.turn = threading.RLock()
        self._held: set[str] = set()
        # Whether the facts may be out of date, and whether a rollback may bring the old ones back.
        self._doubtful = False
        self._undoable = False

    @property
    def model(self) -> Model:
        return self.planner.model

    @property
    def facts(self) -> Facts:
        return self.planner.facts

    def plan(self, text: str, paramstyle: str, query: Query, *, idle: bool) -> Plan | None:
        """What to run for the statement. `query` runs SQL on the connection; `idle`: no transaction is open there."""
        plan = None if self._archiveless and _PAST.search(text) else self.planner.known(text, paramstyle)
        if plan is not None and not (self._doubtful or self._undoable):
            return plan
        if not self.planner.mentions(text):
            return None
        if idle and self._undoable:
            self._doubtful, self._undoable = True, False
        if self._doubtful or (self._archiveless and _PAST.search(text)):
            self.refresh(query)
            self._doubtful, self._undoable = False, not idle
        plan = self.planner.plan(text, paramstyle)
        if plan and plan.counter and not self.facts.counted(plan.counter):
            raise uncounted(plan.table, plan.counter)
        return plan

    @property
    def _archiveless(self) -> bool:
        return len(self.facts.archives) < len(self.facts.stored)

    def refresh(self, query: Query) -> None:
        facts = facts_of(query, self._model, self.facts)
        if facts != self.facts:
            self.planner = Planner(_placed(self._model, facts), facts)

    def doubt(self) -> None:
        self._doubtful = True

    def seen(self, text: str) -> None:
        """A statement that is not the journal's was run."""
        if _HARMLESS.match(text) is None:
            self._held.clear()
        if _CHANGING.search(text):
            self._doubtful = True

    def holds(self, counter: Counter) -> bool:
        return counter.name in self._held

    def held(self, counter: Counter) -> None:
        self._held.add(counter.name)

    def released(self) -> None:
        """A transaction or a part of it ended."""
        self._held.clear()


def uncounted(table: str, counter: Counter) -> JournalSchemaError:
    return JournalSchemaError(
        f"{table} cannot be changed: its journal has no version counter {counter.name}",
        cause="the role of this connection may not create it, or a transaction was open when it was journaled",
        remedy=f"run as the journal's owner: {'; '.join(counter.ddl())}; and GRANT SELECT, UPDATE on it to writers",
        table=table,
    )


def _placed(model: Model, facts: Facts) -> Model:
    """The model with each journal's schema in it: what search_path says later changes nothing."""
    from dataclasses import replace

    tables = tuple(replace(t, physical_schema=facts.of(t).place) for t in model.tables)
    return replace(model, tables=tables)
