"""Bounds hold for every value a file may contain, and are exact only where they are the value itself."""

from __future__ import annotations

import datetime as dt
import json
import math
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakemend.formats.delta import bounds as b
from lakemend.formats.delta import stats as s
from lakemend.formats.format import ColumnStats
from lakemend.schema import struct

UTC = dt.UTC
texts = st.text(st.characters(blacklist_categories=["Cs"]))


def bounds(type: Any, *files: Any, name: str = "c") -> ColumnStats:
    """Statistics of a one-column table; a file is (min, max), a dict of statistics, a string, or None."""
    schema = struct((name, type))
    strings = []
    for file in files:
        if isinstance(file, tuple):
            low, high = file
            file = {"numRecords": 2, "minValues": {name: low}, "maxValues": {name: high}, "nullCount": {name: 0}}
        strings.append(json.dumps(file) if isinstance(file, dict) else file)
    source = s.JsonStats(pa.chunked_array([pa.array(strings, pa.string())]), len(strings))
    raw = source.leaf(schema, (name,), type)
    assert raw is not None
    return b.column_stats(raw, type, source.tight().fill_null(True))


def only(stats: ColumnStats) -> tuple[Any, Any, bool]:
    return stats.min[0].as_py(), stats.max[0].as_py(), stats.exact[0].as_py()


@pytest.mark.parametrize("type", ["byte", "short", "integer", "long"])
def test_integers_are_exact(type: str) -> None:
    assert only(bounds(type, (-3, 7))) == (-3, 7, True)


def test_long_extremes() -> None:
    assert only(bounds("long", (-(2**63), 2**63 - 1))) == (-(2**63), 2**63 - 1, True)


def test_integers_out_of_range_are_unknown() -> None:
    found = bounds("integer", (2**40, 2**41), (1, 2))
    assert found.min.to_pylist() == [None, 1] and found.exact.to_pylist() == [False, True]


def test_dates_and_booleans_are_exact() -> None:
    assert only(bounds("date", ("1582-10-15", "9999-12-31"))) == (dt.date(1582, 10, 15), dt.date(9999, 12, 31), True)
    assert only(bounds("boolean", (False, True))) == (False, True, True)


def test_decimals_keep_every_digit() -> None:
    text = '{"numRecords":1,"minValues":{"c":123456789012.123},"maxValues":{"c":123456789012.124},"nullCount":{"c":0}}'
    assert only(bounds("decimal(15,3)", text)) == (Decimal("123456789012.123"), Decimal("123456789012.124"), True)


def test_long_decimals_are_widened() -> None:
    text = '{"numRecords":1,"minValues":{"c":1.2345678901234567e16},"maxValues":{"c":12345678901234567.89}}'
    low, high, exact = only(bounds("decimal(38,2)", text))
    assert low < Decimal("12345678901234567") < Decimal("12345678901234567.89") < high and not exact
    limit = "9" * 38
    found = bounds("decimal(38,0)", f'{{"minValues":{{"c":1}},"maxValues":{{"c":{limit}}}}}')
    assert found.max.to_pylist() == [None]


def test_decimals_with_too_many_digits_round_outward() -> None:
    low, high, exact = only(bounds("decimal(18,2)", (1.239, 1.231)))
    assert low <= Decimal("1.23") and high >= Decimal("1.24") and not exact
    assert only(bounds("decimal(5,2)", (1.239, 1.231))) == (None, None, False)  # short ones are taken at their word


def test_floats_have_no_maximum() -> None:
    low, high, exact = only(bounds("double", (-0.5, 3.0)))
    assert (low, high, exact) == (-0.5, None, False)


@pytest.mark.parametrize("value", ["NaN", "Infinity", "-Infinity"])
def test_special_floats(value: str) -> None:
    found = bounds("double", (value, value), (1.5, "NaN"))
    assert found.max.to_pylist() == [None, None] and found.min[1].as_py() == 1.5
    assert found.min[0].as_py() == (None if value == "NaN" else float(value))


def test_negative_zero() -> None:
    assert math.copysign(1, only(bounds("double", (-0.0, 0.0)))[0]) == -1


def test_float_bounds_are_the_floats_themselves() -> None:
    value = pa.scalar(0.1, pa.float32()).as_py()
    assert only(bounds("float", (0.1, 0.1)))[0] == value


@pytest.mark.parametrize(
    "text", ["2024-01-02T03:04:05.678Z", "2024-01-02T04:04:05.678+01:00", "2024-01-02 03:04:05.678 UTC"]
)
def test_timestamps_are_widened(text: str) -> None:
    moment = dt.datetime(2024, 1, 2, 3, 4, 5, 678000, UTC)
    assert only(bounds("timestamp", (text, text))) == (moment, moment + dt.timedelta(milliseconds=1), False)


def test_timestamps_of_mixed_spelling() -> None:
    found = bounds("timestamp", ("2024-01-02T03:04:05.678Z",) * 2, ("2024-01-02 03:04:05",) * 2, ("noon", "noon"))
    assert [m and m.hour for m in found.min.to_pylist()] == [3, None, None]


def test_timestamp_ntz() -> None:
    moment = dt.datetime(2024, 1, 2, 3, 4, 5, 678000)
    assert only(bounds("timestamp_ntz", ("2024-01-02T03:04:05.678",) * 2))[0] == moment
    # A date widened to a timestamp keeps its old statistics.
    assert only(bounds("timestamp_ntz", ("2024-01-02",) * 2))[0] == dt.datetime(2024, 1, 2)


def test_strings_are_never_exact() -> None:
    low, high, exact = only(bounds("string", ("a", "b")))
    assert (low, exact) == ("a", False) and high > "b" * 100


@given(st.lists(st.one_of(st.none(), texts)), st.lists(texts, min_size=1))
def test_raised_strings_bound_every_continuation(prefixes: list[str | None], tails: list[str]) -> None:
    raised = b.raise_strings(pa.array(prefixes, pa.string())).to_pylist()
    for prefix, high in zip(prefixes, raised, strict=True):
        if prefix is None:
            assert high is None
        elif high is not None:
            assert all((prefix + tail).encode() < high.encode() for tail in tails)


@pytest.mark.parametrize(
    ("text", "raised"),
    [("", None), ("a", "b"), ("a\x7f", "a\x80"), ("\u07ff", "\u0800"), ("\ud7ff", "\ue000"), ("\uffff", "\U00010000"),
     ("a\U0010ffff", "b"), ("\U0010ffff", None), ("\u00bf", "\u00c0")],
)  # fmt: skip
def test_raised_strings(text: str, raised: str | None) -> None:
    assert b.raise_strings(pa.array([text])).to_pylist() == [raised]
    sliced = pa.array(["skipped", text, "more"]).slice(1, 1)
    assert b.raise_strings(sliced).to_pylist() == [raised]


def test_loose_bounds_are_not_exact() -> None:
    file = {"numRecords": 2, "minValues": {"c": 1}, "maxValues": {"c": 2}, "nullCount": {"c": 0}, "tightBounds": False}
    assert bounds("long", file, (1, 2)).exact.to_pylist() == [False, True]


@pytest.mark.parametrize("broken", [None, "", "{", "[]", "null", "{}", '{"numRecords": "x"}'])
def test_broken_statistics_are_unknown(broken: str | None) -> None:
    found = bounds("long", broken, (1, 2))
    assert (found.min.to_pylist(), found.nulls.to_pylist()) == ([None, 1], [None, 0])
    assert found.exact.to_pylist() == [False, True]


def test_rows() -> None:
    strings = [
        '{"numRecords":5,"minValues":{}}',
        '{"minValues":{"numRecords":9},"numRecords":6}',
        "{}",
        None,
        ' { "numRecords" : 7 }',
    ]
    source = s.JsonStats(pa.chunked_array([pa.array(strings)]), 5)
    assert source.rows().to_pylist() == [5, 6, None, None, 7]


def test_pretty_printed_statistics() -> None:
    text = json.dumps({"numRecords": 1, "minValues": {"c": 1}, "maxValues": {"c": 2}, "nullCount": {"c": 0}}, indent=2)
    assert only(bounds("long", text)) == (1, 2, True)


def test_columns_without_bounds_have_null_counts() -> None:
    for type in (
        "binary",
        "variant",
        {"type": "array", "elementType": "long", "containsNull": True},
        "string collate UNICODE",
    ):
        found = bounds(type, ("QQ==", "Qg==")) if isinstance(type, str) else bounds(type, {"nullCount": {"c": 0}})
        assert (found.min.to_pylist(), found.nulls.to_pylist()) == ([None], [0])


def test_missing_column_is_unknown() -> None:
    source = s.JsonStats(pa.chunked_array([pa.array(['{"numRecords":1,"minValues":{"d":1}}'])]), 1)
    found = source.leaf(struct(("c", "long"), ("d", "long")), ("c",), "long")
    assert found is None or found.min.to_pylist() == [None]


def test_statistics_follow_the_schema(made: Any) -> None:
    made.create(("a", "integer"))
    made.commit(1, made.add("f", stats={"numRecords": 1, "minValues": {"a": 1, "b": 2}, "maxValues": {"a": 1, "b": 2}}))
    table = made.open()
    assert table.latest().stats(("a",)).min.type == pa.int32()
    assert table.latest().stats(("b",)) is None
    made.commit(2, made.metadata(("a", "long"), ("b", "long")))
    assert table.latest().stats(("a",)).min.type == pa.int64()
    assert table.latest().stats(("b",)).min.to_pylist() == [2]


def test_floats_widened_to_doubles_have_no_bounds(made: Any) -> None:
    changes = {"delta.typeChanges": [{"fromType": "float", "toType": "double"}]}
    made.create({"name": "a", "type": "double", "nullable": True, "metadata": changes})
    made.commit(
        1,
        made.add("f", stats={"numRecords": 1, "minValues": {"a": 0.7}, "maxValues": {"a": 0.7}, "nullCount": {"a": 0}}),
    )
    found = made.open().latest().stats(("a",))
    assert (found.min.to_pylist(), found.nulls.to_pylist()) == ([None], [0])


def test_no_statistics_at_all(made: Any) -> None:
    made.create(("a", "integer"))
    made.commit(1, made.add("f"), made.add("g"))
    snapshot = made.open().latest()
    assert snapshot.files.column("rows").to_pylist() == [None, None]
    found = snapshot.stats(("a",))
    assert found is None or found.min.to_pylist() == [None, None]
