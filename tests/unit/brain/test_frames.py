"""The id that Spark is told changes when a name has come to mean another column, and only then."""

from __future__ import annotations

from typing import Any

from lakemend.brain.frames import Frames
from lakemend.formats.format import Metadata


def metadata(columns: dict[str, Any], char: str = "") -> Metadata:
    """Columns by name: their names in the data files, or those of the fields of a struct."""
    logical: list[Any] = []
    physical: list[Any] = []
    for name, stored in columns.items():
        said = {"__CHAR_VARCHAR_TYPE_STRING": char} if char else {}
        if isinstance(stored, str):
            logical.append({"name": name, "type": "string", "metadata": said})
            physical.append({"name": stored, "type": "string"})
        else:
            inner = metadata(stored)
            for fields, struct, label in ((logical, inner.schema, name), (physical, inner.physical, f"p-{name}")):
                element = {"type": "array", "elementType": struct, "containsNull": True}
                fields.append({"name": label, "type": element})
    made = [{"type": "struct", "fields": fields} for fields in (logical, physical)]
    return Metadata(made[0], made[1], (), {}, id="t")


def ids(*versions: Metadata) -> list[str]:
    frames = Frames()
    return [frames.id_of("here", version, found) for version, found in enumerate(versions)]


def test_columns_that_are_added_or_renamed() -> None:
    assert ids(metadata({"a": "1"}), metadata({"a": "1", "b": "2"}), metadata({"c": "1", "b": "2"})) == ["t"] * 3


def test_names_that_are_swapped() -> None:
    one, between = metadata({"a": "1", "b": "2"}), metadata({"c": "1", "b": "2"})
    assert ids(one, between, metadata({"c": "1", "a": "2"}), metadata({"b": "1", "a": "2"})) == ["t", "t", "t/1", "t/2"]
    assert ids(one, metadata({"b": "1", "a": "2"})) == ["t", "t/1"]


def test_a_column_that_comes_back() -> None:
    assert ids(metadata({"a": "1", "b": "2"}), metadata({"b": "2"}), metadata({"A": "3", "b": "2"})) == [
        "t",
        "t",
        "t/1",
    ]


def test_fields_inside_arrays() -> None:
    assert ids(metadata({"s": {"a": "1", "b": "2"}}), metadata({"s": {"a": "2", "b": "1"}})) == ["t", "t/1"]


def test_lengths_of_char() -> None:
    assert ids(metadata({"a": "1"}, char="char(3)"), metadata({"a": "1"})) == ["t", "t/1"]


def test_a_look_at_what_is_old_changes_nothing() -> None:
    frames = Frames()
    one, two = metadata({"a": "1"}), metadata({"a": "2"})
    assert [frames.id_of("here", v, m) for v, m in ((1, one), (2, two), (1, one), (2, two))] == [
        "t",
        "t/1",
        "t/1",
        "t/1",
    ]
    assert frames.id_of("copy", 1, one) == "t"


def test_a_table_that_was_forgotten_has_another_id() -> None:
    frames = Frames(tables=1)
    first = frames.id_of("here", 1, metadata({"a": "1"}))
    frames.id_of("there", 1, metadata({"a": "1"}))
    assert frames.id_of("here", 2, metadata({"a": "2"})) != first
