"""A table in either mode, partitioned or not, and one that must stay as it is."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
from pyspark.sql import SparkSession

import lakemend
from lakemend import Table
from tests.behaviour.replace.rows import MODES, ROWS, Make, Row, content, on_disk
from tests.copies import copied


@pytest.fixture(params=MODES)
def mode(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(params=[False, True], ids=["plain", "partitioned"])
def partitioned(request: pytest.FixtureRequest) -> bool:
    return bool(request.param)


@pytest.fixture
def make(spark: SparkSession, namespace: str, mode: str, partitioned: bool) -> Make:
    """A table of a query in the mode under test, in several files."""

    def create(query: str = "", partition_by: str = "p", name: str = "t") -> Table:
        frame = spark.sql(query or ROWS).repartition(3)
        columns = partition_by if partitioned else ()
        return copied(
            spark,
            (__name__, query, columns, mode),
            f"{namespace}.{name}",
            lambda path: lakemend.table(spark, path).append(
                frame, partition_by=columns, properties={"write.delete.mode": mode}
            ),
        )

    return create


@pytest.fixture
def unchanged() -> Iterator[Callable[[Table], None]]:
    """Remembers a table; afterwards it must be the same version, with the same rows and no file beside its own."""
    seen: list[tuple[Table, int, list[Row], set[str]]] = []
    yield lambda table: seen.append((table, table.version, content(table), on_disk(table)))
    for table, version, rows, files in seen:
        assert table.version == version
        assert content(table) == rows
        assert on_disk(table) == files
