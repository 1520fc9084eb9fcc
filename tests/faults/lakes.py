"""A Delta table written and read by the brain alone, and what must hold of it whatever happened to its writers.

The processes of `writers.py` use `Lake`; the tests use `Lake` and the checks. Every row is (writer, number); every
commit is one file of `ROWS` rows that name it, so a lost, doubled or halved commit shows.
"""

from __future__ import annotations

import os
import re
import uuid
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlparse

import pyarrow as pa
import pyarrow.parquet as pq
from deltalake import DeltaTable

from lakemend.brain.service import Brain
from lakemend.schema import struct

SCHEMA = struct(("writer", "string"), ("number", "long"))
ROWS = 3
ALL = {"op": "ALWAYS_TRUE", "args": []}

Tag = tuple[str, int]  # the writer and its how-manieth commit


class Lake:
    """The verbs, one commit each; those that write rows return the version they made."""

    def __init__(self, location: str) -> None:
        self.location = location
        self.brain = Brain()
        self.at = {"path": location}

    def create(self, **properties: str) -> int:
        staged = self.brain.ask(
            "stage",
            {"table": self.at, "mode": "create", "schema": SCHEMA, "partitioning": [], "properties": properties},
        )
        return self._commit({"version": None, "operation": "append", "staged": staged["staged"]})

    def version(self) -> int:
        return int(self.brain.ask("load", {"table": self.at})["version"])

    def append(self, tag: Tag, base: int | None = None) -> int:
        return self._commit({"version": base, "operation": "append", "added": [self._file(tag)]})

    def overwrite(self, tag: Tag, base: int | None = None) -> int:
        return self._commit(
            {"version": base, "operation": "overwrite", "predicates": [ALL], "added": [self._file(tag)]}
        )

    def set_property(self, value: str) -> int:
        """A version that has it; others may have come since."""
        change = {"kind": "set_property", "key": "round", "value": value}
        return int(self.brain.ask("alter", {"table": self.at, "changes": [change]})["version"])

    def tags(self, version: int | None = None) -> dict[Tag, int]:
        """How many rows each commit has in a version, as the brain plans it and pyarrow reads it."""
        loaded = self.brain.ask("load", {"table": self.at, **({} if version is None else {"version": str(version)})})
        planned = self.brain.ask("plan", {"table": self.at, "version": loaded["version"], "predicates": []})
        return _counted(pq.read_table(unquote(urlparse(file["path"]).path)) for file in planned["files"])

    def _commit(self, request: dict[str, Any]) -> int:
        if "version" not in request or (request["version"] is None and "staged" not in request):
            request = {**request, "version": self.version()}
        if request["version"] is not None:
            request = {**request, "version": str(request["version"])}
        whole = {
            "table": self.at, "command": None, "removed": [], "masked": {}, "predicates": [], "read_predicates": None,
            "options": {}, "summary": {}, "token": uuid.uuid4().hex, "request": None, **request,
        }  # fmt: skip
        return int(self.brain.ask("commit", whole)["version"])

    def _file(self, tag: Tag) -> dict[str, Any]:
        name = f"part-{uuid.uuid4().hex}.parquet"
        path = Path(self.location, name)
        path.parent.mkdir(parents=True, exist_ok=True)
        pq.write_table(pa.table({"writer": [tag[0]] * ROWS, "number": pa.array([tag[1]] * ROWS, pa.int64())}), path)
        return {
            "path": name, "size": path.stat().st_size, "rows": ROWS, "modified": int(path.stat().st_mtime * 1000),
            "partition": [], "stats": [[["number"], tag[1], tag[1], 0]],
        }  # fmt: skip


def _counted(tables: Iterable[pa.Table]) -> dict[Tag, int]:
    counts: Counter[Tag] = Counter()
    for table in tables:
        counts.update(zip(table["writer"].to_pylist(), table["number"].to_pylist(), strict=True))
    return dict(counts)


# ---- what must hold


def versions_on_disk(location: str) -> list[int]:
    names = os.listdir(os.path.join(location, "_delta_log"))
    return sorted(int(name[:20]) for name in names if re.fullmatch(r"\d{20}\.json", name))


def tags_by_deltalake(location: str, version: int | None = None) -> dict[Tag, int]:
    return _counted([DeltaTable(location, version=version).to_pyarrow_table()])


def check_gapless(location: str) -> int:
    """The newest version; raises if one is missing below it."""
    versions = versions_on_disk(location)
    assert versions == list(range(len(versions))), f"versions on disk: {versions}"
    return versions[-1]


def check_whole(tags: dict[Tag, int], rows: int = ROWS) -> None:
    """Every commit is there with all of its rows, once, or not at all."""
    torn = {tag: count for tag, count in tags.items() if count != rows}
    assert not torn, f"commits with a wrong number of rows: {torn}"


def check_leftovers(location: str) -> set[str]:
    """Every data file of the newest version is there; what else lies about, outside of the log."""
    live = {os.path.relpath(unquote(urlparse(uri).path), location) for uri in DeltaTable(location).file_uris()}
    found = {
        os.path.relpath(os.path.join(directory, name), location)
        for directory, _, names in os.walk(location)
        for name in names
        if "_delta_log" not in directory
    }
    assert live <= found, f"the log names files that are gone: {live - found}"
    return found - live
