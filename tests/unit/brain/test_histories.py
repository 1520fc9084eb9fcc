"""Random histories with vacuums in them: what every version within the retention reads stays what it was.

A day passes with each step, for the files and for the log: their times on the disk are set back. A vacuum keeps two
days. The oracle remembers the ids of every version as it was made.
"""

from __future__ import annotations

import os
import re
import time
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from lakemend.brain.service import Brain
from lakemend.errors import VersionNotFoundError
from lakemend.formats.delta.table import DeltaTable
from lakemend.formats.format import Change, NewFile
from lakemend.formats.masks import masked_positions
from lakemend.storage import open_store
from tests.unit.delta_write.delta_tables import Lake, metadata

DAY = 86_400
KEPT = 2
VERBS = ("append", "append", "mask", "mask", "delete", "compact", "feed", "restore", "restore", "vacuum", "debris")
STEPS = st.lists(st.tuples(st.sampled_from(VERBS), st.integers(0, 1 << 16)), min_size=3, max_size=14)


class History:
    def __init__(self, root: Path) -> None:
        properties = {
            "delta.deletedFileRetentionDuration": f"interval {KEPT} days",
            "delta.checkpointInterval": "1000",
            "delta.enableChangeDataFeed": "true",
        }
        self.lake = Lake(root)
        self.lake.create(metadata(properties=properties, partitioning=("p",)))
        self.next = 0
        self.states: dict[int, list[int]] = {0: []}
        self.days: dict[int, int] = {0: 0}  # the day on which each version was made
        self.feeds: dict[int, set[str]] = {}
        self.day = 0

    def step(self, verb: str, number: int) -> None:
        before = self.newest
        getattr(self, verb)(number)
        for version in range(before + 1, self.newest + 1):
            self.days[version] = self.day
            self.states[version] = self.read(version)
        self.check()
        self.pass_a_day()

    @property
    def newest(self) -> int:
        return Lake(self.lake.root).table.latest().version

    def append(self, number: int) -> None:
        ids = range(self.next, self.next + 1 + number % 5)
        self.next = ids.stop
        part = ("a b", "ü/ö", None, "100%")[number % 4]
        self.lake.append(self.lake.write([{"id": i} for i in ids], partition=(part,)))
        assert self.read() == sorted([*self.states[self.newest - 1], *ids])

    def _some(self, number: int) -> tuple[Any, int] | None:
        base = self.lake.table.latest()
        return (base, number % base.files.num_rows) if base.files.num_rows else None

    def mask(self, number: int) -> None:
        found = self._some(number)
        if found is None:
            return
        base, row = found
        dead = masked_positions(base.mask(row), self.lake.table.store)
        alive = [p for p in range(base.files["rows"][row].as_py()) if p not in dead]
        change = Change("delete", masked=[self.lake.masked(base, row, alive[number % len(alive)])])
        self.lake.commit(base, change)
        assert len(self.read()) == len(self.states[base.version]) - 1

    def delete(self, number: int) -> None:
        found = self._some(number)
        if found is not None:
            self.lake.commit(found[0], Change("delete", removed=self.lake.removed(found[0], found[1])))

    def compact(self, number: int) -> None:
        found = self._some(number)
        if found is None:
            return
        base, row = found
        ids = self._ids(base, row)
        part = base.files["partition"][row].as_py()["p"]
        added = [self.lake.write([{"id": i} for i in ids], partition=(part,))]
        self.lake.commit(base, Change("compact", removed=self.lake.removed(base, row), added=added, data_change=False))
        assert self.read() == self.states[base.version]

    def feed(self, number: int) -> None:
        """An update that leaves records of changes."""
        found = self._some(number)
        if found is None:
            return
        base, row = found
        part = base.files["partition"][row].as_py()["p"]
        ids = self._ids(base, row)
        record = self.lake.write([{"id": i} for i in ids], partition=(part,))
        path = "_change_data/" + record.path.rsplit("/", 1)[-1]
        (self.lake.root / "_change_data").mkdir(exist_ok=True)
        (self.lake.root / record.path).rename(self.lake.root / path)
        told = NewFile(path, record.size, record.rows, record.modified, record.partition)
        added = [self.lake.write([{"id": i} for i in ids], partition=(part,))]
        change = Change("update", removed=self.lake.removed(base, row), added=added, feed=[told])
        self.feeds[self.lake.commit(base, change)] = {path}

    def restore(self, number: int) -> None:
        version = number % (self.newest + 1)
        before = self.states[self.newest]
        try:
            report = Brain().restore({"path": str(self.lake.root)}, version=version)
        except VersionNotFoundError:
            assert self.last_day(version) <= self.day - KEPT, "a version within the retention can be restored"
            assert self.read() == before
            return
        assert self.read() == self.states[version]
        assert report.total == len(self.states[version]) == len(before) + report.inserted - report.deleted

    def debris(self, number: int) -> None:
        """What a writer that was killed has left behind."""
        self.lake.write([{"id": -1}], partition=("a b",))

    def vacuum(self, number: int) -> None:
        dry = Brain().vacuum({"path": str(self.lake.root)}, dry_run=True)
        report = Brain().vacuum({"path": str(self.lake.root)})
        assert (report.files_removed, report.bytes_removed) == (dry.files_removed, dry.bytes_removed)
        assert Brain().vacuum({"path": str(self.lake.root)}).version is None
        # Nothing that is old enough and needed by nobody stays.
        needed = set()
        for version in self.states:
            if self.last_day(version) > self.day - KEPT:
                needed |= self.files(version)
        for version, paths in self.feeds.items():
            if self.days[version] > self.day - KEPT:
                needed |= paths
        oldest = time.time() - (KEPT + 1) * DAY
        for path in self.lake.root.rglob("*"):
            name = str(path.relative_to(self.lake.root))
            if path.is_file() and not name.startswith("_delta_log") and path.stat().st_mtime < oldest:
                assert name in needed or self.may_be_needed(name), name

    def may_be_needed(self, name: str) -> bool:
        """A file that a version of the last days removed or added again."""
        return any(name in self.files(version) for version in self.states if self.last_day(version) >= self.day - KEPT)

    def last_day(self, version: int) -> int:
        """The last day on which the version was the newest."""
        return self.days.get(version + 1, self.day)

    def check(self) -> None:
        for version, ids in self.states.items():
            if self.last_day(version) > self.day - KEPT:
                assert self.read(version) == ids, f"version {version} on day {self.day}"
        for version, paths in self.feeds.items():
            if self.days[version] > self.day - KEPT:
                assert all((self.lake.root / path).exists() for path in paths)

    def pass_a_day(self) -> None:
        self.day += 1
        for path in self.lake.root.rglob("*"):
            if path.is_file():
                at = path.stat().st_mtime - DAY
                os.utime(path, (at, at))
        # Tombstones carry the writer's clock: they age in the log itself.
        for path in (self.lake.root / "_delta_log").glob("*.json"):
            status, text = path.stat(), path.read_text()
            aged = _aged(text)
            if aged != text:
                path.write_text(aged)
                os.utime(path, (status.st_mtime, status.st_mtime))
        for path in (self.lake.root / "_delta_log").glob("*.checkpoint*"):
            path.unlink()
        (self.lake.root / "_delta_log" / "_last_checkpoint").unlink(missing_ok=True)
        self.lake = Lake(self.lake.root)

    def _ids(self, snapshot: Any, row: int) -> list[int]:
        url = snapshot.url(snapshot.files["path"][row].as_py()).removeprefix("file://")
        dead = masked_positions(snapshot.mask(row), self.lake.table.store)
        values = pq.read_table(url, columns=["id"], partitioning=None)["id"].to_pylist()
        return [value for at, value in enumerate(values) if at not in dead]

    def read(self, version: int | None = None) -> list[int]:
        table = DeltaTable(open_store(str(self.lake.root)))
        snapshot = table.latest() if version is None else table.at_version(version)
        return sorted(i for row in range(snapshot.files.num_rows) for i in self._ids(snapshot, row))

    def files(self, version: int) -> set[str]:
        snapshot = DeltaTable(open_store(str(self.lake.root))).at_version(version)
        root = f"file://{self.lake.root}/"
        paths = {snapshot.url(path).removeprefix(root) for path in snapshot.files["path"].to_pylist()}
        masks = (snapshot.mask(row) for row in range(snapshot.files.num_rows))
        return paths | {str(mask.url).removeprefix(root) for mask in masks if mask is not None and mask.url}


def _aged(text: str) -> str:
    return re.sub(r'("deletionTimestamp":)(\d+)', lambda m: f"{m[1]}{int(m[2]) - DAY * 1000}", text)


@settings(
    max_examples=10, phases=(Phase.explicit, Phase.generate), deadline=None, suppress_health_check=list(HealthCheck)
)
@given(steps=STEPS)
def test_random_histories(steps: list[tuple[str, int]]) -> None:
    with TemporaryDirectory() as directory:
        history = History(Path(directory) / "t")
        for verb, number in [*steps, ("vacuum", 0)]:
            history.step(verb, number)


@pytest.mark.parametrize("verb", sorted(set(VERBS) - {"vacuum"}))
def test_each_between_vacuums(tmp_path: Path, verb: str) -> None:
    history = History(tmp_path / "t")
    for step in ("append", "append", verb, "vacuum", verb, "mask", "vacuum", "restore", "vacuum", verb, "vacuum"):
        history.step(step, 7)
