"""Frames under names that nobody else has, for the time it takes Spark to read a statement.

A statement keeps what its names meant when it was read: once it has become a frame, they are not needed any more. So a
statement of the user's meets neither these names nor a later state of the journals.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from uuid import uuid4

from pyspark.sql import DataFrame, SparkSession


def keep(frame: DataFrame) -> DataFrame:
    """The rows as they are now, whatever becomes of what they were made of."""
    return frame.localCheckpoint()


def release(kept: DataFrame) -> None:
    """Rows that a checkpoint keeps are not found by `unpersist` of a frame."""
    kept._jdf.queryExecution().analyzed().rdd().unpersist(False)


class Relations:
    """Names to be filled in where they occur."""

    def __init__(self, spark: SparkSession) -> None:
        self._spark = spark
        self._frames: dict[str, Callable[[], DataFrame]] = {}

    def add(self, frame: Callable[[], DataFrame]) -> str:
        name = f"lakemend_journal_{uuid4().hex}"
        self._frames[name] = frame
        return name

    def put(self, name: str, frame: Callable[[], DataFrame]) -> None:
        """Another frame for a name."""
        self._frames[name] = frame

    def frame(self, name: str) -> DataFrame:
        return self._frames[name]()

    def uses(self, name: str, *texts: str) -> int:
        """How often a name is read."""
        return sum(text.count(name) for text in texts)

    @contextmanager
    def kept(self, name: str) -> Iterator[None]:
        """The frame of a name is made once, for as long as this lasts."""
        before, rows = self._frames[name], keep(self._frames[name]())
        self._frames[name] = lambda: rows
        try:
            yield
        finally:
            self._frames[name] = before
            release(rows)

    @contextmanager
    def in_place(self, *texts: str) -> Iterator[None]:
        """The frames that the texts name can be read meanwhile."""
        used = [name for name in self._frames if any(name in text for text in texts)]
        placed: list[str] = []
        try:
            for name in used:
                self._frames[name]().createOrReplaceTempView(name)
                placed.append(name)
            yield
        finally:
            for name in placed:
                self._spark.catalog.dropTempView(name)
