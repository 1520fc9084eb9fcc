"""Transactions of a journaled connection end, and fail, as those of a plain table do."""

from __future__ import annotations

import psycopg
import pytest
from psycopg.pq import TransactionStatus

from lakemend.errors import DuplicateKeyError, JournalSchemaError
from tests.journal.postgres.world import World


def test_nothing_of_a_rolled_back_transaction_stays(world: World) -> None:
    connection = world.connect()
    connection.execute("INSERT INTO depts (id) VALUES (1)")
    connection.rollback()
    connection.execute("INSERT INTO depts (id) VALUES (2)")
    connection.commit()
    assert [row[0] for row in world.rows()] == [2]


@pytest.mark.parametrize("autocommit", [False, True])
def test_savepoints_and_the_lock(world: World, autocommit: bool) -> None:
    """After a rollback to before the first change nobody holds the counter: the next change takes it again."""
    connection = world.connect(autocommit=autocommit)
    with connection.transaction():
        with pytest.raises(ZeroDivisionError), connection.transaction():
            connection.execute("INSERT INTO depts (id, name) VALUES (1, 'lost')")
            raise ZeroDivisionError
        with world.connect(autocommit=True) as other:
            other.execute("INSERT INTO depts (id, name) VALUES (1, 'theirs')")
        connection.execute("UPDATE depts SET name = name || '+' WHERE id = 1")
    assert [row[:2] for row in world.rows()] == [(1, "theirs+")]


def test_savepoints_in_sql(world: World) -> None:
    connection = world.connect()
    connection.execute("SAVEPOINT a")
    connection.execute("INSERT INTO depts (id, name) VALUES (1, 'lost')")
    connection.execute("ROLLBACK TO SAVEPOINT a")
    with world.connect(autocommit=True) as other:
        other.execute("INSERT INTO depts (id, name) VALUES (1, 'theirs')")
    connection.execute("UPDATE depts SET name = name || '+' WHERE id = 1")
    connection.execute("COMMIT")
    assert [row[:2] for row in world.rows()] == [(1, "theirs+")]


def test_a_failed_check_fails_the_transaction_as_a_constraint_does(world: World) -> None:
    connection = world.connect()
    connection.execute("INSERT INTO depts (id) VALUES (1)")
    with pytest.raises(DuplicateKeyError):
        connection.execute("INSERT INTO depts (id) VALUES (1)")
    assert connection.info.transaction_status == TransactionStatus.INERROR
    with pytest.raises(psycopg.errors.InFailedSqlTransaction):
        connection.execute("SELECT * FROM depts")
    connection.rollback()
    with connection.transaction():
        connection.execute("INSERT INTO depts (id) VALUES (2)")
        with pytest.raises(DuplicateKeyError), connection.transaction():
            connection.execute("INSERT INTO depts (id) VALUES (2)")
        connection.execute("UPDATE depts SET name = 'kept' WHERE id = 2")
    assert [row[:2] for row in world.rows()] == [(2, "kept")]


def test_autocommit_leaves_no_transaction_open(world: World) -> None:
    connection = world.connect(autocommit=True)
    connection.execute("INSERT INTO depts (id) VALUES (1)")
    assert connection.info.transaction_status == TransactionStatus.IDLE
    with pytest.raises(DuplicateKeyError):
        connection.execute("INSERT INTO depts (id) VALUES (1)")
    assert connection.info.transaction_status == TransactionStatus.IDLE
    connection.execute("UPDATE depts SET id = 2, name = 'm'")
    assert [row[:2] for row in world.rows()] == [(2, "m")]
    assert connection.info.transaction_status == TransactionStatus.IDLE


def test_a_block_is_one_transaction_and_closes(world: World) -> None:
    with world.connect() as connection:
        connection.execute("INSERT INTO depts (id) VALUES (1)")
    assert connection.closed
    with pytest.raises(ZeroDivisionError), world.connect() as connection:
        connection.execute("INSERT INTO depts (id) VALUES (2)")
        raise ZeroDivisionError
    assert [row[0] for row in world.rows()] == [1]


def test_a_column_that_is_added_meanwhile_is_not_lost(world: World) -> None:
    connection = world.connect(autocommit=True)
    connection.execute("INSERT INTO depts (id, name) VALUES (1, 'a')")
    with world.plain(autocommit=True) as other:
        other.execute("ALTER TABLE depts_journal ADD COLUMN extra text")
    with world.connect(autocommit=True) as other:
        other.execute("UPDATE depts SET extra = 'kept' WHERE id = 1")
    # This connection knew nothing of the column.
    with pytest.raises(JournalSchemaError, match="are others than when"):
        connection.execute("UPDATE depts SET name = %s WHERE id = 1", ("b",))
    connection.execute("UPDATE depts SET name = 'b' WHERE id = 1")
    assert connection.execute("SELECT name, extra FROM depts").fetchall() == [("b", "kept")]


def test_its_own_alter_is_seen_at_once(world: World) -> None:
    connection = world.connect()
    connection.execute("INSERT INTO depts (id, name) VALUES (1, 'a')")
    connection.execute("ALTER TABLE depts_journal ADD COLUMN extra text")
    connection.execute("UPDATE depts SET extra = 'x'")
    assert connection.execute("SELECT * FROM depts").fetchone()[-1] == "x"
    connection.rollback()
    connection.execute("INSERT INTO depts (id, name) VALUES (2, 'a')")
    assert len(connection.execute("SELECT * FROM depts").fetchone()) == 4


def test_another_search_path_is_refused(world: World) -> None:
    connection = world.connect()
    connection.execute("SET search_path = pg_catalog, public")
    with pytest.raises(psycopg.NotSupportedError, match="search_path"):
        connection.execute("DELETE FROM depts")
    connection.rollback()
    connection.execute("DELETE FROM depts")


def test_a_role_that_may_only_append(world: World) -> None:
    with world.connect() as owner:
        owner.execute("INSERT INTO depts (id, name) VALUES (1, 'a')")
    with world.plain() as owner:
        role = f"clerk_{owner.info.backend_pid}"
        owner.execute(f"GRANT USAGE ON SCHEMA {owner.execute('SELECT current_schema()').fetchone()[0]} TO PUBLIC")
        owner.execute(f"CREATE ROLE {role}")
        owner.execute(f"GRANT SELECT, INSERT ON depts_journal TO {role}")
        owner.execute(f"GRANT SELECT, UPDATE ON depts_journal_version TO {role}")
    plain = world.plain(autocommit=True)
    plain.execute(f"SET ROLE {role}")
    from lakemend.journal.driver import connect

    clerk = connect(world.model, plain)
    assert clerk.execute("UPDATE depts SET name = 'b' WHERE id = 1").rowcount == 1
    with clerk.transaction():
        clerk.execute("DELETE FROM depts")
    assert world.rows() == []
    clerk.execute("RESET ROLE")
    clerk.execute(f"DROP OWNED BY {role}")
    clerk.execute(f"DROP ROLE {role}")
