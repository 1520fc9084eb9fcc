"""The equivalence suite's engine over PostgreSQL: plain tables in one schema, journals in another."""

from __future__ import annotations

import random
import re
from collections.abc import Sequence
from typing import Any

import psycopg

from lakemend.errors import JournalSchemaError
from lakemend.journal import init
from lakemend.journal.driver import connect
from tests.journal.equivalence import Outcome, Shape
from tests.journal.postgres.server import Server

# A text, a number, or what must not be taken for one.
_LITERAL = re.compile(r"""(?P<text>'(?:[^']|'')*')|"[^"]*"|\w*[A-Za-z_]\w*|(?P<number>\d+)|%""")


def quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


class Postgres:
    """`autocommit`: whether each statement is a transaction of its own, or a savepoint of longer ones. `parameters`:
    whether literals of changes become parameters."""

    dialect = "postgres"
    features = frozenset({"update key", "update from", "delete using", "on conflict", "merge", "lateral", "archive"})

    def __init__(
        self, server: Server, version_type: str = "BIGINT", autocommit: bool = True, parameters: bool = False
    ) -> None:
        self.server = server
        self.version_type = version_type
        self.autocommit = autocommit
        self.parameters = parameters
        self.chance = random.Random(version_type)
        self.schemas: list[str] = []
        self.sides: list[Any] = []

    def begin(self, shapes: Sequence[Shape]) -> None:
        self.close()
        self.schemas = [self.server.make_schema(), self.server.make_schema()]
        plain = psycopg.connect(self.server.conninfo(self.schemas[0]), autocommit=True)
        journals = psycopg.connect(self.server.conninfo(self.schemas[1]), autocommit=True)
        self.sides = [plain, journals]
        self.tables = [s for s in shapes if s.journaled]
        model = {
            "journalTables": {s.name: list(s.key) for s in self.tables},
            "journalVersionType": self.version_type,
        }
        for shape in shapes:
            columns = ", ".join(f"{quoted(n)} {t}" for n, t in shape.columns.items())
            key = ", ".join(map(quoted, shape.key))
            # Keys are checked at the end of a statement, as the journal does it.
            constraint = f"CONSTRAINT {quoted(shape.name + '_key')} PRIMARY KEY ({key}) DEFERRABLE"
            plain.execute(f"CREATE TABLE {quoted(shape.name)} ({columns}, {constraint})")
            if not shape.journaled:
                journals.execute(f"CREATE TABLE {quoted(shape.name)} ({columns})")
        for ddl in init(model, {s.name: s.columns for s in shapes}, "postgres"):
            journals.execute(ddl)
        journals = connect(model, journals)
        journals.autocommit = self.autocommit

    def close(self) -> None:
        for side in self.sides:
            side.close()
        for schema in self.schemas:
            self.server.drop_schema(schema)
        self.sides, self.schemas = [], []

    def plain(self, sql: str, unique: Shape | None = None) -> Outcome:
        side = self.sides[0]
        if not self._known(sql):
            return Outcome(error=NotImplementedError(sql))
        if unique is None:
            outcome = _outcome(side, sql)
            if outcome.rows is None and outcome.error is None:
                _outcome(self.sides[1], sql)  # a table that is not journaled is on both sides
            return outcome
        try:
            with side.transaction():
                table, key = quoted(unique.name), quoted(unique.name + "_key")
                keys = ", ".join(map(quoted, unique.key))
                if "ON CONFLICT" in sql:  # it takes no deferrable key
                    side.execute(f"ALTER TABLE {table} DROP CONSTRAINT {key}, ADD CONSTRAINT k PRIMARY KEY ({keys})")
                count = side.execute(*self._given(sql)).rowcount
                if "ON CONFLICT" in sql:
                    side.execute(f"ALTER TABLE {table} DROP CONSTRAINT k")
                    side.execute(f"ALTER TABLE {table} ADD CONSTRAINT {key} PRIMARY KEY ({keys}) DEFERRABLE")
            return Outcome(count=count)
        except psycopg.Error as error:
            return Outcome(error=error)

    def journaled(self, sql: str) -> Outcome:
        if not self._known(sql):
            return Outcome(error=NotImplementedError(sql))
        side = self.sides[1]
        given = self._given(sql)
        if self.autocommit:
            return _outcome(side, *given)
        try:
            with side.transaction():
                outcome = _outcome(side, *given)
                if outcome.error is not None:
                    raise outcome.error
        except Exception as error:
            outcome = Outcome(error=error)
        if self.chance.random() < 0.2:
            side.commit()
        return outcome

    def version(self) -> str | None:
        side = self.sides[1]
        if self.version_type == "TIMESTAMP":
            (now,) = side.execute("SELECT clock_timestamp()").fetchone()
            return f"TIMESTAMP AS OF '{now}'"
        # Each table counts by itself: one number for all tables is one that all of them have reached.
        journals = [quoted(f"{s.name}_journal") for s in self.tables]
        counters = [quoted(f"{s.name}_journal_version") for s in self.tables]
        found = [
            f"SELECT max(version_number) FROM {j} UNION ALL SELECT last FROM {c}" for j, c in zip(journals, counters)
        ]
        (last,) = side.execute(f"SELECT max(v) FROM ({' UNION ALL '.join(found)}) AS s(v)").fetchone()
        for counter in counters:
            side.execute(f"UPDATE {counter} SET last = {last}")
        return f"VERSION AS OF {last}"

    def archive(self, shape: Shape) -> None:
        self.sides[1].archive(shape.name)

    def _given(self, sql: str) -> tuple[Any, ...]:
        if not self.parameters or _is_query(sql):
            return (sql,)
        values: list[Any] = []

        def placeholder(match: re.Match[str]) -> str:
            text, number = match.group("text"), match.group("number")
            if text is None and number is None:
                return match.group().replace("%", "%%")
            values.append(int(number) if text is None else text[1:-1].replace("''", "'"))
            return "%s"

        return _LITERAL.sub(placeholder, sql), values

    def _known(self, sql: str) -> bool:
        return "BY SOURCE" not in sql or self.sides[0].info.server_version >= 170000


def _is_query(sql: str) -> bool:
    return sql.startswith(("SELECT", "WITH"))


def _outcome(side: Any, sql: str, parameters: Any = None) -> Outcome:
    try:
        cursor = side.execute(sql, parameters)
        if cursor.description is None:
            return Outcome(count=cursor.rowcount)
        return Outcome(rows=cursor.fetchall())
    except (psycopg.Error, JournalSchemaError) as error:
        return Outcome(error=error)
