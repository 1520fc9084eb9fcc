"""Rows of any kind as one Arrow table: nothing is cut, moved or lost on the way."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, date, datetime, time, timedelta, timezone
from decimal import Decimal
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import lakemend
from lakemend.incoming import to_arrow

DAY, LOCAL = date(2020, 7, 1), datetime(2020, 7, 1, 12, 30)
MOMENT = datetime(2020, 7, 1, 12, 30, tzinfo=timezone(timedelta(hours=2)))
MIXED = [[DAY, LOCAL], [LOCAL, DAY], [DAY, MOMENT], [LOCAL, MOMENT], [MOMENT, LOCAL], [None, DAY, None, LOCAL]]


def dicts(values: list[Any]) -> Any:
    return [{"a": value} for value in values]


def frame(values: list[Any]) -> Any:
    return pd.DataFrame({"a": pd.Series(values, dtype=object)})


@pytest.mark.parametrize("make", [dicts, frame])
@pytest.mark.parametrize(
    "wrap", [lambda v: v, lambda v: [v], lambda v: {"x": [{"y": v}]}], ids=["plain", "list", "deep"]
)
@pytest.mark.parametrize("values", MIXED, ids=str)
def test_days_local_times_and_moments_do_not_mix(
    make: Callable[[list[Any]], Any], wrap: Callable[[Any], Any], values: list[Any]
) -> None:
    with pytest.raises(lakemend.InvalidInputError):
        to_arrow(make([None if v is None else wrap(v) for v in values]))


@pytest.mark.parametrize("make", [dicts, frame])
def test_moments_of_several_zones_are_one_column(make: Callable[[list[Any]], Any]) -> None:
    found = to_arrow(make([MOMENT, None, MOMENT.astimezone(UTC)])).column("a").to_pylist()
    assert found == [MOMENT, None, MOMENT]
    found = to_arrow(make([{"d": DAY, "t": LOCAL, "m": MOMENT}])).column("a").to_pylist()
    assert found == [{"d": DAY, "t": LOCAL, "m": MOMENT}]


def test_pandas_keeps_what_it_has() -> None:
    found = to_arrow(
        pd.DataFrame(
            {
                "n": [1.5, float("nan")],
                "t": pd.to_datetime(["2020-07-01 12:30:00.000000001", None]),
                "z": pd.to_datetime(["2020-07-01 12:30:00+02:00", None]),
                "s": ["x", None],
                3: pd.array([1, None], dtype="Int64"),
            },
            index=[7, 8],
        )
    )
    assert found.schema.names == ["n", "t", "z", "s", "3"]
    assert found.column("n").to_pylist() == [1.5, None]
    assert pa.types.is_timestamp(found.schema.field("t").type)
    assert found.schema.field("t").type.tz is None
    assert found.column("z").cast(pa.timestamp("us", "UTC")).to_pylist() == [MOMENT, None]
    assert found.column("3").to_pylist() == [1, None]


@pytest.mark.parametrize("values", [[1, "x"], [2**63], [{1: 2}], [object()]])
def test_pandas_columns_of_no_type(values: list[Any]) -> None:
    with pytest.raises(lakemend.InvalidInputError):
        to_arrow(frame(values))


@pytest.mark.parametrize(
    ("type", "stored"),
    [
        (pa.uint8(), pa.int16()),
        (pa.uint16(), pa.int32()),
        (pa.uint32(), pa.int64()),
        (pa.uint64(), pa.int64()),
        (pa.list_(pa.uint8()), pa.list_(pa.int16())),
        (pa.struct([("x", pa.uint32())]), pa.struct([("x", pa.int64())])),
    ],
)
def test_unsigned_integers(type: pa.DataType, stored: pa.DataType) -> None:
    value: Any = {"x": 200} if pa.types.is_struct(type) else [200] if pa.types.is_list(type) else 200
    found = to_arrow(pa.table({"a": pa.array([value, None], type)}))
    assert found.schema.field("a").type == stored
    assert found.column("a").to_pylist() == [value, None]


def test_unsigned_integers_that_do_not_fit() -> None:
    for rows in (pa.table({"a": pa.array([2**63], pa.uint64())}), pd.DataFrame({"a": np.array([2**63], np.uint64)})):
        with pytest.raises(lakemend.InvalidInputError):
            to_arrow(rows)


def test_polars() -> None:
    found = to_arrow(pl.DataFrame({"a": [LOCAL, None], "b": pl.Series([1, 2], dtype=pl.UInt8)}).lazy())
    assert found.to_pylist() == [{"a": LOCAL, "b": 1}, {"a": None, "b": 2}]


@pytest.mark.parametrize("rows", ["rows", 1, [1], [{}], [{1: 2}], pd.Series([1])])
def test_what_is_no_rows(rows: Any) -> None:
    with pytest.raises(lakemend.InvalidInputError):
        to_arrow(rows)


@pytest.mark.parametrize("time", [DAY, LOCAL, MOMENT])
@pytest.mark.parametrize("number", [0, 5, np.int64(5), 1.7e9, Decimal(5), np.float32(3)])
def test_a_number_is_no_time(time: Any, number: Any) -> None:
    for values in ([time, number], [[time], [number]], [{"a": time}, {"a": number}]):
        with pytest.raises(lakemend.InvalidInputError, match="x"):
            to_arrow([{"x": value} for value in values])
        with pytest.raises(lakemend.InvalidInputError, match="x"):
            to_arrow(pd.DataFrame({"x": pd.Series(values, dtype=object)}))


def test_numbers_beside_times() -> None:
    rows = [{"x": {"a": DAY, "b": 1}, "l": [1, 2]}, {"x": {"a": None, "b": 2}, "l": None}]
    assert to_arrow(rows).to_pylist() == rows
    frame = pd.DataFrame({"d": pd.Series([DAY, float("nan"), None], dtype=object)})
    assert to_arrow(frame)["d"].to_pylist() == [DAY, None, None]


def test_python_objects_in_polars() -> None:
    with pytest.raises(lakemend.InvalidInputError, match="the values of x"):
        to_arrow(pl.DataFrame({"id": [1], "x": pl.Series([object()], dtype=pl.Object)}))


def test_the_index_of_a_pandas_frame() -> None:
    frame = pd.DataFrame({"k": ["a", "b", "a"], "j": [1, 1, 1], "v": [1, 2, 3]})
    assert to_arrow(frame.groupby("k")[["v"]].sum()).to_pylist() == [{"k": "a", "v": 4}, {"k": "b", "v": 2}]
    assert to_arrow(frame.groupby(["k", "j"]).sum()).to_pylist()[1] == {"k": "b", "j": 1, "v": 2}
    assert to_arrow(frame.set_index("k", drop=False)).column_names == ["k", "j", "v"]
    assert to_arrow(frame[frame.v > 1]).column_names == ["k", "j", "v"]
    days = pd.DataFrame({"v": [1]}, index=pd.Index([LOCAL], name="t"))
    assert to_arrow(days)["t"].to_pylist() == [LOCAL]
    other = frame.set_index(pd.Index(["x", "y", "z"], name="k"))
    with pytest.raises(lakemend.InvalidInputError, match="the values of k"):
        to_arrow(other)


@pytest.mark.parametrize("values", [v for v in MIXED if None not in v], ids=str)
def test_categories_do_not_mix_either(values: list[Any]) -> None:
    with pytest.raises(lakemend.InvalidInputError):
        to_arrow(pd.DataFrame({"a": pd.Categorical(values)}))


def test_a_zone_of_a_time_of_day_is_not_lost() -> None:
    assert to_arrow(dicts([time(1, 2), None]))["a"].to_pylist() == [time(1, 2), None]
    with pytest.raises(lakemend.InvalidInputError, match="zone"):
        to_arrow(dicts([time(1, 2, tzinfo=UTC)]))


@pytest.mark.parametrize(
    "values",
    [["a", b"b"], [5.5, True], [np.bool_(True), 7], [timedelta(1), 5], [np.ma.array([1, 2], mask=[0, 1])]],
    ids=str,
)
def test_values_that_arrow_would_take_for_others(values: list[Any]) -> None:
    for given in (values, values[::-1]):
        with pytest.raises(lakemend.InvalidInputError, match="the values of a"):
            to_arrow(dicts(given))


def test_values_beside_nothing() -> None:
    for values in ([True, None], ["a", None, ""], [1.5, float("nan"), 2], [timedelta(1), None], [b"a", None]):
        assert to_arrow(dicts(values)).num_rows == len(values)


APART = [
    [1.5, True],
    [np.bool_(True), 2],
    ["a", b"b"],
    ["a", bytearray(b"b")],
    ["a", bytearray(b"b"), memoryview(b"b")],
    [timedelta(1), 2],
    [None, 3, None, False],
]


@pytest.mark.parametrize("make", [dicts, frame])
@pytest.mark.parametrize(
    "wrap",
    [lambda v: v, lambda v: [v], lambda v: {"x": [{"y": v}]}, lambda v: [[v], []]],
    ids=["plain", "list", "deep", "lists"],
)
@pytest.mark.parametrize("values", APART, ids=range(len(APART)))
def test_kinds_that_cannot_stand_for_each_other_do_not_mix(
    make: Callable[[list[Any]], Any], wrap: Callable[[Any], Any], values: list[Any]
) -> None:
    with pytest.raises(lakemend.InvalidInputError):
        to_arrow(make([None if v is None else wrap(v) for v in values]))


@pytest.mark.parametrize("make", [dicts, frame])
@pytest.mark.parametrize("values", APART[:4], ids=range(4))
def test_kinds_do_not_mix_in_one_list_either(make: Callable[[list[Any]], Any], values: list[Any]) -> None:
    with pytest.raises(lakemend.InvalidInputError):
        to_arrow(make([values]))


@pytest.mark.parametrize("make", [dicts, frame])
def test_kinds_of_several_fields_are_their_own_affair(make: Callable[[list[Any]], Any]) -> None:
    values = [{"n": 1.5, "b": True, "s": "a", "y": b"b"}, {"n": float("nan"), "b": None, "s": "c", "y": b""}]
    found = to_arrow(make(values)).column("a").to_pylist()
    assert found[0] == values[0] and found[1]["b"] is None


def test_views_of_arrow() -> None:
    texts = ["a text that is longer than a view", None, "b"]
    views = {"t": pa.array(texts, pa.string_view()), "b": pa.array([b"x", None, b""], pa.binary_view())}
    table = pa.table({**views, "l": pa.array([texts, None, []], pa.list_(pa.string_view()))}).slice(1)
    found = to_arrow(table)
    assert found.schema.types == [pa.string(), pa.binary(), pa.list_(pa.string())]
    assert found.to_pylist() == table.to_pylist()


def test_a_stream_that_may_have_been_read() -> None:
    """Merged as an empty snapshot, it would empty the table."""
    table = pa.table({"a": [1]})
    with pytest.raises(lakemend.InvalidInputError, match="read_all"):
        to_arrow(pa.RecordBatchReader.from_batches(table.schema, table.to_batches()))
