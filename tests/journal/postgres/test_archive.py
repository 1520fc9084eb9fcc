"""Archival: superseded versions leave the journal, and no query can tell."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import threading
import time
from typing import Any

import psycopg
import pytest

from lakemend.errors import LakemendError
from tests.journal.postgres.world import World, at_once


def changed(connection: Any, seed: int, steps: int = 40) -> None:
    chance = random.Random(seed)
    for step in range(steps):
        key = chance.randint(1, 6)
        missing = "NOT EXISTS (SELECT 1 FROM depts WHERE id = %s)"
        choices = [
            ("UPDATE depts SET name = %s WHERE id = %s", (f"n{step}", key)),
            ("DELETE FROM depts WHERE id = %s", (key,)),
            (f"INSERT INTO depts (id, name) SELECT %s, 'new' WHERE {missing}", (key, key)),
            (f"UPDATE depts SET id = id + 10 WHERE id = %s AND {missing}", (key, key + 10)),
        ]
        statement, parameters = chance.choice(choices)
        connection.execute(statement, parameters)


def everything(connection: Any, versions: list[Any]) -> list[Any]:
    """What can be asked: the current rows, the rows at each version, the history of each key."""
    found = [connection.execute("SELECT * FROM depts ORDER BY id").fetchall()]
    for version in versions:
        kind = "VERSION" if isinstance(version, int) else "TIMESTAMP"
        literal = version if isinstance(version, int) else f"'{version}'"
        found.append(connection.execute(f"SELECT * FROM depts FOR {kind} AS OF {literal} ORDER BY id").fetchall())
    found += [connection.history("depts", key).fetchall() for key in range(1, 17)]
    return found


def versions_of(connection: Any) -> list[Any]:
    found = connection.execute(
        "SELECT version_number FROM depts_journal UNION SELECT version_number FROM depts_archive ORDER BY 1"
    )
    return [version for (version,) in found]


def superseded(connection: Any) -> int:
    (count,) = connection.execute("SELECT count(*) FROM depts_journal").fetchone()
    (live,) = connection.execute("SELECT count(*) FROM depts").fetchone()
    return int(count - live)


@pytest.mark.parametrize("autocommit", [True, False])
def test_every_answer_is_the_same_before_and_after(world: World, autocommit: bool) -> None:
    connection = world.connect(autocommit=autocommit)
    for round in range(3):
        changed(connection, round)
        connection.commit()
        versions = versions_of(connection)
        before = everything(connection, versions)
        count = superseded(connection)
        connection.commit()
        assert connection.archive("depts") == count > 0
        connection.commit()
        assert everything(connection, versions) == before
        assert superseded(connection) == 0
        assert connection.archive("depts") == 0
        connection.commit()
    (unfilled,) = connection.execute(
        "SELECT count(*) FROM depts_archive WHERE subsequent_version_number IS NULL"
    ).fetchone()
    assert unfilled == 0


def test_versions_go_on_after_everything_was_archived(world: World) -> None:
    connection = world.connect(autocommit=True)
    connection.execute("INSERT INTO depts (id, name) VALUES (1, 'a')")
    with connection.transaction():
        connection.execute("UPDATE depts SET name = 'b'")
        connection.execute("DELETE FROM depts")
        assert connection.archive("depts") == 3
        connection.execute("INSERT INTO depts (id, name) VALUES (1, 'c')")
    connection.execute("DELETE FROM depts")
    connection.archive("depts")
    connection.execute("INSERT INTO depts (id, name) VALUES (1, 'd')")
    assert [row[1] for row in connection.history("depts", 1)] == ["a", "b", "b", "c", "c", "d"]
    versions = versions_of(connection)
    assert len(versions) == len(set(versions)) == 6


def test_a_rollback_brings_the_versions_back(world: World) -> None:
    connection = world.connect()
    changed(connection, 1)
    connection.commit()
    count = superseded(connection)
    connection.archive("depts")
    connection.rollback()
    assert superseded(connection) == count


def test_transactions_that_run_meanwhile_see_what_they_saw(world: World) -> None:
    with world.connect() as first:
        changed(first, 2)
    reader = world.connect()
    reader.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
    versions = versions_of(reader)
    before = everything(reader, versions)
    archiver = world.connect(autocommit=True)
    assert archiver.archive("depts") > 0
    archiver.execute("UPDATE depts SET name = 'later'")
    assert everything(reader, versions) == before
    reader.commit()
    assert everything(reader, versions)[1:-16] == before[1:-16]


def test_beside_writers_readers_and_another_archival(world: World) -> None:
    accounts = 4
    with world.connect() as first:
        first.cursor().executemany("INSERT INTO depts (id, budget) VALUES (%s, 100)", [(i,) for i in range(accounts)])
    done = threading.Event()
    sums: set[Any] = set()

    def write(seed: int) -> int:
        chance = random.Random(seed)
        connection = world.connect()
        for _ in range(40):
            giver, taker = chance.sample(range(accounts), 2)
            with connection.transaction():
                connection.execute("UPDATE depts SET budget = budget - 1 WHERE id = %s", (giver,))
                connection.execute("UPDATE depts SET budget = budget + 1 WHERE id = %s", (taker,))
        return 80

    def archive() -> int:
        connection = world.connect(autocommit=True)
        moved = 0
        while not done.is_set():
            moved += connection.archive("depts")
        return moved

    def read() -> None:
        connection = world.connect(autocommit=True)
        while not done.is_set():
            sums.update(connection.execute("SELECT sum(budget), count(*) FROM depts").fetchall())

    beside = [threading.Thread(target=archive) for _ in range(2)] + [threading.Thread(target=read)]
    for thread in beside:
        thread.start()
    try:
        assert at_once(lambda: write(1), lambda: write(2)) == [80, 80]
    finally:
        done.set()
        for thread in beside:
            thread.join()
    connection = world.connect(autocommit=True)
    connection.archive("depts")
    assert sums == {(100 * accounts, accounts)}
    versions = versions_of(connection)
    assert len(versions) == 160 + accounts
    # The two versions of a transaction follow each other: after each second one the sum is what it was.
    kind = "VERSION" if isinstance(versions[0], int) else "TIMESTAMP"
    for version in versions[accounts + 1 :: 2]:
        literal = version if isinstance(version, int) else f"'{version}'"
        as_of = f"SELECT sum(budget) FROM depts FOR {kind} AS OF {literal}"
        assert connection.execute(as_of).fetchone() == (100 * accounts,)
    assert sum(len(connection.history("depts", i).fetchall()) for i in range(accounts)) == 160 + accounts


_KILLED = """
import sys, psycopg
from lakemend.journal.driver import connect
connection = connect({model!r}, psycopg.connect({conninfo!r}))
connection.archive("depts")
print("archived", flush=True)
sys.stdin.read()
"""


@pytest.mark.faults
def test_a_process_that_is_killed_in_between(world: World) -> None:
    with world.connect() as first:
        changed(first, 3)
    connection = world.connect(autocommit=True)
    versions, count = versions_of(connection), superseded(connection)
    before = everything(connection, versions)
    script = _KILLED.format(model=world.model, conninfo=world.conninfo)
    process = subprocess.Popen([sys.executable, "-c", script], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert process.stdout and process.stdout.readline() == "archived\n"
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    time.sleep(0.2)
    assert everything(connection, versions) == before
    assert connection.archive("depts") == count
    assert everything(connection, versions) == before


def test_what_cannot_be_archived(world: World) -> None:
    connection = world.connect(autocommit=True)
    with pytest.raises(LakemendError):
        connection.archive("nothing")
    connection.execute("ALTER TABLE depts_archive RENAME TO elsewhere")
    with pytest.raises(LakemendError, match="depts_archive does not exist"):
        connection.archive("depts")
    assert connection.history("depts", 1).fetchall() == []


def test_an_archive_that_others_make_is_seen(world: World) -> None:
    connection = world.connect(autocommit=True)
    connection.execute("ALTER TABLE depts_archive RENAME TO elsewhere")
    early = world.connect(autocommit=True)
    early.execute("INSERT INTO depts (id, name) VALUES (1, 'a')")
    (version,) = early.execute("SELECT max(version_number) FROM depts_journal").fetchone()
    as_of = f"SELECT name FROM depts FOR {'VERSION' if isinstance(version, int) else 'TIMESTAMP'} AS OF '{version}'"
    as_of = as_of.replace("'", "") if isinstance(version, int) else as_of
    early.execute("UPDATE depts SET name = 'b'")
    assert early.execute(as_of).fetchall() == [("a",)]
    with world.plain(autocommit=True) as other:
        other.execute("ALTER TABLE elsewhere RENAME TO depts_archive")
    with world.connect(autocommit=True) as other:
        assert other.archive("depts") == 1
    assert early.execute(as_of).fetchall() == [("a",)]
    assert len(early.history("depts", 1).fetchall()) == 2
