"""Logs that somebody wrote to do harm: a typed error, never a crash and never nonsense."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from lakemend.brain.service import Brain
from lakemend.errors import CorruptTableError, LakemendError

DEEP = 100_000
VECTOR = {"storageType": "u", "pathOrInlineDv": "x" * 20, "offset": 1, "sizeInBytes": 3, "cardinality": 1}
STATS = {"numRecords": 3, "minValues": {"a": 1}, "maxValues": {"a": 2}, "nullCount": {"a": 0}}


def raw_add(**fields: str) -> str:
    """An add action whose fields are spelled in JSON."""
    known = {"path": '"f"', "partitionValues": "{}", "size": "1", "modificationTime": "1", "dataChange": "true"}
    body = ",".join(f'"{k}":{v}' for k, v in (known | fields).items())
    return f'{{"add":{{{body}}}}}'


def used(root: Path) -> dict[str, Any]:
    """Everything a reader asks of a table, over the wire's own boundary."""
    table = {"path": str(root)}
    brain = Brain()
    loaded = brain.ask("load", {"table": table})
    predicate = {"op": ">", "args": [{"col": ["a"]}, {"lit": 1, "type": "long"}]}
    request = {"table": table, "version": loaded["version"], "predicates": [predicate]}
    brain.ask("plan", request)
    brain.ask("deletable", request)
    brain.ask("totals", {**request, "predicates": [], "columns": [{"path": ["a"], "bounds": True}]})
    brain.files(table)
    brain.detail(table)
    brain.history(table)
    return brain.ask("plan", {**request, "predicates": []})


BAD_ADDS = {
    "size 2^70": raw_add(size=str(2**70)),
    "size 1e300": raw_add(size="1e300"),
    "negative size": raw_add(size="-1"),
    "size is text": raw_add(size='"many"'),
    "size is a list": raw_add(size="[1]"),
    "size is missing": raw_add(size="null"),
    "time 2^70": raw_add(modificationTime=str(2**70)),
    "path is a number": raw_add(path="7"),
    "path is empty": raw_add(path='""'),
    "NUL in the path": raw_add(path='"a\\u0000b"'),
    "NUL encoded in the path": raw_add(path='"a%00b"'),
    "half a character": raw_add(path='"\\ud800"'),
    "upwards": raw_add(path='"../../other/f.parquet"'),
    "upwards, encoded": raw_add(path='"%2e%2e/%2E%2E/f.parquet"'),
    "upwards in the middle": raw_add(path='"p=1/../../f.parquet"'),
    "deep": raw_add(path="[" * DEEP + "]" * DEEP),
    "deep vector": raw_add(deletionVector='{"storageType":' * 3000 + "1" + "}" * 3000),
    "vector of 2^70 rows": raw_add(deletionVector=json.dumps({**VECTOR, "cardinality": 2**70})),
    "vector of -1 rows": raw_add(deletionVector=json.dumps({**VECTOR, "cardinality": -1})),
    "vector of -1 bytes": raw_add(deletionVector=json.dumps({**VECTOR, "sizeInBytes": -1})),
    "vector before its file": raw_add(deletionVector=json.dumps({**VECTOR, "offset": -5})),
    "vector of an unknown kind": raw_add(deletionVector=json.dumps({**VECTOR, "storageType": "z"})),
    "vector that is no Z85": raw_add(deletionVector=json.dumps({**VECTOR, "pathOrInlineDv": "\u2603" * 20})),
    "vector upwards": raw_add(deletionVector=json.dumps({**VECTOR, "pathOrInlineDv": "../../../" + "x" * 20})),
    "more dead rows than rows": raw_add(
        stats=json.dumps(json.dumps(STATS)), deletionVector=json.dumps({**VECTOR, "cardinality": 9})
    ),
    "not closed": '{"add":{"path":"f"',
    "a number": "7",
    "deep line": "[" * DEEP + "]" * DEEP,
    "deep object": '{"x":' * DEEP + "1" + "}" * DEEP,
}


@pytest.mark.parametrize("case", BAD_ADDS)
def test_bad_adds(made: Any, case: str) -> None:
    made.create(("a", "long"))
    (made.log / f"{1:020d}.json").write_text(BAD_ADDS[case] + "\n")
    with pytest.raises(CorruptTableError) as caught:
        used(made.root)
    assert len(str(caught.value)) < 2000


ODD_STATS = [
    "1e300 rows",
    '{"numRecords":1e300}',
    '{"numRecords":1e999999999}',
    f'{{"numRecords":{2**70}}}',
    '{"numRecords":-7}',
    "[" * DEEP,
    "{" * DEEP,
    '{"minValues":' * 5000,
    '{"numRecords":3,"minValues":{"a":1e300},"maxValues":{"a":-1e300}}',
    '{"numRecords":3,"numRecords":4,"minValues":{"a":1,"a":9}}',
    '{"numRecords":3,"nullCount":{"a":99999999999999999999}}',
]


@pytest.mark.parametrize("stats", ODD_STATS, ids=range(len(ODD_STATS)))
def test_odd_statistics_are_no_statistics(made: Any, stats: str) -> None:
    made.create(("a", "long"))
    made.commit(1, made.add("f", stats=stats), made.add("g", stats=STATS))
    files = used(made.root)["files"]
    assert [f["path"].rsplit("/", 1)[1] for f in files] == ["f", "g"]
    assert files[1]["rows"] == 3


def test_rows_that_no_number_holds(made: Any) -> None:
    made.create(("a", "long"))
    made.commit(1, *(made.add(f"f{i}", stats={"numRecords": 2**63 - 1}) for i in range(3)))
    with pytest.raises(CorruptTableError):
        used(made.root)


def schema_of(depth: int) -> str:
    field = '{"name":"a","nullable":true,"metadata":{},"type":'
    return '{"type":"struct","fields":[' + field + ('{"type":"struct","fields":[' + field) * depth + '"long"' + (
        "}]}" * depth
    ) + "}]}"  # fmt: skip


BAD_METADATA: dict[str, dict[str, Any]] = {
    "deep schema": {"schemaString": schema_of(400)},
    "deeper schema": {"schemaString": schema_of(20_000)},
    "schema is a list": {"schemaString": "[]"},
    "no fields": {"schemaString": '{"type":"struct"}'},
    "fields are numbers": {"schemaString": '{"type":"struct","fields":[1]}'},
    "field without a name": {"schemaString": '{"type":"struct","fields":[{"type":"long"}]}'},
    "name is a number": {"schemaString": '{"type":"struct","fields":[{"name":1,"type":"long","nullable":true}]}'},
    "unknown type": {"schemaString": '{"type":"struct","fields":[{"name":"a","type":"wish","nullable":true}]}'},
    "type is a number": {"schemaString": '{"type":"struct","fields":[{"name":"a","type":1,"nullable":true}]}'},
    "wild decimal": {"schemaString": '{"type":"struct","fields":[{"name":"a","type":"decimal(99,2)"}]}'},
    "the same name twice": {
        "schemaString": json.dumps({"type": "struct", "fields": [{"name": "a", "type": "long", "nullable": True}] * 2})
    },
    "partitioned by nothing that is there": {"partitionColumns": ["b"]},
    "partitioned by numbers": {"partitionColumns": [1]},
    "configuration is a list": {"configuration": [1]},
    "partition columns are text": {"partitionColumns": "a"},
}


@pytest.mark.parametrize("case", BAD_METADATA)
def test_bad_metadata(made: Any, case: str) -> None:
    metadata = made.metadata(("a", "long"))
    metadata["metaData"] |= BAD_METADATA[case]
    made.commit(0, made.protocol(), metadata, made.add("f", stats=STATS))
    with pytest.raises(LakemendError) as caught:
        used(made.root)
    assert isinstance(caught.value, CorruptTableError), caught.value


@pytest.mark.parametrize(
    "protocol",
    [{"minReaderVersion": "x"}, {"minReaderVersion": 1e300, "minWriterVersion": 2}, {"readerFeatures": 7}, {}],
)
def test_bad_protocol(made: Any, protocol: dict[str, Any]) -> None:
    made.commit(0, {"protocol": protocol}, made.metadata(("a", "long")))
    with pytest.raises(LakemendError):
        used(made.root)


def test_duplicate_keys_are_one_meaning(made: Any) -> None:
    """The last one counts, as for every parser of JSON that others use."""
    made.create(("a", "long"))
    (made.log / f"{1:020d}.json").write_text('{"add":{"path":"f","path":"g","size":1,"size":2,"partitionValues":{}}}\n')
    try:
        files = used(made.root)["files"]
    except CorruptTableError:
        return
    assert [(f["path"].rsplit("/", 1)[1], f["size"]) for f in files] == [("g", 2)]


def test_absolute_paths_are_where_they_say(made: Any, tmp_path: Path) -> None:
    """Clones refer to files of other tables so."""
    made.create(("a", "long"))
    made.commit(1, made.add("file:///elsewhere/f.parquet"))
    assert used(made.root)["files"][0]["path"] == "file:///elsewhere/f.parquet"


@pytest.mark.parametrize("body", ["{", "[]", "7", '{"version":-1}', '{"version":1e300}', '{"version":"x"}', "[" * DEEP])
def test_bad_hints_are_only_hints(made: Any, body: str) -> None:
    made.create(("a", "long"))
    made.commit(1, made.add("f", stats=STATS))
    (made.log / "_last_checkpoint").write_text(body)
    assert len(used(made.root)["files"]) == 1


@pytest.mark.parametrize(
    "line",
    ['{"commitInfo":{"timestamp":1e300}}', '{"commitInfo":{"operationParameters":[1]}}', '{"commitInfo":7}',
     '{"txn":{"appId":"x","version":1e300}}', '{"domainMetadata":{"domain":7}}',
     '{"commitInfo":{"lakemend":{"readPredicate":7}}}', '{"cdc":{}}', '{"sidecar":{}}', '{"unknown":[[[]]]}'],
)  # fmt: skip
def test_odd_actions_hide_no_file(made: Any, line: str) -> None:
    made.create(("a", "long"))
    (made.log / f"{1:020d}.json").write_text(line + "\n" + raw_add() + "\n")
    assert len(used(made.root)["files"]) == 1


def test_a_transaction_of_nobody(made: Any) -> None:
    made.create(("a", "long"))
    (made.log / f"{1:020d}.json").write_text('{"txn":{}}\n' + raw_add() + "\n")
    with pytest.raises(CorruptTableError, match="00000000000000000001.json is corrupt"):
        used(made.root)


@pytest.mark.parametrize(
    "cdc", [{"path": "../../f", "size": 1}, {"path": "f", "size": 2**70}, {"path": "f", "size": -1}, {"path": "f"}]
)
def test_bad_files_of_a_feed(made: Any, cdc: dict[str, Any]) -> None:
    made.create(("a", "long"), configuration={"delta.enableChangeDataFeed": "true"}, protocol={"writer": 4})
    made.commit(1, {"cdc": cdc}, made.add("g", stats=STATS))
    span = {"by_time": False, "start": 1, "start_inclusive": True, "end_inclusive": True}
    with pytest.raises(CorruptTableError):
        Brain().ask("feed", {"table": {"path": str(made.root)}, "span": span, "deduplicate": "none", "updates": False})
