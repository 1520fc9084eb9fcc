"""Columns of every type, odd names, defaults: a journaled table takes and refuses what a plain one does."""

from __future__ import annotations

import datetime
import decimal
import uuid
from collections.abc import Iterator
from typing import Any

import psycopg
import pytest
from psycopg.types.json import Json, Jsonb

from lakemend.errors import DuplicateKeyError, JournalRefusedError, JournalSchemaError, LakemendError
from lakemend.journal import init
from lakemend.journal.driver import connect
from tests.journal.postgres.world import World

UTC = datetime.UTC

# A type, literals for it (good and bad ones) and parameters.
CASES: dict[str, tuple[list[str], list[Any]]] = {
    "smallint": (["5", "'6'", "40000", "1.6", "'x'", "true", "NULL"], [5, 6.7, "7", True, None, 10**10]),
    "bigint": (["5", "'6'", "1.5"], [5, 10**12, decimal.Decimal("2.5"), "x"]),
    "numeric(5,2)": (["1.005", "99999", "'1.25'", "1e2"], [decimal.Decimal("1.239"), 1.005, 100000, "3.14159"]),
    "double precision": (["0.1", "'NaN'", "1", "'-0'"], [0.1, float("inf"), 3, "2.5"]),
    "varchar(3)": (["'abc'", "'abcd'", "'ab '", "'abc   '", "12", "1234", "NULL"], ["abc", "abcd", "äöü", "", 5]),
    "char(3)": (["'a'", "'abcd'", "'ab '", "1"], ["a", "abcd", ""]),
    "text": (
        ["'100%'", "'%s'", "'it''s'", "E'a\\nb'", "$$x'y$$", "'?'", "5", "'{a}'"],
        ["%s", "a'b\"c\\", "€\U0001f600", 5],
    ),
    '"char"': (["'a'", "'ab'"], ["a"]),
    "bytea": (["'\\xdead'", "'abc'", "E'\\\\000'"], [b"\x00\xff%s", b""]),
    "boolean": (["true", "'yes'", "1", "'maybe'"], [True, "off", 1]),
    "date": (
        ["'2024-02-29'", "'2023-02-29'", "DATE '2024-01-01'", "now()"],
        [datetime.date(2024, 2, 29), "2024-01-01"],
    ),
    "timestamptz": (["'2024-01-01 12:00+05'", "'infinity'"], [datetime.datetime(2024, 1, 1, tzinfo=UTC)]),
    "timestamp(0)": (["'2024-01-01 12:00:00.6'"], [datetime.datetime(2024, 1, 1, 1, 1, 1, 999999)]),
    "interval": (["'1 day 2 hours'", "INTERVAL '3' HOUR"], [datetime.timedelta(hours=5)]),
    "uuid": (["'a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11'", "'x'"], [uuid.UUID(int=5), str(uuid.UUID(int=6))]),
    "json": (["'{\"a\":  1}'", "'{'"], [Json({"a": [1, None]}), '{"b": 2}']),
    "jsonb": (["'{\"a\":  1}'", "'null'", "NULL"], [Jsonb({"a": [1, None]}), '"%s"']),
    "integer[]": (["'{1,2}'", "ARRAY[3,4]", "'{}'", "ARRAY[]::int[]", "ARRAY['x']"], [[1, 2], [], None]),
    "text[]": (["ARRAY['a,b', 'c\"d', NULL]"], [["a,b", 'c"d', None, "%"]]),
    "varchar(2)[]": (["ARRAY['ab']", "ARRAY['abc']"], [["ab"], ["abc"]]),
    "bit(3)": (["B'101'", "B'1'", "'110'"], ["111", "1"]),
    "bit varying(3)": (["B'101'", "B'1010'"], ["11", "1111"]),
    "inet": (["'10.0.0.1/8'"], ["::1"]),
    "point": (["'(1,2)'", "point(3,4)"], ["(5,6)"]),
    "int4range": (["'[1,5)'", "int4range(2,3)"], ["[7,9]"]),
    "money": (["'12.345'", "5"], ["3.5"]),
    "xml": (["'<a/>'", "'<a'"], ["<b/>"]),
    "tsvector": (["'a fat cat'", "to_tsvector('simple', 'x')"], ["b"]),
    "mood": (["'sad'", "'angry'", "'ok'::mood"], ["ok", "nope"]),
    '"Odd Mood"': (["'so so'", "'bad'"], ["so so"]),
    "small_number": (["5", "500", "NULL"], [5, 500]),
    "pair": (["'(2,y)'", "(3, 'z')::pair"], ["(4,w)"]),
}


@pytest.fixture
def sides(conninfo: str) -> Iterator[tuple[Any, Any]]:
    """A plain connection and a journaled one, with a table `t` of the same columns for each; it makes them."""
    plain = psycopg.connect(conninfo, autocommit=True)
    plain.execute("CREATE TYPE mood AS ENUM ('sad', 'ok')")
    plain.execute("CREATE TYPE \"Odd Mood\" AS ENUM ('so so')")
    plain.execute("CREATE DOMAIN small_number AS integer CHECK (VALUE < 100)")
    plain.execute("CREATE TYPE pair AS (a integer, b text)")
    journaled = psycopg.connect(conninfo, autocommit=True)
    yield plain, journaled
    plain.close()
    journaled.close()


def made(sides: tuple[Any, Any], type: str) -> Any:
    plain, journaled = sides
    plain.execute(f"CREATE TABLE t (id integer PRIMARY KEY DEFERRABLE, v {type}, w integer)")
    model = {"journalTables": {"j": "id"}}
    for statement in init(model, {"j": {"id": "integer", "v": type, "w": "integer"}}, "postgres"):
        plain.execute(statement)
    return connect(model, journaled)


MERGE = """
MERGE INTO {t} USING (VALUES (1), (50)) AS s(k) ON {t}.id = s.k
WHEN MATCHED THEN UPDATE SET v = {v} WHEN NOT MATCHED THEN INSERT (id, v) VALUES (s.k, {v})
"""
STATEMENTS = (
    "INSERT INTO {t} (id, v) VALUES (1, {v})",
    "INSERT INTO {t} VALUES (2, {v}, 1), (3, {v}, 2)",
    "INSERT INTO {t} (v, id) SELECT {v}, 4",
    "UPDATE {t} SET v = {v} WHERE id = 1",
    "UPDATE {t} SET v = {v}, w = 5",
    "UPDATE {t} SET id = id + 10, v = {v}",
    "UPDATE {t} SET id = id - 10",
    "UPDATE {t} SET (w, v) = (7, {v}) WHERE id = 2",
    "UPDATE {t} SET (w, v) = (SELECT s.w + 1, s.v FROM {t} AS s WHERE s.id = {t}.id - 1) WHERE id > 1",
    "UPDATE {t} SET (w) = (SELECT s.w FROM {t} AS s) WHERE id > 1",
    "UPDATE {t} SET w = DEFAULT WHERE id = 2",
    "UPDATE {t} SET v = s.x FROM (SELECT v AS x FROM {t} WHERE id = 2) AS s WHERE id = 3",
    "INSERT INTO {t} (id, v) SELECT id + 20, v FROM {t}",
    MERGE,
    "DELETE FROM {t} WHERE id = 3",
    "INSERT INTO {t} (id, v) VALUES (3, DEFAULT)",
)


def outcome(connection: Any, statement: str, parameters: Any = None) -> tuple[str, int]:
    try:
        return "", connection.execute(statement, parameters).rowcount
    except psycopg.Error as error:
        return type(error).__name__, 0


@pytest.mark.crossed
@pytest.mark.parametrize("type", CASES)
def test_types(sides: tuple[Any, Any], type: str) -> None:
    connection = made(sides, type)
    plain = sides[0]
    literals, parameters = CASES[type]
    values = [(value.replace("%", "%%"), None) for value in literals] + [("%s", p) for p in parameters]
    differences = []
    for written, parameter in values:
        for statement in STATEMENTS:
            theirs, ours = (statement.format(t=t, v=written) for t in ("t", "j"))
            arguments = (parameter,) * theirs.replace("%%", "").count("%s")
            wanted, found = outcome(plain, theirs, arguments), outcome(connection, ours, arguments)
            rows = "SELECT id, v::text, w FROM {} ORDER BY id"
            left, right = plain.execute(rows.format("t")).fetchall(), connection.execute(rows.format("j")).fetchall()
            refuses = bool(wanted[0]) != bool(found[0]) and bool(left)  # of no row a constant may fail or not
            if refuses or wanted[1] != found[1] or left != right:
                differences.append((statement, written, parameter, wanted, found, left, right))
                plain.execute("DELETE FROM t")
                connection.execute("DELETE FROM j")
        plain.execute("DELETE FROM t")
        connection.execute("DELETE FROM j")
    assert not differences, "\n".join(map(str, differences))


def test_a_row_of_all_types_at_once(sides: tuple[Any, Any]) -> None:
    """A change of the key carries every other column along, whatever its type."""
    types = [t for t in CASES if t != "small_number"]
    columns = {"id": "integer"} | {f"c{i}": t for i, t in enumerate(types)}
    model = {"journalTables": {"wide": "id"}, "journalVersionType": "BIGINT"}
    for statement in init(model, {"wide": columns}, "postgres"):
        sides[0].execute(statement)
    connection = connect(model, sides[1])
    values = ", ".join(CASES[t][0][0].replace("'100%'", "'100%%'") for t in types)
    connection.execute(f"INSERT INTO wide VALUES (%s, {values})", (1,))
    before = connection.execute("SELECT * FROM wide").fetchone()
    connection.execute("UPDATE wide SET id = 2")
    connection.execute("UPDATE wide SET id = 3 FROM (VALUES (2)) AS s(k) WHERE s.k = id")
    connection.archive("wide")
    assert connection.execute("SELECT * FROM wide").fetchone()[1:] == before[1:]
    assert [str(row[1:-2]) for row in connection.history("wide", 3)] == [str(before[1:])]


@pytest.mark.parametrize("name", ["Dépts", 'we"ird', "100%", "%s", "a b.c", "SELECT", "%(x)s", "x$1", "a'b", "ЖЖ"])
def test_odd_names(conninfo: str, name: str) -> None:
    """Of the table, its key and a column."""
    world = World.of(conninfo, "BIGINT", {name: {name: "integer", f"{name}2": "text"}}, journalDefaultKey=name)
    connection = world.connect(autocommit=True)
    table, key, other = (psycopg.sql.Identifier(n).as_string(connection) for n in (name, name, f"{name}2"))
    percent = table.replace("%", "%%"), key.replace("%", "%%"), other.replace("%", "%%")
    connection.execute(f"INSERT INTO {table} VALUES (1, '100%'), (2, NULL)")
    t, k, o = percent
    assert connection.execute(f"UPDATE {t} SET {o} = {o} || %s WHERE {k} = %s", ("!", 1)).rowcount == 1
    assert connection.execute(f"UPDATE {t} SET {k} = {k} + %(by)s", {"by": 10}).rowcount == 2
    with pytest.raises(psycopg.errors.UniqueViolation):
        connection.execute(f"INSERT INTO {t} ({k}) VALUES (%s)", (11,))
    connection.execute(f"DELETE FROM {table} WHERE {key} = 12")
    assert connection.execute(f"SELECT * FROM {table}").fetchall() == [(11, "100%!")]
    assert connection.archive(name) == 7
    assert len(connection.history(name, 11).fetchall()) == 1
    world.close()


def test_defaults_and_identity(conninfo: str) -> None:
    world = World.of(conninfo, "BIGINT", {"d": {"id": "integer", "a": "text", "b": "integer"}})
    plain = world.plain(autocommit=True)
    plain.execute("ALTER TABLE d_journal ALTER id ADD GENERATED BY DEFAULT AS IDENTITY, ALTER a SET DEFAULT 'dflt'")
    plain.execute("ALTER TABLE d_journal ALTER b SET DEFAULT 40 + 2")
    connection = world.connect(autocommit=True)
    connection.execute("INSERT INTO d (b) VALUES (1), (2)")
    connection.execute("INSERT INTO d (id, a) VALUES (10, DEFAULT)")
    connection.execute("INSERT INTO d (id) VALUES (11) ON CONFLICT (id) DO NOTHING")
    connection.execute("UPDATE d SET a = 'x' WHERE b = 2")
    connection.execute("UPDATE d SET a = 'y', b = 7 WHERE id = 1")
    connection.execute("UPDATE d SET (a, b) = (DEFAULT, b + 1) WHERE id = 1")
    connection.execute(
        "MERGE INTO d USING (VALUES (12)) AS s(k) ON s.k = d.id WHEN NOT MATCHED THEN INSERT (id) VALUES (k)"
    )
    assert connection.execute("SELECT * FROM d ORDER BY id").fetchall() == [
        (1, "dflt", 8),
        (2, "x", 2),
        (10, "dflt", 42),
        (11, "dflt", 42),
        (12, "dflt", 42),
    ]
    plain.execute("SELECT setval(pg_get_serial_sequence('d_journal', 'id'), 10, false)")
    with pytest.raises(LakemendError):
        connection.execute("INSERT INTO d (b) VALUES (3)")  # the identity gives 10, which is there
    world.close()


@pytest.mark.parametrize(
    "alter", ["ADD g integer GENERATED ALWAYS AS (b * 2) STORED", "ALTER id ADD GENERATED ALWAYS AS IDENTITY"]
)
def test_generated_columns_are_refused_at_the_start(conninfo: str, alter: str) -> None:
    world = World.of(conninfo, "BIGINT", {"d": {"id": "integer", "b": "integer"}})
    world.plain(autocommit=True).execute(f"ALTER TABLE d_journal {alter}")
    with pytest.raises(JournalSchemaError, match="generated"):
        world.connect()
    world.close()


@pytest.mark.parametrize("type", ["TIMESTAMP", "BIGINT"])
def test_a_journal_made_by_hand(conninfo: str, type: str) -> None:
    """No counter, no index, no archive, the version columns in front, rows at version 0."""
    plain = psycopg.connect(conninfo, autocommit=True)
    first = "0" if type == "BIGINT" else "'epoch'"
    plain.execute(f"CREATE TABLE d_journal (version_number {type}, subsequent_version_number {type}, id int, a text)")
    plain.execute(f"INSERT INTO d_journal VALUES ({first}, NULL, 1, 'a'), ({first}, NULL, 2, 'b')")
    model = {"journalTables": {"d": []}, "journalVersionType": type}
    connection = connect(model, psycopg.connect(conninfo))
    assert connection.execute("SELECT * FROM d ORDER BY id").fetchall() == [(1, "a"), (2, "b")]
    for step in range(3):
        connection.execute("UPDATE d SET a = a || %s", (step,))
    connection.execute("UPDATE d SET id = 3 WHERE id = 2")
    connection.execute("INSERT INTO d VALUES (2, 'new')")
    connection.execute("DELETE FROM d WHERE id = 1")
    connection.commit()
    assert connection.execute("SELECT * FROM d ORDER BY id").fetchall() == [(2, "new"), (3, "b012")]
    with pytest.raises(LakemendError, match="does not exist"):
        connection.archive("d")
    connection.close()
    plain.close()


def test_versions_that_others_wrote_are_never_passed_by(world: World) -> None:
    """A row that was written into the journal directly, with a version from the future, can still be changed."""
    connection = world.connect(autocommit=True)
    connection.execute("INSERT INTO depts (id, name) VALUES (1, 'a')")
    future = "1000" if world.model["journalVersionType"] == "BIGINT" else "'2999-01-01'"
    connection.execute(f"INSERT INTO depts_journal VALUES (1, 'b', NULL, NULL, {future}, NULL)")
    assert connection.execute("UPDATE depts SET name = name || '!'").rowcount == 1
    assert connection.execute("SELECT name FROM depts").fetchall() == [("b!",)]
    with connection.transaction():
        connection.execute("UPDATE depts SET name = name || '!'")
        connection.execute("UPDATE depts SET name = name || '!'")
    assert connection.execute("SELECT name FROM depts").fetchall() == [("b!!!",)]


def test_an_empty_table(world: World) -> None:
    connection = world.connect(autocommit=True)
    for statement in (
        "UPDATE depts SET name = 'x'",
        "DELETE FROM depts",
        "UPDATE depts SET id = id + 1",
        "INSERT INTO depts SELECT * FROM depts",
    ):
        assert connection.execute(statement).rowcount == 0
    assert connection.execute("SELECT * FROM depts").fetchall() == []
    assert connection.archive("depts") == 0


# A key, others that its column stores as the same key or as an equal one, and one that it stores as another one.
STORED_KEYS = {
    "numeric(5,2)": ("1.00", ["1.001", "1.004"], "2.004"),
    "varchar(3)": ("'abc'", ["'abc '", "'abc    '"], "'ab    '"),
    "char(3)": ("'a'", ["'a    '", "'a '"], "'b    '"),
    "timestamp(0)": ("'2024-01-01 12:00:00'", ["'2024-01-01 12:00:00.2'", "'2024-01-01 11:59:59.7'"], "'2024-01-01'"),
    "numeric": ("1", ["1.0", "1.00"], "2.0"),
    "interval": ("'1 day'", ["'24 hours'", "'23:60:00'"], "'2 days'"),
}


@pytest.mark.parametrize("primary", [True, False], ids=["primary key", "no primary key"])
@pytest.mark.parametrize("type", list(STORED_KEYS))
def test_keys_are_compared_as_they_are_stored(conninfo: str, type: str, primary: bool) -> None:
    key, same, other = STORED_KEYS[type]
    first, second = same
    statements = [
        f"INSERT INTO t VALUES ({first}, 2)",
        f"INSERT INTO t SELECT * FROM (VALUES ({first}, 2)) AS s (id, v)",
        f"INSERT INTO t VALUES ({other}, 2), ({first}, 3)",
        f"INSERT INTO t VALUES ({first}, 2) ON CONFLICT DO NOTHING",
        f"INSERT INTO t VALUES ({first}, 2), ({second}, 3) ON CONFLICT (id) DO NOTHING",
        f"INSERT INTO t VALUES ({first}, 2) ON CONFLICT (id) DO UPDATE SET v = t.v + excluded.v",
        f"INSERT INTO t VALUES ({first}, 2) ON CONFLICT (id) DO UPDATE SET id = excluded.id",
        f"INSERT INTO t VALUES ({first}, 2), ({second}, 3) ON CONFLICT (id) DO UPDATE SET v = excluded.v",
        f"MERGE INTO t USING (VALUES ({first}, 2)) AS s (id, v) ON FALSE WHEN NOT MATCHED THEN INSERT VALUES (id, v)",
        f"UPDATE t SET id = {first}",
        f"INSERT INTO t VALUES ({other}, 2)",
        f"UPDATE t SET id = {second}, v = 7 WHERE v = 2",
        f"INSERT INTO t VALUES ({other}, 3) ON CONFLICT (id) DO UPDATE SET v = 8",
    ]
    plain, journaled = (psycopg.connect(conninfo, autocommit=True) for _ in range(2))
    with plain, journaled:
        if plain.info.server_version < 150000:
            statements = [s for s in statements if not s.startswith("MERGE")]
        plain.execute(f"CREATE TABLE t (id {type} PRIMARY KEY, v integer)")
        model = {"journalTables": {"t": "id"}, "journalVersionType": "BIGINT"}
        for statement in init(model, {"t": {"id": type, "v": "integer"}}, "postgres"):
            plain.execute(statement)
        if not primary:
            plain.execute("ALTER TABLE t_journal DROP CONSTRAINT t_journal_pkey")
        connect(model, journaled)
        for sql in [f"INSERT INTO t VALUES ({key}, 1)", *statements]:
            expected, got = _outcome(plain, sql), _outcome(journaled, sql)
            assert got == expected, sql


def _outcome(connection: Any, sql: str) -> tuple[Any, Any]:
    try:
        result = connection.execute(sql).rowcount
    except psycopg.Error as error:
        result = error.sqlstate
    return result, connection.execute("SELECT id::text, v FROM t ORDER BY 1, 2").fetchall()


def test_rows_that_are_others_when_they_are_made_again(conninfo: str) -> None:
    """A view, or a function that hides what it does: the row that was looked for would not be the one written."""
    with psycopg.connect(conninfo, autocommit=True) as plain:
        plain.execute("CREATE SEQUENCE s")
        plain.execute("CREATE FUNCTION f() RETURNS integer LANGUAGE sql AS $$ SELECT CAST(nextval('s') AS integer) $$")
        plain.execute("CREATE VIEW v AS SELECT f() AS id, 'new' AS name")
        world = World.of(conninfo, "BIGINT", {"t": {"id": "integer", "name": "text"}})
        journaled = world.connect(autocommit=True)
        journaled.execute("INSERT INTO t SELECT id, 'old' FROM generate_series(1, 20) AS g (id)")
        for sql in (
            "INSERT INTO t SELECT id, name FROM v",
            "INSERT INTO t VALUES ((SELECT id FROM v), 'new')",
            "INSERT INTO t SELECT f(), 'new'",
            "MERGE INTO t USING v ON t.id = v.id + 100 WHEN NOT MATCHED THEN INSERT VALUES (f(), name)",
        ):
            for _ in range(3):
                with pytest.raises((DuplicateKeyError, JournalRefusedError)):
                    journaled.execute(sql)
        assert journaled.execute("SELECT count(*) FROM t WHERE name = 'old'").fetchone() == (20,)
        world.close()


def test_rows_without_a_type_of_their_own(world: World) -> None:
    with world.connect(autocommit=True) as journaled:
        assert journaled.execute("INSERT INTO depts (id, name) SELECT DISTINCT 1, 'a'").rowcount == 1
        assert journaled.execute("INSERT INTO depts (id) SELECT DISTINCT ON (1) 2").rowcount == 1
        values = "VALUES ((SELECT id FROM q), NULL, '1.5'), (4, 'd', NULL)"
        assert journaled.execute(f"WITH q AS (SELECT 3 AS id) INSERT INTO depts {values}").rowcount == 2
    assert [row[0] for row in world.rows()] == [1, 2, 3, 4]


def test_a_column_whose_type_another_connection_changed(conninfo: str) -> None:
    """What is known of the old type must not change a value on its way into the new one."""
    world = World.of(conninfo, "BIGINT", {"t": {"id": "numeric(5,1)", "n": "integer", "d": "date"}})
    upsert = "INSERT INTO t VALUES (1.25, 1.5, '2024-01-01 12:00') ON CONFLICT (id) DO UPDATE SET n = excluded.n"
    for sql in (upsert, "UPDATE t SET id = 1.25, n = 1.5, d = '2024-01-01 12:00'", "INSERT INTO t VALUES (1.25, 1.5)"):
        owner, journaled = world.plain(autocommit=True), world.connect(autocommit=True)
        if not sql.startswith("INSERT"):
            journaled.execute("INSERT INTO t VALUES (1, 1)")
        alter = "ALTER TABLE t_journal ALTER {} TYPE {}"
        owner.execute(alter.format("id", "numeric(8,3)"))
        owner.execute(alter.format("n", "numeric"))
        owner.execute(alter.format("d", "timestamp"))
        with pytest.raises(JournalSchemaError, match="columns"):
            journaled.execute(sql)
        assert journaled.execute(sql).rowcount == 1
        wanted = datetime.datetime(2024, 1, 1, 12) if "2024" in sql else None
        found = journaled.execute("SELECT * FROM t").fetchall()
        assert found == [(decimal.Decimal("1.250"), decimal.Decimal("1.5"), wanted)]
        journaled.execute("DELETE FROM t")
        for name, type in world.schema["t"].items():
            owner.execute(alter.format(name, type))
    world.close()


def test_excluded_is_what_its_column_would_store(conninfo: str) -> None:
    world = World.of(conninfo, "BIGINT", {"e": {"id": "integer", "v": "varchar(3)", "w": "text"}})
    connection, plain = world.connect(autocommit=True), world.plain(autocommit=True)
    plain.execute("CREATE TABLE plain_e (id integer PRIMARY KEY, v varchar(3), w text)")
    for target, name in ((connection, "e"), (plain, "plain_e")):
        target.execute(f"INSERT INTO {name} VALUES (1, 'a', 'w')")
        target.execute(
            f"INSERT INTO {name} (id, v) VALUES (1, 'b    ') ON CONFLICT (id) DO UPDATE "
            f"SET v = excluded.v, w = '<' || excluded.v || '>' || {name}.w WHERE length(excluded.v) = 3"
        )
    wanted = plain.execute("SELECT * FROM plain_e").fetchall()
    assert wanted == [(1, "b  ", "<b  >w")]
    assert connection.execute("SELECT * FROM e").fetchall() == wanted
    plain.execute("DROP TABLE plain_e")
    world.close()
