"""Ctrl-C while a statement runs: the program gets its KeyboardInterrupt, nothing lands later, the session goes on."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

_ROOT = Path(__file__).resolve().parents[2]

_PROGRAM = """
import json, os, signal, sys, threading, time
import lakemend
from tests.conftest import FAST

# What a terminal's program has: a child of a process that ignores SIGINT would ignore it as well.
signal.signal(signal.SIGINT, signal.default_int_handler)
spark = lakemend.session(warehouse=sys.argv[1], master="local[2]", conf=FAST)
spark.sql("CREATE TABLE lake.default.t AS SELECT id, id AS v FROM range(0, 20, 1, 2)")
table = lakemend.table(spark, "lake.default.t")

def slow(parts):
    for part in parts:
        for row in range(len(part)):
            time.sleep(0.4)
        yield part

def interrupt():
    tracker = spark.sparkContext.statusTracker()
    while not tracker.getActiveJobsIds():
        time.sleep(0.05)
    time.sleep(0.5)
    os.kill(os.getpid(), signal.SIGINT)

rows = spark.range(0, 40, 1, 2).selectExpr("id", "id + 1 AS v").mapInPandas(slow, "id long, v long")
rows.createOrReplaceTempView("s")
found = []
for statement in (
    lambda: rows.writeTo("lake.default.t").append(),
    lambda: spark.sql("MERGE INTO lake.default.t t USING s ON t.id = s.id WHEN MATCHED THEN UPDATE SET v = s.v"),
    lambda: table.replace_where(rows, where="true"),
):
    threading.Thread(target=interrupt, daemon=True).start()
    started = time.monotonic()
    try:
        statement()
        found.append("ran to its end")
        continue
    except KeyboardInterrupt:
        pass
    left = len(spark.sparkContext.statusTracker().getActiveJobsIds())
    one = spark.sql("SELECT 41 + 1 AS x").collect()[0].x
    time.sleep(max(0, started + 12 - time.monotonic()))  # longer than the statement would have taken
    found.append([left, one, table.version, table.to_df().selectExpr("sum(v)").collect()[0][0]])
print(json.dumps(found), flush=True)
"""


@pytest.mark.faults
def test_an_interrupted_statement_does_not_land(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", _PROGRAM, str(tmp_path / "lake")],
        cwd=_ROOT,
        env={**os.environ, "PYTHONPATH": os.pathsep.join([str(_ROOT / "src"), str(_ROOT)])},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    assert json.loads(done.stdout.splitlines()[-1]) == [[0, 42, 0, 190]] * 3, done.stderr[-3000:]
    assert "reentrant call" not in done.stderr
