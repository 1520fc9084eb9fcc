"""What a file's tag says of the order of its rows, in whatever state it is found."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest

from lakemend.formats.delta.sort_orders import TAG, sort_orders, tags_of
from lakemend.formats.format import NewFile

STRUCT = {"type": "struct", "fields": []}
METADATA: Any = SimpleNamespace(
    schema={
        "fields": [{"name": "key", "type": "long"}, {"name": "day", "type": "date"}, {"name": "s", "type": STRUCT}]
    },
    physical={"fields": [{"name": "col-1"}, {"name": "day"}, {"name": "s"}]},
)


def tags(*entries: dict[str, str] | None) -> pa.ChunkedArray:
    kind = pa.map_(pa.string(), pa.string())
    half = len(entries) // 2
    parts = (entries[:half], entries[half:])
    return pa.chunked_array([pa.array([None if e is None else list(e.items()) for e in p], kind) for p in parts], kind)


def test_names_are_those_of_the_table_now() -> None:
    column = tags(None, {TAG: '["col-1","day"]'}, {"other": "x"}, {"other": "x", TAG: '["day"]'})
    assert sort_orders(column, None, METADATA) == [None, ["key", "day"], None, ["day"]]
    assert sort_orders(column, pa.array([3, 0]), METADATA) == [["day"], None]


@pytest.mark.parametrize("text", ["", "day", "{}", "[]", '["gone"]', '["gone", "day"]', '["day", 1]', '"day"'])
def test_anything_else_says_nothing(text: str) -> None:
    assert sort_orders(tags({TAG: text}, None), None, METADATA) is None
    assert sort_orders(tags({TAG: text}, {TAG: '["day"]'}), None, METADATA) == [None, ["day"]]


def test_an_order_ends_before_what_is_gone_or_compares_by_its_fields() -> None:
    assert sort_orders(tags({TAG: '["day", "gone", "col-1"]'}), None, METADATA) == [["day"]]
    assert sort_orders(tags({TAG: '["day", "s", "col-1"]'}), None, METADATA) == [["day"]]
    assert sort_orders(tags({TAG: '["s", "day"]'}), None, METADATA) is None


def test_tables_without_tags() -> None:
    for column in (tags(), tags(None, None), tags({"other": "x"}, None)):
        assert sort_orders(column, None, METADATA) is None


def test_what_is_written_is_read_back() -> None:
    file = NewFile("f", 1, 1, 0, (), (), ("col-1",))
    written = tags_of(file)
    assert written is not None and sort_orders(tags(written), None, METADATA) == [["key"]]
    assert tags_of(NewFile("f", 1, 1, 0, ())) is None
