"""UPDATE of one row through the driver against UPDATE of a plain table, on a PostgreSQL with its default settings.

Both tables have 100,000 rows of the same columns, of which a tenth were updated once before. Each measurement is a
round of updates of random rows; `LAKEMEND_BENCH_JOURNAL_UPDATES` sets how many (500).
"""

from __future__ import annotations

import os
import random
from collections.abc import Callable, Iterator
from typing import Any

import psycopg

from benchmarks.ratio import Figure, compare
from lakemend.journal import connect, init
from tests.journal.postgres.server import running

ROWS = 100_000
UPDATES = int(os.environ.get("LAKEMEND_BENCH_JOURNAL_UPDATES", "500"))
COLUMNS = {"id": "integer", "name": "text", "budget": "numeric", "city": "text"}
MODEL = {"journalTables": {"depts": "id"}}
UPDATE = "UPDATE {} SET budget = budget + %s WHERE id = %s"


def run() -> Iterator[Figure]:
    with running() as server:
        conninfo = server.conninfo()
        _fill(conninfo)
        for autocommit in (True, False):
            plain = psycopg.connect(conninfo, autocommit=autocommit)
            journaled = connect(MODEL, psycopg.connect(conninfo, autocommit=autocommit))
            name = "one transaction each" if autocommit else f"one transaction for {UPDATES}"
            yield compare(
                f"UPDATE of one row on PostgreSQL, {name}",
                _updates(journaled, "depts"),
                _updates(plain, "plain"),
                target=2.0,
                rounds=15,
            )
            plain.close()
            journaled.close()


def _fill(conninfo: str) -> None:
    rows = f"SELECT i, 'name ' || i, i, 'city ' || i % 100 FROM generate_series(1, {ROWS}) AS s(i)"
    with psycopg.connect(conninfo) as connection:
        columns = ", ".join(f"{name} {type}" for name, type in COLUMNS.items())
        connection.execute(f"CREATE TABLE plain ({columns}, PRIMARY KEY (id))")
        connection.execute(f"INSERT INTO plain {rows}")
        for statement in init(MODEL, {"depts": COLUMNS}, "postgres"):
            connection.execute(statement)
    with connect(MODEL, psycopg.connect(conninfo)) as connection:
        connection.execute(f"INSERT INTO depts {rows}")
        for table in ("plain", "depts"):
            connection.execute(f"UPDATE {table} SET budget = budget + 1 WHERE id % 10 = 0")
    with psycopg.connect(conninfo, autocommit=True) as connection:
        connection.execute("VACUUM ANALYZE")


def _updates(connection: Any, table: str) -> Callable[[], None]:
    chance = random.Random(table)
    statement = UPDATE.format(table)

    def update() -> None:
        for _ in range(UPDATES):
            changed = connection.execute(statement, (1, chance.randint(1, ROWS)))
            assert changed.rowcount == 1
        connection.commit()

    return update
