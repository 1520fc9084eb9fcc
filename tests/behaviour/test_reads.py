"""A commit says what its statement read of its own table; a constraint belongs to the version it was checked on."""

from __future__ import annotations

from pathlib import Path

import deltalake
import orjson
import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

import lakemend
from tests.slip_in import slip_in


def read_predicate(location: str, version: int) -> dict | None:
    line = Path(location, "_delta_log", f"{version:020d}.json").read_bytes().splitlines()[0]
    return orjson.loads(line)["commitInfo"]["lakemend"].get("readPredicate")


def columns(predicate: dict | None) -> set[str]:
    if predicate is None:
        return set()
    own = {predicate["col"][0]} if "col" in predicate else set()
    return own.union(*[columns(a) for a in predicate.get("args", [])])


def test_everything_read_of_the_target_is_in_the_commit(spark: SparkSession, location: str) -> None:
    t = f"lake.delta.`{location}`"
    spark.sql("SELECT id, id % 4 AS p FROM range(20)").write.format("delta").partitionBy("p").save(location)
    spark.sql(f"INSERT INTO {t} VALUES (1, 2)")
    assert read_predicate(location, 1) is None
    spark.sql(f"INSERT INTO {t} SELECT id, p FROM range(3) JOIN (SELECT 1 AS p)")
    assert read_predicate(location, 2) is None
    spark.sql(f"INSERT INTO {t} SELECT id, 9 FROM {t} WHERE p = 1")
    assert columns(read_predicate(location, 3)) == {"p"}
    # Answered from statistics, it has read the whole table all the same.
    spark.sql(f"INSERT INTO {t} SELECT max(id), 9 FROM {t}")
    assert read_predicate(location, 4) == {"op": "ALWAYS_TRUE"}
    spark.table(t).where("id < 3").writeTo(t).append()
    assert columns(read_predicate(location, 5)) == {"id"}
    spark.read.format("delta").load(location).where("id < 3").write.format("delta").mode("append").save(location)
    assert columns(read_predicate(location, 6)) == {"id"}
    spark.sql(f"DELETE FROM {t} WHERE p = 1 AND id IN (SELECT id + 1 FROM {t} WHERE p = 0)")
    assert read_predicate(location, 7)["op"] == "OR"


def test_an_insert_from_itself_conflicts_with_rows_added_where_it_read(
    spark: SparkSession, location: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    t = f"lake.delta.`{location}`"
    spark.sql("SELECT id, id % 4 AS p FROM range(20)").write.format("delta").partitionBy("p").save(location)

    def append(p: int) -> None:
        deltalake.write_deltalake(location, pa.table({"id": [100], "p": [p]}), mode="append")

    slip_in(monkeypatch, lambda: append(3))
    spark.sql(f"INSERT INTO {t} SELECT id, 9 FROM {t} WHERE p = 1")
    monkeypatch.undo()
    slip_in(monkeypatch, lambda: append(1))
    with pytest.raises(lakemend.CommitConflictError):
        spark.sql(f"INSERT INTO {t} SELECT id, 9 FROM {t} WHERE p = 1")


def test_a_constraint_conflicts_with_rows_it_has_not_seen(
    spark: SparkSession, location: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    t = f"lake.delta.`{location}`"
    spark.range(3).write.format("delta").save(location)
    slip_in(monkeypatch, lambda: deltalake.write_deltalake(location, pa.table({"id": [-5]}), mode="append"))
    with pytest.raises(lakemend.CommitConflictError):
        spark.sql(f"ALTER TABLE {t} ADD CONSTRAINT positive CHECK (id >= 0)")
    assert lakemend.table(spark, location).version == 1
