"""Parallel sessions: versions come in the order of commits, and no change is lost.

Of two changes of one row both survive, or one gets a CommitConflictError; at every isolation level. Readers never wait.
"""

from __future__ import annotations

import random
import threading
import time
from typing import Any

import psycopg
import pytest
from psycopg import IsolationLevel

from lakemend.errors import CommitConflictError, DuplicateKeyError
from tests.journal.postgres.world import World, at_once

LEVELS = [IsolationLevel.READ_COMMITTED, IsolationLevel.REPEATABLE_READ, IsolationLevel.SERIALIZABLE]
levels = pytest.mark.parametrize("level", LEVELS, ids=lambda level: level.name)


def connected(world: World, level: IsolationLevel, **options: Any) -> Any:
    connection = world.connect(**options)
    connection.isolation_level = level
    return connection


def until_it_lands(connection: Any, change: Any) -> int:
    """Runs a transaction until it meets no conflict; how often it met one."""
    conflicts = 0
    while True:
        try:
            change()
            connection.commit()
            return conflicts
        except CommitConflictError as error:
            assert isinstance(error, psycopg.OperationalError)
            connection.rollback()
            conflicts += 1


@levels
@pytest.mark.parametrize("autocommit", [True, False])
def test_a_counter(world: World, level: IsolationLevel, autocommit: bool) -> None:
    with world.connect() as first:
        first.execute("INSERT INTO depts (id, budget) VALUES (1, 0)")
    writers, each = 4, 25

    def count() -> None:
        connection = connected(world, level, autocommit=autocommit)
        for _ in range(each):
            until_it_lands(connection, lambda: connection.execute("UPDATE depts SET budget = budget + 1 WHERE id = 1"))

    assert at_once(*[count] * writers) == [None] * writers
    assert world.rows("SELECT budget FROM depts") == [(writers * each,)]
    with world.plain() as plain:
        journal = plain.execute("SELECT version_number, budget FROM depts_journal ORDER BY version_number").fetchall()
    assert [int(budget) for _, budget in journal] == list(range(writers * each + 1))
    assert len({version for version, _ in journal}) == len(journal)


@levels
def test_two_updates_of_one_row(world: World, level: IsolationLevel) -> None:
    with world.connect() as first:
        first.execute("INSERT INTO depts (id, name, city) VALUES (1, 'a', 'x')")
    one, two = connected(world, level), connected(world, level)
    for connection in (one, two):  # both have a snapshot now
        assert connection.execute("SELECT name FROM depts").fetchone() == ("a",)
    one.execute("UPDATE depts SET name = 'b' WHERE id = 1")
    found: list[Any] = []

    def second() -> None:
        try:
            two.execute("UPDATE depts SET city = 'y' WHERE id = 1")
            two.commit()
        except CommitConflictError as error:
            found.append(error)
            two.rollback()

    thread = threading.Thread(target=second)
    thread.start()
    time.sleep(0.2)
    assert thread.is_alive(), "a writer waits for the other"
    one.commit()
    thread.join(10)
    if level == IsolationLevel.READ_COMMITTED:
        assert found == []
        assert world.rows() == [(1, "b", None, "y")]
    else:
        assert isinstance(found[0], psycopg.errors.SerializationFailure)
        assert world.rows() == [(1, "b", None, "x")]


@levels
def test_a_fresh_transaction_waits_without_a_conflict(world: World, level: IsolationLevel) -> None:
    with world.connect() as first:
        first.execute("INSERT INTO depts (id, name) VALUES (1, 'a')")
    for autocommit in (False, True):
        one, two = connected(world, level), connected(world, level, autocommit=autocommit)
        one.execute("UPDATE depts SET name = name || '1' WHERE id = 1")

        def second(two: Any = two) -> int:
            count = two.execute("UPDATE depts SET name = name || '2' WHERE id = 1").rowcount
            two.commit()
            return count

        def commit(one: Any = one) -> None:
            time.sleep(0.2)
            one.commit()

        assert at_once(second, commit) == [1, None]
    assert world.rows()[0][1] == "a1212"


@levels
def test_one_key_is_inserted_once(world: World, level: IsolationLevel) -> None:
    connections = [connected(world, level, autocommit=True) for _ in range(4)]
    for key in range(10):
        results = at_once(
            *[lambda c=c: c.execute("INSERT INTO depts (id) VALUES (%s)", (key,)).rowcount for c in connections]
        )
        assert results.count(1) == 1
        assert all(r == 1 or isinstance(r, (DuplicateKeyError, CommitConflictError)) for r in results), results
    assert [row[0] for row in world.rows()] == list(range(10))


@levels
def test_transfers_keep_the_sum(world: World, level: IsolationLevel) -> None:
    accounts, writers, each = 5, 4, 12
    with world.connect() as first:
        first.cursor().executemany("INSERT INTO depts (id, budget) VALUES (%s, 100)", [(i,) for i in range(accounts)])

    def transfer(seed: int) -> None:
        chance = random.Random(seed)
        connection = connected(world, level)

        def once() -> None:
            giver, taker = chance.sample(range(accounts), 2)
            (had,) = connection.execute("SELECT budget FROM depts WHERE id = %s", (giver,)).fetchone()
            amount = chance.randint(1, 30)
            if had >= amount:
                connection.execute("UPDATE depts SET budget = budget - %s WHERE id = %s", (amount, giver))
                connection.execute("UPDATE depts SET budget = budget + %s WHERE id = %s", (amount, taker))

        for _ in range(each):
            until_it_lands(connection, once)

    sums: set[Any] = set()
    done = threading.Event()

    def look() -> None:
        connection = world.connect(autocommit=True)
        while not done.is_set():
            sums.update(connection.execute("SELECT sum(budget), count(*) FROM depts").fetchall())

    reader = threading.Thread(target=look)
    reader.start()
    try:
        results = at_once(*[lambda s=s: transfer(s) for s in range(writers)])
    finally:
        done.set()
        reader.join()
    assert results == [None] * writers
    assert sums == {(100 * accounts, accounts)}


def test_readers_do_not_wait(world: World) -> None:
    with world.connect() as first:
        first.execute("INSERT INTO depts (id, name) VALUES (1, 'a')")
    writer, reader = world.connect(), world.connect(autocommit=True)
    reader.execute("SET statement_timeout = '2s'")
    writer.execute("UPDATE depts SET name = 'b'")
    assert reader.execute("SELECT name FROM depts").fetchone() == ("a",)
    assert len(reader.history("depts", 1).fetchall()) == 1
    writer.commit()
    assert reader.execute("SELECT name FROM depts").fetchone() == ("b",)


def test_a_late_commit_does_not_change_what_was(world: World) -> None:
    """Whoever commits later has the higher versions, whoever began first."""
    early = world.connect()
    early.execute("SELECT * FROM depts")
    with world.connect() as late:
        late.execute("INSERT INTO depts (id, name) VALUES (1, 'late')")
    version = world.rows("SELECT max(version_number) FROM depts_journal")[0][0]
    kind = "VERSION" if world.model["journalVersionType"] == "BIGINT" else "TIMESTAMP"
    as_of = (
        f"SELECT name FROM depts FOR {kind} AS OF {version if kind == 'VERSION' else f'{chr(39)}{version}{chr(39)}'}"
    )
    before = world.rows(as_of)
    early.execute("INSERT INTO depts (id, name) VALUES (2, 'early')")
    early.commit()
    assert world.rows(as_of) == before == [("late",)]


def test_a_deadlock_is_a_conflict(conninfo: str) -> None:
    columns = {"id": "integer", "n": "integer"}
    world = World.of(conninfo, "BIGINT", {"a": columns, "b": columns})
    with world.connect() as first:
        for table in "ab":
            first.execute(f"INSERT INTO {table} VALUES (1, 0)")

    def both(order: str) -> int:
        connection = world.connect()
        connection.execute("SET deadlock_timeout = '50ms'")
        connection.commit()

        def change() -> None:
            for table in order:
                connection.execute(f"UPDATE {table} SET n = n + 1 WHERE id = 1")
                time.sleep(0.05)

        return sum(until_it_lands(connection, change) for _ in range(3))

    results = at_once(lambda: both("ab"), lambda: both("ba"))
    assert all(isinstance(r, int) for r in results), results
    assert sum(results) >= 1
    assert world.rows("SELECT a.n, b.n FROM a, b") == [(6, 6)]
    world.close()


def test_a_session_that_is_killed_leaves_nothing(world: World) -> None:
    victim = world.connect()
    victim.execute("INSERT INTO depts (id, name) VALUES (1, 'lost')")
    waiting = threading.Thread(
        target=lambda: world.connect(autocommit=True).execute("INSERT INTO depts (id) VALUES (2)")
    )
    waiting.start()
    time.sleep(0.1)
    with world.plain(autocommit=True) as other:
        other.execute("SELECT pg_terminate_backend(%s)", (victim.info.backend_pid,))
    waiting.join(10)
    assert not waiting.is_alive()
    assert [row[0] for row in world.rows()] == [2]
    with pytest.raises(psycopg.OperationalError):
        victim.execute("UPDATE depts SET name = 'x'")


@levels
def test_a_mistaken_belief_in_the_lock_loses_nothing(world: World, level: IsolationLevel) -> None:
    """Even if the lock is thought to be held and is not, the statement itself refuses a snapshot that is too old."""
    with world.connect() as first:
        first.execute("INSERT INTO depts (id, budget) VALUES (1, 0)")

    def count() -> int:
        connection = connected(world, level)
        counter = connection._journal.facts.stored[0].counter

        def change() -> None:
            connection.execute("SELECT 1")
            connection._journal.held(counter)
            connection.execute("UPDATE depts SET budget = budget + 1 WHERE id = 1")

        return sum(until_it_lands(connection, change) for _ in range(20))

    results = at_once(*[count] * 3)
    assert all(isinstance(r, int) for r in results), results
    assert world.rows("SELECT budget FROM depts") == [(60,)]


@pytest.mark.parametrize("restless", [False, True], ids=["checked before", "proven afterwards"])
def test_rows_that_come_between_check_and_statement(world: World, restless: bool) -> None:
    """A live key that another session puts into the source of an INSERT never replaces the row."""
    with world.connect() as first:
        first.execute("CREATE TABLE staging (id integer)")
        first.execute("INSERT INTO staging VALUES (1)")
        first.execute("INSERT INTO depts (id, name) VALUES (2, 'live')")
    done = threading.Event()

    def disturb() -> None:
        connection = world.plain(autocommit=True)
        while not done.is_set():
            connection.execute("INSERT INTO staging VALUES (2)")
            connection.execute("DELETE FROM staging WHERE id = 2")

    def load() -> tuple[int, int]:
        connection = world.connect(autocommit=True)
        source = "SELECT id, 'staged' FROM staging"
        if restless:
            source += " WHERE pg_sleep(0.001) IS NOT NULL"
        loaded = refused = 0
        try:
            while (loaded < 20 or refused < 5) and loaded + refused < 2000:
                try:
                    loaded += connection.execute(f"INSERT INTO depts (id, name) {source}").rowcount
                    connection.execute("DELETE FROM depts WHERE id = 1")
                except DuplicateKeyError:
                    refused += 1
        finally:
            done.set()
        return loaded, refused

    _, found = at_once(disturb, load)
    assert isinstance(found, tuple), found
    assert found[0] >= 20
    assert world.rows("SELECT name FROM depts_journal WHERE id = 2") == [("live",)]
