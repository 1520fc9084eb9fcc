"""What a vacuum would delete of a table with 100,000 files, of which 10,000 more are no longer needed."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from benchmarks.data import scratch, spark
from benchmarks.log import compact
from benchmarks.peers.contest import Contender, contest
from benchmarks.peers.delta_spark import DeltaSpark
from benchmarks.peers.ours import Ours
from benchmarks.peers.race import peer
from benchmarks.peers.statements import Command
from benchmarks.ratio import Figure, seconds
from lakemend import Table

LIVE, GONE, PARTITIONS = 100_000, 10_000, 100
DAY = 86_400_000


def run() -> Iterator[Figure]:
    location = scratch() / "vacuumed"
    make(location)
    table = Table(spark(), f"delta.`{location}`")

    def dry_run() -> None:
        report = table.vacuum(dry_run=True)
        assert report.files_removed == GONE, report

    contenders = [Contender(Ours.name, lambda round: lambda: seconds(dry_run))]
    delta = peer(DeltaSpark)
    if delta is not None:
        vacuum = Command("VACUUM {table} RETAIN 168 HOURS DRY RUN")
        contenders.append(Contender(delta.name, lambda round: lambda: delta.run(f"delta.`{location}`", vacuum)))
    name = f"vacuum, dry run: {LIVE:,} files stay, {GONE:,} would go"
    yield from contest(contenders, rounds=3, warm=1).figures(name, against={DeltaSpark.name: 0.2})
    yield Figure("the same: Spark jobs", jobs_of(dry_run), 0, "")


def jobs_of(action: Callable[[], object]) -> int:
    """How many jobs Spark starts meanwhile."""
    scheduler = spark().sparkContext._jsc.sc().dagScheduler()
    before = int(scheduler.numTotalJobs())
    action()
    return int(scheduler.numTotalJobs()) - before


def make(location: Path) -> None:
    """Files of a byte each, all a month old; the first version brings them, the second removes some."""
    log = location / "_delta_log"
    log.mkdir(parents=True)
    then = round(time.time() * 1000) - 30 * DAY
    for part in range(PARTITIONS):
        (location / f"part={part}").mkdir()
    paths = [f"part={i % PARTITIONS}/part-{i:06d}-c3d2a4f0-7d2b-4c58-9a3c.parquet" for i in range(LIVE + GONE)]
    for path in paths:
        (location / path).write_bytes(b"x")
        os.utime(location / path, (then / 1000, then / 1000))
    fields = [{"name": n, "type": "long", "nullable": True, "metadata": {}} for n in ("id", "part")]
    head = [
        {"commitInfo": {"timestamp": then, "operation": "WRITE"}},
        {"protocol": {"minReaderVersion": 1, "minWriterVersion": 2}},
        {
            "metaData": {
                "id": "7c0f7a52-5d5e-4d9f-9c43-2f6a1f0f9d11",
                "format": {"provider": "parquet", "options": {}},
                "schemaString": json.dumps({"type": "struct", "fields": fields}),
                "partitionColumns": ["part"],
                "configuration": {},
                "createdTime": then,
            }
        },
    ]
    shared = {"dataChange": True}
    added = [
        {"path": path, "partitionValues": _part(path), "size": 1, "modificationTime": then, **shared} for path in paths
    ]
    _commit(log, 0, then, [*head, *({"add": add} for add in added)])
    removed = [{"path": path, "deletionTimestamp": then, **shared} for path in paths[LIVE:]]
    info = {"commitInfo": {"timestamp": then, "operation": "DELETE"}}
    _commit(log, 1, then, [info, *({"remove": remove} for remove in removed)])


def _part(path: str) -> dict[str, str]:
    return {"part": path.partition("/")[0].removeprefix("part=")}


def _commit(log: Path, version: int, time: int, actions: list[dict[str, object]]) -> None:
    file = log / f"{version:020d}.json"
    file.write_text("\n".join(compact(action) for action in actions))
    os.utime(file, (time / 1000, time / 1000))
