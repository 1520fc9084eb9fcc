"""DDL, scripts, history and archival, run on DuckDB; and the command line."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import duckdb
import pytest
from click.testing import CliRunner

from lakemend.cli import cli
from lakemend.errors import JournalError, JournalRefusedError, JournalSchemaError
from lakemend.journal import archive, history, init, rewrite

SCHEMA = {"depts": {"deptno": "INT", "name": "VARCHAR"}}


def model(kind: str) -> dict[str, Any]:
    return {"journalTables": {"depts": "deptno"}, "journalVersionType": kind}


@pytest.fixture(params=["BIGINT", "TIMESTAMP"])
def side(request: pytest.FixtureRequest) -> tuple[duckdb.DuckDBPyConnection, dict[str, Any]]:
    connection = duckdb.connect()
    for statement in init(model(request.param), SCHEMA, "duckdb"):
        connection.execute(statement)
    return connection, model(request.param)


def run(side: tuple[duckdb.DuckDBPyConnection, dict[str, Any]], sql: str) -> list[Any]:
    connection, document = side
    return connection.execute(str(rewrite(sql, document, "duckdb", SCHEMA, archives=["depts"]))).fetchall()


def test_scripts_run_as_they_are(side: Any) -> None:
    run(side, "INSERT INTO depts VALUES (1, 'a'), (2, 'b')")
    run(side, "UPDATE depts SET name = 'c' WHERE deptno = 1")
    run(side, "DELETE FROM depts WHERE deptno = 2")
    assert run(side, "SELECT * FROM depts") == [(1, "c")]
    run(side, "INSERT INTO depts VALUES (2, 'again')")
    run(side, "UPDATE depts SET deptno = 3 - deptno")
    assert sorted(run(side, "SELECT * FROM depts")) == [(1, "again"), (2, "c")]
    # Each statement has a version of its own, and no two rows of a key have one.
    versions = side[0].execute("SELECT COUNT(DISTINCT version_number), COUNT(*) FROM depts_journal").fetchone()
    assert versions == (5, 7)


def test_history_and_archival(side: Any) -> None:
    connection, document = side
    for sql in (
        "INSERT INTO depts VALUES (1, 'a'), (2, 'b')",
        "UPDATE depts SET name = 'c' WHERE deptno = 1",
        "DELETE FROM depts WHERE deptno = 1",
        "INSERT INTO depts VALUES (1, 'd')",
        "DELETE FROM depts WHERE deptno = 2",
    ):
        run(side, sql)
    before = connection.execute(history(document, "depts", 1, "duckdb", SCHEMA)).fetchall()
    assert [row[1] for row in before] == ["a", "c", "c", "d"]
    starts, ends = [row[2] for row in before], [row[3] for row in before]
    assert ends == [starts[1], starts[2], starts[2], None]  # the mark of the deletion ends where it starts
    for _ in range(2):  # the second time there is nothing to move
        for statement in archive(document, "depts", "duckdb", SCHEMA).statements:
            connection.execute(statement)
        assert connection.execute("SELECT COUNT(*) FROM depts_journal").fetchone() == (1,)
        assert connection.execute("SELECT COUNT(*) FROM depts_archive").fetchone() == (5,)
        assert (
            connection.execute(history(document, "depts", 1, "duckdb", SCHEMA, archives=["depts"])).fetchall() == before
        )
        assert run(side, "SELECT * FROM depts") == [(1, "d")]
    # The newest version of all was archived with its row, and no version comes twice.
    run(side, "INSERT INTO depts VALUES (2, 'e')")
    after = connection.execute(history(document, "depts", 2, "duckdb", SCHEMA, archives=["depts"])).fetchall()
    assert [row[1] for row in after] == ["b", "b", "e"]
    assert after[1][2] < after[2][2]


def test_a_journal_made_by_hand(side: Any) -> None:
    connection, document = side
    if document["journalVersionType"] == "BIGINT":
        connection.execute("INSERT INTO depts_journal VALUES (1, 'a', 0, NULL), (2, 'b', 0, 7)")
        assert run(side, "SELECT * FROM depts") == [(1, "a")]
        run(side, "UPDATE depts SET name = 'x'")
        assert run(side, "SELECT * FROM depts") == [(1, "x")]
        assert run(side, "SELECT * FROM depts FOR VERSION AS OF 0") == [(1, "a")]


def test_keys_of_history() -> None:
    document = {"journalTables": {"t": ["a", "b"]}}
    schema = {"t": {"a": "INT", "b": "VARCHAR"}}
    text = history(document, "t", {"b": "it's", "a": 1}, "postgres", schema)
    assert "c.a = 1 AND c.b = 'it''s'" in text
    assert history(document, "t", (1, "it's"), "postgres", schema) == text
    assert r"c.b = 'a\\\'b'" in history(document, "t", (1, "a\\'b"), "spark", schema)
    for key in (1, (1,), {"a": 1}, {"a": 1, "c": 2}):
        with pytest.raises(JournalSchemaError, match="not a key of t"):
            history(document, "t", key, "postgres", schema)


def test_ddl_of_postgres_and_spark() -> None:
    made = init(model("TIMESTAMP"), SCHEMA, "postgres")
    assert [statement.split("(")[0].strip() for statement in made] == [
        "CREATE TABLE depts_journal",
        "CREATE INDEX depts_journal_version_number ON depts_journal",
        "CREATE TABLE depts_journal_version",
        "INSERT INTO depts_journal_version SELECT COALESCE",
        "CREATE TABLE depts_archive",
    ]
    assert "PRIMARY KEY (deptno, version_number)" in made[0]
    assert "version_number TIMESTAMP WITH TIME ZONE NOT NULL" in made[0]
    (spark,) = init(model("BIGINT"), SCHEMA, "spark")
    assert spark.endswith(") USING parquet")
    assert len(init(model("BIGINT"), SCHEMA, "spark", using="lakemend")) == 2
    with pytest.raises(JournalSchemaError, match="init needs the columns of depts"):
        init(model("BIGINT"), None, "spark")


def test_archival_where_it_cannot_be_atomic() -> None:
    for dialect in ("spark", "hive", "trino"):
        with pytest.raises(JournalRefusedError, match=r"ARCHIVE.*JournalSession.archive"):
            archive(model("BIGINT"), "depts", dialect, SCHEMA)
    assert len(archive(model("BIGINT"), "depts", "spark", SCHEMA, atomic=True).statements) == 2
    with pytest.raises(JournalError, match="not a journaled table"):
        archive(model("BIGINT"), "emps", "duckdb", SCHEMA)


@pytest.fixture
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    (tmp_path / "m.json").write_text(json.dumps(model("BIGINT")))
    (tmp_path / "s.yaml").write_text("depts: {deptno: INT, name: VARCHAR}")
    monkeypatch.chdir(tmp_path)
    return ["--model", "m.json", "--schema", "s.yaml", "--dialect", "duckdb"]


def call(*arguments: str, stdin: str | None = None) -> str:
    result = CliRunner().invoke(cli, ["journal", *arguments], input=stdin)
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    assert result.exit_code == 0, result.output
    return result.output


def test_a_script_of_the_command_line_runs(files: list[str]) -> None:
    connection = duckdb.connect()
    connection.execute(call("init", *files))
    script = "INSERT INTO depts VALUES (1, 'a;b');\nUPDATE depts SET name = name || '%' -- all\n;"
    connection.execute(call("rewrite", *files, stdin=script))
    assert connection.execute(call("rewrite", "SELECT name FROM depts", *files)).fetchall() == [("a;b%",)]
    assert len(connection.execute(call("history", "depts", "1", *files)).fetchall()) == 2
    connection.execute(call("archive", "depts", *files))
    assert connection.execute("SELECT COUNT(*) FROM depts_archive").fetchone() == (1,)


def test_json_of_the_command_line(files: list[str]) -> None:
    (found,) = json.loads(call("rewrite", "DELETE FROM depts WHERE deptno = ?", "--json", *files))
    assert (found["kind"], found["parameters"], found["checks"]) == ("delete", [0], [])
    (found,) = json.loads(call("rewrite", "INSERT INTO depts VALUES (1, 'a')", "--json", *files))
    assert len(found["checks"]) == 1
    assert "no row may come back: DuplicateKeyError" in call(
        "rewrite", "INSERT INTO depts VALUES (1, 'a')", "--checks", *files
    )
    assert json.loads(call("init", "--json", *files))[0].startswith("CREATE TABLE depts_journal")
    with pytest.raises(JournalRefusedError):
        call("rewrite", "TABLE depts", *files)
