"""One Spark session for all tests that need one; a namespace and a directory of its own for each test.

Tests under tests/unit never ask for `spark`: no JVM starts for them.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# What makes a small session start and run fast; nothing here changes results.
FAST = {
    "spark.driver.memory": "1g",
    "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -Dderby.system.durability=test",
    "spark.ui.enabled": "false",
    "spark.sql.shuffle.partitions": "2",
    "spark.default.parallelism": "2",
    "spark.sql.session.timeZone": "UTC",
    "spark.shuffle.compress": "false",
    "spark.sql.codegen.wholeStage": "true",
    "spark.rdd.compress": "false",
    "spark.log.level": "ERROR",
}


@pytest.fixture(scope="session")
def warehouse(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the session's catalog `lake` keeps its tables."""
    return tmp_path_factory.mktemp("warehouse")


@pytest.fixture(scope="session")
def spark(warehouse: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    import lakemend

    session = lakemend.session(
        warehouse=warehouse,
        master="local[2]",
        conf={**FAST, "spark.sql.warehouse.dir": str(tmp_path_factory.mktemp("spark-warehouse"))},
        app_name="lakemend-tests",
    )
    yield session
    session.stop()


@pytest.fixture
def namespace(spark: SparkSession) -> Iterator[str]:
    """A fresh namespace of the catalog `lake`, such as `lake.t1f3`; dropped with its tables afterwards."""
    name = f"lake.t{uuid.uuid4().hex[:12]}"
    spark.sql(f"CREATE NAMESPACE {name}")
    yield name
    spark.sql(f"DROP NAMESPACE IF EXISTS {name} CASCADE")


@pytest.fixture
def location(tmp_path: Path) -> str:
    """A path at which no table is yet."""
    return str(tmp_path / "table")
