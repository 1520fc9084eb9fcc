"""Fault × moment × what is told × what is true, for every kind of commit, on an object store in memory.

After each: Spark's abort, then whatever was still on its way arrives, and then a new process reads the table. Every
file that the log names must be there; every file of a commit that failed for certain must be gone.
"""

from __future__ import annotations

import base64
import logging
import uuid
from collections.abc import Callable
from typing import Any

import pytest
from pyroaring import BitMap64

from lakemend.brain.service import Brain
from lakemend.errors import CommitUnknownError, LakemendError, StorageError
from lakemend.schema import struct
from tests.unit.outcome.faults import COMMIT, Bucket, Fault

SCHEMA = struct(("id", "long"), ("name", "string"))
WAREHOUSE, TABLE = "mem://lake/wh", {"catalog": "lake", "namespace": ["db"], "name": "t"}
ROWS = 9000


class Lake:
    def __init__(self, bucket: Bucket) -> None:
        self.bucket = bucket
        self.brain = Brain({"lake": WAREHOUSE})
        self.token = uuid.uuid4().hex
        self.files: list[str] = []

    def file(self, rows: int, at: str = "lake/wh/db/t", first: bool = False) -> dict[str, Any]:
        name = f"part-00000-{uuid.uuid4()}-{'first' if first else 'c000'}.snappy.parquet"
        self.bucket.put(f"{at}/{name}")
        self.files.append(f"{at}/{name}")
        stats = [[["id"], 0, rows - 1, 0]]
        return {"path": name, "size": 1000, "rows": rows, "modified": 5, "partition": [], "stats": stats}

    def request(self, operation: str, **more: Any) -> dict[str, Any]:
        nothing = {"added": [], "removed": [], "masked": {}, "predicates": [], "read_predicates": None, "options": {}}
        return {
            "table": TABLE, "operation": operation, "command": None, "summary": {}, "token": self.token,
            "request": None, **nothing, **more,
        }  # fmt: skip

    def make(self) -> None:
        staged = self.brain.ask("stage", {"table": TABLE, "mode": "create", "schema": SCHEMA, "partitioning": []})
        first = self.file(ROWS, first=True)
        self.first = first["path"]
        made = self.request("append", version=None, staged=staged["staged"], added=[first])
        self.brain.ask("commit", {**made, "token": uuid.uuid4().hex})
        self.files.clear()

    def load(self) -> dict[str, Any]:
        return self.brain.ask("load", {"table": TABLE})

    # Each gives the commit request of a statement that has done all its work.

    def append(self) -> dict[str, Any]:
        return self.request("append", version=self.load()["version"], added=[self.file(3)])

    def rewrite(self) -> dict[str, Any]:
        loaded = self.load()
        return self.request(
            "rewrite", version=loaded["version"], command="UPDATE", removed=[f"{loaded['location']}/{self.first}"],
            added=[self.file(ROWS)], read_predicates=[],
            summary={"numUpdatedRows": 1, "numCopiedRows": ROWS - 1},
        )  # fmt: skip

    def mask(self) -> dict[str, Any]:
        loaded = self.load()
        dead = BitMap64(range(0, ROWS, 7))
        masked = {f"{loaded['location']}/{self.first}": base64.b64encode(dead.serialize()).decode()}
        return self.request(
            "delta", version=loaded["version"], command="DELETE", masked=masked, read_predicates=[],
            summary={"numDeletedRows": len(dead)},
        )  # fmt: skip

    def create_as(self) -> dict[str, Any]:
        staged = self.brain.ask("stage", {"table": TABLE, "mode": "create", "schema": SCHEMA, "partitioning": []})
        added = [self.file(3, first=True)]
        return self.request("append", version=None, staged=staged["staged"], added=added)

    def create_external(self) -> dict[str, Any]:
        where = {"location": "mem://lake/elsewhere/t"}
        staged = self.brain.ask(
            "stage", {"table": TABLE, "mode": "create", "schema": SCHEMA, "partitioning": [], **where}
        )
        added = [self.file(3, "lake/elsewhere/t", first=True)]
        return self.request("append", version=None, staged=staged["staged"], added=added)

    def abort(self, request: dict[str, Any]) -> None:
        files = [file["path"] for file in request["added"]]
        self.brain.ask("abort", {"table": TABLE, "version": request["version"], "token": self.token, "files": files})

    def outcome(self, request: dict[str, Any]) -> str:
        """What is told; then everything that Spark and time bring."""
        try:
            self.brain.ask("commit", request)
            told = "landed"
        except CommitUnknownError as error:
            assert error.token == self.token
            told = "unknown"
        except LakemendError as error:
            assert isinstance(error, StorageError), error
            told = "failed"
        if told != "landed":
            self.abort(request)
        return told


@pytest.fixture
def lake(bucket: Bucket) -> Lake:
    made = Lake(bucket)
    made.brain.ask("catalog", {"action": "create_namespace", "catalog": "lake", "namespace": ["db"]})
    return made


def tokens(bucket: Bucket) -> list[str]:
    """What a new process finds; every file that a version names is there."""
    brain = Brain({"lake": WAREHOUSE})
    if not brain.ask("catalog", {"action": "table_exists", "table": TABLE})["exists"]:
        return []
    names = bucket.names()
    opened = brain.address(TABLE).open()
    snapshot = opened.latest()
    root = opened.location.removeprefix("mem://")
    for row, path in enumerate(snapshot.files["path"].to_pylist()):
        assert f"{root}/{path.rsplit('/', 1)[-1]}" in names, f"the log names {path}, which is gone"
        mask = snapshot.mask(row)
        if mask is not None and mask.url is not None:
            assert mask.url.removeprefix("mem://") in names, "the log names a vector file that is gone"
    return [line["token"] for line in brain.history(TABLE)]


VERBS: dict[str, Callable[[Lake], dict[str, Any]]] = {
    "append": Lake.append,
    "rewrite": Lake.rewrite,
    "mask": Lake.mask,
    "create": Lake.create_as,
    "external": Lake.create_external,
}

# name: faults of the commit's put, of its read-back, what is told, whether it is true that it landed (after all)
CASES: dict[str, tuple[tuple[Fault, ...], tuple[Fault, ...], str, bool]] = {
    "no fault": ((), (), "landed", True),
    "the request never arrives": ((Fault("lost", times=99),), (), "unknown", False),
    "the first request arrives late": ((Fault("lost", "late"), Fault("lost", times=98)), (), "unknown", True),
    "all requests arrive late": ((Fault("lost", "late", 99),), (), "unknown", True),
    "landed, the answer lost, the repetition 412": ((Fault("lost", "done"),), (), "landed", True),
    "landed and 500, the repetition 412": ((Fault("500", "done"),), (), "landed", True),
    "landed and 500, 412, unreadable": ((Fault("500", "done"),), (Fault("500", times=99),), "unknown", True),
    "landed and 500, 412, read back at last": ((Fault("500", "done"),), (Fault("500", times=2),), "landed", True),
    "landed and 500, then 403": ((Fault("500", "done"), Fault("403")), (), "landed", True),
    "landed and 500, then 403, unreadable": (
        (Fault("500", "done"), Fault("403")),
        (Fault("403", times=99),),
        "unknown",
        True,
    ),
    "500, then 403, nothing there": ((Fault("500"), Fault("403")), (), "unknown", False),
    "500 and not landed, the repetition lands": ((Fault("500"),), (), "landed", True),
    "500 again and again": ((Fault("500", times=99),), (), "unknown", False),
    "500 again and again, landed": ((Fault("500", "done", 99),), (), "landed", True),
    "403": ((Fault("403", times=99),), (), "failed", False),
    "403, reading too": ((Fault("403", times=99),), (Fault("403", times=99),), "failed", False),
    "409, then it lands": ((Fault("409", times=2),), (), "landed", True),
    "409 again and again": ((Fault("409", times=99),), (), "failed", False),
    "409, then the answer is lost for good": ((Fault("409"), Fault("lost", "late", 98)), (), "unknown", True),
}


@pytest.mark.parametrize("verb", VERBS)
@pytest.mark.parametrize("case", CASES)
def test_what_is_told_is_true(lake: Lake, bucket: Bucket, case: str, verb: str) -> None:
    put, read, told, landed = CASES[case]
    if verb not in ("create", "external"):
        lake.make()
    request = VERBS[verb](lake)
    before = bucket.names()
    # Faults are counted down as they are met: a table of cases needs its own.
    bucket.requests.plan("put", COMMIT, *(Fault(f.answer, f.effect, f.times) for f in put))
    bucket.requests.plan("get", COMMIT, *(Fault(f.answer, f.effect, f.times) for f in read))
    assert lake.outcome(request) == told
    bucket.requests.calm()
    bucket.requests.arrive()
    assert (lake.token in tokens(bucket)) == landed
    if told == "failed":
        assert not bucket.names() & set(lake.files), "nobody needs these files"
        assert bucket.names() <= before, "vectors and names of a commit that failed are gone too"
    else:
        assert set(lake.files) <= bucket.names(), "the commit may need these files"


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
