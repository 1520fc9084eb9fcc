"""The model: what may stand in it, and what is said of what may not."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from lakemend.errors import JournalModelError, JournalTableError
from lakemend.journal import Model, rewrite

CALCITE = {
    "version": "1.0",
    "defaultSchema": "doesntmatter",
    "schemas": [
        {
            "name": "hr",
            "type": "custom",
            "factory": "org.apache.calcite.adapter.jdbc.JournalledJdbcSchema$Factory",
            "operand": {
                "jdbcDriver": "org.postgresql.Driver",
                "jdbcUrl": "jdbc:postgresql://localhost/x",
                "jdbcUser": "u",
                "jdbcPassword": "secret",
                "jdbcSchema": "stored",
                "journalVersionType": "bigint",
                "journalDefaultKey": ["id"],
                "journalTables": {"emps": ["empid"], "depts": "deptno", "plain": [], "other": None},
            },
        }
    ],
}


def test_defaults() -> None:
    model = Model.of({"journalTables": {"depts": None}})
    table = model.tables[0]
    assert (table.key, table.journal, table.archive) == (("id",), "depts_journal", "depts_archive")
    assert (model.version, model.subsequent, model.version_type) == (
        "version_number",
        "subsequent_version_number",
        "TIMESTAMP",
    )
    assert Model.of(model) is model


def test_a_list_of_tables_has_the_default_key() -> None:
    model = Model.of({"journalTables": ["a", "b"], "journalDefaultKey": ["x", "y"]})
    assert [t.key for t in model.tables] == [("x", "y")] * 2


def test_json_yaml_and_files(tmp_path: Path) -> None:
    document = {"journalTables": {"depts": ["deptno"]}, "journalVersionType": "timestamptz"}
    wanted = Model.of(document)
    assert wanted.version_type == "TIMESTAMP"
    assert Model.of(json.dumps(document)) == wanted
    assert Model.of("journalTables:\n  depts: [deptno]\n") == Model.of({"journalTables": {"depts": ["deptno"]}})
    for name, text in (("m.json", json.dumps(document)), ("m.yaml", "journalTables: {depts: deptno}")):
        (tmp_path / name).write_text(text)
        assert Model.of(tmp_path / name).tables == wanted.tables
        assert Model.of(str(tmp_path / name)).tables == wanted.tables


def test_the_document_of_calcites_rewriter(tmp_path: Path) -> None:
    model = Model.of(CALCITE)
    assert [(str(t), t.key, t.physical_schema) for t in model.tables] == [
        ("hr.emps", ("empid",), "stored"),
        ("hr.depts", ("deptno",), "stored"),
        ("hr.plain", ("id",), "stored"),
        ("hr.other", ("id",), "stored"),
    ]
    assert model.connection is not None
    assert (model.connection.url, model.connection.user) == ("jdbc:postgresql://localhost/x", "u")
    assert "secret" not in repr(model)
    schema = {"hr": {"depts": {"deptno": "INT", "a": "INT"}}}
    made = rewrite("SELECT hr.depts.a FROM hr.depts JOIN depts AS d ON d.a = 1", model, "postgres", schema)
    assert made.statements[0].startswith("SELECT depts.a FROM (SELECT c.deptno, c.a FROM stored.depts_journal AS c")
    assert made.statements[0].endswith("AS depts JOIN depts AS d ON d.a = 1")
    # `doesntmatter` is no schema of the document, so a name without one is of whatever schema the engine is in.
    made = rewrite("SELECT a FROM depts", model, "postgres", schema, namespace="hr")
    assert "stored.depts_journal" in made.statements[0]


def test_a_connection_in_a_file(tmp_path: Path) -> None:
    (tmp_path / "c.json").write_text('{"jdbcUrl": "jdbc:postgresql://h/x", "jdbcUser": "u"}')
    operand: dict[str, Any] = {"connection": "c.json", "journalTables": ["depts"]}
    (tmp_path / "m.json").write_text(json.dumps({"schemas": [{"name": "hr", "operand": operand}]}))
    connection = Model.of(tmp_path / "m.json").connection
    assert connection is not None
    assert connection.url == "jdbc:postgresql://h/x"


@pytest.mark.parametrize(
    ("document", "said"),
    [
        ({}, "lists no tables"),
        ({"journalTables": {}}, "lists no tables"),
        ({"journalTables": {"a": 5}}, "the key of a is 5"),
        ({"journalTables": {"a": ["x", "X"]}}, "twice"),
        ({"journalTables": {"a": "version_number"}}, "version column"),
        ({"journalTables": ["a"], "journalVersionType": "DATE"}, "TIMESTAMP or BIGINT"),
        ({"journalTables": ["a"], "journalversiontype": "BIGINT"}, "Write journalVersionType"),
        ({"journalTables": ["a"], "odd": 1}, "unknown key 'odd'"),
        ({"journalTables": ["a"], "journalSuffix": ""}, "journalSuffix"),
        ({"journalTables": ["a", "a_journal"]}, "two journaled tables"),
        ({"journalTables": ["a"], "journalVersionField": "v", "journalSubsequentVersionField": "V"}, "same column"),
        ({"schemas": []}, "schemas"),
        ({"schemas": [{"name": "hr", "operand": {}}]}, "no schema"),
        ("[1, 2]", "is a mapping"),
        ("a: [", "neither JSON nor YAML"),
        (Path("/nowhere/m.json"), "cannot be read"),
    ],
    ids=str,
)
def test_what_is_wrong_is_said(document: Any, said: str) -> None:
    with pytest.raises(JournalModelError, match=said):
        Model.of(document)


def test_tables_by_name() -> None:
    model = Model.of(CALCITE)
    assert model.table("depts") == model.table("hr.depts") == model.table("depts", "hr")
    with pytest.raises(JournalTableError, match=r"hr\.emps"):
        model.table("nothing")
