"""delta-spark for the tests of this directory, started once; either engine may be the one that begins."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from pyspark.sql import SparkSession

from tests.interop.delta_spark.engines import Engine, Ours, Theirs


@pytest.fixture(scope="session")
def theirs() -> Iterator[Theirs]:
    engine = Theirs()
    yield engine
    engine.stop()


@pytest.fixture
def ours(spark: SparkSession) -> Ours:
    return Ours(spark)


@pytest.fixture(params=["ours first", "theirs first"])
def engines(request: pytest.FixtureRequest, ours: Ours, theirs: Theirs) -> tuple[Engine, Engine]:
    """The one that makes the table, and the other."""
    return (ours, theirs) if request.param == "ours first" else (theirs, ours)
