"""A value is cast to its column's type, but never to a length: a cast cuts where an assignment fails."""

from __future__ import annotations

import pytest

from lakemend.journal.columns import cast_type, cut_length, is_exact
from lakemend.journal.dialects import dialect_of


@pytest.mark.parametrize(
    ("type", "postgres", "spark"),
    [
        ("INT", "INT", "INT"),
        ("DECIMAL(5, 2)", "DECIMAL(5, 2)", "DECIMAL(5, 2)"),
        ("varchar(20)", "varchar", "STRING"),
        ("character varying", "character varying", "STRING"),
        ("CHAR(3)", "BPCHAR", "STRING"),
        ("bpchar", "BPCHAR", "STRING"),
        ("varchar(2)[]", "varchar[]", "varchar[]"),
        ("bit(3)", None, None),
        ("bit varying(3)", "bit varying", "bit varying"),
        ("bigserial", "BIGINT", "BIGINT"),
        ("", None, None),
        (None, None, None),
    ],
)
def test_types(type: str | None, postgres: str | None, spark: str | None) -> None:
    assert cast_type(type, dialect_of("postgres")) == postgres
    assert cast_type(type, dialect_of("spark")) == spark


@pytest.mark.parametrize(
    ("type", "length"),
    [
        ("varchar(20)", 20),
        ("character varying(3)", 3),
        ("CHAR VARYING ( 5 )", 5),
        ("character varying", None),
        ("varchar(2)[]", None),
        ("char(3)", None),
        ("bit varying(3)", None),
        (None, None),
    ],
)
def test_lengths_to_which_spaces_are_cut(type: str | None, length: int | None) -> None:
    assert cut_length(type, dialect_of("postgres")) == length
    assert cut_length(type, dialect_of("duckdb")) is None


def test_types_of_which_equal_values_are_one() -> None:
    for type in ("INT", "integer", "bigint", "int8", "BIGSERIAL", "uuid", "DATE", "DECIMAL(5, 2)", "numeric(10,0)"):
        assert is_exact(type), type
    for type in ("numeric", "numeric(5)[]", "citext", "text", "varchar(3)", "float8", "interval", "integer[]", None):
        assert not is_exact(type), type
