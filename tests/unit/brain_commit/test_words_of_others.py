"""What other writers say, in spellings that are not ours: paths, predicates, partition values, properties."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import deltalake
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from lakemend.brain.commit import commit
from lakemend.brain.service import Brain
from lakemend.errors import CommitConflictError, InvalidInputError, UnsupportedFeatureError
from lakemend.formats.delta.checkpoint_writer import state_of, write_checkpoint
from lakemend.formats.delta.table import DeltaTable
from lakemend.formats.feed import Bound, Span
from lakemend.formats.format import Change, NewFile
from lakemend.formats.zone import in_zone
from lakemend.storage import open_store


class Log:
    """A table of (id, p), partitioned by p, whose log is written by hand."""

    def __init__(self, root: Path, type: str = "string", feed: bool = False) -> None:
        self.root = root
        (root / "_delta_log").mkdir(parents=True)
        fields = [{"name": n, "type": t, "nullable": True, "metadata": {}} for n, t in (("id", "long"), ("p", type))]
        metadata = {
            "id": "t",
            "format": {"provider": "parquet", "options": {}},
            "schemaString": json.dumps({"type": "struct", "fields": fields}),
            "partitionColumns": ["p"],
            "configuration": {"delta.enableChangeDataFeed": "true"} if feed else {},
        }
        self.put(0, {"protocol": {"minReaderVersion": 1, "minWriterVersion": 4}}, {"metaData": metadata})

    def put(self, version: int, *actions: dict[str, Any], operation: str = "WRITE") -> None:
        lines = [{"commitInfo": {"operation": operation, "operationParameters": {"mode": "Append"}}}, *actions]
        text = "\n".join(map(json.dumps, lines))
        (self.root / "_delta_log" / f"{version:020d}.json").write_text(text)

    def add(self, path: str, part: str, data_change: bool = True) -> dict[str, Any]:
        size = self.write(path.replace("%26", "&"))
        stats = json.dumps({"numRecords": 1})
        entry = {"path": path, "partitionValues": {"p": part}, "size": size, "modificationTime": 1, "stats": stats}
        return {"add": {**entry, "dataChange": data_change}}

    def write(self, path: str) -> int:
        file = self.root / path
        file.parent.mkdir(exist_ok=True)
        pq.write_table(pa.table({"id": pa.array([1], pa.int64())}), file)
        return file.stat().st_size

    def open(self) -> DeltaTable:
        return DeltaTable(open_store(str(self.root)))


def remove(path: str, part: str, data_change: bool = True) -> dict[str, Any]:
    more = {"extendedFileMetadata": True, "partitionValues": {"p": part}, "size": 1}
    return {"remove": {"path": path, "deletionTimestamp": 2, "dataChange": data_change, **more}}


def test_a_file_that_came_and_went_by_two_spellings(tmp_path: Path) -> None:
    log = Log(tmp_path / "t")
    old, new, plain = "p=a%26b/f.parquet", "p=a%26b/g.parquet", "p=a&b/g.parquet"
    log.put(1, log.add(old, "a&b"))
    compaction = (remove(old, "a&b", False), log.add(new, "a&b", False))
    log.put(2, *compaction, operation="OPTIMIZE")
    log.put(3, remove(plain, "a&b"), operation="DELETE")
    table = log.open()
    assert table.latest().files.num_rows == 0
    read = {"op": "=", "args": [{"col": ["p"]}, {"lit": "a&b", "type": "string"}]}
    made = NewFile("p=c/n.parquet", log.write("p=c/n.parquet"), 1, 1, ("c",))
    with pytest.raises(CommitConflictError, match="read"):
        commit(table, table.at_version(1), Change("append", added=[made], read_predicate=read))


@pytest.mark.parametrize(
    "predicate",
    [
        "(s = 'x' AND id = 1) IS NOT TRUE",
        "(s = 'x' AND id = 1) IS FALSE",
        "(s = 'x' AND b) = false",
        "(s = 'x' AND id = 1) = b",
    ],
)
def test_predicates_that_lost_their_parentheses(tmp_path: Path, predicate: str) -> None:
    root = str(tmp_path / "t")
    deltalake.write_deltalake(root, pa.table({"id": [7], "s": ["z"], "b": [True]}))
    table = DeltaTable(open_store(root))
    base = table.latest()
    theirs = pa.table({"id": [None], "s": ["y"], "b": [False]}, pa.schema({"id": "int64", "s": "string", "b": "bool"}))
    deltalake.write_deltalake(root, theirs, mode="overwrite", predicate=predicate)
    place = {"op": "<=>", "args": [{"col": ["s"]}, {"lit": "y", "type": "string"}]}
    made = NewFile("n.parquet", 1, 1, 1, ())
    change = Change("replace_where", added=[made], read_predicate=place, replaced=place, isolation="snapshot")
    with pytest.raises(CommitConflictError):
        commit(table, base, change)


@pytest.mark.parametrize(
    ("text", "typed"),
    [("2024-01-01 00:00:00", False), ("0001-01-01 00:00:00", False), ("2024-01-01T00:00:00Z", True)],
)
def test_checkpoints_hold_no_times_of_the_session_that_wrote_them(tmp_path: Path, text: str, typed: bool) -> None:
    log = Log(tmp_path / "t", "timestamp")
    log.put(1, log.add("a.parquet", text))
    with in_zone("America/New_York"):
        table = log.open()
        write_checkpoint(table.store, state_of(table.latest()))
    found = pq.read_schema(tmp_path / "t" / "_delta_log" / f"{1:020d}.checkpoint.parquet").field("add").type
    assert (found.get_field_index("partitionValues_parsed") >= 0) is typed
    assert log.open().latest().files.num_rows == 1


@pytest.mark.parametrize("told", [{}, {"extendedFileMetadata": False}, {"extendedFileMetadata": False, "size": 1}])
def test_removes_without_partition_values(tmp_path: Path, told: dict[str, Any]) -> None:
    log = Log(tmp_path / "t", feed=True)
    log.put(1, log.add("a.parquet", "A"))
    log.put(2, {"remove": {"path": "a.parquet", "dataChange": True, "partitionValues": {}, **told}}, operation="DELETE")
    changes = log.open().row_changes(Span(Bound(2, True), None, False))
    parts = [group.files["partition"].to_pylist() for version in changes.versions for group in version.groups]
    assert parts == [[{"p": "A"}]]


def test_properties_in_other_letters(tmp_path: Path) -> None:
    root = str(tmp_path / "t")
    deltalake.write_deltalake(root, pa.table({"id": [7]}))

    def alter(kind: str, key: str, value: str | None = None) -> dict[str, Any]:
        change = {"kind": kind, "key": key, "value": value}
        answer = Brain().ask("alter", {"table": {"path": root}, "changes": [change]})
        return dict(answer["properties"])

    with pytest.raises(InvalidInputError, match="ADD CONSTRAINT"):
        alter("set_property", "Delta.constraints.pos", "id > 5")
    with pytest.raises(UnsupportedFeatureError, match="foo"):
        alter("set_property", "Delta.Feature.foo", "supported")
    assert alter("set_property", "DELTA.APPENDONLY", "true") == {"delta.appendOnly": "true"}
    assert alter("remove_property", "Delta.appendonly") == {}


def test_commits_of_a_table_that_is_gone_are_not_kept(tmp_path: Path) -> None:
    """Another process makes the table anew while one thread reads the old log, and another has seen that it is new."""
    log = Log(tmp_path / "t")
    log.put(1, log.add("a.parquet", "A"))
    recent = log.open()._recent
    read = recent._store.get_many

    def slowly(paths: list[str]) -> list[bytes]:
        found = read(paths)
        recent.forget()
        return found

    recent._store.get_many = slowly  # type: ignore[method-assign, assignment]
    assert [file.version for file in recent.after(0)] == [1]
    assert not recent._known(0, None)
    recent._store.get_many = read  # type: ignore[method-assign]
    assert [file.version for file in recent.after(0)] == [1]
    assert recent._known(0, None)
