from __future__ import annotations

import os
import uuid
from typing import Any

import pytest
from memory_format import MemoryFormat

from lakemend.brain.service import Brain
from lakemend.schema import struct

SCHEMA = struct(("id", "long"), ("day", "date"), ("name", "string"))


class Harness:
    """A brain with one catalog, and the requests tests make over and over."""

    def __init__(self, root: str, formats: dict[str, Any] | None) -> None:
        self.root = root
        self.warehouse = os.path.join(root, "wh")
        self.brain = Brain({"lake": self.warehouse}, formats)
        self.path = os.path.join(root, "t")

    @property
    def at(self) -> dict[str, Any]:
        return {"path": self.path}

    def named(self, name: str, *namespace: str) -> dict[str, Any]:
        return {"catalog": "lake", "namespace": list(namespace or ("db",)), "name": name}

    def file(
        self, rows: int = 10, partition: tuple[Any, ...] = (), lo: int = 0, hi: int = 9, path: str = ""
    ) -> dict[str, Any]:
        return {
            "path": path or f"part-{uuid.uuid4().hex}.parquet",
            "size": 1000, "rows": rows, "modified": 5, "partition": list(partition),
            "stats": [[["id"], lo, hi, 0]],
        }  # fmt: skip

    def on_disk(self, entry: dict[str, Any], root: str | None = None) -> dict[str, Any]:
        target = os.path.join(root or self.path, entry["path"])
        os.makedirs(os.path.dirname(target), exist_ok=True)
        with open(target, "wb") as f:
            f.write(b"x")
        return entry

    def create(
        self, table: dict[str, Any] | None = None, partitioned: bool = False, schema: Any = SCHEMA, **more: Any
    ) -> dict[str, Any]:
        staged = self.brain.ask(
            "stage",
            {"table": table or self.at, "mode": "create", "schema": schema,
             "partitioning": [{"transform": "identity", "source": ["day"]}] if partitioned else [], **more},
        )  # fmt: skip
        self.brain.ask(
            "commit",
            {"table": table or self.at, "version": None, "operation": "append", "command": "CREATE TABLE",
             "staged": staged["staged"], "token": uuid.uuid4().hex},
        )  # fmt: skip
        return self.load(table)

    def load(self, table: dict[str, Any] | None = None, **more: Any) -> dict[str, Any]:
        return self.brain.ask("load", {"table": table or self.at, **more})

    def commit(
        self, operation: str = "append", added: Any = (), table: dict[str, Any] | None = None, **more: Any
    ) -> dict[str, Any]:
        table = table or self.at
        request = {
            "table": table, "operation": operation, "command": None, "added": list(added), "removed": [], "masked": {},
            "predicates": [], "read_predicates": None, "options": {}, "summary": {}, "token": uuid.uuid4().hex,
            "request": None, **more,
        }  # fmt: skip
        if "version" not in request:
            request["version"] = self.load(table)["version"]
        return self.brain.ask("commit", request)

    def plan(self, *predicates: Any, table: dict[str, Any] | None = None, **more: Any) -> dict[str, Any]:
        loaded = self.load(table)
        return self.brain.ask(
            "plan", {"table": table or self.at, "version": loaded["version"], "predicates": list(predicates), **more}
        )


@pytest.fixture(params=["memory", "delta"])
def lake(request: Any, tmp_path: Any) -> Harness:
    return Harness(str(tmp_path), {"memory": MemoryFormat()} if request.param == "memory" else None)
