"""Every type through every reader: batches, rows, pruned columns, masks, metadata columns, pushed filters."""

from __future__ import annotations

import base64
import datetime as dt
import math
from collections.abc import Callable, Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from pyroaring import BitMap64
from pyspark.errors import AnalysisException, PySparkException
from pyspark.sql import Column, DataFrame, Row, SparkSession
from pyspark.sql import functions as F

import lakemend
from lakemend.errors import InvalidInputError, UnsupportedFeatureError
from lakemend.session import brain
from tests.conditions import kept, wrongly
from tests.settings import settings

# name → (type, three values of it besides NULL, in ascending order)
LEAVES: dict[str, tuple[str, list[Any]]] = {
    "boolean": ("boolean", [False, True, True]),
    "byte": ("tinyint", [-128, 0, 127]),
    "short": ("smallint", [-(2**15), 9, 10]),
    "integer": ("int", [-(2**31), 9, 10]),
    "long": ("bigint", [-(2**63), 9, 2**63 - 1]),
    "float": ("float", [-1.5, 0.0, math.inf]),
    "double": ("double", [-1e300, 0.25, math.nan]),
    "small_decimal": ("decimal(5,2)", [Decimal("-999.99"), Decimal("0.10"), Decimal("12.00")]),
    "medium_decimal": ("decimal(18,6)", [Decimal("-1.000001"), Decimal("0.000000"), Decimal("123456789012.345678")]),
    "large_decimal": ("decimal(38,18)", [Decimal("-1E-18"), Decimal("1E-18"), Decimal("1E+19")]),
    "string": ("string", ["", "a\x00b", "ü☃𝄞"]),
    "binary": ("binary", [bytearray(b""), bytearray(b"\x00\xff"), bytearray(b"\xff" * 40)]),
    "date": ("date", [dt.date(1, 1, 1), dt.date(1969, 12, 31), dt.date(9999, 12, 31)]),
    "timestamp": (
        "timestamp",
        [dt.datetime(1900, 1, 1), dt.datetime(1969, 12, 31, 23, 59, 59, 999999), dt.datetime(2262, 5, 1, 0, 0, 0, 1)],
    ),
    "ntz": (
        "timestamp_ntz",
        [dt.datetime(1, 1, 1), dt.datetime(1969, 12, 31, 23, 59, 59, 999999), dt.datetime(9999, 12, 31, 23, 59, 59)],
    ),
}
SHAPES: dict[str, Callable[[Any], Any]] = {
    "plain": lambda v: v,
    "array": lambda v: None if v is None else [v, None, v],
    "map": lambda v: None if v is None else {"k": v, "none": None},
    "struct": lambda v: None if v is None else Row(x=v, y=Row(z=[v])),
}
TYPES = {
    "plain": "{0}",
    "array": "array<{0}>",
    "map": "map<string, {0}>",
    "struct": "struct<x: {0}, y: struct<z: array<{0}>>>",
}
READERS = {
    "batches": {},
    "nested as rows": {"spark.sql.parquet.enableNestedColumnVectorizedReader": "false"},
    "rows": {"spark.sql.parquet.enableVectorizedReader": "false"},
    "small batches": {"spark.sql.parquet.columnarReaderBatchSize": "2"},
}


@pytest.fixture(params=READERS)
def reader(request: pytest.FixtureRequest, spark: SparkSession) -> Iterator[str]:
    with settings(spark, READERS[request.param]):
        yield request.param


def plain(value: Any) -> Any:
    """A value that compares and prints the same wherever it was read: NaN equals itself."""
    if isinstance(value, Row):
        return tuple(plain(v) for v in value)
    if isinstance(value, list | tuple):
        return [plain(v) for v in value]
    if isinstance(value, dict):
        return sorted((plain(k), plain(v)) for k, v in value.items()) if value else []
    if isinstance(value, bytearray | bytes):
        return bytes(value).hex()
    return "NaN" if isinstance(value, float) and math.isnan(value) else value


def rows_of(df: DataFrame) -> list[str]:
    return sorted(repr([plain(v) for v in row]) for row in df.collect())


def every_type(spark: SparkSession, shape: str = "plain") -> DataFrame:
    """Four rows (the last all NULL) with a column of every leaf type in a shape."""
    columns = ", ".join(f"{name} {TYPES[shape].format(type)}" for name, (type, _) in LEAVES.items())
    rows = [(i, *(SHAPES[shape](values[i]) for _, values in LEAVES.values())) for i in range(3)]
    rows.append((3, *([None] * len(LEAVES))))
    return spark.createDataFrame(rows, f"id int, {columns}")


def mask(spark: SparkSession, location: str, *dead: int) -> None:
    """Kills rows of the table's only file, as a merge-on-read statement would."""
    identity = {"path": location}
    table = brain().ask("load", {"table": identity})
    (file,) = brain().ask("plan", {"table": identity, "version": table["version"], "predicates": []})["files"]
    url = lakemend.table(spark, location).detail()["location"].rstrip("/") + "/" + Path(file["path"]).name
    brain().ask(
        "commit",
        {
            "table": identity,
            "version": table["version"],
            "operation": "mask_rows",
            "command": "DELETE",
            "added": [],
            "masked": {url: base64.b64encode(BitMap64(dead).serialize()).decode()},
            "read_predicates": None,
            "options": {},
            "token": "test",
            "tally": {"copied": 0, "updated": 0, "deleted": len(dead), "inserted": 0},
        },
    )


# ---- round trips


@pytest.mark.sampled
@pytest.mark.parametrize("shape", SHAPES)
def test_round_trip(spark: SparkSession, location: str, reader: str, shape: str) -> None:
    df = every_type(spark, shape)
    df.coalesce(1).write.format("delta").save(location)
    df.coalesce(1).write.format("delta").mode("append").save(location)
    table = spark.read.format("delta").load(location)
    assert rows_of(table) == rows_of(df.union(df))
    assert rows_of(table.select("date", "id", "string")) == rows_of(df.union(df).select("date", "id", "string"))
    assert rows_of(table.select("_pos", "id")) == [repr([i, i]) for i in range(4) for _ in range(2)]


@pytest.mark.sampled
@pytest.mark.parametrize("shape", SHAPES)
def test_masked_rows(spark: SparkSession, location: str, reader: str, shape: str) -> None:
    df = every_type(spark, shape)
    df.coalesce(1).write.format("delta").save(location)
    mask(spark, location, 0, 2)
    table = spark.read.format("delta").load(location)
    assert rows_of(table) == rows_of(df.where("id IN (1, 3)"))
    assert rows_of(table.select("double", "_pos")) == rows_of(df.where("id IN (1, 3)").select("double", "id"))
    assert table.count() == 2
    assert rows_of(table.where("id >= 2")) == rows_of(df.where("id = 3"))
    mask(spark, location, 3)
    assert rows_of(spark.read.format("delta").load(location)) == rows_of(df.where("id = 1"))
    assert spark.read.format("delta").option("versionAsOf", 0).load(location).count() == 4


def test_masks_over_many_batches(spark: SparkSession, location: str) -> None:
    df = spark.range(0, 20_000, numPartitions=1).selectExpr(
        "id", "named_struct('a', id, 'b', array(id, NULL)) AS s", "map('k', id) AS m", "IF(id % 5 = 0, NULL, id) AS n"
    )
    df.write.format("delta").save(location)
    dead = [i for i in range(20_000) if i % 3 == 0 or 4000 <= i < 13_000]
    mask(spark, location, *dead)
    alive = sorted(set(range(20_000)) - set(dead))
    for values in READERS.values():
        with settings(spark, values):
            table = spark.read.format("delta").load(location)
            assert [r.id for r in table.orderBy("id").collect()] == alive
            sums = table.selectExpr("sum(s.a)", "sum(s.b[0])", "sum(m['k'])", "sum(n)", "count(*)").first()
            assert sums == (*[sum(alive)] * 3, sum(i for i in alive if i % 5), len(alive))
            assert table.where("id > 12990 AND id < 13010").count() == sum(13_000 <= i < 13_010 for i in alive)


def test_variants(spark: SparkSession, location: str, reader: str) -> None:
    df = spark.sql("""SELECT id, IF(id = 2, NULL, parse_json(concat('{"a": [', id, ', null, "x"]}'))) AS v,
        named_struct('in', parse_json(cast(id AS string))) AS s, array(parse_json('1'), NULL) AS a FROM range(4)""")
    df.coalesce(1).write.format("delta").save(location)
    mask(spark, location, 0)
    table = spark.read.format("delta").load(location)
    texts = ["id", "to_json(v)", "to_json(s)", "to_json(a)"]
    assert rows_of(table.selectExpr(*texts)) == rows_of(df.where("id > 0").selectExpr(*texts))
    assert rows_of(table.selectExpr("variant_get(v, '$.a[0]', 'int')")) == ["[1]", "[3]", "[None]"]


def test_empty_table(spark: SparkSession, location: str, reader: str) -> None:
    every_type(spark).limit(0).write.format("delta").save(location)
    table = spark.read.format("delta").load(location)
    assert table.collect() == []
    assert table.columns == ["id", *LEAVES]
    assert table.selectExpr("count(*)", "max(id)", "count(string)").first() == (0, None, 0)


def test_deep_nesting(spark: SparkSession, location: str, reader: str) -> None:
    df = spark.sql(
        """SELECT id, array(map('k', named_struct('a', array(named_struct('b', id, 'c', NULL :: string)),
        'e', array())), NULL, map()) AS deep, CAST(NULL AS struct<x: struct<y: array<map<int, string>>>>) AS none
        FROM range(3)""".replace("'e', array()", "'e', array() :: array<int>")
    )
    df.coalesce(1).write.format("delta").save(location)
    mask(spark, location, 1)
    table = spark.read.format("delta").load(location)
    assert rows_of(table) == rows_of(df.where("id <> 1"))
    assert rows_of(table.selectExpr("deep[0]['k'].a[0].b", "none.x.y[0][1]")) == ["[0, None]", "[2, None]"]


# ---- pruning and metadata columns


def test_pruned_inside(spark: SparkSession, location: str, reader: str) -> None:
    df = spark.sql("""SELECT id, named_struct('a', id, 'b', named_struct('c', id * 2, 'd', 'x')) AS s,
        array(named_struct('e', id * 3, 'f', 'y')) AS l, IF(id = 1, NULL, named_struct('g', 1, 'h', id)) AS n
        FROM range(3)""")
    df.coalesce(1).write.format("delta").save(location)
    table = spark.read.format("delta").load(location)
    pruned = table.select("s.b.c", "l.e", "n.h", "s.a")
    assert rows_of(pruned) == rows_of(df.select("s.b.c", "l.e", "n.h", "s.a"))
    scan = pruned._jdf.queryExecution().executedPlan().toString()
    assert "d:string" not in scan and "f:string" not in scan
    assert rows_of(table.where("s.b.c = 4 AND n.h IS NOT NULL").select("id")) == ["[2]"]
    assert rows_of(table.where("n IS NULL").select("id")) == ["[1]"]


def test_metadata_columns(spark: SparkSession, location: str, reader: str) -> None:
    df = spark.range(10).selectExpr("id", "id % 2 AS p", "CAST(id % 3 AS string) AS q")
    df.write.format("delta").partitionBy("p", "q").save(location)
    table = spark.read.format("delta").load(location)
    assert table.columns == ["id", "p", "q"]
    rows = table.select("id", "_file", "_pos", "_partition").collect()
    assert all(tuple(r._partition) == (r.id % 2, str(r.id % 3)) for r in rows)
    on_disk = {str(p) for p in Path(location).rglob("*.parquet")}
    assert {r._file.removeprefix("file://") for r in rows} == on_disk
    assert len({(r._file, r._pos) for r in rows}) == 10
    one = rows[0]
    assert rows_of(table.where(F.col("_file") == one._file).where(F.col("_pos") == one._pos).select("id")) == [
        repr([one.id])
    ]
    assert table.where("_partition.p = 1 AND _partition.q = '2'").count() == 1
    assert table.where(F.col("_file") == "elsewhere").count() == 0
    assert rows_of(table.groupBy("_file").count().select(F.sum("count"))) == ["[10]"]
    # A file of a table's own column of that name is nobody's path.
    spark.sql("SELECT 'x' AS _file, 7L AS _pos, 1 AS p").write.format("delta").save(location + "2")
    own = spark.read.format("delta").load(location + "2")
    assert own.where("_file = 'x' AND _pos = 7").count() == 1
    assert own.where("_file IN ('x', 'y')").collect() == [("x", 7, 1)]


def test_no_columns_at_all(spark: SparkSession, location: str, reader: str) -> None:
    df = every_type(spark)
    df.coalesce(1).write.format("delta").save(location)
    mask(spark, location, 1)
    table = spark.read.format("delta").load(location)
    assert table.selectExpr("1 AS one").collect() == [(1,)] * 3
    assert table.where("id > 1").selectExpr("count(1)").first() == (2,)


# ---- filters


@pytest.mark.sampled
@pytest.mark.parametrize("name", LEAVES)
@pytest.mark.parametrize("shape", ["column", "partition", "nested"])
def test_filters(spark: SparkSession, location: str, name: str, shape: str) -> None:
    """Every comparison on every type: what is kept is what Spark keeps on rows that were never in a table."""
    type, values = LEAVES[name]
    if shape == "partition" and name == "binary":
        values = [bytearray(b"a"), bytearray(b"b"), bytearray(b"c d")]
    rows = [(i, v) for i, v in enumerate([*values, None, values[0], values[1]])]
    df = spark.createDataFrame(rows, f"id int, v {type}")
    if shape == "partition" and name == "string":
        # The log has one spelling for the empty string and NULL.
        df = df.withColumn("v", F.when(F.col("v") != "", F.col("v")))
    if shape == "nested":
        df = df.select("id", F.struct(F.col("v").alias("x")).alias("s"))
    # One file for each row or two, so that statistics and partition values have something to skip.
    writer = df.repartition(3, "id").write.format("delta")
    (writer.partitionBy("v") if shape == "partition" else writer).save(location)
    table = spark.read.format("delta").load(location)
    column = F.col("s.x") if shape == "nested" else F.col("v")
    literals = [_literal(value).cast(type) for value in values]
    predicates = [column.isNull(), column.isNotNull(), column.isin(*literals[:2]), ~column.isin(literals[0])]
    for value in literals:
        predicates += [column == value, column != value, column.eqNullSafe(value), column < value, column <= value]
        predicates += [column > value, column >= value, ~(column > value), (column == value) | (F.col("id") == 4)]
    if name == "string":
        predicates += [column.startswith("a"), column.endswith("𝄞"), column.contains("☃"), column.like("a%b")]
    wrong = wrongly(table, df, predicates)
    assert not wrong, "\n".join(wrong)


def _literal(value: Any) -> Column:
    if isinstance(value, bytearray):
        return F.lit(bytes(value))
    # PySpark cannot make literals of the first dates.
    return F.lit(str(value)) if isinstance(value, dt.date) else F.lit(value)


def test_filters_on_decimals_of_another_scale(spark: SparkSession, location: str) -> None:
    df = spark.sql("SELECT CAST(id AS decimal(10,2)) / 4 AS d, id FROM range(20)")
    df.repartitionByRange(5, "id").write.format("delta").save(location)
    table = spark.read.format("delta").load(location)
    for text in ("d = 1.5", "d = 1.50000", "d > 2", "d < 1.499999", "d = 3L", "d BETWEEN 0.1 AND 0.6", "d = 1.5D"):
        assert rows_of(table.where(text)) == rows_of(df.where(text)), text


def test_timestamps_in_another_time_zone(spark: SparkSession, location: str) -> None:
    with settings(spark, {"spark.sql.session.timeZone": "America/St_Johns"}):
        df = spark.sql("""SELECT id, TIMESTAMP'2024-03-10 01:30:00' + make_dt_interval(0, id) AS ts,
            TIMESTAMP_NTZ'2024-03-10 01:30:00' + make_dt_interval(0, id) AS ntz, DATE'2024-03-10' AS day
            FROM range(6)""")
        df.write.format("delta").partitionBy("ts").save(location)
        df.repartition(4, "id").write.format("delta").save(location + "2")
        for place in (location, location + "2"):
            table = spark.read.format("delta").load(place)
            assert rows_of(table) == rows_of(df)
            for text in (
                "ts = TIMESTAMP'2024-03-10 04:30:00'", "ntz > TIMESTAMP_NTZ'2024-03-10 03:30:00'", "ts > day",
                "ts < '2024-03-10 03:30:00'", "hour(ts) = 4", "CAST(ts AS date) = day",
            ):  # fmt: skip
                assert rows_of(table.where(text)) == rows_of(df.where(text)), text


# ---- text


def test_char_and_varchar(spark: SparkSession, namespace: str) -> None:
    t = f"{namespace}.t"
    spark.sql(f"CREATE TABLE {t} (id int, c char(3), v varchar(3), s struct<c: char(2)>)")
    spark.sql(f"INSERT INTO {t} VALUES (1, 'a', 'b', named_struct('c', 'x')), (2, 'abc', 'a  ', NULL)")
    assert rows_of(spark.table(t)) == ["[1, 'a  ', 'b', ('x ',)]", "[2, 'abc', 'a  ', None]"]
    assert rows_of(spark.sql(f"SELECT id FROM {t} WHERE c = 'a'")) == ["[1]"]
    assert rows_of(spark.sql(f"SELECT id FROM {t} WHERE c IN ('a', 'abc') AND v = 'b'")) == ["[1]"]
    for row in ("(3, 'abcd', 'x', NULL)", "(3, 'a', 'abcd', NULL)", "(3, 'a', 'b', named_struct('c', 'xyz'))"):
        with pytest.raises(PySparkException, match="(?i)exceed"):
            spark.sql(f"INSERT INTO {t} VALUES {row}")
    assert lakemend.table(spark, t).version == 1


def test_collated_text_is_refused(spark: SparkSession, namespace: str) -> None:
    with pytest.raises(UnsupportedFeatureError, match="collation"):
        spark.sql(f"CREATE TABLE {namespace}.t (s string COLLATE UTF8_LCASE)")
    spark.sql(f"CREATE TABLE {namespace}.t (s string)")
    spark.sql(f"INSERT INTO {namespace}.t VALUES ('A'), ('b')")
    assert spark.sql(f"SELECT * FROM {namespace}.t WHERE s COLLATE UTF8_LCASE = 'a'").collect() == [("A",)]
    assert spark.sql(f"SELECT max(s COLLATE UTF8_LCASE) FROM {namespace}.t").collect() == [("b",)]


@pytest.mark.parametrize("value", ["INTERVAL '1' DAY", "INTERVAL '1' YEAR", "make_interval(1)", "TIME'12:00:00'"])
def test_types_without_a_place_are_refused(spark: SparkSession, namespace: str, value: str) -> None:
    with pytest.raises((InvalidInputError, AnalysisException), match="(?i)interval|time"):
        spark.sql(f"CREATE TABLE {namespace}.t AS SELECT {value} AS v")
    assert spark.sql(f"SHOW TABLES IN {namespace}").count() == 0


# ---- wider types


def test_widened_columns_read_old_files(spark: SparkSession, namespace: str, reader: str) -> None:
    t = f"{namespace}.t"
    spark.sql(
        f"""CREATE TABLE {t} (id int, b tinyint, i int, f float, d decimal(6,2), day date, p smallint, s struct<x: int>,
            l array<int>, m map<int, float>)
            PARTITIONED BY (p) TBLPROPERTIES ('delta.enableTypeWidening' = 'true')"""
    )
    row = "({0}, {0}, {0}, {0}.5, {0}.25, DATE'2024-01-0{0}', {0}, named_struct('x', {0}), array({0}, NULL), "
    row += "map({0}, 1.5))"
    spark.sql(f"INSERT INTO {t} VALUES {row.format(1)}, {row.format(2)}")
    wider = {
        "b": "int", "i": "bigint", "f": "double", "d": "decimal(20,6)", "day": "timestamp_ntz", "p": "int",
        "s.x": "bigint", "l.element": "bigint", "m.key": "bigint", "m.value": "double",
    }  # fmt: skip
    for column, type in wider.items():
        spark.sql(f"ALTER TABLE {t} ALTER COLUMN {column} TYPE {type}")
    spark.sql(
        f"""INSERT INTO {t} VALUES (3, 300, 5000000000, 1e300, 12345678901234.123456,
            TIMESTAMP_NTZ'2024-01-03 04:05:06', 100000, named_struct('x', 5000000000),
            array(5000000000), map(5000000000, 1e300))"""
    )
    spark.sql(f"INSERT INTO {t} VALUES (4, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL)")
    table = spark.table(t)
    found = {r.id: r for r in table.collect()}
    assert (found[1].b, found[1].i, found[1].f, found[1].d) == (1, 1, 1.5, Decimal("1.25"))
    assert (found[1].day, found[1].p, found[1].s.x) == (dt.datetime(2024, 1, 1), 1, 1)
    assert (found[1].l, found[1].m) == ([1, None], {1: 1.5})
    assert (found[3].i, found[3].f, found[3].s.x) == (5_000_000_000, 1e300, 5_000_000_000)
    filters = {
        "i > 1": [2, 3], "i = 5000000000": [3], "i < 3000000000": [1, 2], "b >= 2": [2, 3], "f > 1.5": [2, 3],
        "f = 1e300": [3], "d = 1.25": [1], "d > 2.250001": [3], "day > TIMESTAMP_NTZ'2024-01-01 00:00:00.1'": [2, 3],
        "day = TIMESTAMP_NTZ'2024-01-01'": [1], "p = 2": [2], "p > 40000": [3], "s.x = 5000000000": [3], "s.x < 2": [1],
        "i IS NULL": [4], "f <= 2.5": [1, 2],
    }  # fmt: skip
    found_ids = kept(table, list(filters))
    for i, (text, ids) in enumerate(filters.items()):
        assert sorted(id for number, id in found_ids.elements() if number == i) == ids, text
    assert table.selectExpr("min(i)", "max(i)", "count(i)", "min(p)", "max(p)").first() == (
        1,
        5_000_000_000,
        3,
        1,
        100_000,
    )
    assert table.selectExpr("min(d)", "max(day)", "max(b)").first() == (
        Decimal("1.250000"),
        dt.datetime(2024, 1, 3, 4, 5, 6),
        300,
    )
