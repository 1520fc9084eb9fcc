"""Every kind of checkpoint gives the same table as the commits it stands for."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from lakemend.errors import CorruptTableError, UnsupportedFeatureError

STRINGS = pa.map_(pa.string(), pa.string())
VECTOR = pa.struct(
    [
        ("storageType", pa.string()),
        ("pathOrInlineDv", pa.string()),
        ("offset", pa.int32()),
        ("sizeInBytes", pa.int32()),
        ("cardinality", pa.int64()),
    ]
)
PARSED = pa.struct(
    [
        ("numRecords", pa.int64()),
        (
            "minValues",
            pa.struct([("id", pa.int64()), ("dot.ted", pa.string()), ("s", pa.struct([("x", pa.date32())]))]),
        ),
        (
            "maxValues",
            pa.struct([("id", pa.int64()), ("dot.ted", pa.string()), ("s", pa.struct([("x", pa.date32())]))]),
        ),
        ("nullCount", pa.struct([("id", pa.int64()), ("dot.ted", pa.int64()), ("s", pa.struct([("x", pa.int64())]))])),
    ]
)
STRUCT = {"type": "struct", "fields": [{"name": "x", "type": "date", "nullable": True, "metadata": {}}]}
COLUMNS = (("id", "long"), ("dot.ted", "string"), ("s", STRUCT), ("p", "integer"))


def stats_of(i: int) -> dict[str, Any]:
    return {
        "numRecords": i,
        "minValues": {"id": i, "dot.ted": f"m{i}", "s": {"x": "2024-01-01"}},
        "maxValues": {"id": i * 10, "dot.ted": f"m{i}z", "s": {"x": "2024-01-09"}},
        "nullCount": {"id": 0, "dot.ted": 1, "s": {"x": 2}},
    }


def parsed_of(i: int) -> dict[str, Any]:
    import datetime as dt

    stats = stats_of(i)
    for side, day in (("minValues", 1), ("maxValues", 9)):
        stats[side]["s"]["x"] = dt.date(2024, 1, day)
    return stats


def actions(made: Any) -> list[dict[str, Any]]:
    protocol = made.protocol(3, 7, readerFeatures=["v2Checkpoint"], writerFeatures=["v2Checkpoint"])["protocol"]
    metadata = made.metadata(*COLUMNS, partition_by=("p",), configuration={"k": "v"})["metaData"]
    return [
        {"protocol": protocol},
        {"metaData": metadata},
        {"txn": {"appId": "a", "version": 3}},
        {"domainMetadata": {"domain": "d", "configuration": "{}", "removed": False}},
        *(made.add(f"f{i}", {"p": str(i % 3)}, stats_of(i), tags={"t": str(i)}) for i in range(1, 7)),
        made.remove("gone", extendedFileMetadata=True, partitionValues={"p": "9"}, size=3),
    ]


def arrow_schema(stats: str, partition: str = "map") -> pa.Schema:
    add = [
        ("path", pa.string()),
        ("partitionValues", STRINGS),
        ("size", pa.int64()),
        ("modificationTime", pa.int64()),
        ("dataChange", pa.bool_()),
        ("tags", STRINGS),
        ("deletionVector", VECTOR),
    ]
    if partition == "parsed":
        add[1] = ("partitionValues_parsed", pa.struct([("p", pa.int32())]))
    if "json" in stats:
        add.append(("stats", pa.string()))
    if "parsed" in stats:
        add.append(("stats_parsed", PARSED))
    remove = [
        ("path", pa.string()),
        ("deletionTimestamp", pa.int64()),
        ("dataChange", pa.bool_()),
        ("extendedFileMetadata", pa.bool_()),
        ("partitionValues", STRINGS),
        ("size", pa.int64()),
    ]
    metadata = [
        ("id", pa.string()),
        ("schemaString", pa.string()),
        ("partitionColumns", pa.list_(pa.string())),
        ("configuration", STRINGS),
        ("format", pa.struct([("provider", pa.string()), ("options", STRINGS)])),
        ("createdTime", pa.int64()),
    ]
    protocol = [
        ("minReaderVersion", pa.int32()),
        ("minWriterVersion", pa.int32()),
        ("readerFeatures", pa.list_(pa.string())),
        ("writerFeatures", pa.list_(pa.string())),
    ]
    return pa.schema(
        [
            ("txn", pa.struct([("appId", pa.string()), ("version", pa.int64()), ("lastUpdated", pa.int64())])),
            ("add", pa.struct(add)),
            ("remove", pa.struct(remove)),
            ("metaData", pa.struct(metadata)),
            ("protocol", pa.struct(protocol)),
            ("domainMetadata", pa.struct([("domain", pa.string()), ("configuration", pa.string())])),
            ("sidecar", pa.struct([("path", pa.string()), ("sizeInBytes", pa.int64())])),
            ("checkpointMetadata", pa.struct([("version", pa.int64())])),
        ]
    )


def rows(found: list[dict[str, Any]], partition: str = "map") -> list[dict[str, Any]]:
    out = []
    for action in found:
        ((kind, body),) = action.items()
        body = dict(body)
        for name in ("partitionValues", "tags", "configuration"):
            if isinstance(body.get(name), dict):
                body[name] = list(body[name].items())
        if kind == "add":
            body["stats_parsed"] = parsed_of(int(body["path"][1:]))
            if partition == "parsed":
                body["partitionValues_parsed"] = {k: int(v) for k, v in body["partitionValues"]}
        if kind == "metaData":
            body["format"] = {"provider": "parquet", "options": []}
        out.append({kind: body})
    return out


def write(path: Path, found: list[dict[str, Any]], stats: str, partition: str = "map") -> None:
    schema = arrow_schema(stats, partition)
    path.parent.mkdir(exist_ok=True)
    table = pa.Table.from_pylist([dict.fromkeys(schema.names) | row for row in rows(found, partition)], schema)
    pq.write_table(table, path)


def check(made: Any, last: int = 6) -> None:
    snapshot = made.open().latest()
    expected = [f"f{i}" for i in range(1, last + 1)]
    order = {f["path"]: (row, f) for row, f in enumerate(snapshot.files.to_pylist())}
    assert sorted(order) == expected
    assert snapshot.transaction("a") == 3 and set(snapshot.domains) == {"d"}
    assert snapshot.metadata.properties == {"k": "v"}
    assert snapshot.tombstones.column("path").to_pylist() == ["gone"]
    for i in range(1, last + 1):
        row, file = order[f"f{i}"]
        assert file["rows"] == i and file["partition"] == {"p": i % 3} and file["size"] == 10
        number, dotted, day = (snapshot.stats(path) for path in (("id",), ("dot.ted",), ("s", "x")))
        assert (number.min[row].as_py(), number.max[row].as_py()) == (i, i * 10)
        assert number.exact[row].as_py() and not dotted.exact[row].as_py()
        assert dotted.min[row].as_py() == f"m{i}" and dotted.max[row].as_py() > f"m{i}z"
        assert (day.nulls[row].as_py(), str(day.max[row])) == (2, "2024-01-09")
        action = snapshot.add(row)
        assert json.loads(action.stats) == stats_of(i)
        assert action.tags == {"t": str(i)}
        assert action.partition_values == {"p": str(i % 3)}


@pytest.fixture(params=["json", "parsed", "json+parsed"])
def stats(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.mark.parametrize("partition", ["map", "parsed"])
def test_classic(made: Any, stats: str, partition: str) -> None:
    write(made.log / f"{5:020d}.checkpoint.parquet", actions(made), stats, partition)
    check(made)


def test_multi_part(made: Any, stats: str) -> None:
    found = actions(made)
    for part, chunk in enumerate([found[:5], found[5:8], found[8:]], 1):
        write(made.log / f"{5:020d}.checkpoint.{part:010d}.{3:010d}.parquet", chunk, stats)
    check(made)


def test_multi_part_without_a_part_is_ignored(made: Any) -> None:
    found = actions(made)
    made.commit(0, *found)
    made.commit(1, {"commitInfo": {"operation": "NOTHING"}})
    for part, chunk in enumerate([found[:4], found[4:8]], 1):
        write(made.log / f"{1:020d}.checkpoint.{part:010d}.{3:010d}.parquet", chunk, "json")
    check(made)
    (made.log / f"{0:020d}.json").unlink()
    with pytest.raises(CorruptTableError, match=r"00000000000000000000\.json"):
        made.open().latest()


def sidecars(made: Any, stats: str) -> list[dict[str, Any]]:
    found = actions(made)
    names = ["one.parquet", "two.parquet"]
    for name, chunk in zip(names, [found[4:7], found[7:]], strict=True):
        write(made.log / "_sidecars" / name, chunk, stats)
    return [
        {"checkpointMetadata": {"version": 5}},
        *found[:4],
        *({"sidecar": {"path": name, "sizeInBytes": 1, "modificationTime": 1}} for name in names),
    ]


UUID = "80a083e8-7026-4e79-81be-64bd76c43a11"


@pytest.mark.parametrize("name", [f"checkpoint.{UUID}.parquet", "checkpoint.parquet"])
def test_v2_parquet(made: Any, stats: str, name: str) -> None:
    write(made.log / f"{5:020d}.{name}", sidecars(made, stats), "json")
    check(made)


def test_v2_json(made: Any, stats: str) -> None:
    path = made.log / f"{5:020d}.checkpoint.{UUID}.json"
    path.write_text("\n".join(map(json.dumps, sidecars(made, stats))))
    check(made)


def test_commits_after_a_checkpoint(made: Any, stats: str) -> None:
    write(made.log / f"{5:020d}.checkpoint.parquet", actions(made), stats)
    for version in (6, 7):
        i = version + 1
        made.commit(version, made.add(f"f{i}", {"p": str(i % 3)}, stats_of(i), tags={"t": str(i)}))
    check(made, 8)
    made.commit(8, made.remove("f7"), made.remove("f8"), made.add("gone", {"p": None}), made.remove("f1"))
    snapshot = made.open().latest()
    assert sorted(snapshot.files.column("path").to_pylist()) == ["f2", "f3", "f4", "f5", "f6", "gone"]
    assert sorted(snapshot.tombstones.column("path").to_pylist()) == ["f1", "f7", "f8"]
    assert sorted(snapshot.stats(("id",)).min.to_pylist(), key=str) == [2, 3, 4, 5, 6, None]


def test_missing_sidecar_is_named(made: Any) -> None:
    write(made.log / f"{5:020d}.checkpoint.parquet", sidecars(made, "json"), "json")
    (made.log / "_sidecars" / "two.parquet").unlink()
    with pytest.raises(CorruptTableError, match=r"two\.parquet"):
        made.open().latest()


def test_truncated_checkpoint_is_named(made: Any) -> None:
    path = made.log / f"{5:020d}.checkpoint.parquet"
    write(path, actions(made), "json")
    path.write_bytes(path.read_bytes()[:-20])
    with pytest.raises(CorruptTableError, match=r"00000000000000000005\.checkpoint\.parquet"):
        made.open().latest()


def test_half_parsed_statistics_fall_back_to_strings(made: Any) -> None:
    schema = arrow_schema("json+parsed")
    found = rows(actions(made))
    for row in found:
        if "add" in row and row["add"]["path"] in ("f1", "f2"):
            row["add"]["stats_parsed"] = None
    path = made.log / f"{5:020d}.checkpoint.parquet"
    pq.write_table(pa.Table.from_pylist([dict.fromkeys(schema.names) | row for row in found], schema), path)
    check(made)


def test_unknown_reader_feature_in_a_checkpoint(made: Any) -> None:
    found = actions(made)
    found[0] = made.protocol(3, 7, readerFeatures=["teleport"], writerFeatures=["teleport"])
    write(made.log / f"{5:020d}.checkpoint.parquet", found, "json")
    with pytest.raises(UnsupportedFeatureError, match="teleport"):
        made.open().latest()


def test_partitioning_that_changes_after_the_checkpoint(made: Any) -> None:
    write(made.log / f"{5:020d}.checkpoint.parquet", actions(made), "json")
    made.commit(
        6,
        made.metadata(*COLUMNS, partition_by=("dot.ted",)),
        *(made.remove(f"f{i}") for i in range(1, 7)),
        made.add("new", {"dot.ted": "x"}),
    )
    snapshot = made.open().latest()
    assert snapshot.files.column("partition").to_pylist() == [{"dot.ted": "x"}]
    assert snapshot.tombstones.num_rows == 7
