"""Damaged logs and files, and tables of a kind not known: one typed error, and nothing is written.

The tables are copies of those that were written: nothing of them is known in this process.
"""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import Any

import deltalake
import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from lakemend.errors import (
    CorruptTableError,
    UnsupportedFeatureError,
)
from tests.behaviour.doors import READS, Door, assert_full, commit_file, data_file, edit_log, listing, made


def copied(spark: SparkSession, location: str, versions: int = 1) -> None:
    """A table of some versions that this process has never read."""
    shutil.copytree(made(spark, f"{location}.origin", versions), location)


# ---- logs


def test_a_log_without_a_readable_beginning(spark: SparkSession, location: str, read: Door, append: Door) -> None:
    copied(spark, location, 2)
    commit_file(location, 0).unlink()
    before = listing(location)
    with pytest.raises(CorruptTableError) as caught:
        read(spark, location)
    assert_full(caught.value, location)
    with pytest.raises(CorruptTableError):
        append(spark, spark.sql("SELECT 1L AS id, 'x' AS s"), location)
    assert listing(location) == before


def test_a_gap_in_the_log(spark: SparkSession, location: str, read: Door, append: Door) -> None:
    copied(spark, location, 4)
    commit_file(location, 2).unlink()
    before = listing(location)
    with pytest.raises(CorruptTableError) as caught:
        read(spark, location)
    assert_full(caught.value, "2")
    with pytest.raises(CorruptTableError):
        append(spark, spark.sql("SELECT 1L AS id, 'x' AS s"), location)
    assert listing(location) == before


@pytest.mark.parametrize("damage", ["truncated", "garbage", "no object", "empty"])
def test_a_damaged_commit(spark: SparkSession, location: str, read: Door, append: Door, damage: str) -> None:
    copied(spark, location, 3)
    commit = commit_file(location, 1)
    whole = commit.read_bytes()
    broken = {"truncated": whole[:-20], "garbage": b"\xff\x00 not json\n", "no object": b"[1, 2]\n", "empty": b""}
    commit.write_bytes(broken[damage])
    before = listing(location)
    with pytest.raises(CorruptTableError) as caught:
        read(spark, location)
    assert_full(caught.value, commit.name)
    with pytest.raises(CorruptTableError):
        append(spark, spark.sql("SELECT 1L AS id, 'x' AS s"), location)
    assert listing(location) == before


def test_a_truncated_checkpoint_with_its_commits_gone(
    spark: SparkSession, location: str, read: Door, append: Door
) -> None:
    copied(spark, location, 3)
    deltalake.DeltaTable(location).create_checkpoint()
    for version in range(3):
        commit_file(location, version).unlink()
    (checkpoint,) = Path(location, "_delta_log").glob("*.checkpoint.parquet")
    checkpoint.write_bytes(checkpoint.read_bytes()[:200])
    before = listing(location)
    with pytest.raises(CorruptTableError) as caught:
        read(spark, location)
    assert_full(caught.value, location)
    with pytest.raises(CorruptTableError):
        append(spark, spark.sql("SELECT 1L AS id, 'x' AS s"), location)
    assert listing(location) == before


def test_a_truncated_checkpoint_is_not_needed_where_the_commits_are(spark: SparkSession, location: str) -> None:
    copied(spark, location, 3)
    deltalake.DeltaTable(location).create_checkpoint()
    (checkpoint,) = Path(location, "_delta_log").glob("*.checkpoint.parquet")
    checkpoint.write_bytes(checkpoint.read_bytes()[:200])
    assert len(READS["dataframe"](spark, location)) == 15


def test_a_broken_hint_is_ignored(spark: SparkSession, location: str, read: Door) -> None:
    copied(spark, location, 2)
    Path(location, "_delta_log", "_last_checkpoint").write_text("{not json")
    assert len(read(spark, location)) == 10


# ---- data files


def test_a_missing_data_file(spark: SparkSession, location: str, read: Door) -> None:
    copied(spark, location)
    gone = data_file(location)
    gone.unlink()
    with pytest.raises(CorruptTableError) as caught:
        read(spark, location)
    assert_full(caught.value, gone.name, location)


@pytest.mark.parametrize("damage", ["truncated", "garbage", "empty", "no footer"])
def test_a_damaged_data_file(spark: SparkSession, location: str, read: Door, damage: str) -> None:
    copied(spark, location)
    file = data_file(location)
    whole = file.read_bytes()
    broken = {
        "truncated": whole[: len(whole) // 2],
        "garbage": os.urandom(len(whole)),
        "empty": b"",
        "no footer": whole[:-4] + b"XXXX",
    }
    file.write_bytes(broken[damage])
    with pytest.raises(CorruptTableError) as caught:
        read(spark, location)
    assert_full(caught.value, file.name)


def test_a_damaged_page(spark: SparkSession, location: str, read: Door) -> None:
    copied(spark, location)
    file = data_file(location)
    whole = bytearray(file.read_bytes())
    whole[4:60] = b"\xa5" * 56
    file.write_bytes(bytes(whole))
    with pytest.raises(CorruptTableError) as caught:
        read(spark, location)
    assert_full(caught.value, file.name)


def test_a_data_file_of_other_types(spark: SparkSession, location: str, read: Door) -> None:
    import pyarrow.parquet as pq

    copied(spark, location)
    file = data_file(location)
    pq.write_table(pa.table({"id": ["not a number"], "s": ["x"]}), file)
    with pytest.raises(CorruptTableError) as caught:
        read(spark, location)
    assert_full(caught.value, file.name, "id")


@pytest.mark.parametrize("damage", ["gone", "flipped", "wrong count", "nonsense"])
def test_a_damaged_deletion_vector(spark: SparkSession, location: str, read: Door, damage: str) -> None:
    from pyroaring import BitMap64

    from lakemend.formats.delta import deletion_vector as dv
    from lakemend.formats.masks import encode_blob

    copied(spark, location)
    vector = BitMap64([1, 3])
    if damage in ("gone", "flipped"):
        import uuid

        file = dv.encode_file([vector])
        (descriptor,) = dv.describe_file(uuid.uuid4(), file, [vector])
        path = Path(location, dv.relative_path(descriptor.path_or_inline))
        data = bytearray(file.data)
        data[-1] ^= 0x55
        if damage == "flipped":
            path.write_bytes(bytes(data))
        described = descriptor.to_json()
    else:
        blob = encode_blob(vector) if damage == "wrong count" else b"nonsense-nonsense-ns"
        described = {
            "storageType": "i",
            "pathOrInlineDv": dv.z85_encode(blob),
            "sizeInBytes": len(blob),
            "cardinality": 3,
        }

    def mask(action: dict[str, Any]) -> None:
        if "add" in action:
            action["add"]["deletionVector"] = described
        if "protocol" in action:
            features = ["deletionVectors"]
            action["protocol"] = {
                "minReaderVersion": 3,
                "minWriterVersion": 7,
                "readerFeatures": features,
                "writerFeatures": features,
            }

    edit_log(location, 0, mask)
    with pytest.raises(CorruptTableError) as caught:
        read(spark, location)
    assert_full(caught.value)


# ---- features and protocols


def set_protocol(location: str, **protocol: Any) -> None:
    def change(action: dict[str, Any]) -> None:
        if "protocol" in action:
            action["protocol"] = protocol

    edit_log(location, 0, change)


def test_an_unknown_reader_feature(spark: SparkSession, location: str, read: Door, append: Door) -> None:
    copied(spark, location)
    features = ["telepathy"]
    set_protocol(location, minReaderVersion=3, minWriterVersion=7, readerFeatures=features, writerFeatures=features)
    before = listing(location)
    with pytest.raises(UnsupportedFeatureError) as caught:
        read(spark, location)
    assert_full(caught.value, "telepathy")
    with pytest.raises(UnsupportedFeatureError, match="telepathy"):
        append(spark, spark.sql("SELECT 1L AS id, 'x' AS s"), location)
    assert listing(location) == before


def test_an_unknown_writer_feature_blocks_writes_alone(spark: SparkSession, location: str, append: Door) -> None:
    copied(spark, location)
    set_protocol(location, minReaderVersion=1, minWriterVersion=7, writerFeatures=["rowTracking", "telepathy"])
    before = listing(location)
    assert len(READS["dataframe"](spark, location)) == 5
    with pytest.raises(UnsupportedFeatureError) as caught:
        append(spark, spark.sql("SELECT 1L AS id, 'x' AS s"), location)
    assert_full(caught.value, "telepathy", "rowTracking")
    with pytest.raises(UnsupportedFeatureError):
        spark.range(2).write.format("delta").mode("overwrite").option("overwriteSchema", "true").save(location)
    with pytest.raises(UnsupportedFeatureError):
        spark.sql(f"ALTER TABLE lake.delta.`{location}` ADD COLUMN n int")
    assert listing(location) == before


@pytest.mark.parametrize(("reader", "writer"), [(4, 7), (99, 99)])
def test_a_future_protocol(
    spark: SparkSession, location: str, read: Door, append: Door, reader: int, writer: int
) -> None:
    copied(spark, location)
    set_protocol(location, minReaderVersion=reader, minWriterVersion=writer, readerFeatures=[], writerFeatures=[])
    before = listing(location)
    with pytest.raises(UnsupportedFeatureError) as caught:
        read(spark, location)
    assert_full(caught.value, str(reader))
    with pytest.raises(UnsupportedFeatureError):
        append(spark, spark.sql("SELECT 1L AS id, 'x' AS s"), location)
    assert listing(location) == before


def test_a_future_writer_protocol_is_read(spark: SparkSession, location: str, append: Door) -> None:
    copied(spark, location)
    set_protocol(location, minReaderVersion=1, minWriterVersion=8)
    assert len(READS["dataframe"](spark, location)) == 5
    with pytest.raises(UnsupportedFeatureError) as caught:
        append(spark, spark.sql("SELECT 1L AS id, 'x' AS s"), location)
    assert_full(caught.value, "8")
