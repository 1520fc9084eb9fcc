"""replaceWhere through every door: each does the same, and refuses the same."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

import lakemend
from lakemend import Table
from lakemend.errors import (
    InvalidInputError,
    InvalidPredicateError,
    NonPartitionedTableError,
    PartitionColumnNotFoundError,
    ReplaceWhereError,
    RowsOutsidePredicateError,
    TableNotFoundError,
    TypeMismatchError,
    UnsupportedOperatorError,
)
from tests.behaviour.replace.doors import DOORS, REFUSED
from tests.behaviour.replace.rows import ALL, MODES, Door, Make, content, frame, ordered


@pytest.mark.sampled
@pytest.mark.parametrize(("mode", "partitioned"), list(zip(MODES, (True, False), strict=True)), indirect=True)
@pytest.mark.parametrize("door", DOORS.values(), ids=DOORS.keys())
def test_every_door_does_the_same(
    spark: SparkSession, make: Make, door: Door, unchanged: Callable[[Table], None]
) -> None:
    table = make()
    door(table, frame(spark, [(1, 1, "part", 1)]), "p = 1")
    door(table, frame(spark, [(6, 2, "rows", 1)]), "id >= 4 AND id < 8")
    left = [r for r in ALL if r[1] != 1 and not 4 <= r[0] < 8]
    assert content(table) == ordered([*left, (1, 1, "part", 1), (6, 2, "rows", 1)])
    assert [h["operation"] for h in table.history(2)] == ["WRITE", "WRITE"]
    assert table.history(1)[0]["parameters"]["predicate"] == "((id >= 4) AND (id < 8))"
    assert table.history(1)[0]["parameters"]["mode"] == "Overwrite"
    unchanged(table)
    for where in ("p = 2", "id = 5"):
        with pytest.raises(RowsOutsidePredicateError) as caught:
            door(table, frame(spark, [(5, 2, "in", 1), (7, 3, "out", 1), (8, 3, "out", None)]), where)
        assert caught.value.count == 2
        assert {row["s"] for row in caught.value.sample} == {"out"}
    for where, error in REFUSED.items():
        with pytest.raises(error):
            door(table, frame(spark, [(5, 1, "x", 1)]), where)


@pytest.mark.parametrize("mode", MODES[:1], indirect=True)
@pytest.mark.parametrize("partitioned", [True], indirect=True)
def test_what_an_error_says(spark: SparkSession, make: Make, unchanged: Callable[[Table], None]) -> None:
    table = make()
    unchanged(table)
    new = frame(spark, [(5, 1, "x", 1)])
    with pytest.raises(InvalidPredicateError) as unknown:
        table.replace_where(new, "nope = 1")
    assert unknown.value.predicate == "nope = 1"
    assert "nope" in unknown.value.reason and "id, p, s, v" in unknown.value.reason
    with pytest.raises(InvalidPredicateError) as unparsable:
        table.replace_where(new, "p = ")
    assert "parsed" in unparsable.value.reason
    with pytest.raises(TypeMismatchError) as mismatch:
        table.replace_where(new, "p = 'abc'")
    assert (mismatch.value.column, mismatch.value.expected, mismatch.value.actual) == ("p", "bigint", "'abc'")
    with pytest.raises(UnsupportedOperatorError) as operator:
        table.replace_where(new, "rand() > 0.1")
    assert operator.value.operator == "rand"
    with pytest.raises(RowsOutsidePredicateError) as outside:
        table.replace_where(frame(spark, [(i, 2, None, i) for i in range(100)]), "p = 1 AND id > 1")
    assert outside.value.count == 100
    assert len(outside.value.sample) == 5
    assert all(row["p"] == 2 and row["s"] is None for row in outside.value.sample)
    for error in (unknown, unparsable, mismatch, operator, outside):
        assert isinstance(error.value, ReplaceWhereError | InvalidInputError | ValueError)
        assert error.value.remedy
    assert isinstance(mismatch.value, TypeError)


def test_types_that_do_not_fit_without_ansi_either(spark: SparkSession, make: Make) -> None:
    table = make()
    spark.conf.set("spark.sql.ansi.enabled", "false")
    try:
        with pytest.raises(TypeMismatchError):
            table.replace_where(frame(spark, [(5, 1, "x", 1)]), "p = 'abc'")
        with pytest.raises(TypeMismatchError):
            table.replace_where(frame(spark, [(5, 1, "x", 1)]), "id IN ('1', 'x')")
    finally:
        spark.conf.unset("spark.sql.ansi.enabled")
    assert table.version == 0


def test_save_as_table_never_wipes(spark: SparkSession, make: Make, unchanged: Callable[[Table], None]) -> None:
    table = make()
    unchanged(table)
    new = frame(spark, [(1, 1, "x", 1)])
    with pytest.raises(ReplaceWhereError):
        new.write.mode("overwrite").option("replaceWhere", "p = 1").saveAsTable(table.name)
    with pytest.raises(ReplaceWhereError):
        new.write.format("delta").mode("overwrite").option("replacewhere", "p = 1").saveAsTable(table.name)
    with pytest.raises(ReplaceWhereError):
        new.writeTo(table.name).option("replaceWhere", "p = 1").createOrReplace()
    with pytest.raises(ReplaceWhereError):
        new.write.mode("append").option("replaceWhere", "p = 1").saveAsTable(f"{table.name}_new")


@pytest.mark.parametrize("partitioned", [True], indirect=True)
def test_combinations_are_refused(spark: SparkSession, make: Make, unchanged: Callable[[Table], None]) -> None:
    table = make()
    path = table.detail()["location"]
    unchanged(table)
    new = frame(spark, [(1, 1, "x", 1)])
    where = new.write.option("replaceWhere", "p = 1")
    with pytest.raises(ReplaceWhereError, match="dynamic"):
        new.write.format("lakemend").mode("overwrite").option("replaceWhere", "p = 1").option(
            "partitionOverwriteMode", "dynamic"
        ).save(path)
    with pytest.raises(ReplaceWhereError, match="overwriteSchema"):
        new.write.format("lakemend").mode("overwrite").option("replaceWhere", "p = 1").option(
            "overwriteSchema", "true"
        ).save(path)
    with pytest.raises(ReplaceWhereError):
        new.writeTo(table.name).option("replaceWhere", "p = 1").overwritePartitions()
    with pytest.raises(ReplaceWhereError):
        new.writeTo(table.name).option("replaceWhere", "p = 1").overwrite(F.col("p") == 2)
    with pytest.raises(ReplaceWhereError):
        table.replace_using(new, ["id"], options={"replaceWhere": "p = 1"})
    with pytest.raises(ReplaceWhereError):
        table.replace_using(new, ["id"], options={"partitionOverwriteMode": "dynamic"})
    with pytest.raises(ReplaceWhereError):
        table.replace_where(new, "p = 1", options={"partitionOverwriteMode": "dynamic"})
    with pytest.raises(ReplaceWhereError):
        table.write(new, mode="overwrite", where="p = 1")
    spark.conf.set("spark.sql.sources.partitionOverwriteMode", "dynamic")
    try:
        with pytest.raises(ReplaceWhereError):
            where.mode("overwrite").insertInto(table.name)
    finally:
        spark.conf.unset("spark.sql.sources.partitionOverwriteMode")


def test_a_new_table_by_path(spark: SparkSession, location: str) -> None:
    new = frame(spark, [(1, 1, "x", 1), (2, 2, "y", 2)])
    for mode in ("overwrite", "append"):
        with pytest.raises(RowsOutsidePredicateError) as caught:
            new.write.format("lakemend").mode(mode).option("replaceWhere", "p = 1").save(location)
        assert (caught.value.count, caught.value.sample[0]["id"]) == (1, 2)
        assert not lakemend.table(spark, location).exists()
    new.write.format("lakemend").mode("overwrite").option("replaceWhere", "p > 0").save(location)
    assert len(content(lakemend.table(spark, location))) == 2
    with pytest.raises(TableNotFoundError):
        lakemend.table(spark, location + "_not").replace_where(new, "p = 1")


def test_unchecked_rows_come_in(spark: SparkSession, make: Make) -> None:
    table = make()
    assert table.replace_where(frame(spark, [(1, 3, "out", 1)]), "p = 1", check=False).inserted == 1
    frame(spark, [(2, 3, "out", 1)]).write.option("replaceWhere.CONSTRAINTCHECK", "false").option(
        "replaceWhere", "id = 2"
    ).mode("overwrite").insertInto(table.name)
    assert [r for r in content(table) if r[2] == "out"] == [(1, 3, "out", 1), (2, 3, "out", 1)]
    with pytest.raises(ReplaceWhereError, match="maybe"):
        table.replace_where(frame(spark, []), "p = 1", options={"replaceWhere.constraintCheck": "maybe"})


def test_partitions_only(
    spark: SparkSession, make: Make, partitioned: bool, unchanged: Callable[[Table], None]
) -> None:
    table = make()
    new = frame(spark, [(1, 1, "x", 1)])
    if not partitioned:
        unchanged(table)
        with pytest.raises(NonPartitionedTableError):
            table.replace_where(new, "p = 1", partitions_only=True)
        return
    assert table.replace_where(new, "P = 1", partitions_only=True).deleted == 10
    unchanged(table)
    with pytest.raises(PartitionColumnNotFoundError) as caught:
        table.replace_where(new, "p = 1 AND ID = 1", partitions_only=True)
    assert (caught.value.column, caught.value.available) == ("id", ["p"])
    with pytest.raises(PartitionColumnNotFoundError):
        spark.sql(
            f"INSERT INTO {table.name} WITH (`replaceWhere.partitionsOnly` = 'true') REPLACE WHERE id = 1 "
            "SELECT 1L, 1L, 'x', 1L"
        )
    with pytest.raises(ReplaceWhereError):
        new.writeTo(table.name).option("replaceWhere.partitionsOnly", "true").append()
