"""What the log of a table says, checked line by line against the files it names.

`World` follows every new version with it. It reads the JSON of `_delta_log` and Parquet with pyarrow, and nothing of
Lakemend: each action must fit the version before, each statistic the file, and the counts each other.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from decimal import Decimal
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import pyarrow.parquet as pq

from tests.differential.bounds import check_statistics

Action = dict[str, Any]


@dataclass(frozen=True)
class Entry:
    """One version: its actions, and what they did to rows."""

    version: int
    info: Action
    added: list[Action]  # files that are new
    removed: list[Action]  # files that are gone, as they were added
    masked: list[Action]  # files that stay with another vector
    written: int  # rows in the new files
    dead: int  # rows that were alive in the version before and are in no file of this one

    @property
    def metrics(self) -> dict[str, int]:
        return {k: int(v) for k, v in (self.info.get("operationMetrics") or {}).items() if str(v).lstrip("-").isdigit()}


@dataclass
class Ledger:
    location: Path
    live: dict[str, Action] = field(default_factory=dict)

    @property
    def rows(self) -> int:
        return sum(_alive(add) for add in self.live.values())

    def follow(self, version: int) -> Entry:
        """Applies a version's actions, checking each."""
        actions = self._actions(version)
        adds = [a["add"] for a in actions if "add" in a]
        removes = [a["remove"] for a in actions if "remove" in a]
        self._check_keys(adds, removes)
        gone = {r["path"]: self.live.pop(r["path"]) for r in removes}
        again = [add for add in adds if add["path"] in gone]
        new = [add for add in adds if add["path"] not in gone]
        for add in new:
            self._check_new_file(add)
        for add in again:
            self._check_masked(add, gone[add["path"]])
        self.live |= {add["path"]: add for add in adds}
        removed = [add for path, add in gone.items() if all(path != a["path"] for a in again)]
        dead = sum(map(_alive, removed)) + sum(_alive(gone[add["path"]]) - _alive(add) for add in again)
        infos = [a["commitInfo"] for a in actions if "commitInfo" in a]
        assert len(infos) == 1, f"version {version} has {len(infos)} commitInfo"
        return Entry(version, infos[0], new, removed, again, sum(map(_alive, new)), dead)

    def _actions(self, version: int) -> list[Action]:
        text = (self.location / "_delta_log" / f"{version:020}.json").read_text()
        return [json.loads(line) for line in text.split("\n") if line.strip()]

    def _check_keys(self, adds: list[Action], removes: list[Action]) -> None:
        for actions in (adds, removes):
            paths = [action["path"] for action in actions]
            assert len(set(paths)) == len(paths), f"a path occurs twice in one version: {sorted(paths)}"
        for remove in removes:
            before = self.live.get(remove["path"])
            assert before is not None, f"{remove['path']} is removed and was not there"
            assert _vector(before) == _vector(remove), f"another vector of {remove['path']} is removed"
        doubled = {add["path"] for add in adds} & (set(self.live) - {r["path"] for r in removes})
        assert not doubled, f"added again without a remove: {doubled}"

    def _check_new_file(self, add: Action) -> None:
        path = self.location / unquote(add["path"])
        assert path.stat().st_size == add["size"], f"{add['path']} has {path.stat().st_size} bytes, not {add['size']}"
        assert "deletionVector" not in add or add["deletionVector"] is None, f"{add['path']} is born masked"
        table = pq.ParquetFile(path).read()
        statistics = _statistics(add)
        assert statistics.get("numRecords") == table.num_rows, f"{add['path']}: {table.num_rows} rows, {statistics}"
        assert table.num_rows > 0, f"{add['path']} has no rows"
        check_statistics(add["path"], table, statistics)

    def _check_masked(self, add: Action, before: Action) -> None:
        vector = add["deletionVector"]
        assert _alive(add) < _alive(before), f"{add['path']} was masked again, and no row died: {add}"
        assert 0 < vector["cardinality"] < _statistics(add)["numRecords"], f"{add['path']}: {vector}"
        for name in ("path", "size", "partitionValues"):
            assert add[name] == before[name], f"{name} of {add['path']} changed with its vector"
        statistics, old = _statistics(add), _statistics(before)
        assert statistics.get("tightBounds", True) is False, f"bounds of masked rows are called tight: {statistics}"
        assert {**statistics, "tightBounds": None} == {**old, "tightBounds": None}, f"{old} became {statistics}"


def _alive(add: Action) -> int:
    vector = add.get("deletionVector") or {"cardinality": 0}
    return int(_statistics(add)["numRecords"]) - int(vector["cardinality"])


def _vector(action: Action) -> tuple[Any, ...] | None:
    vector = action.get("deletionVector")
    return None if vector is None else tuple(vector.get(k) for k in ("storageType", "pathOrInlineDv", "offset"))


def _statistics(add: Action) -> dict[str, Any]:
    return json.loads(add.get("stats") or "{}", parse_float=Decimal)
