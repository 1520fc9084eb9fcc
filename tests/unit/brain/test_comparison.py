"""Which side Spark casts; tests/plans/test_join_advice.py compares the same pairs with plans."""

from __future__ import annotations

import pytest

from lakemend.brain.comparison import casts

BOTH, LEFT, RIGHT, NONE = (True, True), (True, False), (False, True), (False, False)


@pytest.mark.parametrize(
    ("left", "right", "cast"),
    [
        ("integer", "integer", NONE),
        ("integer", "long", LEFT),
        ("short", "byte", RIGHT),
        ("decimal(10,2)", "decimal(10,2)", NONE),
        ("decimal(10,2)", "decimal(12,2)", LEFT),
        ("decimal(10,2)", "decimal(12,0)", BOTH),
        ("integer", "decimal(10,2)", BOTH),
        ("byte", "decimal(10,2)", LEFT),
        ("decimal(38,0)", "decimal(10,10)", BOTH),
        ("date", "timestamp", LEFT),
        ("timestamp_ntz", "timestamp", LEFT),
        ("date", "timestamp_ntz", LEFT),
        ("string", "date", LEFT),
        ("boolean", "string", RIGHT),
        ("string", "long", LEFT),
        ("string", "integer", BOTH),
        ("string", "decimal(10,2)", BOTH),
        ("double", "integer", RIGHT),
        ("date", "integer", BOTH),
        ({"type": "array"}, "string", BOTH),
    ],
)
def test_casts(left: str, right: str, cast: tuple[bool, bool]) -> None:
    assert casts(left, right, ansi=True) == cast
    assert casts(right, left, ansi=True) == cast[::-1]


def test_without_ansi_text_becomes_the_number_it_meets() -> None:
    assert casts("string", "integer", ansi=False) == LEFT
    assert casts("decimal(10,2)", "string", ansi=False) == BOTH
