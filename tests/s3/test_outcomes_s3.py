"""Fault × moment × what is told × what is true, through a proxy that loses and delays requests to an S3 server."""

from __future__ import annotations

import pytest

from lakemend.brain.service import Brain
from lakemend.errors import CommitUnknownError
from lakemend.schema import struct
from lakemend.storage import open_store
from tests.s3.conftest import S3Bucket, Server
from tests.unit.outcome.faults import COMMIT, Fault
from tests.unit.outcome.statements import CASES, VERBS, Lake, check, tokens

pytestmark = pytest.mark.s3


@pytest.fixture
def lake(bucket: S3Bucket) -> Lake:
    return Lake(bucket).with_namespace()


@pytest.mark.parametrize("verb", VERBS)
@pytest.mark.parametrize("case", CASES)
def test_what_is_told_is_true(lake: Lake, case: str, verb: str) -> None:
    check(lake, verb, case)


def test_a_repeated_entry_of_a_namespace_is_ours(lake: Lake, bucket: S3Bucket) -> None:
    bucket.requests.plan("put", "_lakemend_", Fault("500", "done"))
    lake.brain.ask("catalog", {"action": "create_namespace", "catalog": "lake", "namespace": ["other"]})


@pytest.mark.parametrize("verb", ["append", "mask", "create", "external"])
def test_what_fails_after_the_commit_is_a_warning(lake: Lake, bucket: S3Bucket, verb: str) -> None:
    if verb in ("append", "mask"):
        lake.make()
    request = VERBS[verb](lake)
    for method in ("get", "head", "list"):
        bucket.requests.plan_after_commit(method, "" if method == "list" else COMMIT.pattern)
    report = lake.brain.ask("commit", request)["report"]
    assert report["version"] is not None and report["total"] is None
    bucket.requests.calm()
    assert lake.token in tokens(bucket)


def test_an_append_run_again_after_an_unknown_one_is_there_once(lake: Lake, bucket: S3Bucket) -> None:
    """The same transaction: its first run arrives late, its second finds its work done, and the rows are there."""
    lake.make()
    request = {**lake.append(), "options": {"txnAppId": "job", "txnVersion": "1"}}
    bucket.requests.plan("put", COMMIT, Fault("lost", "late", 99))
    with pytest.raises(CommitUnknownError):
        lake.brain.ask("commit", request)
    lake.abort(request)
    bucket.requests.calm()
    bucket.requests.arrive()
    again = Lake(bucket)
    told = again.brain.ask("commit", {**again.append(), "options": {"txnAppId": "job", "txnVersion": "1"}})
    assert told["version"] is None and lake.token in tokens(bucket)


@pytest.mark.parametrize("name", ["a#b", "t?x=1", "50%41", "a b", "ü"])
def test_names_that_are_odd_in_urls(bucket: S3Bucket, name: str) -> None:
    """The log of a table lies in its own directory, whatever its name."""
    brain = Brain({"lake": f"{bucket.root}/wh"})
    brain.ask("catalog", {"action": "create_namespace", "catalog": "lake", "namespace": ["db"]})
    plain = name.split("#")[0].split("?")[0].replace("%41", "A")
    for table in {plain, name}:
        at = {"catalog": "lake", "namespace": ["db"], "name": table}
        schema = struct(("id", "long"))
        staged = brain.ask("stage", {"table": at, "mode": "create", "schema": schema, "partitioning": []})
        brain.ask(
            "commit", {"table": at, "version": None, "operation": "append", "staged": staged["staged"], "token": table}
        )
        assert f"wh/db/{table}/_delta_log/{0:020d}.json" in bucket.names()
    change = {"kind": "set_property", "key": "mine", "value": "yes"}
    at = {"catalog": "lake", "namespace": ["db"], "name": name}
    brain.ask("alter", {"table": at, "changes": [change]})
    assert f"wh/db/{name}/_delta_log/{1:020d}.json" in bucket.names()
    assert sum(path.endswith(f"{1:020d}.json") for path in bucket.names()) == 1
    assert {*brain.ask("catalog", {"action": "list_tables", "catalog": "lake", "namespace": ["db"]})["tables"]} == {
        plain,
        name,
    }
    brain.ask("catalog", {"action": "drop_table", "table": at})
    assert not any(path.startswith(f"wh/db/{name}/") for path in bucket.names())


def test_deletes_in_bulk(bucket: S3Bucket) -> None:
    names = [f"d/{n:04d} #?%41&<>.parquet" for n in range(1100)]
    store = open_store(f"{bucket.root}/t")
    for name in names:
        bucket.put(f"t/{name}")
    assert store.delete([*names, "d/missing"]) == []
    assert bucket.names() == set()


def test_two_writers_through_the_server(server: Server, bucket: S3Bucket) -> None:
    lake = Lake(bucket).with_namespace()
    lake.make()
    request, other = lake.append(), Lake(bucket)
    theirs = other.append()
    bucket.requests.before = lambda: other.brain.ask("commit", theirs)
    assert lake.outcome(request) == "landed"
    assert {lake.token, other.token} <= set(tokens(bucket))
