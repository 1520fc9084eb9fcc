"""Names of columns and values of keys that mean something else to who is not careful."""

from __future__ import annotations

import pytest

from lakemend.errors import InvalidInputError
from lakemend.journal import archive, history, rewrite
from lakemend.journal.dialects import dialect_of
from lakemend.journal.literals import literal, string

MODEL = {"journalTables": {"depts": "id"}, "journalVersionType": "BIGINT"}


@pytest.mark.parametrize("dialect", ["spark", "postgres", "duckdb"])
@pytest.mark.parametrize("column", ["c", "C"])
def test_a_column_is_not_taken_for_the_rows_around_a_subquery(column: str, dialect: str) -> None:
    """`c.id` is the field of a column `c` to an engine that finds one in the subquery."""
    schema = {"depts": {"id": "BIGINT", column: "STRUCT<id: BIGINT>"}}
    takes = "lakemend_c" if column == "c" or dialect != "postgres" else "c"
    for text in (
        str(rewrite("SELECT * FROM depts FOR VERSION AS OF 1", MODEL, dialect, schema)),
        str(rewrite("DELETE FROM depts", MODEL, dialect, schema)),
        str(archive(MODEL, "depts", dialect, schema, atomic=True)),
    ):
        assert f"depts_journal AS {takes} " in text
        assert (" c." in text) == (takes == "c")


def test_the_same_in_changes() -> None:
    model = {"journalTables": {"depts": ["s", "m", "t"]}, "journalVersionType": "BIGINT"}
    schema = {"depts": dict.fromkeys("smtx", "BIGINT")}
    moved = rewrite("UPDATE depts SET m = m + 1", model, "spark", schema, proofs="all")
    assert "lakemend_pairs AS lakemend_m " in str(moved)
    inserted = rewrite("INSERT INTO depts SELECT s, m, t, x FROM depts", model, "spark", schema, proofs="all")
    assert all("depts_journal AS lakemend_s " in proof.query for proof in inserted.proofs)
    merged = rewrite(
        "MERGE INTO depts t USING depts u ON t.s = u.s WHEN NOT MATCHED BY SOURCE THEN DELETE", model, "spark", schema
    )
    assert "lakemend_row.lakemend_old_2 = t.t" in str(merged)


@pytest.mark.parametrize("key", ["{}", "{0}", "{a} {{b}}", "it's"])
def test_a_key_with_braces(key: str) -> None:
    schema = {"depts": {"id": "TEXT"}}
    text = history(MODEL, "depts", key, "postgres", schema, archives=["depts"])
    assert text.count(f"id = {literal(key, dialect_of('postgres'))}") == 2


def test_a_text_is_no_variable() -> None:
    assert string("a ${b} $c", dialect_of("spark")) == r"'a \u0024{b} $c'"
    assert string("a ${b}", dialect_of("postgres")) == "'a ${b}'"


def test_keys_are_compared_as_their_columns_store_them() -> None:
    schema = {"depts": {"id": "char(4)", "n": "INT"}}
    made = rewrite("UPDATE depts SET id = trim(id)", MODEL, "spark", schema)
    assert "RPAD(" in made.statements[0]
    assert all("RPAD(" in check.query for check in made.checks)


def test_as_of_is_of_the_type_of_the_versions() -> None:
    model = {"journalTables": {"depts": "id"}}
    for kind, cast in {"timestamp_ntz": "'2026-01-01'", "timestamp_ltz": "TIMESTAMP '2026-01-01'"}.items():
        schema = {"depts": {"id": "INT", "version_number": kind}}
        made = rewrite("SELECT * FROM depts TIMESTAMP AS OF TIMESTAMP '2026-01-01'", model, "spark", schema)
        assert f"CAST({cast} AS {kind.upper()})" in str(made)
        assert "version_number FROM" not in str(made)


def test_a_value_that_is_missing() -> None:
    named = rewrite("SELECT 1 FROM depts WHERE id = :a", MODEL, "spark").statements[0]
    unnamed = rewrite("SELECT 1 FROM depts WHERE id = ?", MODEL, "spark").statements[0]
    for text, values in ((named, {"b": 1}), (unnamed, []), (unnamed, None), (unnamed, {"a": 1})):
        with pytest.raises(InvalidInputError, match="value"):
            text.arguments(values)
