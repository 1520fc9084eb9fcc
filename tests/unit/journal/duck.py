"""The equivalence suite's engine over DuckDB: plain tables in one schema, journals in another."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import duckdb

from lakemend.journal import Model, Rewrite, archive, init, rewrite, version_literal
from tests.journal.equivalence import Outcome, Shape, quoted


class Duck:
    dialect = "duckdb"
    features = frozenset({"update key", "update from", "delete using", "on conflict", "merge", "lateral", "archive"})

    def __init__(self, version_type: str = "BIGINT", settled: bool = False) -> None:
        self.version_type = version_type
        self.settles = settled
        self.sides = duckdb.connect(), duckdb.connect()

    def begin(self, shapes: Sequence[Shape]) -> None:
        self.shapes = shapes
        self.model = Model.of(
            {
                "journalTables": {s.name: list(s.key) for s in shapes if s.journaled},
                "journalVersionType": self.version_type,
            }
        )
        self.schema = {s.name: s.columns for s in shapes}
        self.last = 0
        self.settled: dict[str, Any] = {}
        for side in self.sides:
            side.execute("DROP SCHEMA IF EXISTS w CASCADE; CREATE SCHEMA w; USE w")
        plain, journals = self.sides
        for shape in shapes:
            columns = ", ".join(f"{quoted('duckdb', n)} {t}" for n, t in shape.columns.items())
            plain.execute(f"CREATE TABLE {quoted('duckdb', shape.name)} ({columns})")
            if not shape.journaled:
                journals.execute(f"CREATE TABLE {quoted('duckdb', shape.name)} ({columns})")
        for ddl in init(self.model, self.schema, "duckdb"):
            journals.execute(ddl)

    def plain(self, sql: str, unique: Shape | None = None) -> Outcome:
        side = self.sides[0]
        if unique is None:
            outcome = _outcome(side, sql)
            if not _is_query(sql):
                self.sides[1].execute(sql)  # a table that is not journaled is on both sides
            return outcome
        table = quoted("duckdb", unique.name)
        keys = ", ".join(quoted("duckdb", k) for k in unique.key)
        indexed = "ON CONFLICT" in sql
        side.execute("BEGIN")
        if indexed:
            side.execute(f"CREATE TABLE backup AS FROM {table}; DROP TABLE {table}")
            columns = ", ".join(f"{quoted('duckdb', n)} {t}" for n, t in unique.columns.items())
            side.execute(f"CREATE TABLE {table} ({columns}, PRIMARY KEY ({keys})); INSERT INTO {table} FROM backup")
        try:
            count = side.execute(sql).fetchall()[0][0]
            null = " OR ".join(f"{quoted('duckdb', k)} IS NULL" for k in unique.key)
            bad = side.execute(
                f"SELECT 1 FROM {table} WHERE {null} "
                f"UNION ALL SELECT 1 FROM {table} GROUP BY {keys} HAVING COUNT(*) > 1"
            ).fetchall()
            if bad:
                raise ValueError("the key is null or not unique")
            if indexed:
                side.execute(f"CREATE OR REPLACE TABLE backup AS FROM {table}; DROP TABLE {table}")
                side.execute(f"ALTER TABLE backup RENAME TO {table}")
            side.execute("COMMIT")
            return Outcome(count=count)
        except (duckdb.Error, ValueError) as error:
            side.execute("ROLLBACK")
            return Outcome(error=error)

    def journaled(self, sql: str) -> Outcome:
        try:
            archives = [t.name for t in self.model.tables]
            return self._run(
                rewrite(sql, self.model, "duckdb", self.schema, archives=archives, settled=self.settled, namespace="w")
            )
        except Exception as error:
            return Outcome(error=error)

    def unguarded(self, sql: str) -> Outcome:
        """A statement inside of a transaction that the caller has begun."""
        side = self.sides[1]
        try:
            made = rewrite(sql, self.model, "duckdb", self.schema, namespace="w")
            version = version_literal(self.model, self._value(self.last + 1), "duckdb")
            for check in made.checks:
                row = side.execute(check.query).fetchone()
                if row is not None:
                    raise check.error(row)
            rows = [side.execute(statement.bound(version)).fetchall() for statement in made.statements][-1]
            for proof in made.proofs:
                row = side.execute(proof.query.bound(version)).fetchone()
                if row is not None:
                    raise proof.error(row)
            return Outcome(rows=rows)
        except Exception as error:
            return Outcome(error=error)

    def unguarded_plain(self, sql: str) -> Outcome:
        outcome = _outcome(self.sides[0], sql)
        return Outcome(count=0) if outcome.error is None and not _is_query(sql) else outcome

    def _run(self, made: Rewrite) -> Outcome:
        side = self.sides[1]
        if not made.writes:
            return _outcome(side, made.statements[0])
        self.last += 1
        version = version_literal(self.model, self._value(self.last), "duckdb")
        side.execute("BEGIN")
        try:
            for check in made.checks:
                row = side.execute(check.query).fetchone()
                if row is not None:
                    raise check.error(row)
            count = 0
            for statement in made.statements:
                count = side.execute(statement.bound(version)).fetchall()[0][0]
            for proof in made.proofs:
                row = side.execute(proof.query.bound(version)).fetchone()
                if row is not None:
                    raise proof.error(row)
            if made.affected is not None:
                count = side.execute(made.affected.bound(version)).fetchall()[0][0]
            side.execute("COMMIT")
        except Exception:
            side.execute("ROLLBACK")
            raise
        return Outcome(count=count)

    def _value(self, number: int) -> Any:
        if self.version_type == "BIGINT":
            return number
        return f"2026-01-01 00:{number // 60:02}:{number % 60:02}.000001"

    def version(self) -> str | None:
        if not self.last:
            return None
        if self.version_type == "BIGINT":
            return f"VERSION AS OF {self.last}"
        return f"TIMESTAMP AS OF '{self._value(self.last)}'"

    def archive(self, shape: Shape) -> None:
        side = self.sides[1]
        side.execute("BEGIN")
        for statement in archive(self.model, shape.name, "duckdb", self.schema).statements:
            side.execute(statement)
        side.execute("COMMIT")
        if self.settles and self.last:
            self.settled[shape.name] = self._value(self.last)


def _is_query(sql: str) -> bool:
    return sql.lstrip().upper().startswith(("SELECT", "WITH", "FROM", "("))


def _outcome(side: duckdb.DuckDBPyConnection, sql: str) -> Outcome:
    try:
        return Outcome(rows=side.execute(sql).fetchall())
    except duckdb.Error as error:
        return Outcome(error=error)
