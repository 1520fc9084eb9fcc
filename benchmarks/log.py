"""Opening a table of 100,000 files, listing it and reading all statistics, against `deltalake`. No Spark."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from deltalake import DeltaTable

from benchmarks.data import scratch
from benchmarks.ratio import Figure, compare
from lakemend.formats.delta.checkpoint_writer import state_of, write_checkpoint
from lakemend.formats.delta.table import DeltaFormat
from lakemend.formats.format import Table
from lakemend.storage import open_store

FILES = 100_000
COMMITS = 100
COLUMNS = ("id", "a", "b", "s")


def run() -> Iterator[Figure]:
    location = scratch() / "log"
    make(location)
    yield compare("100k files, JSON log", lambda: ours(location), lambda: theirs(location), target=1.0, rounds=5)
    checkpoint(location)
    yield compare("100k files, checkpoint", lambda: ours(location), lambda: theirs(location), target=1.2, rounds=5)
    script = f"import sys; from benchmarks import log; log.ours({str(location)!r}); log.report_memory()"
    peak = float(subprocess.run([sys.executable, "-c", script], check=True, capture_output=True, text=True).stdout)
    yield Figure("100k files, peak memory of the process", peak, 1.0, " GiB", "checkpoint, all statistics parsed")


def compact(value: object) -> str:
    """As Delta's writers write it."""
    return json.dumps(value, separators=(",", ":"))


def make(location: Path) -> None:
    """A synthetic log: 100 commits of 1,000 adds with statistics of four columns."""
    log = location / "_delta_log"
    log.mkdir(parents=True)
    fields = [
        {"name": n, "type": t, "nullable": True, "metadata": {}}
        for n, t in (("id", "long"), ("a", "integer"), ("b", "double"), ("s", "string"), ("day", "string"))
    ]
    head = [
        {"protocol": {"minReaderVersion": 1, "minWriterVersion": 2}},
        {
            "metaData": {
                "id": "5fba94ed-9794-4965-ba6e-6ee3c0d22af9",
                "format": {"provider": "parquet", "options": {}},
                "schemaString": json.dumps({"type": "struct", "fields": fields}),
                "partitionColumns": ["day"],
                "configuration": {},
                "createdTime": 0,
            }
        },
    ]
    per_commit = FILES // COMMITS
    for version in range(COMMITS):
        lines = [compact(a) for a in head] if version == 0 else []
        lines.insert(0, compact({"commitInfo": {"timestamp": version, "operation": "WRITE"}}))
        for i in range(version * per_commit, (version + 1) * per_commit):
            low = i * 1000
            stats = {
                "numRecords": 1000,
                "minValues": {"id": low, "a": i % 1000, "b": low * 0.5, "s": f"key-{low:012d}"},
                "maxValues": {
                    "id": low + 999,
                    "a": i % 1000 + 500,
                    "b": low * 0.5 + 99.5,
                    "s": f"key-{low + 999:012d}",
                },
                "nullCount": {"id": 0, "a": 3, "b": 0, "s": 1},
            }
            day = f"2026-{i % 12 + 1:02d}-{i % 28 + 1:02d}"
            add = {
                "path": f"day={day}/part-{i:06d}-c3d2a4f0-7d2b-4c58-9a3c-0123456789ab.c000.snappy.parquet",
                "partitionValues": {"day": day},
                "size": 100_000 + i,
                "modificationTime": 1_790_000_000_000 + i,
                "dataChange": True,
                "stats": compact(stats),
            }
            lines.append(compact({"add": add}))
        (log / f"{version:020d}.json").write_text("\n".join(lines))


def opened(location: Path | str) -> Table:
    return DeltaFormat().open(open_store(str(location)))


def checkpoint(location: Path) -> None:
    table = opened(location)
    write_checkpoint(table.store, state_of(table.latest()))


def ours(location: Path | str) -> None:
    snapshot = opened(location).latest()
    assert snapshot.files.num_rows == FILES
    for column in COLUMNS:
        assert snapshot.stats((column,)) is not None


def theirs(location: Path | str) -> None:
    assert DeltaTable(str(location)).get_add_actions(flatten=True).num_rows == FILES


def report_memory() -> None:
    """Peak resident memory in GiB. Not getrusage: its maximum survives exec, and would be the parent's."""
    status = Path("/proc/self/status").read_text()
    peak = next(line.split()[1] for line in status.splitlines() if line.startswith("VmHWM"))
    print(int(peak) / 2**20)
