"""Commits, read back by deltalake and by Lakemend itself."""

from __future__ import annotations

import dataclasses
import json
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import deltalake
import pytest

from lakemend.brain.commit import commit
from lakemend.errors import (
    InvalidInputError,
    UnsupportedFeatureError,
)
from lakemend.formats.delta.alter import altered_metadata
from lakemend.formats.format import Change, Masked, NewFile, Removed
from lakemend.schema import struct
from tests.unit.delta_write.delta_tables import (
    ALL,
    PLAIN,
    ROWS,
    Lake,
    actions,
    equals,
    metadata,
    of_kind,
    positions,
)


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
    lake.append_rows(ROWS[0], transaction=("stream", 7), user_metadata="hello")
    assert lake.table.latest().transaction("stream") == 7
    assert deltalake.DeltaTable(str(lake.root)).transaction_version("stream") == 7
    line = lake.table.history(1)[0]
    assert line["user_metadata"] == "hello" and line["engine"] == "Lakemend"


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


@pytest.mark.parametrize("change", ["rename", "drop"])
@pytest.mark.parametrize("writer", [2, 4, 5, 6, 7])
def test_readers_are_told_of_mapped_columns_whatever_the_writer_version(lake: Lake, writer: int, change: str) -> None:
    """At (1, 5) and (1, 6) writers know column mapping and readers do not: they would look for the names users see."""
    lake.create(metadata(properties={"delta.minWriterVersion": str(writer)}), ROWS)
    base = lake.table.latest()
    assert base.protocol.min_reader == 1 and base.protocol.min_writer == writer
    steps: list[dict[str, Any]] = [{"kind": "rename_column", "path": ["x"], "to": "y"}]
    if change == "drop":
        steps = [{"kind": "drop_column", "path": ["x"]}, {"kind": "add_column", "path": ["x"], "type": "double"}]
    commit(lake.table, base, Change("alter", metadata=altered_metadata(base, steps)))
    assert lake.table.latest().protocol.min_reader >= 2
    column, wanted = ("y", [1.5, None, -1.0]) if change == "rename" else ("x", [None] * 3)
    theirs = deltalake.QueryBuilder().register("t", deltalake.DeltaTable(str(lake.root)))
    assert theirs.execute(f"select {column} from t order by id").read_all()[column].to_pylist() == wanted
