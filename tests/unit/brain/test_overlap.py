"""Whether two predicates can be true of one row: "no" is never wrong, and is said where people rely on it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from test_predicates_sound import META, TYPES, VALUES, lit, predicates, truth

from lakemend.brain.overlap import may_overlap
from lakemend.brain.where import parse_where
from lakemend.formats.format import Metadata
from lakemend.schema import field, struct

SCHEMA = struct(
    ("id", "long"),
    ("small", "short"),
    ("day", "date"),
    ("at", "timestamp"),
    ("country", "string"),
    ("year", "integer"),
    ("month", "integer"),
    ("price", "decimal(10,2)"),
    ("x", "double"),
    ("ok", "boolean"),
    field("code", "string", metadata={"__CHAR_VARCHAR_TYPE_STRING": "char(5)"}),
    field("name", "string", metadata={"__COLLATIONS": {"name": "icu.UNICODE_CI"}}),
    ("s", struct(("a", "integer"))),
)
TABLE = Metadata(SCHEMA, SCHEMA, (), {})


@st.composite
def rows(draw: Any) -> dict[str, Any]:
    row = {column: draw(st.sampled_from([None, *VALUES[type]])) for column, type in TYPES.items()}
    return row | {"_file": "file:///t/f0"}


def no_row_satisfies_predicates_said_to_be_apart(one: Any, other: Any, sample: Sequence[dict[str, Any]]) -> None:
    both = [row for row in sample if truth(one, row) is True and truth(other, row) is True]
    if both:
        assert may_overlap(one, other, META), both[0]


@pytest.mark.parametrize("examples", [400, pytest.param(2000, marks=pytest.mark.slow)])
def test_no_row_satisfies_predicates_said_to_be_apart(examples: int) -> None:
    drawn = given(predicates, predicates, st.lists(rows(), min_size=1, max_size=8))
    settings(max_examples=examples, deadline=None)(drawn(no_row_satisfies_predicates_said_to_be_apart))()


@settings(max_examples=300, deadline=None)
@given(st.sampled_from(["p", "ps", "i", "dt", "b"]), st.data())
def test_what_one_column_tells_is_decided(column: str, data: Any) -> None:
    """Over all values of a column both answers are exact, as far as two comparisons of it go."""
    type = TYPES[column]
    ops = st.sampled_from(["=", "<=>", "<>", "<", "<=", ">", ">="])
    one, other = (
        {"op": data.draw(ops), "args": [{"col": [column]}, lit(data.draw(st.sampled_from(VALUES[type])), type)]}
        for _ in range(2)
    )
    every = [None, *VALUES[type]]
    both = [v for v in every if truth(one, {column: v}) is True and truth(other, {column: v}) is True]
    if type in ("integer", "boolean") and not both:
        within = range(-10, 10) if type == "integer" else (False, True)
        both = [v for v in within if truth(one, {column: v}) is True and truth(other, {column: v}) is True]
    if type in ("date", "string"):
        # Between two of the sampled values there are others.
        assert may_overlap(one, other, META) or not both
    else:
        assert may_overlap(one, other, META) == bool(both)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("day = '2024-01-01'", "day = '2024-01-02'"),
        ("day >= '2024-01-01' AND day < '2024-02-01'", "day >= '2024-02-01' AND day < '2024-03-01'"),
        ("country = 'DE'", "country IN ('FR', 'IT')"),
        ("country >= 'a' AND country < 'b'", "country >= 'b'"),
        ("country LIKE 'DE%'", "country LIKE 'DF%'"),
        ("country LIKE 'DE%'", "country < 'DE'"),
        ("NOT (country LIKE 'DE%')", "country = 'DE-BY'"),
        ("country IS NULL", "country = 'DE'"),
        ("country IS NULL", "country <> 'DE'"),
        ("year = 2023 AND month = 11", "year = 2023 AND month = 12"),
        ("year = 2023 AND month IN (11, 12)", "(year = 2023 AND month < 11) OR year = 2024"),
        ("year = 2023", "year = 2024 OR (year = 2023 AND year > 2023)"),
        ("id BETWEEN 0 AND 9", "id BETWEEN 10 AND 19"),
        ("id > 3", "id < 4"),
        ("id IN (1, 100)", "id = 50"),
        ("NOT (id IN (1, 2))", "id = 1"),
        ("price < 1.5", "price >= 1.50"),
        ("x <= 0", "x > 0"),
        ("ok", "NOT ok"),
        ("ok = true", "ok = false"),
        ("s.a = 1", "s.a = 2"),
        ("false", "true"),
        ("id = 1 AND id = 2", "true"),
        ("id = NULL", "true"),
        ("id NOT IN (1, NULL)", "true"),
        ("at < '2024-01-01 00:00:00'", "at >= '2024-01-01 00:00:00'"),
        ("small = 1", "small = 2"),
    ],
)
def test_apart(one: str, other: str) -> None:
    a, b = parse_where(one, SCHEMA), parse_where(other, SCHEMA)
    assert not may_overlap(a, b, TABLE)
    assert not may_overlap(b, a, TABLE)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("true", "id = 1"),
        ("id = 1", "id = 1"),
        ("id = 1", "year = 2023"),
        ("id > 3", "id < 5"),
        ("country > 'a'", "country < 'ab'"),
        ("country LIKE 'D%'", "country LIKE 'DE%'"),
        ("country LIKE '%E'", "country LIKE 'DE%'"),
        ("country IS NULL", "year = 2023"),
        ("country <=> NULL", "NOT (country <=> 'DE')"),
        ("year = 2023 AND month = 11", "month = 11"),
        ("x > 0", "x = 'NaN'"),
        ("code = 'a'", "code = 'a  '"),  # the same text once padded
        ("name = 'a'", "name = 'A'"),  # the same text as the column compares it
        ("length(country) = 2", "country = 'FR'"),
        ("id = month", "id = 5"),
        ("id = 5", "id + 1 = 7"),
    ],
)
def test_perhaps_not(one: str, other: str) -> None:
    a, b = parse_where(one, SCHEMA), parse_where(other, SCHEMA)
    assert may_overlap(a, b, TABLE)
    assert may_overlap(b, a, TABLE)


def test_a_cast_that_keeps_values_is_looked_through() -> None:
    def equals(column: str, cast: str, value: Any) -> dict[str, Any]:
        return {"op": "=", "args": [{"op": "CAST", "args": [{"col": [column]}], "type": cast}, lit(value, cast)]}

    assert not may_overlap(equals("year", "long", 1), parse_where("year = 2", SCHEMA), TABLE)
    assert may_overlap(equals("year", "long", 2), parse_where("year = 2", SCHEMA), TABLE)
    # A cast that loses values is a column of its own: what it says of the column itself is not known.
    assert may_overlap(equals("country", "integer", 1), parse_where("country = 'x'", SCHEMA), TABLE)
    assert not may_overlap(equals("country", "integer", 1), equals("country", "integer", 2), TABLE)
    assert not may_overlap(equals("country", "integer", 1), parse_where("country IS NULL", SCHEMA), TABLE)
    # As a double, 2^53 + 1 is 2^53.
    assert may_overlap(equals("id", "double", float(2**53)), parse_where(f"id = {2**53 + 1}", SCHEMA), TABLE)
    assert not may_overlap(equals("year", "double", 1.0), parse_where("year = 2", SCHEMA), TABLE)


def test_many_partitions_are_told_apart_fast() -> None:
    def days(year: int) -> dict[str, Any]:
        each = [f"(year = {year} AND month = {m} AND id = {d})" for m in range(1, 13) for d in range(1, 29)]
        return parse_where(" OR ".join(each), SCHEMA)

    one, other = days(2023), days(2024)
    assert not may_overlap(one, other, TABLE)
    assert may_overlap(one, days(2023), TABLE)


def test_what_is_too_much_to_look_at_may_overlap(monkeypatch: pytest.MonkeyPatch) -> None:
    one = parse_where("(id = 1 AND year = 1) OR (id = 2 AND year = 2) OR (id = 3 AND year = 3)", SCHEMA)
    other = parse_where("id = 1 AND year = 2", SCHEMA)
    assert not may_overlap(one, other, TABLE)
    monkeypatch.setattr("lakemend.brain.overlap._MANY_BOXES", 2)
    assert may_overlap(one, other, TABLE)
    monkeypatch.undo()
    monkeypatch.setattr("lakemend.brain.overlap._MANY_PAIRS", 2)
    assert may_overlap(one, other, TABLE)


def test_columns_that_differ_in_case_alone_are_two() -> None:
    schema = struct(("a", "long"), ("A", "long"))
    table = Metadata(schema, schema, (), {})
    small, large = ({"op": "=", "args": [{"col": [name]}, lit(value, "long")]} for name, value in (("a", 1), ("A", 2)))
    assert may_overlap(small, large, table)
    assert may_overlap({"op": "IS_NULL", "args": [{"col": ["a"]}]}, large, table)
    assert may_overlap({"op": "AND", "args": [small, large]}, {"op": "ALWAYS_TRUE"}, table)
    assert not may_overlap(large, {"op": "=", "args": [{"col": ["A"]}, lit(1, "long")]}, table)


@pytest.mark.parametrize(
    ("column", "cast"), [("country", "timestamp"), ("at", "string"), ("at", "date"), ("day", "timestamp")]
)
def test_a_cast_that_depends_on_the_session_tells_nothing(column: str, cast: str) -> None:
    """Two writers in two time zones mean other rows by the same words."""
    values = {"date": ["2024-01-01", "2024-01-02"], "string": ["a", "b"]}.get(cast, [1, 2])

    def equals(value: Any) -> dict[str, Any]:
        node = {"op": "CAST", "args": [{"col": [column]}], "type": cast}
        return {"op": "=", "args": [node, {"lit": value, "type": cast}]}

    assert may_overlap(equals(values[0]), equals(values[1]), TABLE)


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("country NOT LIKE 'a%'", ["NOT", "STARTS_WITH"]),
        ("country NOT IN ('a', 'b')", ["NOT", "IN"]),
        ("year NOT BETWEEN 1 AND 2", ["NOT", "AND", ">=", "<="]),
        ("country IS NOT NULL", ["NOT", "IS_NULL"]),
        ("NOT country NOT LIKE 'a%'", ["NOT", "NOT", "STARTS_WITH"]),
        ("country LIKE 'a!%' ESCAPE '!'", ["UNKNOWN"]),
        ("country NOT RLIKE 'a'", ["NOT", "UNKNOWN"]),
    ],
)
def test_every_way_to_say_not(text: str, names: list[str]) -> None:
    def operators(node: dict[str, Any]) -> list[str]:
        return [node["op"], *(name for arg in node.get("args", ()) for name in operators(arg))] if "op" in node else []

    assert operators(parse_where(text, SCHEMA)) == names
