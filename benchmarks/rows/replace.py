"""Work grows with what is replaced: one part of a large table, one partition or file of ten thousand.

That a statement reads no data file, or just one, is shown on a copy of the table that has no others.
"""

from __future__ import annotations

import itertools
import shutil
import statistics
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from benchmarks.data import scratch
from benchmarks.peers.engine import link_tree
from benchmarks.peers.race import ours
from benchmarks.peers.statements import Overwrite, ReplaceWhere, Statement, Update
from benchmarks.ratio import Figure, compare, measure
from benchmarks.rows import tables
from lakemend.formats.delta.checkpoint_writer import state_of, write_checkpoint
from lakemend.formats.delta.table import DeltaFormat
from lakemend.storage import open_store

PARTITIONS = 10_000


def run() -> Iterator[Figure]:
    yield part_against_whole()
    base = tables.partitioned(PARTITIONS * 10, PARTITIONS)
    checkpoint(base.directory)
    replacement = ReplaceWhere(tables.partition(PARTITIONS * 10, PARTITIONS, 77), "part = 77")
    numbers = itertools.count()

    def replace_in_new_copy() -> float:
        name = f"opened_{next(numbers)}"
        link_tree(base.directory, place(name))
        return ours().run(f"lake.bench.{name}", replacement)

    times = [replace_in_new_copy() for _ in range(5)][1:]
    yield Figure(
        "replaceWhere of 1 partition of 10,000, table not opened before",
        statistics.median(times),
        1.0,
        "s",
        f"{min(times):.3f}–{max(times):.3f} s, {len(times)} rounds, checkpointed log",
    )
    yield files_read("data files read by it", base.directory, replacement, lambda file: False, 0)
    yield files_read(
        "data files read by UPDATE of 1 row, 10,000 files",
        base.directory,
        Update("a", "a + 1", "id = 12345"),
        lambda file: file.parent.name == "part=1234",
        1,
    )
    table = ours().fresh(base, "merge-on-read")
    rounds = itertools.count(1)
    yield measure(
        "UPDATE of 1 row, 10,000 files",
        lambda: ours().run(table, Update("a", "a + 1", f"id = {next(rounds)}")),
        target=1.0,
    )


def part_against_whole() -> Figure:
    """1 % of a partitioned table replaced, against all of it overwritten."""
    base = tables.partitioned(tables.MANY, 100)
    part = ours().fresh(base, "merge-on-read")
    whole = ours().fresh(base, "merge-on-read")
    every = tables.everything(base)
    one = tables.partition(tables.MANY, 100, 7)
    return compare(
        "replaceWhere of 1 % against overwriting the table",
        lambda: ours().run(part, ReplaceWhere(one, "part = 7")),
        lambda: ours().run(whole, Overwrite(every)),
        target=0.1,
        rounds=3,
        warm=1,
    )


def files_read(name: str, base: Path, statement: Statement, kept: Callable[[Path], bool], target: int) -> Figure:
    """How many data files a statement needs, provided that it needs none but those `kept`."""
    found = [file for file in base.rglob("*.parquet") if "_delta_log" not in file.parts and kept(file)]
    ours().run(copy_with(base, found, f"with_{target}_files"), statement)
    return Figure(name, len(found), target, "", "on a copy of the table that has no other data file")


def copy_with(base: Path, files: Sequence[Path], name: str) -> str:
    """A copy of a table that has these data files alone; its name."""
    place(name).mkdir()
    shutil.copytree(base / "_delta_log", place(name) / "_delta_log")
    for file in files:
        target = place(name) / file.relative_to(base)
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(file, target)
    return f"lake.bench.{name}"


def checkpoint(location: Path) -> None:
    table = DeltaFormat().open(open_store(str(location)))
    write_checkpoint(table.store, state_of(table.latest()))


def place(name: str) -> Path:
    return scratch() / "warehouse" / "bench" / name
