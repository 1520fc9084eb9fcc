"""A table of keys and values, in both modes of row changes, with and without partitions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from pyspark.sql import SparkSession

from lakemend import Report, Table
from tests.copies import copied

MODES = ("copy-on-write", "merge-on-read")


@pytest.fixture(params=[(mode, parted) for mode in MODES for parted in (False, True)], ids=str)
def people(request: pytest.FixtureRequest, spark: SparkSession, namespace: str) -> Table:
    """id 1 to 3, v 'a' to 'c', n 10 to 30."""
    mode, parted = request.param
    by = "PARTITIONED BY (p)" if parted else ""

    def make(path: str) -> None:
        spark.sql(f"""CREATE TABLE lake.delta.`{path}` (id BIGINT, p STRING, v STRING, n INT) {by}
                      TBLPROPERTIES ('write.merge.mode' = '{mode}', 'write.update.mode' = '{mode}')""")
        spark.sql(f"INSERT INTO lake.delta.`{path}` VALUES (1, 'x', 'a', 10), (2, 'y', 'b', 20), (3, 'x', 'c', 30)")

    return copied(spark, (__name__, mode, parted), f"{namespace}.people", make)


def rows(table: Table, *order: str) -> list[tuple[Any, ...]]:
    return [tuple(row) for row in table.to_df().orderBy(*(order or ("id",))).collect()]


@pytest.fixture(params=[2, pytest.param(1, marks=pytest.mark.slow)], ids=["", "dry runs of all"])
def merged(request: pytest.FixtureRequest) -> Callable[..., Report]:
    """Merges whose reports must tell what happened, after a dry run that must have told the same and done nothing.

    By default the first merge of a test has a dry run, the third and so on, or the second and so on in a module whose
    FIRST_DRY_RUN is 2."""
    turn = -getattr(request.module, "FIRST_DRY_RUN", 1)

    def merge(table: Table, *arguments: Any, **options: Any) -> Report:
        nonlocal turn
        turn += 1
        there = table.exists()
        version = table.version if there else None
        planned = table.merge(*arguments, dry_run=True, **options) if turn % request.param == 0 else None
        assert (table.version if table.exists() else None) == version
        before = table.to_df().count() if there else 0
        report = table.merge(*arguments, **options)
        stats = report.stats
        assert planned is None or (planned.dry_run and planned.stats == stats)
        assert stats is not None
        assert stats["total"] == before + stats["inserted"] - stats["deleted"]
        assert stats["total"] == (table.to_df().count() if table.exists() else 0)
        assert (report.inserted, report.updated, report.deleted) == (
            stats["inserted"], stats["updated"], stats["deleted"])  # fmt: skip
        assert (report.version is None) == (not any(stats[name] for name in ("inserted", "updated", "deleted")))
        return report

    return merge
