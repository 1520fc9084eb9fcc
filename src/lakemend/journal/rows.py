"""The rows of a journaled table as SQL: the current ones, those of an earlier version, and every version of a key.

This is the one place that knows what makes a row of a journal visible. The rules and `history` take these pieces.

A row is current if no row of its key has a higher version and it is no mark of a deletion. The two are asked of the
same row: whoever filters the marks away first and then takes the newest row brings deleted rows back.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from lakemend.journal.columns import Schema
from lakemend.journal.dialects import Dialect
from lakemend.journal.model import Model, Table


@dataclass(frozen=True)
class Rows:
    """Writes the rows of journaled tables in one dialect."""

    model: Model
    dialect: Dialect
    schema: Schema | None = None

    def outer(self, table: Table, alias: str) -> str:
        """A name for rows that a subquery on the table looks at from within: no column of the table, as engines may
        take `c.id` for the field of a column `c` of the subquery's own."""
        known = None if self.schema is None else self.schema.known(table)
        own = (*(known or table.key), self.model.version, self.model.subsequent)
        taken = {self.dialect.fold(name) for name in own}
        return f"lakemend_{alias}" if self.dialect.fold(alias) in taken else alias

    def journal(self, table: Table) -> str:
        return self.dialect.path(table.physical_schema, table.journal)

    def archive(self, table: Table) -> str:
        return self.dialect.path(table.physical_schema, table.archive)

    @property
    def version(self) -> str:
        return self.dialect.quoted(self.model.version)

    @property
    def subsequent(self) -> str:
        return self.dialect.quoted(self.model.subsequent)

    def same_key(self, table: Table, left: str, right: str) -> str:
        names = map(self.dialect.quoted, table.key)
        return " AND ".join(f"{left}.{name} = {right}.{name}" for name in names)

    def _columns(self, columns: Sequence[str] | None, of: str) -> str:
        if columns is None:
            return f"{of}.*"
        return ", ".join(f"{of}.{self.dialect.quoted(name)}" for name in columns)

    def _newest(self, table: Table, columns: Sequence[str] | None, limit: str | None, settled: str | None) -> str:
        version, c = self.version, self.outer(table, "c")
        until = [] if limit is None else [limit]
        rows = [f"{c}.{version} {u}" for u in until] + [f"{c}.{self.subsequent} IS NULL"]
        newer = [f"n.{version} {u}" for u in until] + ([f"n.{version} > {settled}"] if settled else [])
        newer += [self.same_key(table, "n", c), f"n.{version} > {c}.{version}"]
        journal = self.journal(table)
        return (
            f"SELECT {self._columns(columns, c)} FROM {journal} AS {c} WHERE {' AND '.join(rows)} "
            f"AND NOT EXISTS (SELECT 1 FROM {journal} AS n WHERE {' AND '.join(newer)})"
        )

    def plain(self, relation: str, columns: Sequence[str] | None) -> str:
        """The rows of a relation that has nothing but current ones."""
        return f"SELECT {self._columns(columns, 'c')} FROM {self.dialect.quoted(relation)} AS c"

    def current(
        self, table: Table, columns: Sequence[str] | None, settled: str | None = None, before: str | None = None
    ) -> str:
        """The rows that are there now, or were there before a version.

        `settled`: a version up to which the journal has one row of each key, so that rows above it alone can be newer
        than another one.
        """
        return self._newest(table, columns, None if before is None else f"< {before}", settled)

    def as_of(self, table: Table, columns: Sequence[str] | None, version: str, archived: bool) -> str:
        """The rows that were there at a version. A row in the archive knows until when it was there."""
        rows = self._newest(table, columns, f"<= {version}", None)
        if not archived:
            return rows
        return (
            f"{rows} UNION ALL SELECT {self._columns(columns, 'c')} FROM {self.archive(table)} AS c "
            f"WHERE c.{self.version} <= {version} AND c.{self.subsequent} > {version}"
        )

    def superseded(self, table: Table, row: str) -> str:
        """Whether a row of the journal is no current one, and so belongs into the archive."""
        return (
            f"{row}.{self.subsequent} IS NOT NULL OR EXISTS (SELECT 1 FROM {self.journal(table)} AS n "
            f"WHERE {self.same_key(table, 'n', row)} AND n.{self.version} > {row}.{self.version})"
        )

    def script_version(self, table: Table, archived: bool) -> str:
        """A version for a script that runs as it is: greater than every version there is."""
        version = self.version
        of_all = f"SELECT MAX({version}) AS {version} FROM {self.journal(table)}"
        if archived:
            of_all += f" UNION ALL SELECT MAX({version}) FROM {self.archive(table)}"
        if self.model.version_type == "BIGINT":
            return f"(SELECT COALESCE(MAX(v.{version}), 0) + 1 FROM ({of_all}) AS v)"
        now, step = self.dialect.now, self.dialect.microsecond
        highest = f"MAX(v.{version})"
        return f"(SELECT GREATEST({now}, COALESCE({highest} + {step}, {now})) FROM ({of_all}) AS v)"
