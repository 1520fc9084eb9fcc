"""Every written bound really bounds, in the order readers compare in."""

from __future__ import annotations

import json
import struct
from datetime import datetime, timedelta
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakemend.formats.delta.file_stats import (
    bounds,
    column_path,
    indexed_columns,
    loosened,
    split_columns,
    stats_json,
    string_ceiling,
    string_floor,
)
from lakemend.formats.format import FooterStats, Metadata, PartitionField
from lakemend.schema import struct as struct_of

# Long runs of the highest characters are where padding goes wrong.
_TEXT = st.one_of(
    st.text(max_size=80),
    st.text(alphabet="a\x7f\x80\uffff\U0010ffff\U0001f600", min_size=30, max_size=80),
)


@given(_TEXT)
def test_string_bounds_enclose_the_value(text: str) -> None:
    low, high = string_floor(text), string_ceiling(text)
    encoded = text.encode("utf-8", "surrogatepass")
    if low is not None:
        assert low.encode() <= encoded
    if high is not None:
        assert high.encode() >= encoded


@given(_TEXT, _TEXT)
def test_string_bounds_enclose_everything_between(a: str, b: str) -> None:
    low, high = bounds(min(a, b), max(a, b), "string")
    for value in (a, b):
        assert low is None or low <= value
        assert high is None or value <= high


@pytest.mark.parametrize("text", ["a\ud800b", "caf\ufffd"])
def test_text_that_may_stand_for_other_bytes_has_no_bounds(text: str) -> None:
    assert bounds(text, text, "string") == (None, None)


def test_short_strings_are_exact_and_long_ones_cut() -> None:
    assert bounds("a" * 32, "b" * 32, "string") == ("a" * 32, "b" * 32)
    assert bounds("a" * 33, "b" * 33, "string") == ("a" * 32, "b" * 32 + "\x7f")
    assert string_ceiling("é" * 40) == "é" * 32 + "\U0010ffff"


@given(st.integers(-62135596800_000000, 253402300799_999999))
def test_timestamps_are_floored_and_ceiled_to_milliseconds(micros: int) -> None:
    low, high = bounds(micros, micros, "timestamp_ntz")
    moment = datetime(1970, 1, 1) + timedelta(microseconds=micros)
    assert datetime.fromisoformat(low) <= moment
    assert moment - datetime.fromisoformat(low) < timedelta(milliseconds=1)
    if high is not None:
        assert datetime.fromisoformat(high) >= moment
        assert datetime.fromisoformat(high) - moment < timedelta(milliseconds=1)


@given(st.floats(width=32, allow_nan=False, allow_infinity=False))
def test_floats_come_back_as_the_float_of_the_file(value: float) -> None:
    shortest = float(str(struct.unpack("<f", struct.pack("<f", value))[0]))
    low, high = bounds(shortest, shortest, "float")
    assert low <= value <= high


def test_special_floats() -> None:
    assert bounds("NaN", "NaN", "double") == (None, None)
    assert bounds(1.0, "NaN", "double") == (None, None)
    assert bounds("-Infinity", 2.0, "double") == (None, 2.0)
    assert json.dumps(bounds(0.0, -0.0, "double")) == "[-0.0, 0.0]"


def test_days_and_moments_outside_the_calendar_are_left_out() -> None:
    assert bounds(-(10**6), 10**7, "date") == (None, None)
    assert bounds(-(10**17), 10**18, "timestamp") == (None, None)


@given(st.decimals(allow_nan=False, allow_infinity=False, places=10, min_value=-(10**20), max_value=10**20))
def test_decimals_keep_every_digit(value: Decimal) -> None:
    text = stats_json(1, [FooterStats(("d",), format(value, "f"), format(value, "f"), 0)], {("d",): "decimal(38,10)"})
    assert json.loads(text, parse_float=Decimal, parse_int=Decimal)["minValues"]["d"] == value
    assert json.loads(loosened(text, 5) or "", parse_float=Decimal, parse_int=Decimal)["minValues"]["d"] == value


def test_stats_are_nested_and_binary_has_null_counts_alone() -> None:
    stats = [
        FooterStats(("a",), 1, 2, 0),
        FooterStats(("s", "b"), "x", "y", 3),
        FooterStats(("bin",), "AA==", "AA==", 1),
        FooterStats(("list", "element"), 1, 2, 0),
        FooterStats(("flag",), False, True, 2),
    ]
    types = {("a",): "long", ("s", "b"): "string", ("bin",): "binary", ("flag",): "boolean"}
    assert json.loads(stats_json(7, stats, types)) == {
        "numRecords": 7,
        "minValues": {"a": 1, "s": {"b": "x"}},
        "maxValues": {"a": 2, "s": {"b": "y"}},
        "nullCount": {"a": 0, "s": {"b": 3}, "bin": 1, "flag": 2},
        "tightBounds": True,
    }


def test_loosened_keeps_the_rest_as_it_is_spelled() -> None:
    text = '{ "numRecords":3, "minValues":{"a":1.10,"s":"}\\",{"}, "tightBounds":true}'
    assert loosened(text, 3) == '{"numRecords":3,"minValues":{"a":1.10,"s":"}\\",{"},"tightBounds":false}'
    assert loosened(None, 3) == '{"numRecords":3,"tightBounds":false}'
    assert loosened(None, None) is None
    assert loosened("{}", 3) == '{"numRecords":3,"tightBounds":false}'


def _metadata(**properties: str) -> Metadata:
    schema = struct_of(
        ("p", "string"), ("a", "long"), ("s", struct_of(("x", "long"), ("y.z", "long"))), ("b", "string")
    )
    return Metadata(schema, schema, (PartitionField("p", ("p",)),), dict(properties))


def test_indexed_columns_follow_the_properties() -> None:
    every = [("a",), ("s", "x"), ("s", "y.z"), ("b",)]
    assert list(indexed_columns(_metadata())) == every
    assert list(indexed_columns(_metadata(**{"delta.dataSkippingNumIndexedCols": "2"}))) == every[:2]
    assert list(indexed_columns(_metadata(**{"delta.dataSkippingNumIndexedCols": "-1"}))) == every
    assert list(indexed_columns(_metadata(**{"delta.dataSkippingNumIndexedCols": "0"}))) == []
    assert list(indexed_columns(_metadata(**{"delta.dataSkippingStatsColumns": "b, s.`y.z`"}))) == [
        ("s", "y.z"),
        ("b",),
    ]
    assert list(indexed_columns(_metadata(**{"delta.dataSkippingStatsColumns": "S"}))) == [("s", "x"), ("s", "y.z")]


def test_lists_of_columns() -> None:
    assert split_columns("a, `b,c` ,d.`e.f`") == ["a", "`b,c`", "d.`e.f`"]
    assert column_path("d.`e.f`") == ("d", "e.f")
    assert column_path("`a``b`") == ("a`b",)
    with pytest.raises(ValueError, match="backtick"):
        column_path("a..b")
