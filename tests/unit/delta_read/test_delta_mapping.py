"""Column mapping: logical and physical schemas, partition values and statistics by physical name."""

from __future__ import annotations

from typing import Any

import pytest

from lakemend.errors import CorruptTableError
from lakemend.formats.delta import mapping


def mapped(name: str, type: Any, id: int, **metadata: Any) -> dict[str, Any]:
    keys = {"delta.columnMapping.id": id, "delta.columnMapping.physicalName": f"col-{id}"}
    return {"name": name, "type": type, "nullable": True, "metadata": keys | metadata}


SCHEMA = (
    mapped("id", "long", 1, comment="the key", CURRENT_DEFAULT="7"),
    mapped("s", {"type": "struct", "fields": [mapped("x", "integer", 3)]}, 2),
    mapped("part", "date", 4),
    mapped(
        "list",
        {
            "type": "array",
            "elementType": {"type": "struct", "fields": [mapped("y", "string", 6)]},
            "containsNull": True,
        },
        5,
        **{"delta.columnMapping.nested.ids": {"col-5.element": 7}},
    ),
)
STATS = {
    "numRecords": 3,
    "minValues": {"col-1": 1, "col-2": {"col-3": 5}},
    "maxValues": {"col-1": 2, "col-2": {"col-3": 6}},
    "nullCount": {"col-1": 0, "col-2": {"col-3": 1}, "col-5": 0},
}


@pytest.fixture(params=["name", "id"])
def mode(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def test_mapped_table(made: Any, mode: str) -> None:
    made.create(
        *SCHEMA,
        partition_by=("part",),
        protocol={"reader": 2, "writer": 5},
        configuration={"delta.columnMapping.mode": mode},
    )
    made.commit(1, made.add("f", {"col-4": "2024-01-02"}, STATS))
    snapshot = made.open().latest()
    metadata = snapshot.metadata
    assert metadata.by_id == (mode == "id")
    assert [f["name"] for f in metadata.schema["fields"]] == ["id", "s", "part", "list"]
    assert metadata.schema["fields"][0]["metadata"] == {"comment": "the key", "CURRENT_DEFAULT": "7"}
    assert [f["name"] for f in metadata.physical["fields"]] == ["col-1", "col-2", "col-4", "col-5"]
    assert metadata.physical["fields"][1]["type"]["fields"][0]["name"] == "col-3"
    assert metadata.physical["fields"][3]["type"]["elementType"]["fields"][0]["name"] == "col-6"
    assert metadata.physical["fields"][1]["type"]["fields"][0]["metadata"] == {"parquet.field.id": 3}
    assert metadata.physical["fields"][3]["metadata"]["parquet.field.nested.ids"] == {"col-5.element": 7}
    assert str(snapshot.files.column("partition")[0].as_py()["part"]) == "2024-01-02"
    inner = snapshot.stats(("s", "x"))
    assert (inner.min[0].as_py(), inner.max[0].as_py(), inner.nulls[0].as_py()) == (5, 6, 1)
    assert snapshot.stats(("id",)).max.to_pylist() == [2]
    assert snapshot.stats(("list",)).nulls.to_pylist() == [0]
    assert snapshot.stats(("list",)).min.to_pylist() == [None]
    for path in (("col-1",), ("s",), ("s", "nope"), ("part",), ("id", "deeper")):
        assert snapshot.stats(path) is None


def test_rename_keeps_statistics(made: Any) -> None:
    configuration = {"delta.columnMapping.mode": "name"}
    made.create(*SCHEMA, protocol={"reader": 2, "writer": 5}, configuration=configuration)
    made.commit(1, made.add("f", None, STATS))
    table = made.open()
    assert table.latest().stats(("id",)).max.to_pylist() == [2]
    made.commit(2, made.metadata({**SCHEMA[0], "name": "renamed"}, *SCHEMA[1:], configuration=configuration))
    snapshot = table.latest()
    assert snapshot.stats(("renamed",)).max.to_pylist() == [2]
    assert snapshot.stats(("id",)) is None


def test_without_mapping_annotations_do_nothing(made: Any) -> None:
    made.create(*SCHEMA)
    assert [f["name"] for f in made.open().latest().metadata.physical["fields"]] == ["id", "s", "part", "list"]


def test_missing_physical_name(made: Any) -> None:
    made.create(("id", "long"), protocol={"reader": 2, "writer": 5}, configuration={"delta.columnMapping.mode": "name"})
    with pytest.raises(CorruptTableError, match="'id' has no physical name"):
        made.open().latest()


def test_unknown_mode() -> None:
    with pytest.raises(CorruptTableError, match="'telepathy'"):
        mapping.mode_of({"delta.columnMapping.mode": "telepathy"})


def test_partition_columns(made: Any) -> None:
    made.create(("Day", "date"), partition_by=("day",))
    assert made.open().latest().metadata.partitioning[0].name == "Day"
    made.commit(1, made.metadata(("Day", "date"), partition_by=("nope",)))
    with pytest.raises(CorruptTableError, match="'nope' is not in the schema"):
        made.open().latest()


def test_checks_and_properties(made: Any) -> None:
    made.create(
        ("id", "long"), configuration={"delta.constraints.pos": "id > 0", "delta.appendOnly": "true", "mine": "1"}
    )
    metadata = made.open().latest().metadata
    assert metadata.checks == {"pos": "id > 0"}
    assert metadata.properties == {"delta.appendOnly": "true", "mine": "1"}
    assert (metadata.id, metadata.created) == ("c0ffee", 1700000000000)
