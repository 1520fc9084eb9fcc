"""Iceberg with a Hadoop catalog, format version 3 (deletion vectors), on the base's own Parquet files."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AbstractContextManager

from benchmarks.data import scratch
from benchmarks.peers.engine import BOTH, Base, Mode, checksum_sql
from benchmarks.peers.process import Process
from benchmarks.peers.statements import Query, Statement
from benchmarks.ratio import Answer

PYSPARK = "pyspark~=4.1.0"
PACKAGE = "org.apache.iceberg:iceberg-spark-runtime-4.1_2.13:1.12.0"
# What its storage-partitioned joins ask of a session.
GROUPED = {
    "spark.sql.iceberg.planning.preserve-data-grouping": "true",
    "spark.sql.sources.v2.bucketing.enabled": "true",
    "spark.sql.sources.v2.bucketing.pushPartValues.enabled": "true",
    "spark.sql.requireAllClusterKeysForCoPartition": "false",
}


class Iceberg:
    name = "iceberg"
    modes = BOTH

    def __init__(self) -> None:
        warehouse = scratch() / self.name / "warehouse"
        settings = {
            "spark.sql.extensions": "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions",
            "spark.sql.catalog.ice": "org.apache.iceberg.spark.SparkCatalog",
            "spark.sql.catalog.ice.type": "hadoop",
            "spark.sql.catalog.ice.warehouse": str(warehouse),
        }
        self._process = Process(self.name, PYSPARK, PACKAGE, settings)
        self.version = f"{PACKAGE.rpartition(':')[2]} on Spark {self._process.version}"
        self._bases: dict[tuple[str, Mode], tuple[str, int]] = {}

    def fresh(self, base: Base, mode: Mode) -> str:
        """One table per base and mode, rolled back to its first snapshot."""
        if (base.name, mode) not in self._bases:
            self._bases[base.name, mode] = self._create(base, mode)
        table, snapshot = self._bases[base.name, mode]
        self._process.sql(f"CALL ice.system.rollback_to_snapshot('{table}', {snapshot})")
        self._process.rows(f"SELECT count(*) FROM {table}")
        return table

    def run(self, table: str, statement: Statement) -> float:
        return self._process.run(table, statement)

    def answer(self, table: str, query: Query) -> Answer:
        return self._process.answer(query.sql(table))

    def settings(self, values: Mapping[str, str]) -> AbstractContextManager[None]:
        return self._process.settings(values)

    def checksum(self, table: str) -> list[float]:
        return self._process.rows(checksum_sql(table))[0]

    def _create(self, base: Base, mode: Mode) -> tuple[str, int]:
        table = f"ice.db.{base.name}_{mode.replace('-', '_')}"
        modes = ", ".join(f"'write.{verb}.mode' = '{mode}'" for verb in ("update", "delete", "merge"))
        partitioned = f"PARTITIONED BY ({base.partitioned_by})" if base.partitioned_by else ""
        # The codec of the other engines.
        self._process.sql(
            f"""CREATE TABLE {table} ({base.columns}) USING iceberg {partitioned}
            TBLPROPERTIES ('format-version' = '3', 'write.parquet.compression-codec' = 'snappy', {modes})"""
        )
        # Iceberg would take a table's own directory for its source too; the base is nobody's.
        self._process.sql(
            f"CALL ice.system.add_files(table => '{table}', source_table => '`parquet`.`{base.directory}`')"
        )
        return table, int(self._process.rows(f"SELECT snapshot_id FROM {table}.snapshots")[0][0])
