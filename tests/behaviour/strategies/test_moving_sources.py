"""Sources that another writer changes while they are merged: what was looked at is what is merged."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

import lakemend
from lakemend import CommitConflictError, Table
from tests.behaviour.strategies.conftest import rows

Between = Callable[[Callable[[], Any]], None]


@pytest.fixture
def between(monkeypatch: pytest.MonkeyPatch) -> Iterator[Between]:
    """Does something between the look at the source and the statement."""
    from lakemend import strategies

    look = strategies.look_at_source

    def patch(act: Callable[[], Any]) -> None:
        def looked(*arguments: Any) -> Any:
            found = look(*arguments)
            act()
            return found

        monkeypatch.setattr(strategies, "look_at_source", looked)

    yield patch


@pytest.fixture
def tables(spark: SparkSession, namespace: str) -> tuple[Table, Table]:
    """A source with key 1, and a target with keys 1 and 9."""
    for name, values in (("source", "(1, 'new')"), ("target", "(1, 'old'), (9, 'old')")):
        spark.sql(f"CREATE TABLE {namespace}.{name} (id INT, v STRING)")
        spark.sql(f"INSERT INTO {namespace}.{name} VALUES {values}")
    return lakemend.table(spark, f"{namespace}.source"), lakemend.table(spark, f"{namespace}.target")


def test_a_table_that_goes_on(tables: tuple[Table, Table], between: Between) -> None:
    source, target = tables
    frame = source.to_df().where("id > 0")
    source.append([{"id": 2, "v": "new"}])  # a frame is of the time at which it is merged
    between(lambda: source.append([{"id": 9, "v": "late"}, {"id": 9, "v": "later"}]))
    for one in (frame, source):
        assert target.merge(one, "id").stats is not None
        assert rows(target) == [(1, "new"), (2, "new"), (9, "old")]
        source.delete("id = 9")


def test_a_frame_that_is_kept(spark: SparkSession, tables: tuple[Table, Table], between: Between) -> None:
    source, target = tables
    frame = source.to_df().cache()
    frame.count()
    other = spark.createDataFrame([(1,), (9,)], "id INT")
    try:
        between(lambda: source.append([{"id": 9, "v": "late"}]))
        target.merge(frame.join(other, "id"), "id")
        assert rows(target) == [(1, "new"), (9, "old")]
    finally:
        frame.unpersist()


@pytest.mark.parametrize("strategy", ["upsert", "delete_insert"])
def test_the_target_itself(tables: tuple[Table, Table], between: Between, strategy: str) -> None:
    target = tables[1]
    between(lambda: target.update({"v": "'changed'"}, "id = 9"))
    moved = target.to_df().withColumn("id", F.col("id") + 8)  # 9 becomes 17
    with pytest.raises(CommitConflictError):
        target.merge(moved, "id", strategy, retries=0)
    assert rows(target) == [(1, "old"), (9, "changed")]
