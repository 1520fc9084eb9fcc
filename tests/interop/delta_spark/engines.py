"""Lakemend and delta-spark behind the same few methods, so that a test may exchange them.

Both understand ``delta.`path` ``: one statement runs on either. Neither remembers a table from one statement to the
next; what it knows it has read from storage, as a new process would. `Theirs` lives in a process of its own
(`server.py`), on the newest Spark that delta-spark has a release for.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, Protocol

from pyspark.sql import SparkSession

from benchmarks.peers import delta_spark
from benchmarks.peers.process import Process
from lakemend.session import brain
from tests.conftest import FAST
from tests.interop.values import Rows, of_spark

# delta-spark: VACUUM may take what was removed a moment ago.
_SETTINGS = {
    **delta_spark.SETTINGS,
    **FAST,
    "spark.databricks.delta.retentionDurationCheck.enabled": "false",
    # A job of as many tasks lists the directories for VACUUM.
    "spark.sql.sources.parallelPartitionDiscovery.parallelism": "2",
}


class Engine(Protocol):
    name: str

    def sql(self, text: str) -> Rows:
        """Runs a statement; the rows of its result."""
        ...

    def python(self, text: str) -> Any:
        """Runs Python with `spark`; what it assigned to `result`."""
        ...


class Theirs:
    name = "delta-spark"

    def __init__(self) -> None:
        self._process = Process(
            "interop", delta_spark.PYSPARK, delta_spark.PACKAGE, _SETTINGS, "tests.interop.delta_spark.server"
        )

    def sql(self, text: str) -> Rows:
        return [str(row) for row in self._process.ask({"sql": text})["rows"]]

    def python(self, text: str) -> Any:
        return self._process.ask({"python": text})["result"]

    def stop(self) -> None:
        self._process.stop()


class Ours:
    name = "lakemend"

    def __init__(self, spark: SparkSession) -> None:
        self.spark = spark

    def sql(self, text: str) -> Rows:
        self._forget()
        return of_spark(self.spark.sql(text))

    def python(self, text: str) -> Any:
        self._forget()
        names: dict[str, Any] = {"spark": self.spark}
        exec(text, names)
        return names.get("result")

    def _forget(self) -> None:
        self.spark.catalog.clearCache()
        tables = brain().tables
        for location in list(tables._open):
            tables.forget(location)


def rows(engine: Engine, location: str | Path, columns: str = "*") -> Rows:
    return engine.sql(f"SELECT {columns} FROM delta.`{location}`")


def forget_commits(location: str | Path, before: int) -> None:
    """Only a checkpoint can tell what was in the commits before that version."""
    log = Path(location, "_delta_log")
    for version in range(before):
        for kind in ("json", "crc"):
            (log / f"{version:020d}.{kind}").unlink(missing_ok=True)
            (log / f".{version:020d}.{kind}.crc").unlink(missing_ok=True)


def newest(location: str | Path) -> int:
    return max(int(path.stem) for path in Path(location, "_delta_log").glob("[0-9]*[0-9].json"))
