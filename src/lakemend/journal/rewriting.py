"""What the rules share while one statement is rewritten, and what comes out of it.

`rewrite` makes a `Rewriting`, hands it from rule to rule, and returns the `Rewrite` that the last one leaves in it.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from lakemend.errors import JournalError, JournalRefusedError
from lakemend.journal.columns import Columns, Schema
from lakemend.journal.dialects import Dialect
from lakemend.journal.literals import version_literal
from lakemend.journal.model import Model, Table
from lakemend.journal.rows import Rows
from lakemend.journal.scopes import Names, Resolution, Use, resolve
from lakemend.journal.source import Source
from lakemend.journal.sql import VERSION_MARKER, Sql


@dataclass(frozen=True)
class Check:
    """A query that must return no row, and the error if it does: its first row has the key."""

    query: Sql
    problem: Callable[[Any], JournalError] = field(repr=False, compare=False)

    def error(self, row: Any = None) -> JournalError:
        return self.problem(row)


@dataclass(frozen=True)
class Rewrite:
    """What a statement became. Run the checks, then the statements, then the proofs, in one transaction."""

    # select, insert, update, delete, merge, view, archive; unchanged if no journaled table is named.
    kind: str
    statements: tuple[Sql, ...]
    # Each must return no row before the statements run.
    checks: tuple[Check, ...] = ()
    # Each must return no row after the statements ran, or they are undone.
    proofs: tuple[Check, ...] = ()
    # The number of rows that were changed, asked after the statements; None: the last statement's own count.
    affected: Sql | None = None
    writes: tuple[Table, ...] = ()
    reads: tuple[Table, ...] = ()
    # SQL for the version in a script.
    script_version: str = ""

    @property
    def parameters(self) -> tuple[int | str, ...]:
        """For each placeholder of the statements the position (from 0) or name of the caller's parameter."""
        return tuple(parameter for statement in self.statements for parameter in statement.parameters)

    def __str__(self) -> str:
        if self.kind == "unchanged":
            return str(self.statements[0])
        return ";\n".join(str(statement.bound(self.script_version)) for statement in self.statements) + ";"


class Rewriting:
    """One statement on its way."""

    def __init__(
        self,
        source: Source,
        model: Model,
        dialect: Dialect,
        schema: Mapping[str, Any] | None,
        namespace: str | None,
        archives: Collection[str],
        settled: Mapping[str, Any],
        current: Mapping[str, str],
        defaults: Mapping[str, Mapping[str, str]] | None,
        proves: bool,
        proves_all: bool,
    ) -> None:
        self.source = source
        self.model = model
        self.dialect = dialect
        self.names = Names(model, dialect, namespace)
        self.schema = Schema(schema, model, dialect)
        self.rows = Rows(model, dialect, self.schema)
        self.archives = archives
        self.settled = settled
        self._current = current
        self._defaults = defaults or {}
        self.knows_defaults = defaults is not None
        self.proves = proves
        # The runner looks at what was written rather than ahead.
        self.proves_all = proves_all
        self.made: Rewrite | None = None

    @property
    def tree(self) -> Any:
        return self.source.tree

    @cached_property
    def resolution(self) -> Resolution:
        return resolve(self.tree, self.names, self.schema)

    def is_archived(self, table: Table) -> bool:
        return str(table) in self.archives or table.name in self.archives

    def settled_version(self, table: Table) -> str | None:
        value = self.settled.get(str(table), self.settled.get(table.name))
        return None if value is None else version_literal(self.model, value, self.dialect)

    def current(self, table: Table, columns: Columns | None, before: str | None = None) -> str:
        """The current rows of a table as a query: of the relation that the runner has for them, or of the journal."""
        names = None if columns is None else list(columns)
        relation = self._current.get(str(table), self._current.get(table.name))
        if relation is not None:
            return self.rows.plain(relation, names)
        return self.rows.current(table, names, self.settled_version(table), before)

    def default(self, table: Table, column: str) -> str:
        """What a column has where a statement gives it no value."""
        return self._defaults.get(str(table), self._defaults.get(table.name, {})).get(column, "NULL")

    @property
    def no_version(self) -> str:
        """NULL with the type of a version."""
        return f"CAST(NULL AS {self.dialect.version_type(self.model.version_type)})"

    @property
    def target(self) -> Use:
        use = self.resolution.target
        assert use is not None
        return use

    @cached_property
    def reads(self) -> tuple[Table, ...]:
        tables = [use.table for use in self.resolution.journaled if not use.target and use.table is not None]
        return tuple(dict.fromkeys(tables))

    def check(self, text: str, problem: Callable[[Any], JournalError]) -> Check:
        return Check(self.source.made(text), problem)

    def finish(self, kind: str, *statements: str) -> None:
        """A statement that changes no journal."""
        made = tuple(self.source.made(statement) for statement in statements)
        self.made = Rewrite(kind, made, reads=self.reads)

    def append(self, kind: str, table: Table, names: Sequence[str], query: str, **rest: Any) -> None:
        """A statement that appends the rows of a query to the journal: the columns named, and the two versions."""
        columns = (*names, self.model.version, self.model.subsequent)
        listed = ", ".join(map(self.dialect.quoted, columns))
        statement = self.source.made(f"INSERT INTO {self.rows.journal(table)} ({listed}) {query}")
        statement.columns, statement.query = columns, self.source.made(query)
        self.made = Rewrite(
            kind,
            (statement,),
            writes=(table,),
            reads=tuple(dict.fromkeys((*self.reads, *rest.pop("reads", ())))),
            script_version=self.rows.script_version(table, self.is_archived(table)),
            **rest,
        )

    def refuse(self, keyword: str, cause: str, remedy: str, problem: str = "") -> JournalRefusedError:
        tables = ", ".join(dict.fromkeys(str(use.table) for use in self.resolution.journaled)) or "a journaled table"
        return JournalRefusedError(
            problem or f"{keyword} on {tables} cannot be rewritten", cause=cause, remedy=remedy, keyword=keyword
        )


__all__ = ["VERSION_MARKER", "Check", "Rewrite", "Rewriting"]
