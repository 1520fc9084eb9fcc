"""A table of keys and values, in both modes of row changes, with and without partitions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from pyspark.sql import SparkSession

import lakemend
from lakemend import Report, Table

MODES = ("copy-on-write", "merge-on-read")


@pytest.fixture(params=[(mode, parted) for mode in MODES for parted in (False, True)], ids=str)
def people(request: pytest.FixtureRequest, spark: SparkSession, namespace: str) -> Table:
    """id 1 to 3, v 'a' to 'c', n 10 to 30."""
    mode, parted = request.param
    by = "PARTITIONED BY (p)" if parted else ""
    spark.sql(f"""CREATE TABLE {namespace}.people (id BIGINT, p STRING, v STRING, n INT) {by}
                  TBLPROPERTIES ('write.merge.mode' = '{mode}', 'write.update.mode' = '{mode}')""")
    spark.sql(f"INSERT INTO {namespace}.people VALUES (1, 'x', 'a', 10), (2, 'y', 'b', 20), (3, 'x', 'c', 30)")
    return lakemend.table(spark, f"{namespace}.people")


def rows(table: Table, *order: str) -> list[tuple[Any, ...]]:
    return [tuple(row) for row in table.to_df().orderBy(*(order or ("id",))).collect()]


@pytest.fixture
def merged() -> Callable[..., Report]:
    """Merges after a dry run, which must have told what happens, and not have happened."""

    def merge(table: Table, *arguments: Any, **options: Any) -> Report:
        there = table.exists()
        version = table.version if there else None
        planned = table.merge(*arguments, dry_run=True, **options)
        assert planned.dry_run
        assert (table.version if table.exists() else None) == version
        before = table.to_df().count() if there else 0
        report = table.merge(*arguments, **options)
        assert planned.stats == report.stats
        stats = report.stats
        assert stats is not None
        assert stats["total"] == before + stats["inserted"] - stats["deleted"]
        assert stats["total"] == (table.to_df().count() if table.exists() else 0)
        assert (report.inserted, report.updated, report.deleted) == (
            stats["inserted"], stats["updated"], stats["deleted"])  # fmt: skip
        assert (report.version is None) == (not any(stats[name] for name in ("inserted", "updated", "deleted")))
        return report

    return merge
