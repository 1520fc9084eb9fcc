"""Another driver for PostgreSQL: psycopg2."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from typing import Any

import psycopg
import pytest

from lakemend.errors import CommitConflictError, DuplicateKeyError, LakemendError
from lakemend.journal.driver import connect
from tests.journal.postgres.world import World, at_once


@pytest.fixture
def driver() -> Any:
    return pytest.importorskip("psycopg2")


@pytest.fixture
def opened(world: World, driver: Any) -> Iterator[Any]:
    """Opens journaled connections of the driver."""
    made = []
    address = psycopg.conninfo.conninfo_to_dict(world.conninfo)
    schema = address["options"].partition("=")[2]

    def one(autocommit: bool = False) -> Any:
        keywords = {"host": address["host"], "port": int(address["port"]), "user": address["user"]}
        plain = driver.connect(**keywords, password=address["password"], database=address["dbname"])
        made.append(plain)
        plain.cursor().execute(f"SET search_path = {schema}")
        plain.commit()
        plain.autocommit = autocommit
        return connect(world.model, plain)

    yield one
    for connection in made:
        connection.close()


def test_the_calls_of_pep_249(opened: Any, driver: Any, world: World) -> None:
    connection = opened()
    assert connection.IntegrityError is driver.IntegrityError
    cursor = connection.cursor()
    cursor.execute("INSERT INTO depts (id, name) VALUES (%s, %s), (%s, 'b%%')", (1, "a%s", 2))
    assert cursor.rowcount == 2
    cursor.executemany("UPDATE depts SET name = name || %s WHERE id = %s", [("!", 1), ("?", 2), ("x", 3)])
    assert cursor.rowcount == 2
    cursor.execute("UPDATE depts SET id = id + 10")
    assert cursor.rowcount == 2
    cursor.execute("SELECT id, name FROM depts ORDER BY id")
    assert [column[0] for column in cursor.description] == ["id", "name"]
    assert [tuple(row) for row in cursor.fetchall()] == [(11, "a%s!"), (12, "b%?")]
    connection.commit()
    cursor.execute("DELETE FROM depts WHERE id = 11")
    connection.rollback()
    assert len(connection.history("depts", 11).fetchall()) == 1
    connection.commit()
    assert connection.archive("depts") == 6
    connection.commit()
    assert [row[0] for row in world.rows()] == [11, 12]


@pytest.mark.parametrize("autocommit", [True, False])
def test_errors(opened: Any, driver: Any, autocommit: bool) -> None:
    connection = opened(autocommit)
    cursor = connection.cursor()
    cursor.execute("INSERT INTO depts (id) VALUES (1)")
    connection.commit()
    with pytest.raises(driver.IntegrityError) as caught:
        cursor.execute("INSERT INTO depts (id) VALUES (1)")
    assert isinstance(caught.value, DuplicateKeyError)
    connection.rollback()
    with pytest.raises(driver.NotSupportedError):
        cursor.execute("TRUNCATE depts")
    with pytest.raises(driver.ProgrammingError):
        cursor.execute("UPDATE depts SET name = %s", ("a", "b"))
    cursor.execute("SELECT count(*) FROM depts")
    assert tuple(cursor.fetchone()) == (1,)


@pytest.mark.parametrize("autocommit", [True, False])
def test_a_counter(opened: Any, world: World, autocommit: bool) -> None:
    with world.connect() as first:
        first.execute("INSERT INTO depts (id, budget) VALUES (1, 0)")

    def count() -> None:
        connection = opened(autocommit)
        for _ in range(20):
            connection.cursor().execute("UPDATE depts SET budget = budget + 1 WHERE id = 1")
            connection.commit()

    assert at_once(count, count, count) == [None] * 3
    assert world.rows("SELECT budget FROM depts") == [(60,)]


def test_a_conflict(opened: Any, driver: Any, world: World) -> None:
    with world.connect() as first:
        first.execute("INSERT INTO depts (id, budget) VALUES (1, 0)")
    connection = opened()
    connection.cursor().execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
    connection.cursor().execute("SELECT * FROM depts")
    with world.connect() as other:
        other.execute("UPDATE depts SET budget = 1")
    with pytest.raises(driver.Error) as caught:
        connection.cursor().execute("UPDATE depts SET budget = budget + 1")
    assert isinstance(caught.value, CommitConflictError)
    connection.rollback()


@pytest.mark.parametrize(
    ("begin", "end"),
    [
        ("BEGIN", "ROLLBACK"),
        ("/* a */ BEGIN", "ROLLBACK"),
        ("START TRANSACTION", "-- b\nROLLBACK"),
        ("SET work_mem = 4096; BEGIN", "SELECT 1; ABORT"),
    ],
)
def test_autocommit_and_a_transaction_of_the_callers_own(opened: Any, world: World, begin: str, end: str) -> None:
    connection = opened(autocommit=True)
    cursor = connection.cursor()
    cursor.execute(begin)
    cursor.execute("INSERT INTO depts (id) VALUES (1)")
    cursor.execute(end)
    cursor.execute("INSERT INTO depts (id) VALUES (2)")
    assert [row[0] for row in world.rows()] == [2]


def test_drivers_of_other_databases_are_refused(world: World) -> None:
    with pytest.raises(LakemendError, match="sqlite3"):
        connect(world.model, sqlite3.connect(":memory:"))
