"""Which files make up a version; gaps, damage and hints."""

from __future__ import annotations

import json
import os
import shutil
from typing import Any

import pytest

from lakemend.errors import CorruptTableError, NotATableError, VersionNotFoundError
from lakemend.formats.delta.table import DeltaFormat
from lakemend.storage import open_store

ID = ("id", "long")


def grow(made: Any, versions: int) -> None:
    made.create(ID)
    for version in range(1, versions + 1):
        made.commit(version, made.add(f"f{version}"), {"commitInfo": {"operation": "WRITE"}})


def checkpoint(made: Any, version: int) -> None:
    """A JSON V2 checkpoint without sidecars of the table as it is at the version."""
    snapshot = made.open().at_version(version)
    lines = [
        {"checkpointMetadata": {"version": version}},
        {"protocol": snapshot.protocol.to_json()},
        {"metaData": snapshot.meta.to_json()},
        *({"add": snapshot.add(row).to_json()} for row in range(snapshot.files.num_rows)),
    ]
    name = f"{version:020d}.checkpoint.80a083e8-7026-4e79-81be-64bd76c43a11.json"
    (made.log / name).write_text("\n".join(map(json.dumps, lines)))


def test_empty_log_is_no_table(made: Any) -> None:
    assert not DeltaFormat().recognises(open_store(str(made.root)))
    with pytest.raises(NotATableError):
        made.open().latest()
    with pytest.raises(NotATableError):
        made.open().history()


def test_replay(made: Any) -> None:
    grow(made, 3)
    assert DeltaFormat().recognises(open_store(str(made.root)))
    made.commit(4, made.remove("f2"), made.add("f4"))
    made.commit(5, made.add("f2"), made.remove("f1"))
    assert made.paths() == ["f2", "f3", "f4"]
    assert made.open().latest().tombstones.column("path").to_pylist() == ["f1"]


def test_stats_refreshed_by_a_second_add(made: Any) -> None:
    grow(made, 1)
    made.commit(2, made.add("f1", stats={"numRecords": 7}, dataChange=False))
    assert made.open().latest().files.column("rows").to_pylist() == [7]


def test_encoded_paths_name_the_same_file(made: Any) -> None:
    made.create(ID)
    made.commit(1, made.add("a%20b"), made.add("c d"))
    made.commit(2, made.remove("a b"), made.remove("c%20d"))
    assert made.paths() == []


def test_unknown_actions_and_fields_are_ignored(made: Any) -> None:
    made.create(ID)
    made.commit(
        1,
        {"futureAction": {"x": [1, {"y": 2}]}},
        made.add("f1", futureField={"deep": [1]}, tags={"k": "v", "n": None}, baseRowId=5, clusteringProvider="liquid"),
        {"add": {**made.add("f2")["add"], "size": 11.0}},
    )
    snapshot = made.open().latest()
    assert snapshot.files.column("size").to_pylist() == [10, 11]
    first = snapshot.add(0)
    assert (first.tags, first.base_row_id, first.clustering_provider) == ({"k": "v", "n": None}, 5, "liquid")


def test_spaces_in_json(made: Any) -> None:
    made.create(ID)
    (made.log / f"{1:020d}.json").write_text('\n { "add" : {"path": "f1", "size": 1, "partitionValues": {}} }\r\n\n')
    assert made.paths() == ["f1"]


def test_a_gap_is_named(made: Any) -> None:
    grow(made, 3)
    (made.log / f"{2:020d}.json").unlink()
    with pytest.raises(CorruptTableError, match=r"00000000000000000002\.json") as caught:
        made.open().latest()
    assert caught.value.values["missing"] == 2
    assert made.open().at_version(1).files.num_rows == 1


def test_commits_that_start_late_are_named(made: Any) -> None:
    grow(made, 3)
    (made.log / f"{0:020d}.json").unlink()
    with pytest.raises(CorruptTableError, match=r"00000000000000000000\.json is missing.*start at version 1"):
        made.open().latest()


def test_gap_while_updating(made: Any) -> None:
    grow(made, 1)
    table = made.open()
    table.latest()
    made.commit(2, made.add("f2"))
    made.commit(4, made.add("f4"))
    with pytest.raises(CorruptTableError, match=r"00000000000000000003\.json"):
        table.latest()
    with pytest.raises(CorruptTableError, match=r"00000000000000000003\.json"):
        table.changes_since(1)


@pytest.mark.parametrize("damage", [b"", b"\n\n", b'{"add":{"path":"x"', b"[]", b"\x00\xff", b'{"add":{"size":1}}'])
def test_a_damaged_commit_is_named(made: Any, damage: bytes) -> None:
    grow(made, 2)
    (made.log / f"{2:020d}.json").write_bytes(damage)
    with pytest.raises(CorruptTableError, match=r"00000000000000000002\.json"):
        made.open().latest()


def test_no_metadata_is_corrupt(made: Any) -> None:
    made.commit(0, made.protocol(), made.add("f"))
    with pytest.raises(CorruptTableError, match="no metaData"):
        made.open().latest()


@pytest.mark.parametrize("schema", ["", "{", '"long"', "[]"])
def test_bad_schema_is_corrupt(made: Any, schema: str) -> None:
    action = made.metadata(ID)
    action["metaData"]["schemaString"] = schema
    made.commit(0, made.protocol(), action)
    with pytest.raises(CorruptTableError, match=r"00000000000000000000\.json"):
        made.open().latest()


def test_missing_versions_name_the_range(made: Any) -> None:
    grow(made, 2)
    for version in (3, -1):
        with pytest.raises(VersionNotFoundError, match="0 to 2"):
            made.open().at_version(version)


def test_cleaned_up_versions(made: Any) -> None:
    grow(made, 5)
    checkpoint(made, 3)
    for version in range(3):
        (made.log / f"{version:020d}.json").unlink()
    table = made.open()
    assert table.latest().files.num_rows == 5
    assert table.at_version(3).files.num_rows == 3
    for version in (0, 1, 2):
        with pytest.raises(VersionNotFoundError, match=r"3 to 5 .*cleaned up") as caught:
            table.at_version(version)
        assert (caught.value.values["earliest"], caught.value.values["latest"]) == (3, 5)
    with pytest.raises(VersionNotFoundError):
        table.at_timestamp(1)
    assert [h["version"] for h in table.history()] == [5, 4, 3]


@pytest.mark.parametrize(
    "hint", [None, "{", "[]", '{"version": 99}', '{"version": "x"}', '{"version": 1}', '{"version": 3, "size": 1}']
)
def test_the_hint_is_only_a_hint(made: Any, hint: str | None) -> None:
    grow(made, 5)
    checkpoint(made, 3)
    checkpoint(made, 4)
    if hint is not None:
        (made.log / "_last_checkpoint").write_text(hint)
    assert made.paths() == ["f1", "f2", "f3", "f4", "f5"]
    assert made.open().at_version(2).files.num_rows == 2
    assert made.open().at_version(3).files.num_rows == 3


def test_a_damaged_checkpoint_falls_back(made: Any) -> None:
    grow(made, 5)
    checkpoint(made, 2)
    (made.log / f"{4:020d}.checkpoint.parquet").write_bytes(b"PAR1 not really")
    (made.log / "_last_checkpoint").write_text('{"version": 4, "size": 1}')
    assert made.paths() == ["f1", "f2", "f3", "f4", "f5"]
    (made.log / f"{0:020d}.json").unlink()
    assert made.paths() == ["f1", "f2", "f3", "f4", "f5"]
    (made.log / f"{3:020d}.json").unlink()
    with pytest.raises(CorruptTableError, match=r"00000000000000000004\.checkpoint\.parquet"):
        made.open().latest()


def test_compacted_logs(made: Any) -> None:
    grow(made, 4)
    made.commit(5, made.remove("f2"))
    compacted = made.log / f"{1:020d}.{3:020d}.compacted.json"
    compacted.write_text("\n".join(json.dumps(made.add(f"f{v}", stats={"numRecords": v})) for v in (1, 2, 3)))
    snapshot = made.open().latest()
    assert sorted(snapshot.files.column("path").to_pylist()) == ["f1", "f3", "f4"]
    assert 3 in snapshot.files.column("rows").to_pylist()
    assert made.open().at_version(2).files.num_rows == 2
    (made.log / f"{2:020d}.json").unlink()
    assert made.paths() == ["f1", "f3", "f4"]


def test_a_damaged_compacted_log_falls_back(made: Any) -> None:
    grow(made, 4)
    (made.log / f"{1:020d}.{3:020d}.compacted.json").write_text("{")
    assert made.paths() == ["f1", "f2", "f3", "f4"]


def test_a_table_replaced_in_its_place(made: Any) -> None:
    grow(made, 3)
    table = made.open()
    assert table.latest().version == 3
    shutil.rmtree(made.log)
    made.log.mkdir()
    made.create(ID, ("extra", "string"))
    assert table.latest().version == 0
    assert len(table.latest().metadata.schema["fields"]) == 2


def test_times_grow_with_versions(made: Any) -> None:
    grow(made, 3)
    for version, seconds in enumerate([1000, 3000, 2000, 2500]):
        os.utime(made.log / f"{version:020d}.json", (seconds, seconds))
    table = made.open()
    assert [h["timestamp"] for h in table.history()] == [3000002, 3000001, 3000000, 1000000]
    assert table.latest().timestamp == 3000002
    assert table.at_timestamp(2_999_999).version == 0
    assert table.at_timestamp(3_000_001).version == 2
    with pytest.raises(VersionNotFoundError, match=r"00:16:39.999 UTC.*oldest version that can be read is 0"):
        table.at_timestamp(999_999)


def test_in_commit_timestamps(made: Any) -> None:
    on = {
        "delta.enableInCommitTimestamps": "true",
        "delta.inCommitTimestampEnablementVersion": "1",
        "delta.inCommitTimestampEnablementTimestamp": "5000",
    }
    made.create(ID)
    protocol = made.protocol(1, 7, writerFeatures=["inCommitTimestamp"])
    info = {"operation": "SET", "timestamp": 1}
    made.commit(1, {"commitInfo": {**info, "inCommitTimestamp": 5000}}, protocol, made.metadata(ID, configuration=on))
    made.commit(2, {"commitInfo": {**info, "inCommitTimestamp": 6000}}, made.add("f2"))
    made.commit(3, {"commitInfo": {**info, "inCommitTimestamp": 7000}}, made.add("f3"))
    os.utime(made.log / f"{0:020d}.json", (4, 4))
    table = made.open()
    assert table.latest().timestamp == 7000
    assert [table.at_timestamp(t).version for t in (4000, 4999, 5000, 6999, 7000, 9000)] == [0, 0, 1, 2, 3, 3]
    assert [h["timestamp"] for h in table.history()] == [7000, 6000, 5000, 4000]
    assert table.changes_since(2)[0].timestamp == 7000
    checkpoint(made, 3)
    assert made.open().latest().timestamp == 7000
    made.commit(4, {"commitInfo": info}, made.add("f4"))
    with pytest.raises(CorruptTableError, match="in-commit"):
        table.latest()


def test_history_fields(made: Any) -> None:
    made.create(ID)
    made.commit(
        1,
        made.add("f"),
        {
            "commitInfo": {
                "operation": "WRITE",
                "operationParameters": {"mode": "Append", "partitionBy": "[]"},
                "operationMetrics": {"numFiles": "1", "note": "x"},
                "userMetadata": "mine",
                "engineInfo": "Engine/1",
                "isBlindAppend": True,
                "readVersion": 0,
                "txnId": "token",
            }
        },
    )
    made.commit(2, made.remove("f"))
    nothing, write, _ = made.open().history()
    assert nothing["operation"] is None and nothing["parameters"] == {}
    assert write["metrics"] == {"numFiles": 1, "note": "x"}
    assert (write["user_metadata"], write["engine"], write["is_blind_append"]) == ("mine", "Engine/1", True)
    assert (write["read_version"], write["token"], write["parameters"]["mode"]) == (0, "token", "Append")


def test_transactions_and_domains(made: Any) -> None:
    made.create(ID)
    made.commit(1, {"txn": {"appId": "a", "version": 1}}, {"domainMetadata": {"domain": "d", "configuration": "{}"}})
    made.commit(2, {"txn": {"appId": "a", "version": 5, "lastUpdated": 9}})
    snapshot = made.open().latest()
    assert (snapshot.transaction("a"), snapshot.transactions["a"].last_updated) == (5, 9)
    assert set(snapshot.domains) == {"d"}
    made.commit(3, {"domainMetadata": {"domain": "d", "configuration": "", "removed": True}})
    assert not made.open().latest().domains
    first, second, _ = made.open().changes_since(0)
    assert first.transactions == {"a": 1}
    assert not second.metadata_changed
