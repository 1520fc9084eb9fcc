"""Types and wire values."""

from __future__ import annotations

import json
import math
from datetime import UTC, date, datetime
from decimal import Decimal

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakemend.brain.evolution import merged_changes
from lakemend.errors import SchemaMismatchError
from lakemend.schema import decimal_of, field, find, from_wire, leaves, struct, to_arrow, to_wire

NESTED = struct(
    ("a", "long"),
    ("S", struct(("x", "integer"), ("Y", "string"))),
    field("l", {"type": "array", "elementType": "long", "containsNull": True}),
)


def test_find_and_leaves():
    assert find(NESTED, ("s", "y"))["name"] == "Y"
    assert find(NESTED, ("a", "x")) is None
    assert find(NESTED, ("nope",)) is None
    assert find(struct(("A", "long"), ("a", "long")), ("a",))["name"] == "a"
    assert find(struct(("Ab", "long"), ("aB", "long")), ("ab",)) is None
    assert [path for path, _ in leaves(NESTED)] == [("a",), ("S", "x"), ("S", "Y"), ("l",)]


def test_arrow_types():
    assert to_arrow("decimal(10, 2)") == pa.decimal128(10, 2)
    assert to_arrow("varchar(3)") == pa.string()
    assert to_arrow(NESTED).field("S").type == pa.struct([("x", pa.int32()), ("Y", pa.string())])
    assert (
        to_arrow({"type": "map", "keyType": "string", "valueType": "date", "valueContainsNull": True}).key_type
        == pa.string()
    )
    assert decimal_of("decimal(38,0)") == (38, 0)
    for wrong in ("fancy", {"type": "fancy"}):
        with pytest.raises(ValueError):
            to_arrow(wrong)


VALUES = st.one_of(
    st.tuples(st.just("long"), st.integers(-(2**63), 2**63 - 1)),
    st.tuples(st.just("boolean"), st.booleans()),
    st.tuples(st.just("string"), st.text()),
    st.tuples(st.just("binary"), st.binary()),
    st.tuples(st.just("double"), st.floats()),
    st.tuples(st.just("date"), st.dates()),
    st.tuples(st.just("timestamp"), st.datetimes(timezones=st.just(UTC))),
    st.tuples(st.just("timestamp_ntz"), st.datetimes()),
    st.tuples(st.just("decimal(38,10)"), st.decimals(-(10**20), 10**20, places=10)),
    st.tuples(st.just("long"), st.none()),
)  # fmt: skip


@given(VALUES)
def test_wire_values_come_back(typed):
    type, value = typed
    back = from_wire(json.loads(json.dumps(to_wire(value))), type)
    assert back == value or (isinstance(value, float) and math.isnan(value) and math.isnan(back))


def test_wire_forms():
    assert to_wire(date(1969, 12, 31)) == -1
    assert to_wire(datetime(1970, 1, 1, 0, 0, 0, 5)) == 5
    assert to_wire(datetime(1969, 12, 31, 23, 59, 59, 999999, UTC)) == -1
    assert to_wire(Decimal("1E+3")) == "1000"
    assert [to_wire(v) for v in (math.nan, math.inf, -math.inf)] == ["NaN", "Infinity", "-Infinity"]
    with pytest.raises(TypeError):
        to_wire(object())


def test_evolution():
    incoming = struct(("A", "integer"), ("S", struct(("z", "date"))), ("new", "double"))
    assert [(c["kind"], c["path"]) for c in merged_changes(NESTED, incoming)] == [
        ("add_column", ["S", "z"]),
        ("add_column", ["new"]),
    ]
    assert merged_changes(struct(("a", "integer")), struct(("a", "long"))) == [
        {"kind": "update_type", "path": ["a"], "type": "long"}
    ]
    with pytest.raises(SchemaMismatchError, match="cannot take"):
        merged_changes(struct(("a", "integer")), struct(("a", "string")))
