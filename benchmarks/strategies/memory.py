"""What a merge of ten million rows into ten million takes in a driver of 2 GiB with two cores, in a process of its own.

Nothing collects the table or the source: were it so, the driver would run out of memory here.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

from benchmarks.data import SETTINGS, scratch
from benchmarks.ratio import Figure
from benchmarks.rows.tables import MANY
from benchmarks.strategies.tables import size

DRIVER = 2.0
MODES = ("merge-on-read", "copy-on-write")


def run() -> Iterator[Figure]:
    for mode in MODES:
        done = subprocess.run(
            [sys.executable, "-c", f"from benchmarks.strategies import memory; memory.measure({mode!r})"],
            check=True,
            capture_output=True,
            text=True,
            env={**os.environ, "LAKEMEND_BENCH_DIR": str(scratch())},
        )
        found = json.loads(done.stdout.splitlines()[-1])
        note = (
            f"driver of {DRIVER:g} GiB, local[2]; resident: Java {found['java']:.2f} GiB, Python {found['python']:.2f} "
            f"GiB; {found['seconds']:.0f} s; {found['stats']}"
        )
        yield Figure(
            f"upsert of {size(MANY)} into {size(MANY)} rows, {mode}: peak of the heap",
            found["heap"],
            DRIVER,
            " GiB",
            note,
        )


def measure(mode: str) -> None:
    """Merges rows of which four fifths are known to the table, and prints what it took."""
    import lakemend
    from benchmarks.rows.tables import with_columns

    conf = {**SETTINGS, "spark.driver.memory": f"{DRIVER:g}g", "spark.master": "local[2]"}
    spark = lakemend.session(warehouse=str(scratch() / "warehouse"), conf=conf)
    spark.sql("CREATE NAMESPACE IF NOT EXISTS lake.bench")
    with_columns(spark.range(0, MANY, 1, 16).selectExpr("id DIV 4 * 5 + id % 4 AS id")).writeTo("lake.bench.t").create()
    spark.sql(f"ALTER TABLE lake.bench.t SET TBLPROPERTIES ('write.merge.mode' = '{mode}')")
    source = str(scratch() / "source")
    with_columns(spark.range(0, MANY, 1, 16)).write.parquet(source)
    jvm = spark._jvm
    assert jvm is not None
    factory = jvm.java.lang.management.ManagementFactory
    pools = [pool for pool in factory.getMemoryPoolMXBeans() if pool.getType().toString() == "Heap memory"]
    for pool in pools:
        pool.resetPeakUsage()
    started = time.perf_counter()
    report = lakemend.table(spark, "lake.bench.t").merge(spark.read.parquet(source), "id", "upsert")
    taken = time.perf_counter() - started
    assert report.stats is not None
    assert report.stats["total"] == MANY + report.stats["inserted"], report.stats
    found = {
        "heap": sum(pool.getPeakUsage().getUsed() for pool in pools) / 2**30,
        "java": _resident(int(jvm.java.lang.ProcessHandle.current().pid())),
        "python": _resident(os.getpid()),
        "seconds": taken,
        "stats": report.stats,
    }
    print(json.dumps(found))


def _resident(process: int) -> float:
    """Peak in GiB."""
    status = Path(f"/proc/{process}/status").read_text()
    return int(next(line.split()[1] for line in status.splitlines() if line.startswith("VmHWM"))) / 2**20
