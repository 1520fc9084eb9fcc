"""Row changes out of hand-written logs: which files, which rows of them, which versions."""

from __future__ import annotations

import os
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyroaring import BitMap64

from lakemend.errors import CorruptTableError, InvalidInputError, SchemaMismatchError, VersionNotFoundError
from lakemend.formats.delta.deletion_vector import describe_inline
from lakemend.formats.delta.mapping import ID, PHYSICAL_NAME
from lakemend.formats.feed import Bound, Changes, Span
from lakemend.formats.masks import decode_blob
from lakemend.schema import field

COLUMNS = (("id", "long"), ("v", "string"))
TIME = {"delta.enableInCommitTimestamps": "true"}


def vector(*rows: int) -> dict[str, Any]:
    return describe_inline(BitMap64(rows)).to_json()


def span(start: int | None = None, end: int | None = None, **more: Any) -> Span:
    return Span(None if start is None else Bound(start), None if end is None else Bound(end), **more)


def told(changes: Changes) -> list[tuple[int, str, str, list[int] | None]]:
    """(version, kind, path, rows): the rows a mask leaves of a file of ten, None if it has no mask."""
    found = []
    for version in changes.versions:
        for group in version.groups:
            for path, mask in zip(group.files["path"].to_pylist(), group.masks, strict=True):
                rows = None if mask is None else sorted(set(range(10)) - set(decode_blob(mask.blob)))
                found.append((version.version, group.kind, path, rows))
    return found


@pytest.fixture
def table(made: Any) -> Any:
    made.create(*COLUMNS)
    return made


def ten(path: str, partition: dict[str, Any] | None = None, **extra: Any) -> dict[str, Any]:
    """An add of a file of ten rows."""
    common = {"size": 10, "modificationTime": 1, "dataChange": True, "stats": '{"numRecords": 10}'}
    return {"add": {"path": path, "partitionValues": partition or {}, **common, **extra}}


def test_added_rows_are_inserted_and_removed_rows_deleted(table: Any) -> None:
    table.commit(1, ten("a"))
    table.commit(2, ten("b", deletionVector=vector(3)))
    table.commit(3, table.remove("a", size=10), table.remove("b", size=10, deletionVector=vector(3)), ten("c"))
    assert told(table.open().row_changes(span())) == [
        (1, "insert", "a", None),
        (2, "insert", "b", [0, 1, 2, 4, 5, 6, 7, 8, 9]),
        (3, "insert", "c", None),
        (3, "delete", "a", None),
        (3, "delete", "b", [0, 1, 2, 4, 5, 6, 7, 8, 9]),
    ]


def test_a_vector_that_grows_deletes_and_one_that_shrinks_inserts(table: Any) -> None:
    table.commit(1, ten("a"))
    table.commit(2, table.remove("a", size=10), ten("a", deletionVector=vector(1, 2)))
    table.commit(3, table.remove("a", size=10, deletionVector=vector(1, 2)), ten("a", deletionVector=vector(1, 2, 7)))
    table.commit(4, table.remove("a", size=10, deletionVector=vector(1, 2, 7)), ten("a", deletionVector=vector(2, 9)))
    table.commit(5, table.remove("a", size=10, deletionVector=vector(2, 9)), ten("a"))
    assert told(table.open().row_changes(span(2))) == [
        (2, "delete", "a", [1, 2]),
        (3, "delete", "a", [7]),
        (4, "delete", "a", [9]),
        (4, "insert", "a", [1, 7]),
        (5, "insert", "a", [2, 9]),
    ]


def test_a_path_is_the_same_however_it_is_encoded(table: Any) -> None:
    table.commit(1, ten("p=a%20b/x"))
    table.commit(2, table.remove("p=a b/x", size=10), ten("p=a%20b/x", deletionVector=vector(4)))
    assert told(table.open().row_changes(span(2))) == [(2, "delete", "p=a%20b/x", [4])]


def test_a_vector_without_a_row_count(table: Any) -> None:
    table.commit(1, ten("a"))
    table.commit(2, table.remove("a", size=10), table.add("a", deletionVector=vector(1)))
    with pytest.raises(CorruptTableError, match="cannot be read"):
        table.open().row_changes(span(2))
    pq.write_table(pa.table({"id": range(10)}), table.root / "a")
    assert told(table.open().row_changes(span(2))) == [(2, "delete", "a", [1])]


def test_moved_rows_are_no_changes(table: Any) -> None:
    table.commit(1, ten("a"), ten("b"))
    table.commit(
        2,
        table.remove("a", size=10, dataChange=False),
        table.remove("b", size=10, dataChange=False),
        ten("c", dataChange=False),
    )
    table.commit(
        3, {"commitInfo": {"operation": "SET TBLPROPERTIES"}}, table.metadata(*COLUMNS, configuration={"x": "1"})
    )
    assert told(table.open().row_changes(span(2))) == []
    # A flag that is not there counts as a change.
    body = ten("d")
    del body["add"]["dataChange"]
    table.commit(4, body)
    assert told(table.open().row_changes(span(2))) == [(4, "insert", "d", None)]


def test_a_record_of_changes_stands_for_the_version(table: Any) -> None:
    table.commit(1, ten("a"))
    cdc = {"cdc": {"path": "_change_data/c%20d", "partitionValues": {}, "size": 7, "dataChange": False}}
    table.commit(2, table.remove("a", size=10), ten("b"), cdc)
    changes = table.open().row_changes(span(2))
    assert told(changes) == [(2, "feed", "_change_data/c%20d", None)]
    assert changes.versions[0].exact
    assert changes.snapshot.url("_change_data/c%20d").endswith("/_change_data/c d")
    assert changes.versions[0].groups[0].files["size"].to_pylist() == [7]


def test_a_damaged_record_of_changes_is_named(table: Any) -> None:
    table.commit(1, {"cdc": {"path": "x"}})
    with pytest.raises(CorruptTableError, match=r"0001\.json.*cdc action"):
        table.open().row_changes(span())


def test_whether_a_version_is_exact(made: Any) -> None:
    feed = {"delta.enableChangeDataFeed": "true"}
    made.create(*COLUMNS)
    made.commit(1, ten("a"))
    made.commit(2, made.metadata(*COLUMNS, configuration=feed), ten("b"))
    made.commit(3, ten("c"))
    made.commit(4, made.metadata(*COLUMNS), ten("d"))
    made.commit(5, ten("e"))
    versions = made.open().row_changes(span(1)).versions
    assert {v.version: v.exact for v in versions} == {1: False, 2: True, 3: True, 4: False, 5: False}
    assert [v.exact for v in made.open().row_changes(span(3, 3)).versions] == [True]


def test_what_a_remove_leaves_out_the_version_before_knows(made: Any) -> None:
    made.create(*COLUMNS, ("p", "integer"), partition_by=("p",))
    made.commit(1, ten("a", partition={"p": "1"}), ten("b", partition={"p": None}))
    made.commit(2, made.remove("b"), made.remove("a"))
    (version,) = made.open().row_changes(span(2)).versions
    (group,) = version.groups
    assert group.files.select(["path", "size", "partition"]).to_pylist() == [
        {"path": "b", "size": 10, "partition": {"p": None}},
        {"path": "a", "size": 10, "partition": {"p": 1}},
    ]
    made.commit(3, made.remove("never"))
    with pytest.raises(CorruptTableError, match="no file of the version before"):
        made.open().row_changes(span(3))


@pytest.mark.parametrize(
    ("chosen", "expected"),
    [
        (Span(), [1, 2, 3, 4]),
        (span(2), [2, 3, 4]),
        (span(2, 3), [2, 3]),
        (Span(Bound(2, False), Bound(4)), [3, 4]),
        (Span(Bound(2), Bound(4, False)), [2, 3]),
        (Span(Bound(2, False), Bound(3, False)), []),
        (Span(Bound(4, False)), []),
        (span(0, 0), []),
        (span(end=2), [1, 2]),
    ],
)
def test_spans_of_versions(table: Any, chosen: Span, expected: list[int]) -> None:
    for version in range(1, 5):
        table.commit(version, ten(f"f{version}"))
    assert [v.version for v in table.open().row_changes(chosen).versions] == expected


@pytest.mark.parametrize(("start", "end"), [(5, None), (0, 9), (7, 8)])
def test_versions_that_do_not_exist(table: Any, start: int, end: int | None) -> None:
    for version in range(1, 5):
        table.commit(version, ten(f"f{version}"))
    with pytest.raises(VersionNotFoundError, match="0 to 4") as raised:
        table.open().row_changes(span(start, end))
    assert (raised.value.earliest, raised.value.latest) == (0, 4)


def test_a_span_that_ends_before_it_starts(table: Any) -> None:
    table.commit(1, ten("a"))
    with pytest.raises(InvalidInputError, match="version 1 to version 0"):
        table.open().row_changes(span(1, 0))
    with pytest.raises(InvalidInputError, match="1970-01-01T00:00:00.000009"):
        table.open().row_changes(span(9, 8, by_time=True))


def at(made: Any, own: bool) -> None:
    """Versions 0 … 4 at 1000, 2000 … milliseconds, by their own time or their file's."""
    features = {"reader": 1, "writer": 7, "writerFeatures": ["inCommitTimestamp"]}
    for version in range(5):
        millis = 1000 * (version + 1)
        actions: list[dict[str, Any]] = [{"commitInfo": {"inCommitTimestamp": millis}}] if own else []
        if version == 0:
            actions += [made.protocol(**features), made.metadata(*COLUMNS, configuration=TIME if own else None)]
        path = made.commit(version, *actions, ten(f"f{version}"))
        if not own:
            os.utime(path, (millis / 1000, millis / 1000))


@pytest.mark.parametrize("own", [True, False])
@pytest.mark.parametrize(
    ("start", "end", "expected"),
    [
        (Bound(2_000_000), None, [1, 2, 3, 4]),
        (Bound(2_000_001), None, [2, 3, 4]),
        (Bound(2_000_000, False), None, [2, 3, 4]),
        (Bound(1_999_999, False), None, [1, 2, 3, 4]),
        (Bound(0), None, [0, 1, 2, 3, 4]),
        (Bound(2_000_000), Bound(4_000_000), [1, 2, 3]),
        (Bound(2_000_000), Bound(4_000_000, False), [1, 2]),
        (Bound(2_000_000), Bound(3_999_999), [1, 2]),
        (Bound(2_500_000), Bound(2_600_000), []),
        (Bound(9_000_000), None, []),
        (Bound(0), Bound(900_000), []),
        (Bound(5_000_000), Bound(99_000_000), [4]),
    ],
)
def test_spans_of_time(made: Any, own: bool, start: Bound, end: Bound | None, expected: list[int]) -> None:
    at(made, own)
    changes = made.open().row_changes(Span(start, end, by_time=True))
    assert [v.version for v in changes.versions] == expected
    assert [v.timestamp for v in changes.versions] == [1000 * (v + 1) for v in expected]


def checkpointed(made: Any) -> None:
    """Versions 0 to 4, of which 0 and 1 are gone from the log."""
    from lakemend.formats.delta import checkpoint_writer

    at(made, own=False)
    opened = made.open()
    checkpoint_writer.write_checkpoint(opened.store, checkpoint_writer.state_of(opened.at_version(2)))
    for version in (0, 1):
        (made.log / f"{version:020d}.json").unlink()


def test_a_log_that_was_cleaned_up(made: Any) -> None:
    checkpointed(made)
    table = made.open()
    assert [v.version for v in table.row_changes(span(2)).versions] == [2, 3, 4]
    for chosen in (Span(), span(1), span(0, 3), Span(Bound(0), by_time=True), Span(Bound(2_900_000), by_time=True)):
        with pytest.raises(VersionNotFoundError, match="cleaned up.*2 to 4") as raised:
            table.row_changes(chosen)
        assert raised.value.earliest == 2
    assert [v.version for v in table.row_changes(Span(Bound(3_000_000), by_time=True)).versions] == [2, 3, 4]


def mapped(name: str, id: int, physical: str, type: Any = "long") -> dict[str, Any]:
    return field(name, type, metadata={ID: id, PHYSICAL_NAME: physical})


def test_columns_that_come_grow_or_get_another_name(made: Any) -> None:
    mode = {"delta.columnMapping.mode": "name"}
    features = {"protocol": {"reader": 2, "writer": 5}}
    made.create(mapped("id", 1, "c1", "integer"), configuration=mode, **features)
    made.commit(1, ten("a"))
    made.commit(2, made.metadata(mapped("key", 1, "c1", "integer"), configuration=mode))
    made.commit(3, made.metadata(mapped("key", 1, "c1"), mapped("v", 2, "c2"), configuration=mode))
    made.commit(4, made.remove("a", size=10))
    changes = made.open().row_changes(span(1))
    assert told(changes) == [(1, "insert", "a", None), (4, "delete", "a", None)]
    assert [f["name"] for f in changes.snapshot.metadata.schema["fields"]] == ["key", "v"]
    earlier = made.open().row_changes(span(0, 1)).snapshot.metadata.schema["fields"]
    assert [f["name"] for f in earlier] == ["id"]


@pytest.mark.parametrize(
    ("later", "cause"),
    [
        ((("id", "long"),), "version 2 column v was dropped"),
        ((("id", "long"), ("v", "integer")), "version 2 column v became integer instead of string"),
        ((("id", "integer"), ("v", "string")), "version 2 column id became integer instead of long"),
    ],
)
def test_columns_that_are_lost(made: Any, later: tuple[Any, ...], cause: str) -> None:
    made.create(*COLUMNS)
    made.commit(1, ten("a"))
    made.commit(2, made.metadata(*later), ten("b"))
    made.commit(3, ten("c"))
    with pytest.raises(SchemaMismatchError, match=cause) as raised:
        made.open().row_changes(span(1))
    assert "read versions 1 to 1 and what comes after version 2 apart" in str(raised.value)
    assert told(made.open().row_changes(span(2))) == [(2, "insert", "b", None), (3, "insert", "c", None)]
    with pytest.raises(SchemaMismatchError, match="start after version 2"):
        made.commit(2, made.metadata(*later), made.remove("a", size=10))
        made.open().row_changes(span(2, 3))
    assert told(made.open().row_changes(span(0, 1))) == [(1, "insert", "a", None)]
    assert told(made.open().row_changes(span(3, 3))) == [(3, "insert", "c", None)]


def test_nested_columns_that_are_lost(made: Any) -> None:
    def nested(*names: str) -> dict[str, Any]:
        return {"type": "array", "containsNull": True, "elementType": {
            "type": "struct", "fields": [field(n, "long") for n in names]}}  # fmt: skip

    made.create(("s", nested("a", "b")))
    made.commit(1, made.metadata(("s", nested("a", "b", "c"))), ten("x"))
    assert told(made.open().row_changes(span(1))) == [(1, "insert", "x", None)]
    made.commit(2, made.metadata(("s", nested("a", "c"))), ten("y"))
    with pytest.raises(SchemaMismatchError, match=r"column s\.element\.b was dropped"):
        made.open().row_changes(span(1))


def test_another_partitioning(made: Any) -> None:
    made.create(*COLUMNS)
    made.commit(1, made.metadata(*COLUMNS, partition_by=("v",)), ten("a", partition={"v": "1"}))
    with pytest.raises(SchemaMismatchError, match="partitioned otherwise"):
        made.open().row_changes(span())
