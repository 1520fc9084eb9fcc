"""Placeholders keep their order and style, and come as often as they are used."""

from __future__ import annotations

from typing import Any

import pytest

from lakemend.errors import InvalidInputError, JournalRefusedError, JournalSqlError
from lakemend.journal import rewrite
from tests.unit.journal.pairs import MODEL, SCHEMA

TWO = [
    ("qmark", "?", "?"),
    ("format", "%s", "%s"),
    ("pyformat", "%(a)s", "%(b)s"),
    ("named", ":a", ":b"),
    ("numeric", ":1", ":2"),
    ("numeric_dollar", "$1", "$2"),
]


@pytest.mark.parametrize("named", [True, False], ids=["named style", "style found"])
@pytest.mark.parametrize(("style", "first", "second"), TWO, ids=[style for style, _, _ in TWO])
def test_each_style(style: str, first: str, second: str, named: bool) -> None:
    sql = f"UPDATE depts SET name = {first} WHERE deptno = {second}"
    made = rewrite(sql, MODEL, "postgres", SCHEMA, paramstyle=style if named else None)
    wanted: tuple[Any, ...] = ("a", "b") if style in ("named", "pyformat") else (0, 1)
    assert made.parameters == wanted
    assert f"SELECT depts.deptno, {first}, " in made.statements[0]
    assert made.statements[0].endswith(f"WHERE deptno = {second}")


def test_one_that_is_used_twice_is_bound_twice() -> None:
    made = rewrite("INSERT INTO depts VALUES (?, ?)", MODEL, "postgres", SCHEMA)
    assert made.parameters == (0, 1)
    assert made.statements[0].arguments([7, "x"]) == (7, "x")
    assert [check.query.parameters for check in made.checks] == [(0,), (0,)]
    assert made.checks[0].query.arguments([7, "x"]) == (7,)
    made = rewrite("SELECT name FROM depts FOR VERSION AS OF ? WHERE name = ?", MODEL, "spark", SCHEMA)
    assert made.parameters == (0, 0, 1)
    assert made.statements[0].arguments([7, "x"]) == (7, 7, "x")


def test_names_are_picked() -> None:
    made = rewrite("INSERT INTO depts VALUES (:id, :name)", MODEL, "spark", SCHEMA)
    assert made.checks[0].query.arguments({"id": 7, "name": "x", "other": 1}) == {"id": 7}
    assert made.statements[0].arguments({"id": 7, "name": "x"}) == {"id": 7, "name": "x"}


def test_numbers_stay_the_callers() -> None:
    made = rewrite("DELETE FROM depts WHERE deptno = $2 AND name = $1", MODEL, "postgres", SCHEMA)
    assert made.parameters == (1, 0)
    assert made.statements[0].endswith("deptno = $2 AND name = $1")
    assert made.statements[0].arguments(["x", 1]) == ("x", 1)


@pytest.mark.parametrize("style", ["numeric_dollar", None])
def test_numbers_with_a_dollar_are_no_quotes(style: str | None) -> None:
    """`$1,$` opens no string, and closes none that was opened by another one."""
    sql = "INSERT INTO depts VALUES ($1,$2),($1,$3)"
    made = rewrite(sql, MODEL, "postgres", SCHEMA, paramstyle=style)
    assert made.parameters == (0, 1, 0, 2)
    assert made.statements[0].bound("5").endswith("VALUES ($1, $2, 5, NULL), ($1, $3, 5, NULL)")
    sql = "SELECT name FROM depts WHERE name = $a$$1,$1$$b,$a$ OR name = $$ $1,$2 $$ OR deptno IN ($2,$1)"
    made = rewrite(sql, MODEL, "postgres", SCHEMA, paramstyle=style)
    assert made.parameters == (1, 0)
    assert made.statements[0].endswith(sql.partition(" WHERE ")[2])


def test_what_only_looks_like_a_placeholder() -> None:
    for sql, dialect in [
        ("SELECT '?', ':a', '%s', $$?$$ FROM depts -- ? :b %s", "postgres"),
        ("SELECT name::text, deptno % 2 FROM depts", "postgres"),
        ("SELECT (ARRAY[1, 2])[1:2] FROM depts", "postgres"),
        ("SELECT name FROM depts WHERE to_jsonb(name) ? 'a'", "postgres"),
        ('SELECT "?", `a:b` FROM depts, x', "spark"),
    ]:
        made = rewrite(sql, MODEL, dialect, SCHEMA)
        assert made.parameters == ()
        assert made.statements[0].split(" FROM")[0] == sql.split(" FROM")[0]


def test_percent_signs_of_psycopg() -> None:
    made = rewrite(
        "SELECT * FROM depts WHERE name LIKE 'a%%' AND deptno %% 2 = %s", MODEL, "postgres", SCHEMA, paramstyle="format"
    )
    assert made.statements[0].endswith("WHERE name LIKE 'a%%' AND deptno %% 2 = %s")
    made = rewrite("SELECT * FROM depts WHERE name LIKE 'a%'", MODEL, "postgres", SCHEMA, paramstyle="none")
    assert made.statements[0].endswith("LIKE 'a%'")
    with pytest.raises(JournalSqlError, match="inside a string"):
        rewrite("SELECT * FROM depts WHERE name = '%s'", MODEL, "postgres", SCHEMA, paramstyle="format")


def test_styles_do_not_mix() -> None:
    with pytest.raises(JournalSqlError, match="several styles"):
        rewrite("SELECT * FROM depts WHERE name = ? AND deptno = :a", MODEL, "spark", SCHEMA)
    with pytest.raises(JournalSqlError, match="mixes %s"):
        rewrite(
            "SELECT * FROM depts WHERE name = %s AND deptno = %(a)s", MODEL, "postgres", SCHEMA, paramstyle="format"
        )
    with pytest.raises(InvalidInputError, match="paramstyle"):
        rewrite("SELECT * FROM depts", MODEL, "postgres", SCHEMA, paramstyle="odd")


def test_our_own_words_are_nobody_elses() -> None:
    with pytest.raises(JournalRefusedError, match="lakemend_parameter_"):
        rewrite("SELECT lakemend_parameter_0_ FROM depts WHERE deptno = ?", MODEL, "spark", SCHEMA)


def test_unchanged_text_knows_its_parameters() -> None:
    made = rewrite("SELECT * FROM other WHERE a = %s AND b = '100%%'", MODEL, "postgres", paramstyle="format")
    assert made.kind == "unchanged"
    assert made.statements[0] == "SELECT * FROM other WHERE a = %s AND b = '100%%'"
    assert made.parameters == (0,)
