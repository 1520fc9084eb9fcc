"""`connect(document)`: the address in a Calcite document."""

from __future__ import annotations

import json
from pathlib import Path

import psycopg
import pytest

from lakemend.errors import JournalModelError, LakemendError
from lakemend.journal.driver import connect
from lakemend.journal.driver.document import parameters
from lakemend.journal.model import Connection
from tests.journal.postgres.server import Server
from tests.journal.postgres.world import World


@pytest.mark.parametrize(
    ("url", "found"),
    [
        ("jdbc:postgresql://db:5433/app", {"host": "db", "port": "5433", "dbname": "app"}),
        ("jdbc:postgresql://db/app", {"host": "db", "port": "5432", "dbname": "app"}),
        ("jdbc:postgresql:app", {"host": "localhost", "dbname": "app"}),
        ("jdbc:postgresql:/", {"host": "localhost"}),
        ("jdbc:postgresql://a:1,b/x", {"host": "a,b", "port": "1,5432", "dbname": "x"}),
        ("jdbc:postgresql://[::1]:5433/x", {"host": "::1", "port": "5433", "dbname": "x"}),
        ("jdbc:postgresql://h/a%20b?user=u%40x&password=p%26q", {
            "host": "h", "port": "5432", "dbname": "a b", "user": "u@x", "password": "p&q"}),
        ("jdbc:postgresql://h/a?ssl=true&prepareThreshold=5&ApplicationName=x", {
            "host": "h", "port": "5432", "dbname": "a", "sslmode": "verify-full", "application_name": "x"}),
        ("jdbc:postgresql://h/a?currentSchema=my app,public", {
            "host": "h", "port": "5432", "dbname": "a", "options": "-csearch_path=my\\ app,public"}),
    ],
)  # fmt: skip
def test_addresses(url: str, found: dict[str, str]) -> None:
    assert parameters(Connection(url)) == found


def test_addresses_that_are_not_known() -> None:
    with pytest.raises(JournalModelError, match="jdbc:mysql"):
        parameters(Connection("jdbc:mysql://h/a?password=secret"))
    with pytest.raises(JournalModelError, match="socketFactory") as caught:
        parameters(Connection("jdbc:postgresql://h/a?socketFactory=x&password=secret"))
    assert "secret" not in str(caught.value)


def test_a_document_opens_its_database(conninfo: str, server: Server, tmp_path: Path) -> None:
    world = World.of(conninfo)
    schema = psycopg.conninfo.conninfo_to_dict(conninfo)["options"].partition("=")[2]
    url = f"jdbc:postgresql://127.0.0.1:{server.port}/postgres"
    operand = {"journalTables": {"depts": "id"}, "jdbcSchema": schema}
    address = {"jdbcUrl": url, "jdbcUser": "lakemend", "jdbcPassword": server.password}

    def document(**more: object) -> dict[str, object]:
        schema = {"name": "hr", "type": "custom", "operand": {**operand, **more}}
        return {"version": "1.0", "defaultSchema": "hr", "schemas": [schema]}

    with connect(document(**address)) as connection:
        connection.execute("INSERT INTO hr.depts (id, name) VALUES (%s, %s)", (1, "a"))
        connection.execute("UPDATE depts SET name = 'b'")
        assert connection.execute("SELECT name FROM hr.depts").fetchall() == [("b",)]
        assert server.password not in repr(connection)
    (tmp_path / "address.json").write_text(json.dumps(address))
    (tmp_path / "model.json").write_text(json.dumps(document(connection=str(tmp_path / "address.json"))))
    with connect(str(tmp_path / "model.json")) as connection:
        assert connection.execute("SELECT name FROM depts").fetchall() == [("b",)]
    with pytest.raises(psycopg.OperationalError) as caught:
        connect(document(**{**address, "jdbcPassword": "wrong-secret"}))
    assert "wrong-secret" not in str(caught.value)
    with pytest.raises(LakemendError, match="nothing of a database"):
        connect({"journalTables": {"depts": "id"}})
    world.close()
