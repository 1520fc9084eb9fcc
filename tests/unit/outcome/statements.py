"""Statements up to their commit, and the table *fault × moment × what is told × what is true* for each of them.

The tests of this directory do so on a store in memory, those of tests/s3 through a proxy before an S3 server.
"""

from __future__ import annotations

import base64
import uuid
from collections.abc import Callable
from typing import Any

from pyroaring import BitMap64

from lakemend.brain.places import Places
from lakemend.brain.service import Brain
from lakemend.errors import CommitUnknownError, LakemendError, StorageError
from lakemend.schema import struct
from tests.unit.outcome.faults import COMMIT, Bucket, Fault

SCHEMA = struct(("id", "long"), ("name", "string"))
TABLE = {"catalog": "lake", "namespace": ["db"], "name": "t"}
ROWS = 9000


class Lake:
    """A writer: its brain, and the one statement it makes."""

    def __init__(self, bucket: Bucket) -> None:
        self.bucket = bucket
        self.brain = Brain({"lake": f"{bucket.root}/wh"})
        self.token = uuid.uuid4().hex
        self.files: list[str] = []

    def with_namespace(self) -> Lake:
        self.brain.ask("catalog", {"action": "create_namespace", "catalog": "lake", "namespace": ["db"]})
        return self

    def file(self, rows: int, at: str = "wh/db/t", first: bool = False) -> dict[str, Any]:
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
        removed = f"{loaded['location']}/{self.first}"
        tally = {"copied": ROWS - 1, "updated": 1, "deleted": 0, "inserted": 0}
        return self.request(
            "rewrite_files", version=loaded["version"], command="UPDATE", removed=[removed], added=[self.file(ROWS)],
            read_predicates=[], tally={**tally, "places": Places(self.token).sum(removed, ROWS)},
        )  # fmt: skip

    def mask(self) -> dict[str, Any]:
        loaded = self.load()
        dead = BitMap64(range(0, ROWS, 7))
        masked = {f"{loaded['location']}/{self.first}": base64.b64encode(dead.serialize()).decode()}
        return self.request(
            "mask_rows", version=loaded["version"], command="DELETE", masked=masked, read_predicates=[],
            tally={"copied": 0, "updated": 0, "deleted": len(dead), "inserted": 0},
        )  # fmt: skip

    def create_as(self) -> dict[str, Any]:
        staged = self.brain.ask("stage", {"table": TABLE, "mode": "create", "schema": SCHEMA, "partitioning": []})
        added = [self.file(3, first=True)]
        return self.request("append", version=None, staged=staged["staged"], added=added)

    def create_external(self) -> dict[str, Any]:
        where = {"location": f"{self.bucket.root}/elsewhere/t"}
        staged = self.brain.ask(
            "stage", {"table": TABLE, "mode": "create", "schema": SCHEMA, "partitioning": [], **where}
        )
        added = [self.file(3, "elsewhere/t", first=True)]
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


def tokens(bucket: Bucket) -> list[str]:
    """What a new process finds; every file that a version names is there."""
    brain = Brain({"lake": f"{bucket.root}/wh"})
    if not brain.ask("catalog", {"action": "table_exists", "table": TABLE})["exists"]:
        return []
    names = bucket.names()
    opened = brain.address(TABLE).open()
    snapshot = opened.latest()
    root = opened.location.removeprefix(f"{bucket.root}/")
    for row, path in enumerate(snapshot.files["path"].to_pylist()):
        assert f"{root}/{path.rsplit('/', 1)[-1]}" in names, f"the log names {path}, which is gone"
        mask = snapshot.mask(row)
        if mask is not None and mask.url is not None:
            assert mask.url.removeprefix(f"{bucket.root}/") in names, "the log names a vector file that is gone"
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


def check(lake: Lake, verb: str, case: str) -> None:
    """Puts a statement through a case."""
    put, read, told, landed = CASES[case]
    bucket = lake.bucket
    if verb not in ("create", "external"):
        lake.make()
    request = VERBS[verb](lake)
    before = bucket.names()
    bucket.requests.plan("put", COMMIT, *put)
    bucket.requests.plan("get", COMMIT, *read)
    assert lake.outcome(request) == told
    bucket.requests.calm()
    bucket.requests.arrive()
    assert (lake.token in tokens(bucket)) == landed
    if told == "failed":
        assert not bucket.names() & set(lake.files), "nobody needs these files"
        assert bucket.names() <= before, "vectors and names of a commit that failed are gone too"
    else:
        assert set(lake.files) <= bucket.names(), "the commit may need these files"
