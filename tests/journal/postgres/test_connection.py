"""A journaled connection is psycopg's: PEP 249's calls, and psycopg's own."""

from __future__ import annotations

import psycopg
import pytest
from psycopg import sql
from psycopg.rows import dict_row, namedtuple_row

from lakemend.errors import (
    CardinalityError,
    DuplicateKeyError,
    JournalRefusedError,
    JournalSchemaError,
    JournalSqlError,
    LakemendError,
)
from lakemend.journal.driver import connect
from tests.journal.postgres.world import World, at_once


def filled(world: World, **options: object):
    connection = world.connect(**options)
    with connection.cursor() as cursor:
        cursor.execute("INSERT INTO depts VALUES (1, 'Sales', 10, 'Bonn'), (2, 'Legal', 20.50, NULL)")
        assert cursor.rowcount == 2
    connection.commit()
    return connection


def test_it_is_a_psycopg_connection(world: World) -> None:
    plain = world.plain()
    plain.row_factory = dict_row
    connection = connect(world.model, plain)
    assert connection is plain
    assert isinstance(connection, psycopg.Connection)
    assert isinstance(connection.cursor(), psycopg.Cursor)
    assert isinstance(connection.cursor("named"), psycopg.ServerCursor)
    assert connection.execute("SELECT 1 AS a").fetchone() == {"a": 1}
    assert connection.IntegrityError is psycopg.IntegrityError
    assert "password" not in repr(connection)


def test_rows_that_are_written_are_read(world: World) -> None:
    connection = filled(world)
    cursor = connection.cursor()
    cursor.execute("UPDATE depts SET name = 'Sales2', budget = budget + 1 WHERE id = 1")
    assert (cursor.rowcount, cursor.description, cursor.statusmessage) == (1, None, "UPDATE 1")
    cursor.execute("DELETE FROM depts WHERE id = 2")
    assert (cursor.rowcount, cursor.statusmessage) == (1, "DELETE 1")
    cursor.execute("SELECT * FROM depts")
    assert [column.name for column in cursor.description] == ["id", "name", "budget", "city"]
    assert [(row[0], row[1], str(row[2])) for row in cursor] == [(1, "Sales2", "11")]
    connection.rollback()
    assert connection.execute("SELECT count(*) FROM depts").fetchone() == (2,)


def test_the_ways_to_fetch(world: World) -> None:
    connection = filled(world)
    cursor = connection.cursor()
    cursor.execute("SELECT id FROM depts ORDER BY id")
    assert cursor.rowcount == 2
    assert cursor.fetchone() == (1,)
    assert cursor.fetchmany() == [(2,)]
    assert cursor.fetchmany(5) == []
    assert cursor.fetchone() is None
    assert cursor.execute("SELECT id FROM depts ORDER BY id").fetchall() == [(1,), (2,)]
    assert connection.cursor(row_factory=dict_row).execute("SELECT id FROM depts WHERE id = 2").fetchall() == [
        {"id": 2}
    ]
    assert connection.cursor(row_factory=namedtuple_row).execute("SELECT name FROM depts").fetchall()[0]._fields == (
        "name",
    )
    assert list(connection.cursor().stream("SELECT id FROM depts ORDER BY id")) == [(1,), (2,)]
    with connection.cursor("named") as named:
        named.execute("SELECT id FROM depts WHERE id > %s ORDER BY id", (1,))
        assert named.fetchall() == [(2,)]
    cursor.setinputsizes([1])
    cursor.close()
    with pytest.raises(psycopg.InterfaceError):
        cursor.execute("SELECT 1 FROM depts")


@pytest.mark.parametrize(
    ("statement", "parameters"),
    [
        ("UPDATE depts SET name = %s, city = %s WHERE id = %s", ("x%s", None, 1)),
        ("UPDATE depts SET name = %(n)s, city = %(c)s WHERE id = %(i)s", {"i": 1, "n": "x%s", "c": None, "more": 0}),
        ("UPDATE depts SET name = %t, city = %s WHERE id = %b", ("x%s", None, 1)),
        ("UPDATE depts SET name = 'x%%' || %s, city = NULL WHERE id = %s", ("s", 1)),
        (b"UPDATE depts SET name = 'x%s', city = NULL WHERE id = 1", None),
        (sql.SQL("UPDATE {} SET name = {}, city = NULL WHERE id = %s").format(sql.Identifier("depts"), "xs"), (1,)),
    ],
    ids=["positional", "named", "binary", "percent", "bytes", "composed"],
)
def test_parameters(world: World, statement: object, parameters: object) -> None:
    connection = filled(world, autocommit=True)
    assert connection.execute(statement, parameters).rowcount == 1
    name, city = connection.execute("SELECT name, city FROM depts WHERE id = 1").fetchone()
    assert (name.replace("%", ""), city) == ("xs", None)


@pytest.mark.parametrize("cursor", [psycopg.ClientCursor, psycopg.RawCursor])
def test_other_cursors_of_psycopg(world: World, cursor: type) -> None:
    connection = filled(world, cursor_factory=cursor)
    dollar = cursor is psycopg.RawCursor
    update = (
        "UPDATE depts SET name = $2 WHERE id = $1 AND id = $1"
        if dollar
        else ("UPDATE depts SET name = %(n)s WHERE id = %(i)s AND id = %(i)s")
    )
    found = connection.execute(update, [2, "new"] if dollar else {"n": "new", "i": 2})
    assert isinstance(found, cursor)
    assert found.rowcount == 1
    assert connection.execute("SELECT name FROM depts WHERE id = 2").fetchone() == ("new",)
    move = "UPDATE depts SET id = $1,name=$2 WHERE id = $3" if dollar else "UPDATE depts SET id=%s,name=%s WHERE id=%s"
    assert connection.execute(move, [20, "moved", 2]).rowcount == 1
    insert = "INSERT INTO depts (id,name) SELECT max(id)+$1,$2 FROM depts LIMIT $1"
    insert = insert if dollar else "INSERT INTO depts (id,name) SELECT max(id)+%(n)s,%(s)s FROM depts LIMIT %(n)s"
    assert connection.execute(insert, [1, "x"] if dollar else {"n": 1, "s": "x"}).rowcount == 1
    assert connection.execute("SELECT max(id) FROM depts").fetchone() == (21,)


def test_a_wrong_number_of_parameters(world: World) -> None:
    connection = filled(world, autocommit=True)
    for statement, parameters in [
        ("UPDATE depts SET name = %s WHERE id = %s", ("x",)),
        ("UPDATE depts SET name = %s WHERE id = 1", ("x", 2)),
        ("UPDATE depts SET name = %(n)s WHERE id = 1", {"m": 1}),
        ("UPDATE depts SET name = '%s' WHERE id = 1", ("x",)),
    ]:
        with pytest.raises(psycopg.Error):
            connection.execute(statement, parameters)
    assert world.rows()[0][1] == "Sales"


def test_executemany(world: World) -> None:
    connection = filled(world)
    cursor = connection.cursor()
    cursor.executemany("INSERT INTO depts (id, name) VALUES (%s, %s)", [(i, f"n{i}") for i in range(10, 20)])
    assert cursor.rowcount == 10
    cursor.executemany("UPDATE depts SET name = name || %s WHERE id = %s", ((c, 10) for c in "abc"))
    assert cursor.rowcount == 3
    cursor.executemany("DELETE FROM depts WHERE id = %(i)s", [{"i": 11}, {"i": 11}, {"i": 12}])
    assert cursor.rowcount == 2
    cursor.executemany("DELETE FROM depts WHERE id = %s", [])
    connection.commit()
    assert [(i, n) for i, n, *_ in world.rows()][2:4] == [(10, "n10abc"), (13, "n13")]
    autocommitted = world.connect(autocommit=True)
    with pytest.raises(DuplicateKeyError):
        autocommitted.cursor().executemany("INSERT INTO depts (id) VALUES (%s)", [(100,), (101,), (100,)])
    assert [row[0] for row in world.rows()][-1] < 100


def test_each_statement_has_a_version_of_its_own(world: World) -> None:
    connection = filled(world)
    for i in range(3):
        connection.execute("UPDATE depts SET budget = %s", (i,))
    connection.commit()
    versions = "SELECT version_number, count(*) FROM depts_journal GROUP BY version_number"
    assert sorted(n for _, n in connection.execute(versions)) == [2, 2, 2, 2]


@pytest.mark.parametrize("autocommit", [False, True])
def test_errors_are_typed_twice(world: World, autocommit: bool) -> None:
    connection = filled(world, autocommit=autocommit)
    cases = [
        ("INSERT INTO depts (id) VALUES (1)", DuplicateKeyError, psycopg.errors.UniqueViolation),
        ("INSERT INTO depts (name) VALUES ('x')", LakemendError, psycopg.IntegrityError),
        (
            "UPDATE depts SET name = s.n FROM (VALUES (1, 'a'), (1, 'b')) AS s(i, n) WHERE s.i = depts.id",
            CardinalityError,
            psycopg.errors.CardinalityViolation,
        ),
        ("TRUNCATE depts", JournalRefusedError, psycopg.NotSupportedError),
        ("UPDATE depts SET nmae = 1", JournalSchemaError, psycopg.ProgrammingError),
        ("UPDATE depts SET WHERE", JournalSqlError, psycopg.errors.SyntaxError),
    ]
    for statement, ours, theirs in cases:
        with pytest.raises(theirs) as caught:
            connection.execute(statement)
        assert isinstance(caught.value, ours), statement
        connection.rollback()
    assert len(world.rows()) == 2


def test_what_is_not_journaled_passes(world: World) -> None:
    connection = filled(world)
    connection.execute("CREATE TABLE other (id integer, t text)")
    connection.execute("INSERT INTO other VALUES (%s, '100%%')", (1,))
    assert connection.execute("SELECT o.t, d.name FROM other AS o JOIN depts AS d USING (id)").fetchall() == [
        ("100%", "Sales")
    ]
    with connection.cursor().copy("COPY other FROM STDIN") as copy:
        copy.write_row((2, "x"))
    assert connection.execute("SELECT count(*) FROM depts_journal").fetchone() == (2,)


REFUSED = [
    "COPY depts FROM STDIN",
    "COPY depts TO STDOUT",
    "LOCK TABLE depts",
    "EXPLAIN SELECT * FROM depts",
    "DROP TABLE depts",
    "ALTER TABLE depts ADD COLUMN x int",
    "CREATE INDEX ON depts (name)",
    "PREPARE p AS SELECT * FROM depts",
    "DO $$ BEGIN DELETE FROM depts; END $$",
    "SELECT * FROM depts FOR UPDATE",
    "WITH x AS (DELETE FROM depts RETURNING *) SELECT * FROM x",
    "DECLARE c CURSOR FOR SELECT * FROM depts",
    "SELECT 1; DELETE FROM depts",
    "VACUUM depts",
    "REFRESH MATERIALIZED VIEW depts",
    "GRANT SELECT ON depts TO PUBLIC",
    "COMMENT ON TABLE depts IS 'x'",
    "TABLE depts; DELETE FROM depts",
    "INSERT INTO depts (id) VALUES (7); INSERT INTO depts (id) VALUES (8)",
]


def test_statements_that_are_refused(world: World) -> None:
    connection = filled(world, autocommit=True)
    for statement in REFUSED:
        with pytest.raises((JournalRefusedError, JournalSqlError)):
            if statement.startswith("COPY"):
                with connection.cursor().copy(statement):
                    pass
            else:
                connection.execute(statement)
    assert len(world.rows()) == 2


def test_a_pipeline(world: World) -> None:
    connection = filled(world, autocommit=True)
    with connection.pipeline():
        first = connection.execute("UPDATE depts SET name = 'p' WHERE id = 1")
        connection.execute("INSERT INTO depts (id) VALUES (3)")
        found = connection.execute("SELECT id, name FROM depts ORDER BY id")
        assert first.rowcount == 1
        assert found.fetchall() == [(1, "p"), (2, "Legal"), (3, None)]
        moved = connection.execute("UPDATE depts SET id = id + 10 WHERE id > 1")
        back = connection.execute("UPDATE depts SET id = id - 10 WHERE id > 10")
        assert (moved.rowcount, back.rowcount) == (2, 2)
        assert connection.execute("INSERT INTO depts (id) SELECT 4 LIMIT 1").rowcount == 1
        connection.execute("ALTER TABLE depts_journal ADD COLUMN more text")
        assert connection.execute("UPDATE depts SET more = 'm' WHERE id = 4").rowcount == 1
        connection.execute("DELETE FROM depts WHERE id = 4")
    for duplicate in ("VALUES (3)", "SELECT 3 LIMIT 1"):
        with pytest.raises(DuplicateKeyError), connection.pipeline():
            connection.execute(f"INSERT INTO depts (id) {duplicate}")
    connection.autocommit = False
    with connection.pipeline():
        connection.execute("DELETE FROM depts WHERE id = 3")
    connection.commit()
    assert len(world.rows()) == 2


def test_history(world: World) -> None:
    connection = filled(world)
    connection.execute("UPDATE depts SET name = 'new' WHERE id = 1")
    connection.execute("DELETE FROM depts WHERE id = 1")
    connection.execute("INSERT INTO depts (id, name) VALUES (1, 'again')")
    connection.commit()
    found = connection.history("depts", 1)
    names = [column.name for column in found.description]
    assert names[:2] == ["id", "name"]
    assert [row[names.index("name")] for row in found] == ["Sales", "new", "new", "again"]
    with pytest.raises(LakemendError):
        connection.history("nothing", 1)


def test_connections_that_cannot_be(world: World, conninfo: str) -> None:
    with pytest.raises(LakemendError, match="journaled already"):
        connect(world.model, world.connect())
    with pytest.raises(LakemendError, match="does not exist"):
        connect({"journalTables": {"nowhere": "id"}}, world.plain())
    with pytest.raises(LakemendError, match="not a DB-API connection"):
        connect(world.model, object())
    other = "BIGINT" if world.model["journalVersionType"] == "TIMESTAMP" else "TIMESTAMP"
    with pytest.raises(LakemendError, match="journalVersionType"):
        connect({**world.model, "journalVersionType": other}, world.plain())
    with pytest.raises(LakemendError, match="no column nr"):
        connect({**world.model, "journalTables": {"depts": "nr"}}, world.plain())
    with pytest.raises(LakemendError, match="no column v2"):
        connect({**world.model, "journalVersionField": "v2"}, world.plain())
    closed = world.plain()
    closed.close()
    with pytest.raises(psycopg.OperationalError):
        connect(world.model, closed)


def test_threads_share_a_connection(world: World) -> None:
    """A transaction that the journal opens for a statement takes no statement of another thread with it."""
    connection = world.connect(autocommit=True)
    connection.execute("CREATE TABLE notes (n integer)")
    connection.execute("INSERT INTO depts (id) VALUES (1)")

    def fail() -> None:
        for _ in range(30):
            with pytest.raises(DuplicateKeyError):
                connection.execute("INSERT INTO depts (id) VALUES (1)")

    def note() -> None:
        for n in range(100):
            connection.execute("INSERT INTO notes VALUES (%s)", (n,))

    assert at_once(fail, note) == [None, None]
    assert connection.execute("SELECT count(*) FROM notes").fetchone() == (100,)


def test_strings_with_backslashes(world: World) -> None:
    connection = filled(world, autocommit=True)
    connection.execute(r"UPDATE depts SET name = 'a\' WHERE id = 1")
    assert connection.execute("SELECT name FROM depts WHERE id = 1").fetchone() == ("a\\",)
    connection.execute("SET standard_conforming_strings = off")
    with pytest.raises(JournalRefusedError, match="standard_conforming_strings"):
        connection.execute(r"UPDATE depts SET name = 'a\'', id = 7 --'")
    connection.execute("SET standard_conforming_strings = on")
    assert connection.execute("SELECT count(*) FROM depts").fetchone() == (2,)
