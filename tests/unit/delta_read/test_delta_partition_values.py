"""Partition values: Delta's strings, typed values, and the spelling of paths."""

from __future__ import annotations

import base64
import datetime as dt
from decimal import Decimal
from pathlib import Path
from typing import Any

import deltalake
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakemend.errors import CorruptTableError, InvalidInputError
from lakemend.formats.delta import partition_values as pv
from lakemend.formats.delta.table import DeltaTable
from lakemend.schema import to_arrow, to_wire
from lakemend.storage import open_store

UTC = dt.UTC
CASES: list[tuple[Any, str, Any]] = [
    ("long", "-5", -5),
    ("integer", "9", 9),
    ("boolean", "true", True),
    ("boolean", "FALSE", False),
    ("string", " x ", " x "),
    ("date", "2024-02-29", dt.date(2024, 2, 29)),
    ("decimal(10,2)", "1.5", Decimal("1.50")),
    ("decimal(10,2)", "-0.25", Decimal("-0.25")),
    ("double", "1.5", 1.5),
    ("double", "-Infinity", float("-inf")),
    ("timestamp", "2024-01-02 03:04:05", dt.datetime(2024, 1, 2, 3, 4, 5, tzinfo=UTC)),
    ("timestamp", "2024-01-02 03:04:05.123456", dt.datetime(2024, 1, 2, 3, 4, 5, 123456, UTC)),
    ("timestamp", "2024-01-02T03:04:05.123456Z", dt.datetime(2024, 1, 2, 3, 4, 5, 123456, UTC)),
    ("timestamp", "2024-01-02T03:04:05+01:00", dt.datetime(2024, 1, 2, 2, 4, 5, tzinfo=UTC)),
    ("timestamp_ntz", "2024-01-02 03:04:05.5", dt.datetime(2024, 1, 2, 3, 4, 5, 500000)),
    ("binary", "\u0001é", b"\x01\xc3\xa9"),
]


@pytest.mark.parametrize(("type", "text", "value"), CASES)
def test_parse(type: Any, text: str, value: Any) -> None:
    column = pv.parse_column(pa.array([text, None, "", text]), type, "c")
    assert column.type == to_arrow(type)
    assert column.to_pylist() == [value, None, None, value]


def test_unusual_spellings_among_plain_ones() -> None:
    days = pv.parse_column(pa.array(["2024-01-02", "2024-01-03 00:00:00", None]), "date", "c")
    assert days.to_pylist() == [dt.date(2024, 1, 2), dt.date(2024, 1, 3), None]
    numbers = pv.parse_column(pa.array(["7", " 8 ", "+9", "9223372036854775807"]), "long", "c")
    assert numbers.to_pylist() == [7, 8, 9, 2**63 - 1]


def test_bytes_as_deltalake_spells_them(tmp_path: Path) -> None:
    values = [b"abc", b"\x00\xff", "é".encode(), b"\\u0", None]
    rows = pa.table({"id": range(len(values)), "p": pa.array(values, pa.binary())})
    deltalake.write_deltalake(str(tmp_path / "t"), rows, partition_by=["p"])
    files = DeltaTable(open_store(str(tmp_path / "t"))).latest().files
    assert {v["p"] for v in files["partition"].to_pylist()} == set(values)
    for value in (b"\\u0061", b"\\u00c3\\u00A9", b"\\u0061b", b"\x00"):
        written = pv.format_value(to_wire(value), "binary")
        assert pv.parse_column(pa.array([written]), "binary", "p").to_pylist() == [value]
    # No more than what it spells so is taken for bytes.
    for text in ("\\u0061b", "\\u0161", "\\u006", "x\\u0061"):
        assert pv.parse_column(pa.array([text]), "binary", "p").to_pylist() == [text.encode()]


def test_nan() -> None:
    (value,) = pv.parse_column(pa.array(["NaN"]), "double", "c").to_pylist()
    assert value != value


@pytest.mark.parametrize(
    ("type", "text"),
    [("long", "x"), ("date", "2024-13-01"), ("boolean", "maybe"), ("decimal(4,2)", "1.234"), ("timestamp", "noon"),
     ("integer", "99999999999"), ("decimal(4,2)", "123456"), ("byte", "300"), ("long", "0x10")],
)  # fmt: skip
def test_nonsense_is_named(type: str, text: str) -> None:
    with pytest.raises(CorruptTableError, match=f"'{text}' for column 'c'"):
        pv.parse_column(pa.array([text]), type, "c")


@pytest.mark.parametrize(("type", "text", "value"), CASES)
def test_format_round_trip(type: Any, text: str, value: Any) -> None:
    written = pv.format_value(to_wire(value), type)
    assert pv.parse_column(pa.array([written]), type, "c").to_pylist() == [value]


def test_format() -> None:
    assert pv.format_value(None, "long") is None
    assert pv.format_value("", "string") is None
    assert pv.format_value(1_500_000, "timestamp") == "1970-01-01T00:00:01.500000Z"
    assert pv.format_value("NaN", "double") == "NaN"
    assert pv.format_value(True, "boolean") == "true"
    with pytest.raises(InvalidInputError, match="UTF-8"):
        pv.format_value(base64.b64encode(b"\xff").decode(), "binary")


@pytest.mark.parametrize(
    ("type", "value", "text"),
    [
        ("timestamp_ntz", 1_500_000, "1970-01-01 00:00:01.5"),
        ("timestamp_ntz", 0, "1970-01-01 00:00:00"),
        ("timestamp_ntz", 10_000_001, "1970-01-01 00:00:10.000001"),
        ("float", 0.10000000149011612, "0.1"),
        ("float", 16777216.0, "1.6777216E7"),
        ("float", 3.4028234663852886e38, "3.4028235E38"),
        ("double", 0.1, "0.1"),
        ("double", -2.0, "-2.0"),
        ("double", 0.0, "0.0"),
        ("double", -0.0, "-0.0"),
        ("double", 100.0, "100.0"),
        ("double", 1234567.0, "1234567.0"),
        ("double", 1e7, "1.0E7"),
        ("double", 0.001, "0.001"),
        ("double", 0.00099, "9.9E-4"),
        ("double", -1.5e300, "-1.5E300"),
        ("double", "-Infinity", "-Infinity"),
    ],
)
def test_values_are_spelled_as_spark_casts_them_to_text(type: str, value: Any, text: str) -> None:
    """delta-spark finds the files of a partition that it overwrites by this text alone."""
    assert pv.format_value(value, type) == text
    (back,) = pv.parse_column(pa.array([text]), type, "c").to_pylist()
    assert to_wire(back) == value


@given(st.integers(-62135596800_000_000, 253402300799_999_999))
def test_timestamps_round_trip(micros: int) -> None:
    for type in ("timestamp", "timestamp_ntz"):
        (value,) = pv.parse_column(pa.array([pv.format_value(micros, type)]), type, "c").cast(pa.int64()).to_pylist()
        assert value == micros


@given(st.text(st.characters(blacklist_categories=["Cs"], blacklist_characters="\x00")))
def test_paths_round_trip(text: str) -> None:
    assert pv.decode_path(pv.encode_path(text)) == text
    assert pv.unescape_hive(pv.escape_hive(text)) == text
    assert "/" not in pv.escape_hive(text)


def test_directories() -> None:
    assert pv.partition_directory(["a b", "c"], ["x/y=1%", None]) == "a b=x%2Fy%3D1%25/c=__HIVE_DEFAULT_PARTITION__"
    assert pv.encode_path("a=x%2Fy z/ü.parquet") == "a=x%252Fy%20z/ü.parquet"


@pytest.mark.parametrize(
    ("plain", "spelled"),
    [
        ("ü☃𝄞éё中\u200b\U0010ffff", "ü☃𝄞éё中\u200b\U0010ffff"),
        ("a\u00a0b\u3000c\u2028d", "a%C2%A0b%E3%80%80c%E2%80%A8d"),
        ("\x01\x7f\x85", "%01%7F%C2%85"),
        ('"#%<>?[\\]^`{|} ', "%22%23%25%3C%3E%3F%5B%5C%5D%5E%60%7B%7C%7D%20"),
        ("-_.!~'()*,;:$&+=@/", "-_.!~'()*,;:$&+=@/"),
    ],
)
def test_paths_are_spelled_as_java_spells_them(plain: str, spelled: str) -> None:
    assert pv.encode_path(plain) == spelled and pv.decode_path(spelled) == plain


def test_to_map() -> None:
    values = pa.array(
        [{"a": "1", "b": None}, {"a": None, "b": "x"}], pa.struct([("a", pa.string()), ("b", pa.string())])
    )
    assert pv.to_map(values).to_pylist() == [[("a", "1"), ("b", None)], [("a", None), ("b", "x")]]
    empty = pa.Array.from_buffers(pa.struct([]), 2, [None])
    assert pv.to_map(empty).to_pylist() == [[], []]


def test_weird_values_in_a_table(made: Any) -> None:
    made.create(("id", "long"), ("p q", "string"), partition_by=("p q",))
    texts = ["a b", "x/y", "50%", "ü日", '"', "=", "\\", "", None]
    for i, text in enumerate(texts):
        made.commit(1 + i, made.add(f"p%20q=x/{i}.parquet", {"p q": text}))
    found = made.open().latest().files.column("partition").to_pylist()
    assert [f["p q"] for f in found] == [*texts[:-2], None, None]


def test_unquoted_partition_values(made: Any) -> None:
    made.create(("id", "long"), ("n", "integer"), ("b", "boolean"), partition_by=("n", "b"))
    made.commit(1, made.add("f", {"n": 5, "b": True}), made.add("g", {"n": "6"}))
    assert made.open().latest().files.column("partition").to_pylist() == [{"n": 5, "b": True}, {"n": 6, "b": None}]
