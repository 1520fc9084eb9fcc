"""Checkpoints others can read, with nothing lost, and log clean-up that never takes too much."""

from __future__ import annotations

import json
import os
import time
from dataclasses import replace
from datetime import date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import deltalake
import polars
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from lakemend.formats.delta import checkpoint_writer
from lakemend.formats.delta.actions import Protocol
from lakemend.formats.delta.alter import altered_metadata
from lakemend.formats.delta.checkpoint_writer import is_due, state_of, write_checkpoint
from lakemend.formats.delta.cleanup import clean_log
from lakemend.formats.delta.table import DeltaTable
from lakemend.formats.format import Change
from lakemend.schema import struct
from lakemend.storage import open_store
from tests.unit.delta_write.delta_tables import ALL, Lake, metadata

DAY = 86_400_000


def log_files(lake: Lake) -> list[str]:
    return sorted(p.name for p in (lake.root / "_delta_log").iterdir() if p.is_file())


def fresh(lake: Lake) -> DeltaTable:
    return DeltaTable(open_store(str(lake.root)))


def forget_commits(lake: Lake, before: int) -> None:
    """Only the checkpoint can tell what was in the commits before."""
    for version in range(before):
        (lake.root / "_delta_log" / f"{version:020d}.json").unlink()


EVERYTHING = struct(
    ("id", "long"),
    ("b", "boolean"),
    ("f", "float"),
    ("d", "double"),
    ("dec", "decimal(20,3)"),
    ("day", "date"),
    ("at", "timestamp_ntz"),
    ("text", "string"),
    ("raw", "binary"),
    ("s", struct(("inner", "integer"), ("deep", struct(("er", "string"))))),
    ("l", {"type": "array", "elementType": "long", "containsNull": True}),
    ("part", "date"),
)
ROW: dict[str, Any] = {
    "id": 1,
    "b": True,
    "f": 1.5,
    "d": -0.0,
    "dec": Decimal("12345678901234567.125"),
    "day": date(2024, 1, 2),
    "at": datetime(2024, 1, 2, 3, 4, 5, 678901),
    "text": "t" * 50,
    "raw": b"\x00\xff",
    "s": {"inner": 3, "deep": {"er": "x"}},
    "l": [1, None],
}


def test_no_v2_checkpoint_where_the_protocol_does_not_tell_readers(tmp_path: Path) -> None:
    """deltalake sets the policy and leaves the protocol at (1, 2), which every reader ever written may open."""
    config = {"delta.checkpointPolicy": "v2", "delta.checkpointInterval": "2"}
    deltalake.write_deltalake(str(tmp_path / "t"), pa.table({"id": [1]}), configuration=config)
    assert deltalake.DeltaTable(str(tmp_path / "t")).protocol().min_reader_version == 1
    lake = Lake(tmp_path / "t")
    for id in (2, 3):
        lake.append_rows({"id": id})
    assert [name for name in log_files(lake) if "checkpoint" in name] == [
        f"{2:020d}.checkpoint.parquet",
        "_last_checkpoint",
    ]
    # Once the protocol says so, they come.
    base = lake.table.latest()
    lake.commit(base, Change("alter", metadata=altered_metadata(base, [{"kind": "set_comment", "comment": "x"}])))
    assert lake.table.latest().protocol.min_reader == 3
    lake.append_rows({"id": 4})
    assert any(name.startswith(f"{4:020d}.checkpoint.") and len(name) > 60 for name in log_files(lake))
    forget_commits(lake, 4)
    assert fresh(lake).latest().files.num_rows == 4


@pytest.mark.parametrize("policy", ["classic", "v2"])
@pytest.mark.parametrize("json_stats", ["true", "false"])
def test_a_checkpoint_holds_the_whole_state(lake: Lake, policy: str, json_stats: str) -> None:
    properties = {
        "delta.checkpointInterval": "5",
        "delta.checkpointPolicy": policy,
        "delta.checkpoint.writeStatsAsJson": json_stats,
    }
    lake.create(metadata(EVERYTHING, ("part",), properties=properties, checks={"c": "id > 0"}, comment="all of it"))
    for number in range(3):
        files = [lake.write([ROW | {"id": number}, ROW | {"id": 10}], partition=(number or None,))]
        lake.append(*files, transaction=("app", number))
    base = lake.table.latest()
    lake.commit(base, Change("delete", removed=lake.removed(base, 0), read_predicate=ALL))
    base = lake.table.latest()
    lake.commit(base, Change("delete", masked=[lake.masked(base, 0, 1)], read_predicate=ALL))
    before = fresh(lake).latest()
    assert before.version == 5 and any("checkpoint" in name for name in log_files(lake))
    forget_commits(lake, 5)
    after = fresh(lake).latest()
    assert after.version == 5
    order = [("path", "ascending")]
    assert after.raw.drop(["dataChange"]).sort_by(order).equals(before.raw.drop(["dataChange"]).sort_by(order))
    assert after.meta == before.meta and after.protocol == before.protocol
    assert after.transactions == before.transactions
    assert sorted(after.tombstones["path"].to_pylist()) == sorted(before.tombstones["path"].to_pylist())
    for column in (("id",), ("d",), ("dec",), ("day",), ("at",), ("text",), ("s", "inner"), ("s", "deep", "er")):
        ours, theirs = after.stats(column), before.stats(column)
        assert ours is not None and theirs is not None, column
        assert sorted(map(str, ours.min.to_pylist())) == sorted(map(str, theirs.min.to_pylist())), column
        assert sorted(map(str, ours.max.to_pylist())) == sorted(map(str, theirs.max.to_pylist())), column
        assert ours.nulls.to_pylist() == theirs.nulls.to_pylist(), column
    if json_stats == "true":
        assert sorted(map(str, after.stats_json().to_pylist())) == sorted(map(str, before.stats_json().to_pylist()))


VECTOR = {"storageType": "i", "pathOrInlineDv": "0rJua000", "offset": None, "sizeInBytes": 34, "cardinality": 2}
# One of every field of every action, and each map empty, with a null value and absent.
LOG: list[dict[str, Any]] = [
    {"protocol": {"minReaderVersion": 3, "minWriterVersion": 7, "readerFeatures": ["deletionVectors"],
                  "writerFeatures": ["deletionVectors", "domainMetadata"]}},
    {"metaData": {"id": "i", "name": "n", "description": "d", "format": {"provider": "parquet", "options": {}},
                  "schemaString": json.dumps(struct(("id", "long"), ("p", "string"))), "partitionColumns": ["p"],
                  "configuration": {"k": "v", "delta.enableDeletionVectors": "true"}, "createdTime": 5}},
    {"txn": {"appId": "a", "version": 3, "lastUpdated": 4}},
    {"txn": {"appId": "b", "version": 1}},
    {"domainMetadata": {"domain": "x", "configuration": "{}", "removed": False}},
    {"domainMetadata": {"domain": "y", "configuration": "", "removed": False}},
    *({"add": {"path": f"p={i}/a.parquet", "partitionValues": {"p": value}, "size": 10, "modificationTime": 1,
               "dataChange": True, "stats": '{"numRecords":3}', **more}}
      for i, (value, more) in enumerate([
          ("ü", {}), (None, {"tags": {}}), ("x", {"tags": {"t": "1", "u": None}}),
          ("x", {"deletionVector": VECTOR, "baseRowId": 7, "defaultRowCommitVersion": 1, "clusteringProvider": "c"}),
      ])),
    *({"remove": {"path": f"p={i}/r.parquet", "deletionTimestamp": int(time.time() * 1000), "dataChange": True, **more}}
      for i, more in enumerate([
          {}, {"extendedFileMetadata": True, "partitionValues": {"p": None}, "size": 9, "tags": {}},
          {"extendedFileMetadata": True, "partitionValues": {"p": "ü"}, "size": 9, "tags": {"t": None}},
          {"deletionVector": VECTOR, "baseRowId": 7, "defaultRowCommitVersion": 1},
      ])),
]  # fmt: skip
BARE: list[dict[str, Any]] = [
    {"protocol": {"minReaderVersion": 1, "minWriterVersion": 2}},
    {"metaData": {"id": "i", "format": {"provider": "parquet", "options": {}}, "partitionColumns": [],
                  "schemaString": json.dumps(struct(("id", "long"))), "configuration": {}}},
    {"add": {"path": "a.parquet", "partitionValues": {}, "size": 10, "modificationTime": 1, "dataChange": True}},
    {"remove": {"path": "r.parquet", "deletionTimestamp": int(time.time() * 1000), "dataChange": True}},
]  # fmt: skip


def spelled(table: DeltaTable) -> dict[str, Any]:
    """All that the table would write into JSON again."""
    snapshot = table.latest()
    adds = [snapshot.add(row).to_json() | {"dataChange": None} for row in range(snapshot.raw.num_rows)]
    removes = snapshot.tombstones.drop(["dataChange", "stats"]).to_pylist(maps_as_pydicts="strict")
    return {
        "protocol": snapshot.protocol.to_json(),
        "metaData": snapshot.meta.to_json(),
        "txn": [t.to_json() for _, t in sorted(snapshot.transactions.items())],
        "domains": [d.to_json() for _, d in sorted(snapshot.domains.items())],
        "adds": sorted(adds, key=lambda a: str(a["path"])),
        "removes": sorted(removes, key=lambda r: str(r["path"])),
    }


@pytest.mark.parametrize("policy", ["classic", "v2"])
@pytest.mark.parametrize("actions", [LOG, BARE], ids=["everything", "nothing"])
def test_what_a_checkpoint_gives_back_is_what_the_commits_said(
    lake: Lake, actions: list[dict[str, Any]], policy: str
) -> None:
    """Also from a checkpoint that was made from a checkpoint."""
    log = lake.root / "_delta_log"
    log.mkdir(parents=True)
    (log / f"{0:020d}.json").write_text("\n".join(json.dumps(action) for action in actions))
    said = spelled(fresh(lake))
    assert said["metaData"]["format"] == {"provider": "parquet", "options": {}}
    for _ in range(2):
        state = state_of(fresh(lake).latest())
        for path in log.rglob("*"):
            if path.is_file():
                path.unlink()
        configuration = state.metadata.configuration | {"delta.checkpointPolicy": policy}
        write_checkpoint(
            lake.table.store, replace(state, metadata=replace(state.metadata, configuration=configuration))
        )
        again = spelled(fresh(lake))
        again["metaData"]["configuration"].pop("delta.checkpointPolicy")
        assert again == said


@pytest.mark.parametrize("policy", ["classic", "v2"])
def test_metadata_written_after_a_checkpoint_is_read_by_others(lake: Lake, policy: str) -> None:
    properties = {"delta.checkpointInterval": "2", "delta.checkpointPolicy": policy}
    lake.create(metadata(properties=properties))
    for number in range(2):
        lake.append_rows({"id": number, "p": "x", "x": 1.0})
    table = fresh(lake)
    base = table.latest()
    table.try_commit(base, Change("alter", metadata=replace(base.metadata, comment="new")))
    text = (lake.root / "_delta_log" / f"{3:020d}.json").read_text()
    (action,) = [json.loads(line)["metaData"] for line in text.splitlines() if "metaData" in line]
    assert action["format"] == {"provider": "parquet", "options": {}}
    assert deltalake.DeltaTable(str(lake.root)).metadata().description == "new"


def test_options_once_written_as_a_list_are_none(lake: Lake) -> None:
    lake.create(rows=[{"id": 1, "p": "x", "x": 1.0}])
    path = lake.root / "_delta_log" / f"{0:020d}.json"
    path.write_text(path.read_text().replace('"options":{}', '"options":[]'))
    assert fresh(lake).latest().meta.to_json()["format"]["options"] == {}


def test_lists_of_features_have_no_place_in_an_older_protocol() -> None:
    body = {"minReaderVersion": 1, "minWriterVersion": 2, "readerFeatures": [], "writerFeatures": []}
    assert Protocol.from_json(body).to_json() == {"minReaderVersion": 1, "minWriterVersion": 2}


def test_every_file_of_a_v2_checkpoint_has_adds_and_removes(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where one of the columns is missing, delta-spark cannot read the table, not even after a commit of its own."""
    monkeypatch.setattr(checkpoint_writer, "_FILES_PER_SIDECAR", 2)
    lake.create(metadata(properties={"delta.checkpointInterval": "3", "delta.checkpointPolicy": "v2"}))
    for number in range(3):
        lake.append_rows({"id": number, "p": "x", "x": 1.0})
    files = [*(lake.root / "_delta_log").glob("*.checkpoint.*"), *(lake.root / "_delta_log" / "_sidecars").iterdir()]
    assert len(files) == 3
    for file in files:
        schema = pq.read_schema(file)
        assert {"add", "remove"} <= set(schema.names), file.name
        assert {"path", "partitionValues", "size", "stats"} <= {f.name for f in schema.field("add").type}
    assert fresh(lake).latest().files.num_rows == 3


@pytest.mark.parametrize("policy", ["classic", "v2"])
@pytest.mark.parametrize("vectors", ["true", "false"])
@pytest.mark.parametrize("json_stats", ["true", "false"])
def test_others_read_tables_from_our_checkpoints(lake: Lake, policy: str, vectors: str, json_stats: str) -> None:
    properties = {
        "delta.checkpointInterval": "3",
        "delta.checkpointPolicy": policy,
        "delta.enableDeletionVectors": vectors,
        "delta.checkpoint.writeStatsAsJson": json_stats,
    }
    schema = struct(
        ("id", "long"), ("p", "string"), ("at", "timestamp"), ("s", struct(("x", "double"))), ("dec", "decimal(10,2)")
    )
    lake.create(metadata(schema, ("p",), properties=properties))
    for number in range(3):
        rows = [{"id": 10 * number + i, "s": {"x": i / 2}, "dec": Decimal("1.25"), "at": None} for i in range(4)]
        lake.append(lake.write(rows, partition=("a b" if number else None,)))
    forget_commits(lake, 3)
    expected = {10 * n + i for n in range(3) for i in range(4)}
    if vectors == "true":
        base = lake.table.latest()
        lake.commit(base, Change("delete", masked=[lake.masked(base, 0, 0)], read_predicate=ALL))
        gone = (base.stats(("id",)) or pytest.fail("no stats")).min[0].as_py()
        expected.discard(gone)
    theirs = deltalake.DeltaTable(str(lake.root))
    found = deltalake.QueryBuilder().register("t", theirs).execute("select id from t where id >= 0").read_all()
    assert set(found["id"].to_pylist()) == expected
    assert len(theirs.file_uris()) == 3
    if policy == "classic" and vectors == "false":
        assert set(polars.scan_delta(str(lake.root)).filter(polars.col("id") >= 0).collect()["id"]) == expected
        assert set(theirs.to_pyarrow_table()["id"].to_pylist()) == expected
        # They go on with our log, and we with theirs.
        deltalake.write_deltalake(theirs, theirs.to_pyarrow_table().slice(0, 2), mode="append")
        theirs.create_checkpoint()
        assert fresh(lake).latest().files.num_rows == 4
        if json_stats == "true":
            assert fresh(lake).latest().files["rows"].to_pylist().count(2) == 1


def test_checkpoints_come_every_so_many_commits(lake: Lake) -> None:
    assert [v for v in range(31) if is_due(v, {})] == [10, 20, 30]
    lake.create(metadata(properties={"delta.checkpointInterval": "2"}))
    for number in range(5):
        lake.append_rows({"id": number, "p": "x", "x": 1.0})
    checkpoints = [name for name in log_files(lake) if name.endswith(".parquet")]
    assert [int(name[:20]) for name in checkpoints] == [2, 4]
    hint = json.loads((lake.root / "_delta_log" / "_last_checkpoint").read_text())
    assert hint["version"] == 4 and hint["numOfAddFiles"] == 4


@pytest.mark.parametrize("policy", ["classic", "v2"])
def test_empty_tables_and_columns_without_bounds(lake: Lake, policy: str) -> None:
    properties = {"delta.checkpointInterval": "1", "delta.checkpointPolicy": policy}
    lake.create(metadata(struct(("raw", "binary"), ("l", EVERYTHING["fields"][10]["type"])), properties=properties))
    lake.append(transaction=("app", 1))
    assert fresh(lake).latest().files.num_rows == 0
    lake.append_rows({"raw": b"x", "l": [1]})
    forget_commits(lake, 2)
    assert fresh(lake).latest().files["rows"].to_pylist() == [1]
    theirs = deltalake.DeltaTable(str(lake.root))
    found = deltalake.QueryBuilder().register("t", theirs).execute("select raw from t").read_all()
    assert found["raw"].to_pylist() == [b"x"]


def test_the_hint_never_goes_back(lake: Lake) -> None:
    lake.create(metadata(properties={"delta.checkpointInterval": "2"}))
    for number in range(4):
        lake.append_rows({"id": number, "p": "x", "x": 1.0})
    write_checkpoint(lake.table.store, state_of(lake.table.at_version(3)))
    assert json.loads((lake.root / "_delta_log" / "_last_checkpoint").read_text())["version"] == 4


def test_expired_tombstones_are_left_out(lake: Lake) -> None:
    lake.create(rows=[{"id": 1, "p": "", "x": 1.0}])
    base = lake.table.latest()
    lake.commit(base, Change("delete", removed=lake.removed(base, 0), read_predicate=ALL))
    state = state_of(lake.table.latest())
    write_checkpoint(lake.table.store, state, now=int(time.time() * 1000) + 8 * DAY)
    table = pq.read_table(lake.root / "_delta_log" / f"{1:020d}.checkpoint.parquet")
    assert table["remove"].null_count == len(table)


def test_statistics_are_typed_in_the_checkpoint(lake: Lake) -> None:
    lake.create(metadata(EVERYTHING, ("part",), properties={"delta.checkpointInterval": "1"}))
    lake.append(lake.write([ROW, ROW | {"f": 2.5}], partition=(1,)))
    table = pq.read_table(lake.root / "_delta_log" / f"{1:020d}.checkpoint.parquet")
    add = next(a for a in table["add"].to_pylist() if a)
    assert add["partitionValues_parsed"] == {"part": date(1970, 1, 2)}
    assert add["stats_parsed"]["numRecords"] == 2
    assert add["stats_parsed"]["minValues"]["dec"] == ROW["dec"] and add["stats_parsed"]["maxValues"]["f"] == 2.5
    assert add["stats_parsed"]["minValues"]["s"] == {"inner": 3, "deep": {"er": "x"}}
    assert add["stats_parsed"]["minValues"]["at"] == datetime(2024, 1, 2, 3, 4, 5, 678000)
    assert "raw" not in add["stats_parsed"]["minValues"] and add["stats_parsed"]["nullCount"]["raw"] == 0
    assert pa.types.is_date(
        table.schema.field("add").type.field("stats_parsed").type.field("minValues").type.field("day").type
    )


def age(lake: Lake, days: dict[int, float]) -> None:
    """Makes everything of each version so many days old."""
    for path in (lake.root / "_delta_log").rglob("*"):
        if path.is_file() and path.name[:20].isdigit():
            version = int(path.name[:20])
            if version in days:
                moment = time.time() - days[version] * 86400
                os.utime(path, (moment, moment))


def test_clean_up_keeps_every_unexpired_version_readable(lake: Lake) -> None:
    lake.create(metadata(properties={"delta.checkpointInterval": "3"}))
    for number in range(10):
        lake.append_rows({"id": number, "p": "x", "x": 1.0})
    age(lake, {v: 60 - v for v in range(8)} | {8: 5, 9: 4, 10: 3})
    properties = lake.table.latest().meta.configuration
    assert clean_log(lake.table.store, properties) > 0
    versions = sorted(int(n[:20]) for n in log_files(lake) if n.endswith(".json"))
    # Version 8 is the oldest younger than thirty days; the checkpoint it needs is 6.
    assert versions == [6, 7, 8, 9, 10]
    table = fresh(lake)
    for version in range(6, 11):
        assert table.at_version(version).files.num_rows == version
    assert deltalake.DeltaTable(str(lake.root)).version() == 10


@pytest.mark.parametrize("on_demand", [False, True])
def test_clean_up_keeps_the_version_that_lived_until_a_moment_ago(lake: Lake, on_demand: bool) -> None:
    """Nobody wrote to the table for longer than the retention: its last version is old, and was the newest till now."""
    every = "1000" if on_demand else "3"
    lake.create(metadata(properties={"delta.checkpointInterval": every}))
    for number in range(4):
        lake.append_rows({"id": number, "p": "x", "x": 1.0})
    lake.table.checkpoint()
    lake.append_rows({"id": 4, "p": "x", "x": 1.0})
    age(lake, {v: 60 - v for v in range(6)})
    base = lake.table.reread(5)
    lake.commit(base, Change("delete", removed=lake.removed(base, 0, 1, 2, 3, 4), read_predicate=ALL))
    lake.table.checkpoint()
    head = fresh(lake)
    assert head.latest().version == 6 and head.latest().files.num_rows == 0
    assert head.at_version(5).files.num_rows == 5
    commits = sorted(int(n[:20]) for n in log_files(lake) if n.endswith(".json"))
    # What was replaced before the retention began is gone, down to the checkpoint that is still needed.
    assert commits == [4, 5, 6]


def test_a_version_is_found_though_the_log_lost_what_leads_to_it(lake: Lake) -> None:
    lake.create(metadata(properties={"delta.checkpointInterval": "4"}))
    for number in range(10):
        lake.append_rows({"id": number, "p": "x", "x": 1.0})
    known = fresh(lake)
    known.latest()
    assert known.at_version(2).files.num_rows == 2  # kept from now on
    age(lake, {v: 60 - v for v in range(6)})
    assert clean_log(lake.table.store, {}) > 0 and not (lake.root / "_delta_log" / f"{3:020d}.json").exists()
    assert known.at_version(6).files.num_rows == 6


@pytest.mark.parametrize(
    ("properties", "days"),
    [
        ({"delta.enableExpiredLogCleanup": "false"}, 60.0),
        ({"delta.logRetentionDuration": "interval 100 days"}, 60.0),
        ({}, 1.0),
    ],
)
def test_clean_up_deletes_nothing_it_should_not(lake: Lake, properties: dict[str, str], days: float) -> None:
    lake.create(metadata(properties={"delta.checkpointInterval": "2"}))
    for number in range(5):
        lake.append_rows({"id": number, "p": "x", "x": 1.0})
    age(lake, dict.fromkeys(range(6), days))
    before = log_files(lake)
    assert clean_log(lake.table.store, properties) == 0
    assert log_files(lake) == before


def test_clean_up_without_a_readable_checkpoint_deletes_nothing(lake: Lake, caplog: pytest.LogCaptureFixture) -> None:
    lake.create(metadata(properties={"delta.checkpointInterval": "3"}))
    for number in range(4):
        lake.append_rows({"id": number, "p": "x", "x": 1.0})
    (lake.root / "_delta_log" / f"{3:020d}.checkpoint.parquet").write_bytes(b"broken")
    age(lake, dict.fromkeys(range(5), 60.0))
    before = log_files(lake)
    assert clean_log(lake.table.store, {}) == 0
    assert log_files(lake) == before and "not cleaned up" in caplog.text


def test_clean_up_removes_sidecars_nobody_names(lake: Lake) -> None:
    lake.create(metadata(properties={"delta.checkpointInterval": "2", "delta.checkpointPolicy": "v2"}))
    for number in range(5):
        lake.append_rows({"id": number, "p": "x", "x": 1.0})
    sidecars = lake.root / "_delta_log" / "_sidecars"
    assert len(list(sidecars.iterdir())) == 2
    for path in sidecars.iterdir():
        os.utime(path, (time.time() - 60 * 86400,) * 2)
    age(lake, dict.fromkeys(range(5), 60.0))
    clean_log(lake.table.store, {})
    assert len(list(sidecars.iterdir())) == 1
    assert fresh(lake).latest().files.num_rows == 5


@pytest.mark.parametrize("protected", [False, True])
def test_checkpoints_that_hide_a_dropped_feature_stay(lake: Lake, protected: bool) -> None:
    features = {"delta.feature.checkpointProtection": "supported"} if protected else {}
    lake.create(metadata(properties={"delta.checkpointInterval": "3", **features}))
    for number in range(5):
        lake.append_rows({"id": number, "p": "x", "x": 1.0})
    age(lake, {v: 60 - v for v in range(6)})
    lake.append_rows({"id": 6, "p": "x", "x": 1.0})  # version 6 has a checkpoint, and the log is cleaned up
    commits = sorted(int(n[:20]) for n in log_files(lake) if n.endswith(".json"))
    assert (commits[0] == 0) == protected
    assert fresh(lake).latest().files.num_rows == 6
