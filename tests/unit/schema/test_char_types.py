"""The text that stands for CHAR and VARCHAR in a column's metadata, and the types it stands for."""

from __future__ import annotations

import pytest

from lakemend.formats import char_types
from lakemend.formats.char_types import KEY
from lakemend.schema import DataType, field, struct


def array(element: DataType) -> DataType:
    return {"type": "array", "elementType": element, "containsNull": True}


def map_of(key: DataType, value: DataType) -> DataType:
    return {"type": "map", "keyType": key, "valueType": value, "valueContainsNull": True}


NESTED = struct(("x", "char(3)"), ("y", struct(("z z", "varchar(2)"), ("a`b", "string"))), ("n", "integer"))


@pytest.mark.parametrize(
    ("type", "text"),
    [
        ("char(3)", "char(3)"),
        ("varchar(9)", "varchar(9)"),
        (array("char(3)"), "array<char(3)>"),
        (map_of("varchar(2)", "char(3)"), "map<varchar(2),char(3)>"),
        (array(struct(("q", "varchar(2)"))), "array<struct<q:varchar(2)>>"),
        (NESTED, "struct<x:char(3),y:struct<`z z`:varchar(2),`a``b`:string>,n:int>"),
        (
            struct(
                ("b", "byte"), ("s", "short"), ("l", "long"), ("d", "decimal(10,2)"), ("m", map_of("long", "char(1)"))
            ),
            "struct<b:tinyint,s:smallint,l:bigint,d:decimal(10,2),m:map<bigint,char(1)>>",
        ),
    ],
)
def test_the_text_is_that_of_the_whole_type(type: DataType, text: str) -> None:
    declared = struct(field("c", type, metadata={"comment": "hi"}), ("other", "string"))
    stored = char_types.stored(declared)
    assert stored["fields"][0]["metadata"] == {"comment": "hi", KEY: text}
    assert "char(" not in str(stored["fields"][0]["type"])
    assert stored["fields"][1] == field("other", "string")
    assert char_types.declared(stored) == declared
    assert char_types.aligned(stored) == stored


@pytest.mark.parametrize(
    ("text", "after"),
    [
        # Renamed, dropped and added by an engine that left the text as it was.
        ("struct<old:char(3),n:int>", "struct<x:char(3),n:int>"),
        ("struct<gone:char(9),x:char(3),n:int>", "struct<x:char(3),n:int>"),
        ("struct<x:char(3)>", "struct<x:char(3),n:int>"),
        ("struct<N:int,X:char(3)>", "struct<x:char(3),n:int>"),
        ("struct<x: char(3), n: int>", "struct<x:char(3),n:int>"),
        ("STRUCT<X:CHAR(3),n:char(2)>", "struct<x:char(3),n:int>"),
        ("struct<other:char(3)>", None),
        ("array<char(3)>", None),
        ("char(3)", None),
        ("struct<>", None),
        # No type at all: Spark has its say.
        ("struct<x:char(3)", "struct<x:char(3)"),
        ("array<" * 500, "array<" * 500),
        ("", ""),
    ],
)
def test_a_text_of_another_shape_is_brought_into_that_of_the_type(text: str, after: str | None) -> None:
    schema = struct(field("s", struct(("x", "string"), ("n", "integer")), metadata={KEY: text}))
    found = char_types.aligned(schema)["fields"][0]
    assert found["metadata"].get(KEY) == after
    assert found["type"] == schema["fields"][0]["type"]


def test_texts_of_inner_fields_count() -> None:
    inner = struct(field("x", "string", metadata={KEY: "char(3)", "comment": "c"}), ("n", "integer"))
    found = char_types.aligned(struct(("s", inner), ("a", array(inner))))["fields"]
    assert [f["metadata"] for f in found] == [{KEY: "struct<x:char(3),n:int>"}, {KEY: "array<struct<x:char(3),n:int>>"}]
    assert found[0]["type"]["fields"][0]["metadata"] == {"comment": "c"}
