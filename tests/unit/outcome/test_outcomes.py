"""Fault × moment × what is told × what is true, for every kind of commit, on an object store in memory.

After each: Spark's abort, then whatever was still on its way arrives, and then a new process reads the table. Every
file that the log names must be there; every file of a commit that failed for certain must be gone.
"""

from __future__ import annotations

import logging
from typing import Any

import pytest

from lakemend.errors import CommitUnknownError
from tests.unit.outcome.faults import COMMIT, Bucket, Fault
from tests.unit.outcome.statements import CASES, TABLE, VERBS, Lake, check, tokens


@pytest.mark.parametrize("verb", VERBS)
@pytest.mark.parametrize("case", CASES)
def test_what_is_told_is_true(lake: Lake, case: str, verb: str) -> None:
    check(lake, verb, case)


def test_a_version_that_is_taken_is_no_failure(lake: Lake, bucket: Bucket) -> None:
    lake.make()
    request = lake.append()
    other = Lake(bucket)
    theirs = other.append()
    bucket.requests.before = lambda: other.brain.ask("commit", theirs)
    assert lake.outcome(request) == "landed"
    assert set(tokens(bucket)) >= {lake.token, other.token}


def test_a_taken_version_that_cannot_be_read_is_unknown(lake: Lake, bucket: Bucket) -> None:
    """Whose commit stands there, nobody can tell: something on the way may have repeated our request."""
    lake.make()
    request = lake.append()
    other = Lake(bucket)
    theirs = other.append()
    bucket.requests.before = lambda: other.brain.ask("commit", theirs)
    bucket.requests.plan_after_commit("get", "0001.json$")
    assert lake.outcome(request) == "unknown"


@pytest.mark.parametrize("verb", ["append", "mask", "create", "external"])
def test_what_fails_after_the_commit_is_a_warning(
    lake: Lake, bucket: Bucket, verb: str, caplog: pytest.LogCaptureFixture
) -> None:
    """The report's total needs the new version read, and spare masks are deleted: neither is part of the commit."""
    if verb in ("append", "mask"):
        lake.make()
    request = VERBS[verb](lake)
    made = "0000.json$" if verb in ("create", "external") else "0001.json$"
    for method in ("get", "head", "list", "delete"):
        bucket.requests.plan_after_commit(method, {"list": "", "delete": ""}.get(method, made))
    with caplog.at_level(logging.WARNING):
        report = lake.brain.ask("commit", {**request, "mask_files": ["spare.bin"]})["report"]
    assert report["version"] is not None and report["total"] is None
    assert "stands" in caplog.text
    bucket.requests.calm()
    assert lake.token in tokens(bucket)


def test_an_alter_that_landed_succeeded(lake: Lake, bucket: Bucket) -> None:
    lake.make()
    lake.load()
    change = {"kind": "add_column", "path": ["extra"], "type": "long"}
    for method in ("get", "head", "list"):
        bucket.requests.plan_after_commit(method, "_delta_log")
    answer = lake.brain.ask("alter", {"table": TABLE, "changes": [change]})
    assert answer["version"] == "1"
    assert [field["name"] for field in answer["schema"]["fields"]] == ["id", "name", "extra"]


def test_an_alter_of_unknown_outcome_is_not_tried_again(lake: Lake, bucket: Bucket) -> None:
    lake.make()
    bucket.requests.plan("put", COMMIT, Fault("lost", "late", 99))
    change = {"kind": "add_column", "path": ["extra"], "type": "long"}
    with pytest.raises(CommitUnknownError):
        lake.brain.ask("alter", {"table": TABLE, "changes": [change]})
    bucket.requests.calm()
    bucket.requests.arrive()
    assert len(tokens(bucket)) == 2


def test_an_external_table_without_a_name_is_not_made(lake: Lake, bucket: Bucket) -> None:
    request = lake.create_external()
    bucket.requests.plan("put", "_lakemend_location", Fault("403", times=99))
    assert lake.outcome(request) == "failed"
    assert tokens(bucket) == [] and not any("_delta_log" in name for name in bucket.names())


def test_a_name_whose_outcome_is_unknown_makes_no_table(lake: Lake, bucket: Bucket) -> None:
    request = lake.create_external()
    bucket.requests.plan("put", "_lakemend_location", Fault("lost", "late", 99))
    with pytest.raises(CommitUnknownError):
        lake.brain.ask("commit", request)
    bucket.requests.calm()
    bucket.requests.arrive()
    assert not any("_delta_log" in name for name in bucket.names())
    # The name points at nothing; whoever creates the table there goes on with it.
    again = Lake(bucket)
    assert again.outcome(again.create_external()) == "landed"
    assert tokens(bucket) == [again.token]


@pytest.mark.parametrize("verb", ["namespace", "pointer"])
def test_an_entry_of_our_own_does_not_exist_already(lake: Lake, bucket: Bucket, verb: str) -> None:
    """The store repeats a put, and meets what it has written itself."""
    bucket.requests.plan("put", "_lakemend_", Fault("500", "done"))
    if verb == "namespace":
        lake.brain.ask("catalog", {"action": "create_namespace", "catalog": "lake", "namespace": ["other"]})
        assert ["other"] in lake.brain.ask("catalog", {"action": "list_namespaces", "catalog": "lake"})["namespaces"]
    else:
        assert lake.outcome(lake.create_external()) == "landed"


def test_an_abort_while_the_commit_is_under_way_deletes_nothing(lake: Lake, bucket: Bucket) -> None:
    lake.make()
    request = lake.append()
    bucket.requests.before = lambda: lake.abort(request)  # the connection to the connector broke
    lake.brain.ask("commit", request)
    assert lake.token in tokens(bucket)


def test_an_abort_without_a_commit_deletes_its_files(lake: Lake, bucket: Bucket) -> None:
    lake.make()
    lake.abort(lake.append())
    assert not bucket.names() & set(lake.files)


def test_an_interrupted_commit_is_unknown(lake: Lake, bucket: Bucket, monkeypatch: pytest.MonkeyPatch) -> None:
    lake.make()
    request = lake.append()

    def interrupted(*_: Any, **__: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(bucket.requests, "put", interrupted)
    with pytest.raises(KeyboardInterrupt):
        lake.brain.ask("commit", request)
    lake.abort(request)
    assert set(lake.files) <= bucket.names()
