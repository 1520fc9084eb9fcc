"""Deletion vectors and row counts that do not fit their files: a typed error at every door, and no change."""

from __future__ import annotations

import json
import shutil
from typing import Any

import pytest
from pyroaring import BitMap64
from pyspark.sql import SparkSession

import lakemend
from lakemend.errors import CorruptTableError
from lakemend.formats.delta import deletion_vector as dv
from tests.behaviour.doors import READS, Door, assert_full, data_file, edit_log, listing, made
from tests.unit.brain_commit.test_masks_that_do_not_fit import array_container

MODES = ["copy-on-write", "merge-on-read"]
STATEMENTS: dict[str, Door] = {
    **READS,
    "count": lambda spark, t: spark.sql(f"SELECT count(s) FROM delta.`{t}` WHERE s > ''").collect(),
    "update": lambda spark, t: spark.sql(f"UPDATE delta.`{t}` SET s = 'n' WHERE id = 2"),
    "delete": lambda spark, t: spark.sql(f"DELETE FROM delta.`{t}` WHERE id = 2"),
    "merge": lambda spark, t: spark.sql(
        f"MERGE INTO delta.`{t}` t USING (SELECT 2L AS id) s ON t.id = s.id WHEN MATCHED THEN UPDATE SET s = 'n' "
        "WHEN NOT MATCHED BY SOURCE AND t.id = 0 THEN DELETE"
    ),
    "dry run": lambda spark, t: lakemend.table(spark, t).update({"s": "'n'"}, "id = 2", dry_run=True),
    "changes": lambda spark, t: spark.sql(f"SELECT * FROM delta.`{t}` CHANGES FROM VERSION 0").collect(),
}


def damaged(spark: SparkSession, location: str, mode: str = MODES[0], **add: Any) -> None:
    """Five rows in one file, of which others say more than is true."""
    shutil.copytree(made(spark, f"{location}.origin"), location)

    def change(action: dict[str, Any]) -> None:
        if "add" in action:
            action["add"] |= add
        if "protocol" in action and "deletionVector" in add:
            features = ["deletionVectors"]
            action["protocol"] = {"minReaderVersion": 3, "minWriterVersion": 7} | {
                "readerFeatures": features,
                "writerFeatures": features,
            }
        if "metaData" in action:
            modes = {f"write.{verb}.mode": mode for verb in ("update", "delete", "merge")}
            action["metaData"]["configuration"] |= modes

    edit_log(location, 0, change)


@pytest.mark.parametrize("door", STATEMENTS)
def test_rows_that_are_not_there(spark: SparkSession, location: str, door: str) -> None:
    damaged(spark, location, deletionVector=dv.describe_inline(BitMap64([1, 70_000])).to_json())
    before = listing(location)
    with pytest.raises(CorruptTableError) as caught:
        STATEMENTS[door](spark, location)
    assert_full(caught.value, data_file(location).name, "70000", "5")
    assert listing(location) == before


@pytest.mark.parametrize("door", ["update", "delete", "merge"])
def test_rows_that_are_not_there_while_masking(spark: SparkSession, location: str, door: str) -> None:
    vector = dv.describe_inline(BitMap64([1, 5])).to_json()
    damaged(spark, location, MODES[1], deletionVector=vector)
    before = listing(location)
    with pytest.raises(CorruptTableError) as caught:
        STATEMENTS[door](spark, location)
    assert_full(caught.value, data_file(location).name, "masks row 5")
    assert listing(location) == before


@pytest.mark.parametrize("values", [[1, 1], [3, 1]], ids=["twice", "unsorted"])
def test_a_bitmap_that_is_none(spark: SparkSession, location: str, values: list[int]) -> None:
    blob = array_container(values)
    body = {"storageType": "i", "pathOrInlineDv": dv.z85_encode(blob), "sizeInBytes": len(blob), "cardinality": 2}
    damaged(spark, location, deletionVector=body)
    with pytest.raises(CorruptTableError):
        READS["sql"](spark, location)


@pytest.mark.parametrize("heard", ["false", "true"], ids=["", "as a column"])
@pytest.mark.parametrize("mode", MODES)
def test_a_file_with_more_rows_than_the_log_says(spark: SparkSession, location: str, mode: str, heard: str) -> None:
    """With all counted rows deleted the file would leave the table, and the others with it."""
    damaged(spark, location, mode, stats=json.dumps({"numRecords": 3}))
    before = listing(location)
    spark.conf.set("spark.lakemend.read.row-index-column", heard)
    try:
        for condition in ("id < 3", "id = 1"):
            with pytest.raises(CorruptTableError) as caught:
                spark.sql(f"DELETE FROM delta.`{location}` WHERE {condition} AND s <> ''")
            assert_full(caught.value, data_file(location).name, "3 rows", "5")
    finally:
        spark.conf.unset("spark.lakemend.read.row-index-column")
    assert listing(location) == before


def test_a_file_with_fewer_rows_than_the_log_says(spark: SparkSession, location: str) -> None:
    damaged(spark, location, stats=json.dumps({"numRecords": 9}))
    before = listing(location)
    with pytest.raises(CorruptTableError) as caught:
        STATEMENTS["update"](spark, location)
    assert_full(caught.value, data_file(location).name, "9 rows", "5")
    assert [n for n, _ in listing(location) if "_delta_log" in n] == [n for n, _ in before if "_delta_log" in n]
