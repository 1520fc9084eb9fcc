"""delta-spark, tuned for small tables (`snapshotPartitions`): untuned it is three times slower."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

from benchmarks.data import scratch
from benchmarks.peers.engine import BOTH, Base, Mode, checksum_sql, link_tree
from benchmarks.peers.process import Process
from benchmarks.peers.statements import Query, Statement
from benchmarks.ratio import Answer

PYSPARK = "pyspark~=4.2.0"
PACKAGE = "io.delta:delta-spark_4.2_2.13:4.4.0"
SETTINGS = {
    "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
    "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
    "spark.databricks.delta.snapshotPartitions": "2",
}


class DeltaSpark:
    name = "delta-spark"
    modes = BOTH

    def __init__(self) -> None:
        self._process = Process(self.name, PYSPARK, PACKAGE, SETTINGS)
        self.version = f"{PACKAGE.rpartition(':')[2]} on Spark {self._process.version}"
        self._bases: dict[tuple[str, Mode], Path] = {}
        self._copies = 0

    def fresh(self, base: Base, mode: Mode) -> str:
        prepared = self._prepared(base, mode)
        self._copies += 1
        copy = scratch() / self.name / f"copy-{self._copies}"
        link_tree(prepared, copy)
        self._process.rows(f"SELECT count(*) FROM delta.`{copy}`")
        return f"delta.`{copy}`"

    def run(self, table: str, statement: Statement) -> float:
        return self._process.run(table, statement)

    def answer(self, table: str, query: Query) -> Answer:
        return self._process.answer(query.sql(table))

    def settings(self, values: Mapping[str, str]) -> AbstractContextManager[None]:
        return self._process.settings(values)

    def checksum(self, table: str) -> list[float]:
        return self._process.rows(checksum_sql(table))[0]

    def storm(self, table: str, **arguments: Any) -> dict[str, Any]:
        return self._process.storm(table=table, **arguments)

    def _prepared(self, base: Base, mode: Mode) -> Path:
        """The base with the property that chooses the mode."""
        if (base.name, mode) not in self._bases:
            directory = scratch() / self.name / f"{base.name}-{mode}"
            link_tree(base.directory, directory)
            vectors = "true" if mode == "merge-on-read" else "false"
            self._process.sql(
                f"ALTER TABLE delta.`{directory}` SET TBLPROPERTIES ('delta.enableDeletionVectors' = '{vectors}')"
            )
            self._bases[base.name, mode] = directory
        return self._bases[base.name, mode]
