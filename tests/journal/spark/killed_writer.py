"""A process that changes a journal of plain files and is killed: run by `test_killed.py`.

`before`: at the moment when its files are written and not claimed; `after`: when they are.
"""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path
from typing import Any

import lakemend
from lakemend.journal import JournalSession
from lakemend.journal.spark.claims import Claims
from tests.conftest import FAST

MODEL = {"journalTables": {"depts": "id"}, "journalVersionType": "BIGINT"}
COLUMNS = "id BIGINT, name STRING, n INT, version_number BIGINT, subsequent_version_number BIGINT"


def main(scratch: str, location: str, moment: str) -> None:
    conf = {**FAST, "spark.sql.warehouse.dir": str(Path(scratch) / "spark")}
    spark = lakemend.session(warehouse=str(Path(scratch) / "lake"), master="local[1]", conf=conf)
    spark.sql(f"CREATE TABLE depts_journal ({COLUMNS}) USING parquet LOCATION '{location}'")
    session = JournalSession(spark, MODEL)
    original = Claims.claim

    def claim(self: Claims, *args: Any) -> None:
        if moment == "after":
            original(self, *args)
        os.kill(os.getpid(), signal.SIGKILL)

    Claims.claim = claim  # type: ignore[method-assign]
    session.sql("UPDATE depts SET n = n + 1")


if __name__ == "__main__":
    main(*sys.argv[1:])
