"""A value is cast to its column's type, but never to a length: a cast cuts where an assignment fails."""

from __future__ import annotations

import pytest

from lakemend.journal.columns import cast_type
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
