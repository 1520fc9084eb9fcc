"""Journals answer as plain tables do, on Spark: a few generated statements by default, and hundreds on demand."""

from __future__ import annotations

from dataclasses import replace

import pytest
from pyspark.sql import SparkSession

from tests.journal.equivalence import ODD_NAMES, PLAIN_NAMES, Shape, run
from tests.journal.spark.engine import SparkEngine

# Spark's own catalog takes no such names for tables.
ODD_COLUMNS = tuple(replace(shape, name=shape.name.replace(" ", "_")) for shape in ODD_NAMES)


@pytest.mark.crossed
@pytest.mark.parametrize(
    ("shapes", "storage", "kind", "seeds", "steps"),
    [
        pytest.param(ODD_NAMES, "lake", "TIMESTAMP", [3], 8, id="a few"),
        *(
            pytest.param(shapes, storage, kind, range(3), 60, id=f"{storage} {kind} {i}", marks=pytest.mark.slow)
            for storage, odd in (("lake", ODD_NAMES), ("plain", ODD_COLUMNS))
            for i, shapes in enumerate((PLAIN_NAMES, odd))
            for kind in ("BIGINT", "TIMESTAMP")
        ),
    ],
)
def test_equivalence(
    spark: SparkSession, shapes: tuple[Shape, ...], storage: str, kind: str, seeds: list[int], steps: int
) -> None:
    engine = SparkEngine(spark, storage, kind)
    try:
        for seed in seeds:
            tally = run(engine, seed, steps, shapes)
            assert tally.changes > tally.errors
            assert tally.queries
    finally:
        engine.end()
