"""Commits, read back by deltalake and by Lakemend itself."""

from __future__ import annotations

import dataclasses
import json
import logging
import shutil
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import deltalake
import polars
import pytest
from pyroaring import BitMap64

from lakemend.brain.commit import commit
from lakemend.errors import (
    CommitUnknownError,
    InvalidInputError,
    StorageError,
    UnsupportedFeatureError,
    VersionNotFoundError,
)
from lakemend.formats.delta.alter import altered_metadata
from lakemend.formats.delta.commit import landed
from lakemend.formats.delta.deletion_vector import describe_inline, read_vector
from lakemend.formats.delta.protocol import features
from lakemend.formats.format import Change, Masked, NewFile, Removed, VersionTaken
from lakemend.schema import struct
from tests.unit.delta_write.delta_tables import ALL, Lake, equals, metadata, positions

ROWS = [{"id": 1, "p": "a", "x": 1.5}, {"id": 2, "p": "b", "x": None}, {"id": 3, "p": "c", "x": -1.0}]


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    return Lake(tmp_path / "t")


def actions(lake: Lake, version: int) -> list[dict[str, Any]]:
    text = (lake.root / "_delta_log" / f"{version:020d}.json").read_text()
    return [json.loads(line) for line in text.splitlines()]


def of_kind(lake: Lake, version: int, kind: str) -> list[dict[str, Any]]:
    return [action[kind] for action in actions(lake, version) if kind in action]


def rows(lake: Lake) -> list[int]:
    return sorted(
        deltalake.QueryBuilder()
        .register("t", deltalake.DeltaTable(str(lake.root)))
        .execute("select id from t")
        .read_all()["id"]
        .to_pylist()
    )


PLAIN = {"delta.enableDeletionVectors": "false"}


def test_create_and_append_are_read_by_deltalake(lake: Lake) -> None:
    lake.create(metadata(properties=PLAIN), ROWS)
    lake.append_rows({"id": 4, "p": "d", "x": 0.0})
    theirs = deltalake.DeltaTable(str(lake.root))
    assert theirs.version() == 1
    assert sorted(theirs.to_pyarrow_table()["id"].to_pylist()) == [1, 2, 3, 4]
    history = theirs.history()
    assert [entry["operation"] for entry in history] == ["WRITE", "CREATE TABLE AS SELECT"]
    assert history[0]["operationParameters"] == {"mode": "Append", "partitionBy": "[]"}
    assert history[0]["operationMetrics"]["numOutputRows"] == "1"
    assert history[0]["isBlindAppend"] is True and history[0]["readVersion"] == 0
    flat = theirs.get_add_actions(flatten=True)
    found = {name: flat[name].to_pylist() for name in flat.schema.names}
    by_size = sorted(zip(found["num_records"], found["min.id"], found["max.id"], found["null_count.x"], strict=True))
    assert by_size == [(1, 4, 4, 0), (3, 1, 3, 1)]


def test_deltalake_goes_on_from_our_commits(lake: Lake) -> None:
    """Our fields in commitInfo survive history, an incremental update and a commit of theirs."""
    lake.create(metadata(properties=PLAIN), ROWS)
    theirs = deltalake.DeltaTable(str(lake.root))
    change = Change("append", added=[lake.write([ROWS[0]])], read_predicate=equals("id", 1))
    lake.table.try_commit(lake.table.latest(), change)
    theirs.update_incremental()
    assert theirs.version() == 1
    stale = deltalake.DeltaTable(str(lake.root))
    lake.append_rows(ROWS[1])
    deltalake.write_deltalake(stale, stale.to_pyarrow_table().slice(0, 1), mode="append")
    assert lake.table.latest().version == 3
    assert len(deltalake.DeltaTable(str(lake.root)).history()) == 4
    assert lake.table.changes_since(0)[0].read_predicate == equals("id", 1)


def test_partition_values_and_paths(lake: Lake) -> None:
    lake.create(metadata(partitioning=("p",), properties=PLAIN))
    values = ["a b", "x/y", "50%", "ü=ß", "a:b", None, "#?&"]
    for number, value in enumerate(values):
        lake.append(lake.write([{"id": number, "x": 1.0}], partition=(value,)))
    theirs = deltalake.DeltaTable(str(lake.root)).to_pyarrow_table().sort_by("id")
    assert theirs["p"].to_pylist() == values
    ours = lake.table.latest().files
    assert {v["p"] for v in ours["partition"].to_pylist()} == set(values)


TYPED = {
    "boolean": ([True, False], True),
    "integer": ([7, -3], 7),
    "date": ([date(2024, 2, 29), date(1999, 1, 1)], 19782),
    "timestamp": ([datetime(2024, 1, 1, 2, 3, 4, 567891, UTC), datetime(1960, 1, 1, tzinfo=UTC)], 1704074584567891),
    "decimal(20,4)": ([Decimal("12345678901.2345"), Decimal("-0.5000")], "12345678901.2345"),
    "string": (["long" * 20, "short"], "a string"),
    "float": ([0.1, -0.0], 2.5),
}


@pytest.mark.parametrize("type", TYPED)
def test_types_as_data_and_as_partition(lake: Lake, type: str) -> None:
    values, partition = TYPED[type]
    schema = struct(("id", "long"), ("v", type), ("part", type))
    lake.create(metadata(schema, ("part",), properties=PLAIN))
    lake.append(lake.write([{"id": i, "v": v} for i, v in enumerate(values)], partition=(partition,)))
    read = deltalake.DeltaTable(str(lake.root)).to_pyarrow_table().sort_by("id")
    assert read["v"].to_pylist() == pytest.approx(values) if type == "float" else read["v"].to_pylist() == values
    ours = lake.table.latest()
    assert ours.files["partition"][0].as_py()["part"] == read["part"][0].as_py()
    bounds = ours.stats(("v",))
    if bounds is not None and type not in ("boolean", "float"):
        assert bounds.min[0].as_py() <= min(values) and bounds.max[0].as_py() >= max(values)


def test_removes_hold_everything_a_reader_may_want(lake: Lake) -> None:
    lake.create(metadata(partitioning=("p",)))
    lake.append(lake.write([{"id": 1, "x": 1.0}], partition=("a b",)))
    base = lake.table.latest()
    change = Change("delete", removed=lake.removed(base, 0), read_predicate=ALL, parameters={"predicate": "id = 1"})
    lake.table.try_commit(base, change)
    (remove,) = of_kind(lake, 2, "remove")
    assert remove["extendedFileMetadata"] and remove["partitionValues"] == {"p": "a b"} and remove["size"] > 0
    assert remove["dataChange"] is True and remove["deletionTimestamp"] > 0
    (info,) = of_kind(lake, 2, "commitInfo")
    assert info["operation"] == "DELETE" and info["operationParameters"] == {"predicate": '["id = 1"]'}
    assert info["operationMetrics"]["numRemovedFiles"] == "1" and info["isBlindAppend"] is False
    assert lake.table.latest().files.num_rows == 0


@pytest.mark.parametrize("count", [10, 20_000])
def test_masks_are_united_and_read_back(lake: Lake, count: int) -> None:
    lake.create(rows=[{"id": i, "p": "x", "x": 0.0} for i in range(count)])
    base = lake.table.latest()
    scattered = list(range(0, count, 3))
    first = Change("delete", masked=[lake.masked(base, 0, *scattered)], read_predicate=ALL)
    lake.table.try_commit(base, first)
    head = lake.table.latest()
    descriptor = head.descriptor(0)
    assert descriptor is not None
    assert descriptor.storage == "u"  # other engines' VACUUM fails on vectors that stand in the log
    lake.table.try_commit(head, Change("delete", masked=[lake.masked(head, 0, 0, 1, 2)], read_predicate=ALL))
    head = lake.table.latest()
    again = head.descriptor(0)
    assert again is not None and again.cardinality == len({*scattered, 0, 1, 2})
    assert set(read_vector(head.store, again)) == {*scattered, 0, 1, 2}
    (add,), (remove,) = of_kind(lake, 2, "add"), of_kind(lake, 2, "remove")
    assert remove["deletionVector"] == descriptor.to_json() and add["path"] == remove["path"]
    stats = json.loads(add["stats"])
    assert stats["tightBounds"] is False and stats["numRecords"] == count and stats["minValues"]["id"] == 0
    alive = sorted(set(range(count)) - {*scattered, 0, 1, 2})
    assert rows(lake) == alive
    assert sorted(polars.scan_delta(str(lake.root)).collect()["id"]) == alive


def test_a_file_with_no_living_row_is_removed(lake: Lake) -> None:
    lake.create(rows=ROWS)
    base = lake.table.latest()
    lake.table.try_commit(base, Change("delete", masked=[lake.masked(base, 0, 0)], read_predicate=ALL))
    base = lake.table.latest()
    lake.table.try_commit(base, Change("delete", masked=[lake.masked(base, 0, 1, 2)], read_predicate=ALL))
    assert lake.table.latest().files.num_rows == 0
    assert of_kind(lake, 2, "add") == [] and len(of_kind(lake, 2, "remove")) == 1


def test_several_vectors_share_one_file(lake: Lake) -> None:
    lake.create(rows=[{"id": i, "p": "", "x": 0.0} for i in range(9000)])
    lake.append(*(lake.write([{"id": i, "p": "", "x": 0.0} for i in range(9000)]) for _ in range(3)))
    base = lake.table.latest()
    dead = range(0, 9000, 7)
    masked = [lake.masked(base, row, *dead) for row in range(3)] + [lake.masked(base, 3, 5)]
    lake.table.try_commit(base, Change("delete", masked=masked, read_predicate=ALL))
    vectors = list(lake.root.glob("deletion_vector_*.bin"))
    assert len(vectors) == 1
    kinds = [add["deletionVector"]["storageType"] for add in of_kind(lake, 2, "add")]
    assert kinds == ["u"] * 4
    assert len(rows(lake)) == 36000 - 3 * len(dead) - 1


def test_the_first_mask_brings_feature_and_property(lake: Lake) -> None:
    lake.create(metadata(comment="mine", properties={"k": "v"}), ROWS)
    base = lake.table.latest()
    assert (base.protocol.min_reader, base.protocol.min_writer) == (1, 2)
    deltalake.DeltaTable(str(lake.root)).to_pyarrow_table()  # every reader can still read it
    lake.table.try_commit(base, Change("delete", masked=[lake.masked(base, 0, 0)], read_predicate=ALL))
    assert lake.table.latest().protocol.reader_features == ("deletionVectors",)
    assert lake.table.latest().meta == dataclasses.replace(
        base.meta, configuration=base.meta.configuration | {"delta.enableDeletionVectors": "true"}
    )
    (winner,) = lake.table.changes_since(base.version)
    assert not winner.protocol_changed and not winner.metadata_changed
    base = lake.table.latest()
    lake.table.try_commit(base, Change("delete", masked=[lake.masked(base, 0, 1)], read_predicate=ALL))
    assert of_kind(lake, base.version + 1, "protocol") == of_kind(lake, base.version + 1, "metaData") == []


def test_a_first_mask_that_brings_columns(lake: Lake) -> None:
    """A MERGE that widens the schema masks rows in the same commit."""
    lake.create(rows=ROWS)
    base = lake.table.latest()
    wider = altered_metadata(base, [{"kind": "add_column", "path": ["more"], "type": "string", "nullable": True}])
    lake.table.try_commit(base, Change("merge", masked=[lake.masked(base, 0, 0)], metadata=wider, read_predicate=ALL))
    head = lake.table.latest()
    assert "deletionVectors" in features(head.protocol)
    assert head.meta.configuration["delta.enableDeletionVectors"] == "true"
    assert [f["name"] for f in head.metadata.schema["fields"]][-1] == "more"


def test_vectors_are_turned_on_where_only_the_feature_is_named(lake: Lake) -> None:
    lake.create(metadata(properties={"delta.feature.deletionVectors": "supported"}), ROWS)
    base = lake.table.latest()
    assert "deletionVectors" in features(base.protocol)
    lake.table.try_commit(base, Change("delete", masked=[lake.masked(base, 0, 0)], read_predicate=ALL))
    assert lake.table.latest().meta.configuration["delta.enableDeletionVectors"] == "true"


@pytest.mark.parametrize("old", ["p=%C3%BC/", "p=ü/"])
@pytest.mark.parametrize("other", ["p=%C3%BC/", "p=ü/"])
def test_one_file_under_two_spellings_is_one_file(lake: Lake, old: str, other: str) -> None:
    """Paths beyond ASCII were logged encoded once, and other engines log them raw."""
    lake.create(metadata(partitioning=("p",)))
    file = lake.write([{"id": i, "x": 1.0} for i in range(3)], partition=("ü",))
    assert file.path.startswith("p=ü/")
    lake.append(file)
    commit = lake.root / "_delta_log" / f"{1:020d}.json"
    assert "p=ü/" in commit.read_text()
    commit.write_text(commit.read_text().replace('"path":"p=ü/', f'"path":"{old}'))
    lake = Lake(lake.root)
    base = lake.table.latest()
    assert base.url(base.files["path"][0].as_py()).endswith(file.path)
    lake.table.try_commit(base, Change("delete", masked=[lake.masked(base, 0, 0)], read_predicate=ALL))
    # Another engine masks one more row, and spells the file its own way.
    last = lake.root / "_delta_log" / f"{2:020d}.json"
    lines = [json.loads(line) for line in last.read_text().splitlines()]
    add = next(line["add"] for line in lines if "add" in line)
    spelled = add["path"].replace(old, other)
    dead = describe_inline(BitMap64([0, 1]))
    remove = {"path": spelled, "deletionTimestamp": 1, "dataChange": True, "deletionVector": add["deletionVector"]}
    more = [{"remove": remove}, {"add": {**add, "path": spelled, "deletionVector": dead.to_json()}}]
    third = lake.root / "_delta_log" / f"{3:020d}.json"
    third.write_text("\n".join(json.dumps(line) for line in more))
    (first, second) = lake.table.changes_since(1)
    assert first.masked == second.masked == {old + file.path[len("p=ü/") :]} and not first.removed | second.removed
    for table in (lake.table, Lake(lake.root).table):
        head = table.latest()
        assert head.files.num_rows == 1 and head.files["masked"].to_pylist() == [2]
    if old == other:  # deltalake takes two spellings for two files
        assert rows(lake) == [2]
    lake.table.try_commit(head, Change("delete", removed=lake.removed(head, 0), read_predicate=ALL))
    assert Lake(lake.root).table.latest().files.num_rows == 0


def test_masks_may_be_switched_off(lake: Lake) -> None:
    lake.create(metadata(properties=PLAIN), ROWS)
    base = lake.table.latest()
    with pytest.raises(UnsupportedFeatureError, match="enableDeletionVectors=false"):
        lake.table.try_commit(base, Change("delete", masked=[lake.masked(base, 0, 0)], read_predicate=ALL))


def test_rows_that_do_not_exist_cannot_be_masked(lake: Lake) -> None:
    lake.create(rows=ROWS)
    base = lake.table.latest()
    with pytest.raises(InvalidInputError, match="has 3 rows"):
        lake.table.try_commit(base, Change("delete", masked=[lake.masked(base, 0, 3)], read_predicate=ALL))
    assert lake.table.latest().version == 0


def test_append_only_tables_refuse_to_lose_rows(lake: Lake) -> None:
    lake.create(metadata(properties={"delta.appendOnly": "true"}), ROWS)
    base = lake.table.latest()
    for change in (
        Change("delete", removed=lake.removed(base, 0), read_predicate=ALL),
        Change("delete", masked=[lake.masked(base, 0, 0)], read_predicate=ALL),
    ):
        with pytest.raises(UnsupportedFeatureError, match=r"delta\.appendOnly"):
            lake.table.try_commit(base, change)
    lake.append_rows(ROWS[0])
    base = lake.table.latest()
    moved = Change("compact", added=[lake.write(ROWS)], removed=lake.removed(base, 0), data_change=False)
    lake.table.try_commit(base, moved)


def test_files_without_statistics_can_be_masked(lake: Lake) -> None:
    lake.create(rows=ROWS)
    bare = dataclasses.replace(of_kind_as_add(lake), stats=None).to_json()
    log = lake.root / "_delta_log" / f"{1:020d}.json"
    removed = {"path": bare["path"], "dataChange": True, "deletionTimestamp": 1}
    log.write_text(
        json.dumps({"remove": removed}) + "\n" + json.dumps({"add": bare | {"path": copied(lake, bare["path"])}})
    )
    base = lake.table.latest()
    assert base.files["rows"].to_pylist() == [None]
    with pytest.raises(InvalidInputError, match="has 3 rows"):
        lake.table.try_commit(base, Change("delete", masked=[lake.masked(base, 0, 3)], read_predicate=ALL))
    lake.table.try_commit(base, Change("delete", masked=[lake.masked(base, 0, 0)], read_predicate=ALL))
    assert json.loads(of_kind(lake, 2, "add")[0]["stats"]) == {"numRecords": 3, "tightBounds": False}
    base = lake.table.latest()
    lake.table.try_commit(base, Change("delete", masked=[lake.masked(base, 0, 1, 2)], read_predicate=ALL))
    assert lake.table.latest().files.num_rows == 0


def of_kind_as_add(lake: Lake) -> Any:
    return lake.table.latest().add(0)


def copied(lake: Lake, path: str) -> str:
    (lake.root / "copy.parquet").write_bytes((lake.root / path).read_bytes())
    return "copy.parquet"


def test_change_feeds_see_no_copied_rows(lake: Lake) -> None:
    lake.create(metadata(properties={"delta.enableChangeDataFeed": "true"}), ROWS)
    base = lake.table.latest()
    copies = Change("update", added=[lake.write(ROWS)], removed=lake.removed(base, 0), read_predicate=ALL)
    masks = Change("update", added=[lake.write(ROWS[:1])], masked=[lake.masked(base, 0, 0)], read_predicate=ALL)
    replaces = dataclasses.replace(copies, operation="replace_where", metrics={"copied": 1})
    for change in (copies, masks, replaces):
        with pytest.raises(UnsupportedFeatureError, match="merge-on-read"):
            lake.table.try_commit(base, change)
    lake.commit(base, Change("overwrite", added=copies.added, removed=copies.removed, read_predicate=ALL))
    base = lake.table.latest()
    lake.commit(base, Change("delete", removed=lake.removed(base, 0), read_predicate=ALL))


def test_records_of_changes_are_named_by_their_commit(lake: Lake) -> None:
    lake.create(metadata(partitioning=("p",), properties={"delta.enableChangeDataFeed": "true"}))
    lake.append(lake.write([{"id": 1, "x": 1.0}, {"id": 2, "x": 2.0}], partition=("a b",)))
    base = lake.table.latest()
    record = NewFile("_change_data/p=a b/one.parquet", 77, 2, 1, ("a b",))
    change = Change("update", masked=[lake.masked(base, 0, 0)], feed=[record], read_predicate=ALL)
    added = [lake.write([{"id": 3, "x": 1.0}], partition=("a b",))]
    version = lake.commit(base, dataclasses.replace(change, added=added))
    (line,) = of_kind(lake, version, "cdc")
    assert line == {
        "path": "_change_data/p=a%20b/one.parquet",
        "partitionValues": {"p": "a b"},
        "size": 77,
        "dataChange": False,
    }
    assert not any("_change_data" in path for path in lake.table.latest().files["path"].to_pylist())
    # One that lost a race lands on top of the other, with its own records.
    second = NewFile("_change_data/p=a b/two.parquet", 78, 1, 1, ("a b",))
    late = Change("delete", masked=[lake.masked(base, 0, 1)], feed=[second], read_predicate=equals("id", 2))
    result = commit(lake.table, base, dataclasses.replace(late, isolation="snapshot"))
    assert result.version == version + 1
    assert [line["size"] for line in of_kind(lake, result.version, "cdc")] == [78]
    plain = Lake(lake.root.parent / "plain")
    base = plain.create(rows=ROWS)
    with pytest.raises(InvalidInputError, match="not turned on"):
        plain.table.try_commit(base, Change("delete", masked=[plain.masked(base, 0, 0)], feed=[record]))


def test_interrupted_commits_keep_their_vectors(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    """Ctrl-C tells nothing about what the store did: vectors a landed commit may name stay."""
    lake.create(rows=[{"id": i, "p": "", "x": 0.0} for i in range(9000)])
    base = lake.table.latest()

    def interrupted(path: str, data: bytes) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(lake.table.store, "put_if_absent", interrupted)
    with pytest.raises(KeyboardInterrupt):
        lake.table.try_commit(
            base, Change("delete", masked=[lake.masked(base, 0, *range(0, 9000, 7))], read_predicate=ALL)
        )
    assert len(list(lake.root.glob("deletion_vector_*.bin"))) == 1


def test_one_path_occurs_once(lake: Lake) -> None:
    lake.create(rows=ROWS)
    base = lake.table.latest()
    file = lake.write(ROWS)
    with pytest.raises(InvalidInputError, match="added twice"):
        lake.append(file, file)
    gone = lake.removed(base, 0)
    with pytest.raises(InvalidInputError, match="removed twice"):
        lake.table.try_commit(base, Change("delete", removed=gone * 2, read_predicate=ALL))
    with pytest.raises(InvalidInputError, match="removed twice"):
        both = Change("delete", removed=gone, masked=[Masked(gone[0].path, 0, positions(0))], read_predicate=ALL)
        lake.table.try_commit(base, both)
    with pytest.raises(InvalidInputError, match="not where the change says"):
        lake.table.try_commit(base, Change("delete", removed=[Removed("nope", 0)], read_predicate=ALL))
    assert lake.table.latest().version == 0


def test_transactions_and_user_metadata(lake: Lake) -> None:
    lake.create(rows=ROWS)
    lake.append_rows(ROWS[0], transaction=("stream", 7), user_metadata="hello", engine="test")
    assert lake.table.latest().transaction("stream") == 7
    assert deltalake.DeltaTable(str(lake.root)).transaction_version("stream") == 7
    line = lake.table.history(1)[0]
    assert line["user_metadata"] == "hello" and line["engine"] == "test"


def test_definition_changes_are_committed_with_the_protocol_they_need(lake: Lake) -> None:
    from lakemend.formats.delta.alter import altered_metadata

    lake.create(metadata(properties=PLAIN), ROWS)
    base = lake.table.latest()
    assert (base.protocol.min_reader, base.protocol.min_writer) == (1, 2)
    wire = [
        {"kind": "rename_column", "path": ["x"], "to": "value"},
        {"kind": "add_column", "path": ["n"], "type": "long"},
    ]
    lake.table.try_commit(base, Change("alter", {"changes": wire}, metadata=altered_metadata(base, wire)))
    head = lake.table.latest()
    assert (head.protocol.min_reader, head.protocol.min_writer) == (2, 5)
    assert of_kind(lake, 1, "commitInfo")[0]["operation"] == "RENAME COLUMN"
    lake.append_rows({"id": 9, "p": "z", "value": 2.0, "n": 1})
    wire = [{"kind": "set_property", "key": "delta.enableDeletionVectors", "value": "true"}]
    base = lake.table.latest()
    lake.table.try_commit(base, Change("alter", {"changes": wire}, metadata=altered_metadata(base, wire)))
    head = lake.table.latest()
    assert set(head.protocol.reader_features or ()) == {"columnMapping", "deletionVectors"}
    assert "checkConstraints" in (head.protocol.writer_features or ())
    result = (
        deltalake.QueryBuilder()
        .register("t", deltalake.DeltaTable(str(lake.root)))
        .execute("select * from t order by id")
        .read_all()
    )
    assert result.column_names == ["id", "p", "value", "n"]
    assert result["value"].to_pylist() == [1.5, None, -1.0, 2.0]


def test_replacing_a_table_keeps_its_history_and_nothing_else(lake: Lake) -> None:
    lake.create(metadata(partitioning=("p",)))
    lake.append(lake.write([{"id": 1, "x": 1.0}], partition=("a",)))
    base = lake.table.latest()
    definition = metadata(struct(("only", "string")))
    file = lake.write([{"only": "x"}], definition)
    change = Change("replace_as", added=[file], metadata=definition, replaces_table=True)
    lake.table.try_commit(base, change)
    head = lake.table.latest()
    assert head.version == 2 and head.meta.id != base.meta.id and head.files.num_rows == 1
    assert head.meta.partition_columns == () and head.protocol == base.protocol
    assert lake.table.at_version(1).files.num_rows == 1


def test_overwriting_the_schema_is_no_widening(lake: Lake) -> None:
    lake.create(metadata(struct(("n", "integer")), properties=PLAIN), [{"n": 1}])
    base = lake.table.latest()
    definition = metadata(struct(("n", "long")), properties=PLAIN)
    file = lake.write([{"n": 2**40}], definition)
    change = Change(
        "overwrite",
        added=[file],
        removed=lake.removed(base, 0),
        metadata=definition,
        read_predicate=ALL,
        metrics={"deleted": 1},
    )
    lake.table.try_commit(base, change)
    head = lake.table.latest()
    assert head.protocol == base.protocol and "delta.typeChanges" not in json.dumps(head.meta.schema)
    assert deltalake.DeltaTable(str(lake.root)).to_pyarrow_table()["n"].to_pylist() == [2**40]
    assert of_kind(lake, 1, "commitInfo")[0]["operationMetrics"]["numDeletedRows"] == "1"


def test_metrics_have_deltas_names(lake: Lake) -> None:
    lake.create(rows=ROWS)
    base = lake.table.latest()
    counts = {"updated": 1, "inserted": 0, "copied": 0}
    masked, added = [lake.masked(base, 0, 0)], [lake.write(ROWS[:1])]
    lake.table.try_commit(base, Change("merge", masked=masked, added=added, read_predicate=ALL, metrics=counts))
    assert of_kind(lake, 1, "commitInfo")[0]["operationMetrics"] == {
        "numTargetFilesAdded": "1",
        "numTargetFilesRemoved": "0",
        "numTargetDeletionVectorsAdded": "1",
        "numTargetRowsUpdated": "1",
        "numTargetRowsInserted": "0",
        "numTargetRowsCopied": "0",
    }


def test_in_commit_timestamps_grow_even_if_the_clock_does_not(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    lake.create(rows=ROWS)
    from lakemend.formats.delta.alter import altered_metadata

    wire = [{"kind": "set_property", "key": "delta.enableInCommitTimestamps", "value": "true"}]
    base = lake.table.latest()
    lake.table.try_commit(base, Change("alter", {"changes": wire}, metadata=altered_metadata(base, wire)))
    enabled = lake.table.latest()
    assert enabled.meta.configuration["delta.inCommitTimestampEnablementVersion"] == "1"
    monkeypatch.setattr("lakemend.formats.delta.draft.time.time", lambda: 1.0)
    lake.append_rows(ROWS[0])
    lake.append_rows(ROWS[0])
    stamps = []
    for version in (1, 2, 3):
        first = actions(lake, version)[0]["commitInfo"]
        assert next(iter(first)) == "inCommitTimestamp"
        stamps.append(first["inCommitTimestamp"])
    assert stamps == [stamps[0], stamps[0] + 1, stamps[0] + 2]
    assert lake.table.latest().timestamp == stamps[2]


class Breaking:
    """A store whose next commit fails after, before or instead of being written."""

    def __init__(self, inner: Any, then: str) -> None:
        self._inner, self._then = inner, then
        self.url = "s3://bucket/t"

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    def put_if_absent(self, path: str, data: bytes) -> None:
        if self._then == "landed":
            self._inner.put_if_absent(path, data)
        if self._then.startswith("repeated"):
            self._inner.put_if_absent(path, data)
            raise FileExistsError(path)
        if self._then == "vanished":
            raise FileExistsError(path)
        if self._then == "taken":
            self._inner.put_if_absent(path, b'{"commitInfo":{"operation":"WRITE","txnId":"other"}}\n')
        proof = {"written": False} if self._then.startswith("refused") else {}
        raise StorageError("write failed", operation="write", path=path, **proof)

    def get(self, path: str) -> bytes:
        if self._then.endswith("unreadable") and path.endswith("1.json"):
            raise StorageError("read failed", operation="read", path=path)
        return bytes(self._inner.get(path))


@pytest.mark.parametrize(
    ("then", "outcome", "is_there"),
    [
        ("landed", None, True),
        ("repeated", None, True),
        ("taken", VersionTaken, False),
        ("absent", CommitUnknownError, False),
        ("unreadable", CommitUnknownError, False),
        ("repeated, unreadable", CommitUnknownError, True),
        ("vanished", CommitUnknownError, False),
        ("refused", StorageError, False),
        ("refused, unreadable", StorageError, False),
    ],
)
def test_a_put_that_fails_is_looked_up(
    lake: Lake, then: str, outcome: type[Exception] | None, is_there: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("lakemend.formats.delta.commit._PAUSES", ())
    lake.create(rows=ROWS)
    base, file = lake.table.latest(), lake.write(ROWS)
    sound = lake.table.store
    lake.table.store = Breaking(sound, then)  # type: ignore[assignment]
    change = Change("append", {"token": "mine"}, added=[file])
    if outcome is None:
        assert lake.table.try_commit(base, change) == 1
    else:
        with pytest.raises(outcome):
            lake.table.try_commit(base, change)
    lake.table.store = sound
    assert landed(lake.table, "mine", 0) is is_there


def test_a_local_disk_has_no_request_on_its_way(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    lake.create(rows=ROWS)
    base, file = lake.table.latest(), lake.write(ROWS)

    def full(*_: Any, **__: Any) -> None:
        raise OSError("No space left on device")

    monkeypatch.setattr("lakemend.storage.obstore.put", full)
    with pytest.raises(StorageError, match="No space left"):
        lake.table.try_commit(base, Change("append", {"token": "mine"}, added=[file]))


def remade(root: Path, rows: int = 1) -> Lake:
    """The table is dropped, and another one made in its place by another process."""
    shutil.rmtree(root)
    other = Lake(root)
    other.create(rows=ROWS)
    for _ in range(rows - 1):
        other.append_rows(ROWS[0])
    return other


@pytest.mark.parametrize("versions", [0, 1, 2, 3])
def test_a_table_made_again_before_the_put_is_no_success(lake: Lake, versions: int) -> None:
    """Between the look at the table and the put, it is dropped; 0: and nothing comes in its place."""
    lake.create(rows=ROWS)
    lake.append_rows(ROWS[0])
    base, file = lake.table.latest(), lake.write(ROWS)
    sound = lake.table.store.put_if_absent

    def put(path: str, data: bytes) -> None:
        if versions:
            remade(lake.root, versions)
        else:
            shutil.rmtree(lake.root)
        sound(path, data)

    lake.table.store.put_if_absent = put  # type: ignore[method-assign]
    expected = VersionTaken if versions == 3 else CommitUnknownError
    with pytest.raises(expected) as caught:
        lake.table.try_commit(base, Change("append", {"token": "mine"}, added=[file]))
    if versions < 3:
        assert caught.value.token == "mine" and "dropped" in caught.value.cause  # type: ignore[attr-defined]


def test_an_old_version_is_not_of_a_table_that_is_gone(lake: Lake) -> None:
    lake.create(rows=ROWS)
    lake.append_rows(ROWS[0])
    lake.append_rows(ROWS[0])
    assert [lake.table.at_version(v).files.num_rows for v in (2, 1, 0)] == [3, 2, 1]
    other = remade(lake.root, 2)
    assert lake.table.at_version(1).meta.id == other.table.latest().meta.id
    assert lake.table.at_version(0).meta.id == other.table.latest().meta.id
    with pytest.raises(VersionNotFoundError):
        lake.table.at_version(2)


def test_a_taken_version_leaves_no_vector_file(lake: Lake) -> None:
    lake.create(rows=[{"id": i, "p": "", "x": 0.0} for i in range(9000)])
    base = lake.table.latest()
    change = Change("delete", masked=[lake.masked(base, 0, *range(0, 9000, 7))], read_predicate=ALL)
    lake.append_rows(ROWS[0])
    with pytest.raises(VersionTaken):
        lake.table.try_commit(base, change)
    assert list(lake.root.glob("deletion_vector_*.bin")) == []


def test_the_token_proves_what_landed(lake: Lake) -> None:
    lake.create(rows=ROWS)
    lake.append_rows(ROWS[0], parameters={"token": "abc"})
    assert landed(lake.table, "abc", 0) is True
    assert landed(lake.table, "abc", None) is True
    assert landed(lake.table, "abc", 1) is False
    assert landed(lake.table, "xyz", 0) is False
    assert "token" not in of_kind(lake, 1, "commitInfo")[0]["operationParameters"]
    (lake.root / "_delta_log" / f"{1:020d}.json").write_text('{"commitInfo": broken')
    assert landed(lake.table, "abc", 0) is None


def test_names_of_operations() -> None:
    from lakemend.formats.delta.commit_info import delta_operation

    definition = metadata()
    assert delta_operation(Change("replace_where")) == "WRITE"
    assert delta_operation(Change("compact")) == "OPTIMIZE"
    assert (
        delta_operation(Change("create", {"command": "CREATE TABLE AS SELECT"}, metadata=definition))
        == "CREATE TABLE AS SELECT"
    )
    assert (
        delta_operation(Change("alter", {"changes": [{"kind": "add_check"}]}, metadata=definition)) == "ADD CONSTRAINT"
    )
    assert delta_operation(Change("some_verb")) == "SOME VERB"


def test_a_failed_checkpoint_does_not_fail_the_commit(
    lake: Lake, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    lake.create(metadata(properties={"delta.checkpointInterval": "1"}), ROWS)

    def fail(*_: Any) -> None:
        raise OSError("disk full")

    monkeypatch.setattr("lakemend.formats.delta.checkpoint_writer.write_checkpoint", fail)
    with caplog.at_level(logging.WARNING):
        assert lake.append_rows(ROWS[0]) == 1
    assert "disk full" in caplog.text
