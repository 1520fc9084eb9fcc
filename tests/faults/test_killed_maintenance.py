"""A compaction that is killed between its versions leaves a valid table, and another one goes on."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

import lakemend

pytestmark = pytest.mark.faults

PROGRAM = """
import os, sys, lakemend
from lakemend.session import brain
from tests.conftest import FAST
spark = lakemend.session(warehouse=sys.argv[2], master="local[2]", conf=FAST)
original, seen = brain().ask, [0]
def ask(op, request):
    if op != "commit":
        return original(op, request)
    seen[0] += 1
    if seen[0] == 2 and sys.argv[3] == "before":
        os._exit(9)
    answer = original(op, request)
    if seen[0] == 2:
        os._exit(9)
    return answer
brain().ask = ask
table = lakemend.table(spark, sys.argv[1])
table.optimize(["id"], batches=3) if sys.argv[4] == "optimize" else table.compact(batches=3)
"""


@pytest.mark.parametrize("verb", ["compact", "optimize"])
@pytest.mark.parametrize("moment", ["before", "after"])
def test_killed_between_versions(spark: SparkSession, location: str, tmp_path: Path, moment: str, verb: str) -> None:
    table = lakemend.table(spark, location)
    for _ in range(3):
        table.append(spark.sql("SELECT id, id % 3 AS p FROM range(300)").coalesce(1), partition_by="p")
    root = Path(__file__).resolve().parents[2]
    path = os.pathsep.join([str(root / "src"), str(root)])
    arguments = [sys.executable, "-c", PROGRAM, location, str(tmp_path / "w"), moment, verb]
    died = subprocess.run(arguments, env={**os.environ, "PYTHONPATH": path}, cwd=root, timeout=240, check=False)
    assert died.returncode == 9
    landed = 1 if moment == "before" else 2
    assert table.version == 2 + landed
    expected = sorted(list(range(300)) * 3)
    assert sorted(row.id for row in table.to_df().collect()) == expected
    report = table.compact()
    assert len(report.plan["planned_groups"]) == 3 - landed
    assert table.files().num_rows == 3
    assert sorted(row.id for row in table.to_df().collect()) == expected
