"""Journaled tables in a database of their own, and connections to them: what the tests of this directory begin with."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import psycopg

from lakemend.journal import init
from lakemend.journal.driver import connect

DEPTS = {"id": "integer", "name": "text", "budget": "numeric", "city": "varchar(5)"}


@dataclass
class World:
    """`model` lists the tables of `schema`; `connect` gives a journaled connection, `plain` one without a journal."""

    conninfo: str
    model: dict[str, Any]
    schema: dict[str, dict[str, str]]
    opened: list[Any] = field(default_factory=list)

    @classmethod
    def of(cls, conninfo: str, type: str = "TIMESTAMP", tables: Any = None, **model: Any) -> World:
        schema = tables or {"depts": DEPTS}
        document = {"journalTables": {name: [] for name in schema}, "journalVersionType": type, **model}
        world = cls(conninfo, document, schema)
        with psycopg.connect(conninfo) as connection:
            for statement in init(document, schema, "postgres"):
                connection.execute(statement)
        return world

    def connect(self, **options: Any) -> Any:
        return connect(self.model, self.plain(**options))

    def plain(self, **options: Any) -> Any:
        connection = psycopg.connect(self.conninfo, **options)
        self.opened.append(connection)
        return connection

    def close(self) -> None:
        for connection in self.opened:
            connection.close()

    def rows(self, sql: str = "SELECT * FROM depts ORDER BY id") -> list[Any]:
        with self.connect(autocommit=True) as connection:
            return connection.execute(sql).fetchall()


def at_once(*actions: Callable[[], Any]) -> list[Any]:
    """Runs the actions in threads that start together; what each returned, or the exception it raised."""
    barrier = threading.Barrier(len(actions))
    results: list[Any] = [None] * len(actions)

    def act(place: int) -> None:
        barrier.wait()
        try:
            results[place] = actions[place]()
        except Exception as error:
            results[place] = error

    threads = [threading.Thread(target=act, args=(i,), daemon=True) for i in range(len(actions))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(120)
        assert not thread.is_alive(), "a writer waits for ever"
    return results
