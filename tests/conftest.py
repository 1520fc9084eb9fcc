"""One Spark session for all tests that need one; a namespace and a directory of its own for each test.

Tests under tests/unit never ask for `spark`: no JVM starts for them.
"""

from __future__ import annotations

import logging
import uuid
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, settings

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# How long an example takes says how busy the machine is, and nothing of what is tested.
settings.register_profile("lakemend", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("lakemend")

# What makes a small session start and run fast; nothing here changes results.
FAST = {
    "spark.driver.memory": "2g",
    # With one compiler alone Java makes room for 48 MB of compiled code, and sweeps it all the time once it is full.
    # Whenever its classes or its rows fill what it first keeps for them, it collects all garbage before it takes more.
    "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:ReservedCodeCacheSize=256m -XX:+UseSerialGC "
    "-XX:MetaspaceSize=512m -Xms2g -Xmn1g -Dderby.system.durability=test",
    "spark.ui.enabled": "false",
    "spark.sql.shuffle.partitions": "2",
    "spark.default.parallelism": "2",
    "spark.sql.session.timeZone": "UTC",
    "spark.shuffle.compress": "false",
    "spark.sql.codegen.wholeStage": "true",
    # Tests say the same to small tables again and again: what was compiled for it is kept, and not the last 100 alone.
    "spark.sql.codegen.cache.maxEntries": "5000",
    "spark.rdd.compress": "false",
    # The number of a stage in the name of its class would make the same code another.
    "spark.sql.codegen.useIdInClassName": "false",
    # What the events of a query say of its plan, and where in Python a column was made: nobody reads either.
    "spark.sql.ui.explainMode": "simple",
    "spark.python.sql.dataFrameDebugging.enabled": "false",
    "spark.log.level": "ERROR",
}


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Of a test with several parameters as few cases run by default as have every value of each of them; the others are
    slow ones. Tests under tests/unit are cheap: there it is so for those marked `sampled` alone. A test marked
    `either("mode")` needs one value of `mode`, whichever its name draws."""
    cases: dict[str, list[pytest.Item]] = {}
    for item in items:
        if _is_sampled(item):
            cases.setdefault(item.nodeid.partition("[")[0], []).append(item)
    for same in cases.values():
        # Values that stand in one list together have one name, and so each line of a list runs.
        values = {item: _values(item) for item in same}
        missing = set().union(*values.values())
        # Tests that share a fixture meet its values in different combinations.
        same.sort(key=lambda item: zlib.crc32(item.nodeid.encode()))
        while missing:
            chosen = max(same, key=lambda item: len(values[item] & missing))  # the first of several
            missing -= values.pop(chosen)
            same.remove(chosen)
        for item in same:
            item.add_marker(pytest.mark.slow)


def _values(item: pytest.Item) -> set[tuple[int, str]]:
    """The values that some case has to have, by the place of their parameter: not those of which any one will do."""
    spec = item.callspec  # type: ignore[attr-defined]
    any_one = [name for mark in item.iter_markers("either") for name in mark.args]
    texts = {str(spec.params[name]) for name in any_one if name in spec.params}
    return {(place, text) for place, text in enumerate(spec._idlist) if text not in texts} or {(0, "any")}


def _is_sampled(item: pytest.Item) -> bool:
    if not hasattr(item, "callspec") or item.get_closest_marker("slow") or item.get_closest_marker("crossed"):
        return False
    return "unit" not in item.path.relative_to(Path(__file__).parent).parts or bool(item.get_closest_marker("sampled"))


@pytest.fixture(scope="session")
def warehouse(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the session's catalog `lake` keeps its tables."""
    return tmp_path_factory.mktemp("warehouse")


@pytest.fixture(scope="session")
def spark(warehouse: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    from pyspark.logger import PySparkLogger

    import lakemend

    # Pytest hangs its handlers on loggers that do not propagate. PySpark's own would make them write JSON ever after.
    PySparkLogger.addHandler = logging.Logger.addHandler  # type: ignore[method-assign]
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
