"""Scans of masked files: the rows that are left, whatever their types and however the files are read.

The same query without the deleted rows is the oracle. Row groups and pages are small, so that batches end at their
borders and filters skip some of them.
"""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

import lakemend
from lakemend import Table
from tests.settings import settings

ROWS = 6000
# High and low cardinality (plain and dictionary pages), nulls in all of them, and a column that is never null.
QUERY = f"""
    SELECT id,
           IF(id % 5 = 0, NULL, id % 2 = 0) AS a_boolean,
           CAST(IF(id % 6 = 0, NULL, id % 100) AS TINYINT) AS a_byte,
           CAST(IF(id % 7 = 0, NULL, id) AS SMALLINT) AS a_short,
           CAST(IF(id % 8 = 0, NULL, hash(id)) AS INT) AS an_int,
           IF(id % 9 = 0, NULL, xxhash64(id)) AS a_long,
           CAST(IF(id % 10 = 0, NULL, id / 3) AS FLOAT) AS a_float,
           IF(id % 11 = 0, NULL, id / 7.0D) AS a_double,
           CAST(IF(id % 5 = 1, NULL, id % 1000) AS DECIMAL(5, 2)) AS a_small_decimal,
           CAST(IF(id % 5 = 2, NULL, id * 1000003) AS DECIMAL(18, 6)) AS a_medium_decimal,
           CAST(IF(id % 5 = 3, NULL, id * 1000003) AS DECIMAL(38, 18)) AS a_large_decimal,
           IF(id % 6 = 1, NULL, sha2(CAST(id AS STRING), 256)) AS a_string,
           IF(id % 6 = 2, NULL, concat('few ', id % 3)) AS a_repeated_string,
           IF(id % 6 = 3, NULL, id % 4) AS a_repeated_long,
           IF(id % 6 = 4, NULL, unhex(hex(id * 77777))) AS a_binary,
           IF(id % 7 = 1, NULL, date_add(DATE '1970-01-01', CAST(id - 3000 AS INT))) AS a_date,
           IF(id % 7 = 2, NULL, timestamp_micros(id * 1234567891 - 4000000000000)) AS a_timestamp,
           IF(id % 7 = 3, NULL, CAST(timestamp_micros(id * 987654321) AS TIMESTAMP_NTZ)) AS a_timestamp_ntz,
           CAST(NULL AS INT) AS nothing,
           IF(id % 4 = 1, NULL, transform(sequence(1, id % 5), x -> IF(x = 3, NULL, x * id))) AS an_array,
           IF(id % 4 = 2, NULL, map(concat('k', id % 6), IF(id % 3 = 0, NULL, id))) AS a_map,
           IF(id % 4 = 3, NULL, named_struct(
               'x', IF(id % 3 = 1, NULL, id), 'y', concat('s', id % 9),
               'z', IF(id % 7 = 4, NULL, named_struct(
                   'w', IF(id % 9 = 4, NULL, array(id, NULL)),
                   'v', IF(id % 3 = 2, NULL, CAST(id AS DOUBLE)))))) AS a_struct,
           array(named_struct('p', id, 'q', array(CAST(id AS STRING)))) AS structs
    FROM range({ROWS})"""
DEAD = "pmod(hash(id, 1), 100) = 0 OR id BETWEEN 2000 AND 2999 OR id >= 5990 OR id = 0"

READERS = {
    "batches": {},
    "positions as a column": {"spark.lakemend.read.row-index-column": "true"},
    "off heap": {"spark.sql.columnVector.offheap.enabled": "true"},
    "odd batches": {"spark.sql.parquet.columnarReaderBatchSize": "7"},
    "large batches": {"spark.sql.parquet.columnarReaderBatchSize": "100000"},
    "rows": {"spark.sql.parquet.enableVectorizedReader": "false"},
    "rows of batches": {"spark.sql.codegen.maxFields": "3"},
    "splits": {"spark.sql.files.maxPartitionBytes": "65536", "spark.sql.files.openCostInBytes": "0"},
}
FILTERS = (
    "true",
    "id < 1500",
    "id BETWEEN 2995 AND 3005 OR id BETWEEN 4000 AND 4001",
    "id IN (1, 1999, 2500, 3000, 5989, 5995)",
    "a_repeated_string = 'few 1' AND id > 4500",
    "a_struct.x IS NULL AND an_int > 0",
    "id > 100000",
)


@pytest.fixture(scope="module")
def masked(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Table:
    """One file of many row groups with a mask on it, and one file without."""
    path = tmp_path_factory.mktemp("masked") / "t"
    table = lakemend.table(spark, str(path))
    properties = {
        "write.delete.mode": "merge-on-read",
        "write.parquet.row-group-size-bytes": "65536",
        "write.parquet.page-size-bytes": "2048",
    }
    table.append(spark.sql(QUERY).coalesce(1), properties=properties)
    report = table.delete(DEAD)
    assert (report.files_masked, report.files_added) == (1, 0)
    table.append(spark.sql(QUERY).where("id < 10").selectExpr("id + 7000 AS id", "* EXCEPT (id)").coalesce(1))
    (file,) = [f for f in path.glob("*.parquet") if pq.read_metadata(f).num_rows == ROWS]
    assert pq.read_metadata(file).num_row_groups > 5
    return table


@pytest.fixture(scope="module")
def alive(spark: SparkSession, masked: Table) -> dict[str, pa.Table]:
    """The rows that each filter keeps, made of rows that were never in a table."""
    source = spark.sql(QUERY)
    rows = source.where(f"NOT ({DEAD})").unionByName(
        source.where("id < 10").selectExpr("id + 7000 AS id", "* EXCEPT (id)")
    )
    assert rows.dtypes == masked.to_df().dtypes
    marked = by_id(rows.select("*", *[F.expr(condition).alias(f"kept {i}") for i, condition in enumerate(FILTERS)]))
    kept = {name: marked.filter(marked[f"kept {i}"]).select(rows.columns) for i, name in enumerate(FILTERS)}
    assert [kept[name].num_rows for name in ("true", "id > 100000")] == [rows.count(), 0]
    return kept


def by_id(frame: DataFrame) -> pa.Table:
    return frame.toArrow().sort_by("id")


def rows_of(frame: DataFrame) -> list[tuple]:
    return sorted((tuple(row) for row in frame.collect()), key=lambda row: row[0])


@pytest.mark.sampled
@pytest.mark.parametrize("reader", list(READERS))
@pytest.mark.parametrize("condition", FILTERS[1:])
def test_live_rows_of_every_type(
    spark: SparkSession, masked: Table, alive: dict[str, pa.Table], condition: str, reader: str
) -> None:
    """All of them, and those that a filter keeps."""
    with settings(spark, READERS[reader]):
        for where in ("true", condition):
            found = by_id(masked.to_df().where(where))
            expected = alive[where].cast(found.schema)  # which of its values may be null is no matter
            wrong = [name for name in found.column_names if found[name] != expected[name]]
            assert not wrong, where


@pytest.mark.sampled
@pytest.mark.parametrize("reader", list(READERS))
@pytest.mark.parametrize("condition", FILTERS)
def test_places_of_live_rows(spark: SparkSession, masked: Table, condition: str, reader: str) -> None:
    """The file was written in the order of `id`, so that a row's position is its id."""
    with settings(spark, READERS[reader]):
        frame = masked.to_df().where(condition).where("id < 7000")
        wrong, files = frame.selectExpr("count_if(_pos <> id)", "count(DISTINCT _file)").first()
        assert wrong == 0 and files in (0, 1)
        order = [row._pos for row in masked.to_df().where("id < 7000").selectExpr("_pos").collect()]
        if reader != "splits":
            assert order == sorted(order), "rows of a file keep their order"


@pytest.mark.parametrize("reader", list(READERS))
def test_counts_without_columns(spark: SparkSession, masked: Table, reader: str) -> None:
    ids = spark.range(ROWS).where(f"NOT ({DEAD})")
    alive, even = ids.selectExpr("count(*) + 10", "count_if(id % 2 = 0) + 5").first()
    with settings(spark, READERS[reader]):
        assert masked.to_df().count() == alive
        assert masked.to_df().selectExpr("_file").count() == alive
        assert masked.to_df().selectExpr("sum(1)").first()[0] == alive
        assert masked.to_df().where("id % 2 = 0").count() == even


@pytest.mark.parametrize(("reader", "found"), [("batches", True), ("positions as a column", False), ("rows", False)])
def test_how_positions_are_learned(spark: SparkSession, masked: Table, reader: str, found: bool) -> None:
    """Row groups tell them, since as a column they cost more than most columns do."""
    with settings(spark, {**READERS[reader], "spark.sql.adaptive.enabled": "false"}):
        frame = masked.to_df().selectExpr("sum(id)")
        frame.collect()
        leaf = frame._jdf.queryExecution().executedPlan().collectLeaves().head()
        assert leaf.scan().createReaderFactory().layout().findsPositions() == found


def test_columns_that_files_lack(spark: SparkSession, location: str) -> None:
    """A column added later is null, or its default, in masked files as in others."""
    table = lakemend.table(spark, location)
    table.append(spark.sql("SELECT id, named_struct('a', id) AS s FROM range(5000)").coalesce(1))
    assert table.delete("id % 50 = 3").files_masked == 1
    spark.sql(f"ALTER TABLE {table.name} ADD COLUMNS (later INT, s.b STRING)")
    table.append(spark.sql("SELECT id + 5000 AS id, named_struct('a', id, 'b', 'new') AS s, 1 AS later FROM range(10)"))
    found = rows_of(table.to_df().selectExpr("id", "s.a", "s.b", "later"))
    assert found == [(i, i, None, None) for i in range(5000) if i % 50 != 3] + [
        (5000 + i, i, "new", 1) for i in range(10)
    ]


def test_every_row_of_some_batches_is_dead(spark: SparkSession, location: str) -> None:
    table = lakemend.table(spark, location)
    table.append(spark.sql("SELECT id, CAST(id AS STRING) AS s FROM range(20000)").coalesce(1))
    assert table.delete("id >= 4096 AND id < 12288 OR id = 19999").files_masked == 1
    expected = [(i, str(i)) for i in range(20000) if not 4096 <= i < 12288 and i != 19999]
    assert rows_of(table.to_df()) == expected
    assert table.to_df().where("id = 5000").count() == 0


@pytest.mark.parametrize("reader", ["batches", "positions as a column", "odd batches", "off heap"])
def test_pages_that_filters_skip(spark: SparkSession, location: str, reader: str) -> None:
    """Of one row group only some pages are read: its rows do not follow each other then."""
    table = lakemend.table(spark, location)
    query = "SELECT id, sha2(CAST(id AS STRING), 256) AS s FROM range(40000)"
    table.append(spark.sql(query).coalesce(1), properties={"write.parquet.page-size-bytes": "1024"})
    (file,) = Path(location).glob("*.parquet")
    assert pq.read_metadata(file).num_row_groups == 1
    table.delete("id % 7 = 0 OR id BETWEEN 20100 AND 20200")
    condition = "id BETWEEN 5000 AND 5100 OR id BETWEEN 20000 AND 20300 OR id > 39990"
    with settings(spark, {**READERS[reader], "spark.sql.adaptive.enabled": "false"}):
        frame = table.to_df().where(condition).selectExpr("id", "s", "_pos")
        found = sorted(tuple(row) for row in frame.collect())
        read = (
            frame._jdf.queryExecution().executedPlan().collectLeaves().head().metrics().apply("numOutputRows").value()
        )
    dead = "id % 7 = 0 OR id BETWEEN 20100 AND 20200"
    expected = spark.sql(query).where(f"({condition}) AND NOT ({dead})").selectExpr("id", "s", "id AS _pos")
    assert found == sorted(tuple(row) for row in expected.collect())
    assert read < 10_000, "pages are skipped"


def test_masked_files_are_read_while_others_are_written(spark: SparkSession, location: str) -> None:
    """A snapshot of before keeps its own masks."""
    table = lakemend.table(spark, location)
    table.append(spark.sql("SELECT id FROM range(3000)").coalesce(1))
    table.delete("id % 3 = 0")
    old = table.as_of(table.version).to_df()
    table.delete("id % 3 = 1 AND id < 600")
    assert old.count() == 2000
    assert sorted(row.id for row in old.collect()) == [i for i in range(3000) if i % 3]
    assert sorted(row.id for row in table.to_df().collect()) == [
        i for i in range(3000) if i % 3 and not (i % 3 == 1 and i < 600)
    ]


def test_this_spark_keeps_values_where_rows_are_moved_fast(spark: SparkSession) -> None:
    # Where it does not, rows move through Spark's public methods: slower, and as right.
    fast = spark._jvm.lakemend.read.LiveRows.fast()  # type: ignore[union-attr]
    assert fast == "Nulls,Bytes,Shorts,Ints,Longs,Floats,Doubles,Places"
