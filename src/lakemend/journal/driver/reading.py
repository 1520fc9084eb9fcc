"""`history` and `archive` of a journaled connection.

psycopg_connection.py calls them. Both are statements of the rewriter's; the archive's run behind the writers' lock, so
that no version is written while superseded ones are found.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

from lakemend.errors import JournalSchemaError
from lakemend.journal import archive as archival
from lakemend.journal import history as history_of
from lakemend.journal.driver import running
from lakemend.journal.driver.planned import Text, unchanged
from lakemend.journal.driver.state import uncounted


class Port(running.Port, Protocol):
    def query(self, sql: str) -> Sequence[Sequence[Any]]: ...
    def count(self, text: Text) -> int:
        """Runs a statement beside the caller's cursor; how many rows it changed."""
        ...


def history(port: Port, table: str, key: Any) -> str:
    """The query for the versions of a key."""
    state = port.state
    state.refresh(port.query)
    facts = state.facts
    return str.__str__(history_of(state.model, table, key, "postgres", facts.schema, archives=facts.archives))


def archive(port: Port, table: str) -> int:
    """Moves superseded versions; how many there were."""
    state = port.state
    state.refresh(port.query)
    facts = state.facts
    stored = facts.of(state.model.table(table))
    if not stored.archived:
        raise JournalSchemaError(
            f"the table {stored.place}.{stored.table.archive} does not exist",
            cause=f"it is where superseded versions of {stored.table.name} go",
            remedy="create it with the statements of `lakemend journal init`",
            table=stored.table.name,
        )
    if not stored.counted:
        raise uncounted(stored.table.name, stored.counter)
    rewritten = archival(state.model, table, "postgres", facts.schema)
    counts: list[int] = []

    def run() -> None:
        # What this transaction took of versions may be in the journal alone, and leave it now.
        port.beside(Text(stored.counter.bump()), None)
        for statement in rewritten.statements:
            counts.append(port.count(Text(str.__str__(statement.bound(stored.counter.last)))))
            # Whoever reads the journal keeps others from altering it: what held after the first statement holds on.
            port.query(f"SELECT {unchanged(stored.counter.journal, stored.stored_columns)}")

    running.changes(port, stored.counter, run)
    return counts[0]
