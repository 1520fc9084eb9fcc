"""Row groups that other writers bound without their NaNs, and zeros of both signs: no row may be skipped."""

from __future__ import annotations

import json
import math
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import DataFrame, SparkSession

NAN = math.nan
# Four rows in each row group.
VALUES = [1.0, NAN, 2.0, 0.5, -0.0, -0.0, -0.0, -0.0, 5.0, 6.0, None, 7.0, 0.0, 0.0, 0.0, 0.0, NAN, NAN, None, NAN]
CONDITIONS = [
    "{x} > 100", "{x} >= 100", "100 < {x}", "{x} = double('NaN')", "{x} <=> double('NaN')", "{x} >= double('NaN')",
    "{x} <= double('NaN')", "{x} IN (double('NaN'), 5)", "{x} IN (0.0D, 77)", "NOT {x} < 100",
    "NOT ({x} <= 100 AND id > 0)",
    "{x} <> 0.0D", "{x} = 0.0D", "{x} = -0.0D", "{x} <= -0.0D", "{x} >= 0.0D", "{x} < 0.0D", "{x} < 1.0", "{x} <= 5",
    "{x} BETWEEN 3 AND 6", "isnan({x})", "{x} IS NULL", "{x} > 6 OR id = 0", "NOT ({x} = 1.0 OR {x} < 0)",
]  # fmt: skip


def rows() -> pa.Table:
    floats = pa.array(VALUES, pa.float32())
    doubles = pa.array(VALUES, pa.float64())
    return pa.table(
        {
            "id": pa.array(range(len(VALUES)), pa.int64()),
            "x": doubles,
            "f": floats,
            "s": pa.StructArray.from_arrays([doubles], ["x"]),
        }
    )


def arrow_made(location: str, properties: dict[str, str], dictionary: bool = True) -> None:
    """One file of pyarrow's, in a table that has a log of its own."""
    data = Path(location) / "part.parquet"
    data.parent.mkdir(parents=True)
    pq.write_table(rows(), data, row_group_size=4, use_dictionary=dictionary)
    bounds = pq.read_metadata(data).row_group(0).column(1).statistics
    assert (bounds.min, bounds.max) == (0.5, 2.0), "bounds that do not know of a NaN"
    inner = {"type": "struct", "fields": [{"name": "x", "type": "double", "nullable": True, "metadata": {}}]}
    kinds = {"id": "long", "x": "double", "f": "float", "s": inner}
    fields = [{"name": n, "type": t, "nullable": True, "metadata": {}} for n, t in kinds.items()]
    actions = [
        {"protocol": {"minReaderVersion": 3, "minWriterVersion": 7, "readerFeatures": ["deletionVectors"],
                      "writerFeatures": ["deletionVectors"]}},
        {"metaData": {"id": "t", "format": {"provider": "parquet", "options": {}}, "partitionColumns": [],
                      "schemaString": json.dumps({"type": "struct", "fields": fields}), "configuration": properties}},
        {"add": {"path": data.name, "partitionValues": {}, "size": data.stat().st_size, "modificationTime": 0,
                 "dataChange": True}},
    ]  # fmt: skip
    log = Path(location) / "_delta_log" / f"{0:020}.json"
    log.parent.mkdir()
    log.write_text("".join(json.dumps(action) + "\n" for action in actions))


def ids(frame: DataFrame) -> list[int]:
    return sorted(row.id for row in frame.select("id").collect())


@pytest.mark.parametrize("dictionary", [True, False])
@pytest.mark.either("dictionary")
def test_no_row_is_skipped(spark: SparkSession, location: str, dictionary: bool) -> None:
    arrow_made(location, {}, dictionary)
    table = spark.read.format("delta").load(location)
    known = spark.createDataFrame(
        [(i, v, v, (v,)) for i, v in enumerate(VALUES)], "id LONG, x DOUBLE, f FLOAT, s STRUCT<x: DOUBLE>"
    )
    wrong = []
    for condition in CONDITIONS:
        for column in ("x", "f", "s.x"):
            text = condition.format(x=column)
            found, expected = ids(table.where(text)), ids(known.where(text))
            if found != expected:
                wrong.append(f"{text}: {found} for {expected}")
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize("mode", ["copy-on-write", "merge-on-read"])
@pytest.mark.parametrize("feed", ["false", "true"])
def test_changes_find_every_row(spark: SparkSession, location: str, mode: str, feed: str) -> None:
    verbs = {f"write.{verb}.mode": mode for verb in ("update", "delete", "merge")}
    arrow_made(location, {**verbs, "delta.enableChangeDataFeed": feed})
    table = f"delta.`{location}`"
    nans = [i for i, v in enumerate(VALUES) if v is not None and math.isnan(v)]
    spark.sql(f"UPDATE {table} SET id = id + 100 WHERE x > 100")
    assert ids(spark.sql(f"SELECT id FROM {table} WHERE id >= 100")) == [i + 100 for i in nans]
    spark.sql(f"""MERGE INTO {table} t USING (SELECT double('NaN') AS x, 1000L AS more) s ON t.x = s.x AND t.id < 110
        WHEN MATCHED THEN UPDATE SET id = id + more WHEN NOT MATCHED THEN INSERT (id) VALUES (9999)""")
    assert ids(spark.sql(f"SELECT id FROM {table} WHERE id > 1000")) == [1101]
    spark.sql(f"DELETE FROM {table} WHERE f = float('NaN')")
    assert ids(spark.table(table)) == [i for i in range(len(VALUES)) if i not in nans]
    spark.sql(f"DELETE FROM {table} WHERE x = 0")
    zeros = [i for i, v in enumerate(VALUES) if v == 0]
    assert ids(spark.table(table)) == [i for i in range(len(VALUES)) if i not in (*nans, *zeros)]
