"""kill -9 of a writer of plain files, just before its claim and just after."""

from __future__ import annotations

import os
import subprocess
import sys
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from lakemend.journal import JournalSession
from tests.journal.spark.conftest import change, rows
from tests.journal.spark.killed_writer import COLUMNS, MODEL

_ROOT = Path(__file__).resolve().parents[3]


@pytest.fixture
def place(spark: SparkSession) -> Iterator[str]:
    name = f"spark_catalog.k{uuid.uuid4().hex[:12]}"
    spark.sql(f"CREATE NAMESPACE {name}")
    yield name
    spark.sql(f"DROP NAMESPACE {name} CASCADE")


@pytest.mark.faults
@pytest.mark.parametrize("moment", ["before", "after"])
@pytest.mark.crossed
def test_a_killed_writer(spark: SparkSession, place: str, tmp_path: Path, moment: str) -> None:
    location = tmp_path / "journal"
    spark.sql(f"CREATE TABLE {place}.depts_journal ({COLUMNS}) USING parquet LOCATION '{location}'")
    session = JournalSession(spark, MODEL, namespace=place)
    change(session, "INSERT INTO depts VALUES (1, 'a', 0), (2, 'b', 0)")
    killed = subprocess.run(
        [sys.executable, "-m", "tests.journal.spark.killed_writer", str(tmp_path), str(location), moment],
        cwd=_ROOT,
        env={**os.environ, "PYTHONPATH": os.pathsep.join([str(_ROOT / "src"), str(_ROOT)])},
        timeout=600,
        check=False,
        capture_output=True,
    )
    assert killed.returncode == -9, killed.stderr.decode()
    written = [*(location / "_journal" / "data").glob("*/*.parquet")]
    assert len(written) == 2
    n = 0 if moment == "before" else 1
    assert rows(session, "SELECT id, n FROM depts") == [(1, n), (2, n)]
    assert change(session, "UPDATE depts SET n = n + 10").updated == 2
    assert rows(JournalSession(spark, MODEL, namespace=place), "SELECT id, n FROM depts") == [(1, n + 10), (2, n + 10)]
    assert len(rows(session, "SELECT * FROM depts_journal")) == 4 + 2 * n
