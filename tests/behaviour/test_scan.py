"""The connector's read path: whatever lies in the files comes out, and nothing else.

Tables are described in a hand-written Delta log over Parquet files that pyarrow or Spark wrote, so that
masks, column mapping, widened types and damaged files can be laid out exactly. Each test that reads
values does so with Spark's batch reader and row by row.
"""

from __future__ import annotations

import json
import struct
import time
import zlib
from collections.abc import Iterable, Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyroaring import BitMap64
from pyspark.sql import DataFrame, SparkSession

from lakemend import errors
from lakemend.schema import field
from lakemend.schema import struct as schema_of
from tests.settings import settings

MAGIC = struct.pack("<i", 1681511377)
BATCHES = {"batches": "true", "rows": "false"}


@pytest.fixture(params=BATCHES)
def reader(request: pytest.FixtureRequest, spark: SparkSession) -> Iterator[str]:
    """The test runs with Spark's vectorized reader and with its row reader."""
    with settings(spark, {"spark.sql.parquet.enableVectorizedReader": str(BATCHES[request.param])}):
        yield request.param


class Log:
    """A Delta table whose log is written action by action."""

    def __init__(
        self, root: Path, schema: dict[str, Any], partitions: Iterable[str] = (), mapping: str = "none"
    ) -> None:
        self.root = root
        self.name = f"lake.delta.`{root}`"
        self.schema = schema
        self.partitions = list(partitions)
        self.mapping = mapping
        self.actions: list[dict[str, Any]] = []

    def write(self, name: str, table: pa.Table, row_group_size: int = 1000, **add: Any) -> Path:
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        pq.write_table(table, path, row_group_size=row_group_size)
        self.add(name, **add)
        return path

    def add(
        self,
        name: str,
        partition: dict[str, str | None] | None = None,
        stats: dict[str, Any] | None = None,
        mask: dict[str, Any] | None = None,
    ) -> None:
        path = self.root / name
        rows = pq.ParquetFile(path).metadata.num_rows
        bounds = {"numRecords": rows, **(stats or {}), **({"tightBounds": False} if mask else {})}
        self.actions.append(
            {
                "add": {
                    "path": quote(name),
                    "partitionValues": partition or {},
                    "size": path.stat().st_size,
                    "modificationTime": int(time.time() * 1000),
                    "dataChange": True,
                    "stats": json.dumps(bounds),
                    **({"deletionVector": mask} if mask else {}),
                }
            }
        )

    def mask(self, rows: Iterable[int], damage: int = 0) -> dict[str, Any]:
        """A deletion vector in a file of its own, at the offset where Delta puts the first one."""
        self.root.mkdir(parents=True, exist_ok=True)
        bitmap = BitMap64(rows)
        blob = MAGIC + bitmap.serialize()
        path = self.root / f"mask {len(list(self.root.glob('mask*')))}.bin"
        path.write_bytes(b"\x01" + struct.pack(">i", len(blob)) + blob + struct.pack(">I", zlib.crc32(blob) ^ damage))
        return {
            "storageType": "p",
            "pathOrInlineDv": path.as_uri(),
            "offset": 1,
            "sizeInBytes": len(blob),
            "cardinality": len(bitmap),
        }

    def commit(self) -> str:
        log = self.root / "_delta_log"
        log.mkdir(parents=True)
        configuration = {} if self.mapping == "none" else {"delta.columnMapping.mode": self.mapping}
        features = ["deletionVectors", "columnMapping", "timestampNtz"]
        head = [
            {
                "protocol": {
                    "minReaderVersion": 3,
                    "minWriterVersion": 7,
                    "readerFeatures": features,
                    "writerFeatures": features,
                }
            },
            {
                "metaData": {
                    "id": f"id-{self.root.name}",
                    "format": {"provider": "parquet", "options": {}},
                    "schemaString": json.dumps(self.schema),
                    "partitionColumns": self.partitions,
                    "configuration": configuration,
                    "createdTime": 0,
                }
            },
        ]
        (log / f"{0:020}.json").write_text("\n".join(json.dumps(a) for a in head + self.actions))
        return self.name


def plan_of(frame: DataFrame) -> str:
    frame.collect()
    return str(frame._jdf.queryExecution().executedPlan().toString())


def rows_of(spark: SparkSession, sql: str) -> list[tuple[Any, ...]]:
    return [tuple(row) for row in spark.sql(sql).collect()]


def mapped(name: str, type: Any, id: int, physical: str) -> dict[str, Any]:
    return field(name, type, metadata={"delta.columnMapping.id": id, "delta.columnMapping.physicalName": physical})


def numbered(name: str, type: pa.DataType, id: int) -> pa.Field:
    return pa.field(name, type, metadata={"PARQUET:field_id": str(id)})


@pytest.fixture
def days(tmp_path: Path) -> Log:
    """Four files of 1,000 rows, one per day and one without a day; two are masked; odd characters in their names."""
    log = Log(
        tmp_path / "days",
        schema_of(
            ("day", "integer"),
            ("id", "long"),
            ("s", "string"),
            ("n", schema_of(("a", "integer"), ("b", "string"))),
            ("list", {"type": "array", "elementType": "integer", "containsNull": True}),
        ),
        partitions=["day"],
    )
    masks = {1: log.mask(range(0, 1000, 2)), 2: log.mask([5, 6, 7, 999])}
    for day in range(4):
        ids = range(day * 1000, day * 1000 + 1000)
        table = pa.table(
            {
                "id": pa.array(ids, pa.int64()),
                "s": pa.array([None if i % 5 == 0 else f"v{i % 7}" for i in ids]),
                "n": pa.array(
                    [{"a": i, "b": f"b{i}"} for i in ids], pa.struct([("a", pa.int32()), ("b", pa.string())])
                ),
                "list": pa.array([[i, i + 1] for i in ids], pa.list_(pa.int32())),
            }
        )
        stats = {"minValues": {"id": ids[0]}, "maxValues": {"id": ids[-1]}, "nullCount": {"id": 0, "s": 200}}
        log.write(
            f"day {day} %é.parquet",
            table,
            100,
            partition={"day": str(day) if day < 3 else None},
            stats=stats,
            mask=masks.get(day),
        )
    log.commit()
    return log


def live_ids() -> list[int]:
    return [i for i in range(4000) if not (1000 <= i < 2000 and i % 2 == 0) and i not in (2005, 2006, 2007, 2999)]


class TestRows:
    def test_masked_rows_stay_out_and_nested_values_stay_with_their_rows(
        self, spark: SparkSession, days: Log, reader: str
    ) -> None:
        got = rows_of(spark, f"SELECT id, s, n.b, list[1], n.a FROM {days.name} WHERE id >= 0 ORDER BY id")
        assert got == [(i, None if i % 5 == 0 else f"v{i % 7}", f"b{i}", i + 1, i) for i in live_ids()]

    def test_a_file_split_over_tasks_keeps_its_positions(self, spark: SparkSession, days: Log, reader: str) -> None:
        with settings(spark, {"spark.sql.files.maxPartitionBytes": "4000", "spark.sql.files.openCostInBytes": "0"}):
            frame = spark.sql(f"SELECT id, _pos FROM {days.name}")
            assert frame.rdd.getNumPartitions() > 8
            assert sorted(map(tuple, frame.collect())) == [(i, i % 1000) for i in live_ids()]

    def test_metadata_columns(self, spark: SparkSession, days: Log, reader: str) -> None:
        got = rows_of(
            spark, f"SELECT _pos, _file, _partition.day, id FROM {days.name} WHERE id IN (1001, 3999) ORDER BY id"
        )
        place = days.root.as_uri()[: -len(days.root.name)] + days.root.name
        assert got == [(1, f"{place}/day 1 %é.parquet", 1, 1001), (999, f"{place}/day 3 %é.parquet", None, 3999)]

    def test_every_order_of_columns(self, spark: SparkSession, days: Log, reader: str) -> None:
        got = rows_of(spark, f"SELECT s, _pos, day, id, n.a, _file IS NULL FROM {days.name} WHERE id = 2001")
        assert got == [("v6", 1, 2, 2001, 2001, False)]

    def test_input_file_name(self, spark: SparkSession, days: Log) -> None:
        ((name,),) = rows_of(spark, f"SELECT input_file_name() FROM {days.name} WHERE id = 7")
        assert name.endswith("/day%200%20%25é.parquet")

    def test_only_partition_columns(self, spark: SparkSession, days: Log, reader: str) -> None:
        with settings(spark, {"spark.sql.optimizer.excludedRules": ""}):
            got = spark.sql(f"SELECT day + 0 AS d FROM {days.name}").groupBy("d").count().orderBy("d").collect()
        assert [tuple(row) for row in got] == [(None, 1000), (0, 1000), (1, 500), (2, 996)]

    @pytest.mark.parametrize(
        "conf",
        [
            "spark.sql.parquet.enableVectorizedReader=false",
            "spark.sql.parquet.enableNestedColumnVectorizedReader=false",
            "spark.sql.columnVector.offheap.enabled=true",
            "spark.sql.codegen.wholeStage=false",
            "spark.sql.codegen.maxFields=5",
            "spark.sql.parquet.outputTimestampType=INT96",
        ],
    )
    def test_every_type(self, spark: SparkSession, tmp_path: Path, conf: str) -> None:
        key, value = conf.split("=")
        frame = spark.range(0, 500, 1, 1).selectExpr(
            "id",
            "CAST(id % 128 AS BYTE) b",
            "CAST(id AS SHORT) sh",
            "CAST(id AS INT) i",
            "CAST(id AS FLOAT) f",
            "CAST(id AS DOUBLE) d",
            "id % 2 = 0 bo",
            "CAST(id AS STRING) s",
            "CAST(CAST(id AS STRING) AS BINARY) bin",
            "CAST(id AS DECIMAL(5,1)) d5",
            "CAST(id AS DECIMAL(15,2)) d15",
            "CAST(id AS DECIMAL(30,3)) d30",
            "DATE_ADD(DATE'2020-01-01', CAST(id AS INT)) dt",
            "TIMESTAMP_MICROS(id * 1000001) ts",
            "CAST(TIMESTAMP_MICROS(id * 1000001) AS TIMESTAMP_NTZ) ntz",
            "STRUCT(id x, STRUCT(CAST(id AS STRING) z, ARRAY(id, id + 1) w) y) st",
            "ARRAY(STRUCT(id a, CAST(id AS STRING) b)) arr",
            "MAP(CAST(id AS STRING), STRUCT(id q)) m",
            "IF(id % 3 = 0, NULL, STRUCT(id AS k)) ns",
            "CAST(NULL AS INT) n",
        )
        with settings(spark, {key: value}):
            frame.write.parquet(str(tmp_path / "t"))
            log = Log(tmp_path / "t", json.loads(frame.schema.json()))
            dead = range(1, 500, 3)
            for path in log.root.glob("*.parquet"):
                log.add(path.name, mask=log.mask(dead))
            got = spark.table(log.commit()).orderBy("id").collect()
            assert got == [row for row in frame.orderBy("id").collect() if row.id not in dead]


class TestPruning:
    def test_partition_predicates_are_claimed_and_the_rest_is_not(self, spark: SparkSession, days: Log) -> None:
        frame = spark.sql(f"SELECT id FROM {days.name} WHERE day + 1 = 2 AND n.a = 1077")
        plan = plan_of(frame)
        assert "1 of 4 files" in plan
        assert "Filter" in plan and "day" not in plan.split("Filter")[1].split("\n")[0]
        assert [tuple(r) for r in frame.collect()] == [(1077,)]

    def test_statistics_prune_files(self, spark: SparkSession, days: Log) -> None:
        assert "1 of 4 files" in plan_of(spark.sql(f"SELECT s FROM {days.name} WHERE id = 2500"))

    def test_a_disjunction_with_a_side_that_cannot_be_pushed_loses_no_rows(
        self, spark: SparkSession, days: Log, reader: str
    ) -> None:
        got = rows_of(
            spark,
            f"SELECT id FROM {days.name} WHERE id = 3 OR (n.a + 0 = id AND id IN (7, 8)) "
            f"OR upper(n.b) = 'B9' OR (day = 2 AND id = 2100) ORDER BY id",
        )
        assert got == [(3,), (7,), (8,), (9,), (2100,)]

    def test_the_file_column_prunes(self, spark: SparkSession, days: Log) -> None:
        ((file,),) = rows_of(spark, f"SELECT DISTINCT _file FROM {days.name} WHERE id = 1001")
        frame = spark.table(days.name).where(f"_file = '{file}'").select("id")
        assert "1 of 4 files" in plan_of(frame)
        assert frame.count() == 500

    def test_a_limit_reads_as_few_files_as_it_needs(self, spark: SparkSession, days: Log) -> None:
        frame = spark.sql(f"SELECT id FROM {days.name} LIMIT 3")
        assert "1 of 4 files" in plan_of(frame)
        assert len(frame.collect()) == 3
        assert len(rows_of(spark, f"SELECT id FROM {days.name} LIMIT 1200")) == 1200
        assert len(rows_of(spark, f"SELECT id FROM {days.name} LIMIT 9000")) == len(live_ids())

    @pytest.mark.parametrize("adaptive", ["true", "false"])
    def test_a_join_prunes_partitions_at_run_time(
        self, spark: SparkSession, days: Log, tmp_path: Path, adaptive: str
    ) -> None:
        spark.range(4).selectExpr("CAST(id AS INT) d", "id % 3 g").write.parquet(str(tmp_path / "dim"))
        spark.read.parquet(str(tmp_path / "dim")).createOrReplaceTempView("dim")
        with settings(spark, {"spark.sql.adaptive.enabled": str(adaptive)}):
            frame = spark.sql(
                f"SELECT /*+ BROADCAST(dim) */ t.id FROM {days.name} t JOIN dim ON t.day = dim.d WHERE g = 2"
            )
            plan = plan_of(frame)
        assert "1 of 4 files" in plan and "dynamicpruning" in plan
        assert sorted(r.id for r in frame.collect()) == [i for i in live_ids() if 2000 <= i < 3000]

    def test_equal_scans_are_read_once(self, spark: SparkSession, days: Log) -> None:
        side = f"(SELECT day, count(s) c FROM {days.name} WHERE id >= 1500 GROUP BY day)"
        pruning = "spark.sql.optimizer.dynamicPartitionPruning.enabled"
        grouping = "spark.lakemend.planning.preserveDataGrouping"
        with settings(spark, {"spark.sql.adaptive.enabled": "false", pruning: "false", grouping: "false"}):
            plan = plan_of(spark.sql(f"SELECT * FROM {side} a JOIN {side} b USING (day)"))
            other = plan_of(spark.sql(f"SELECT * FROM {side} a JOIN {side.replace('1500', '1600')} b USING (day)"))
        assert "ReusedExchange" in plan
        assert "ReusedExchange" not in other

    def test_files_are_packed_into_tasks_as_spark_packs_them(self, spark: SparkSession, tmp_path: Path) -> None:
        log = Log(tmp_path / "many", schema_of(("x", "integer")))
        for i in range(30):
            log.write(f"f{i}.parquet", pa.table({"x": pa.array(range(i * 10), pa.int32())}))
        log.commit()
        files = [str(path) for path in log.root.glob("*.parquet")]
        for size in ("128m", "2k"):
            with settings(
                spark, {"spark.sql.files.maxPartitionBytes": str(size), "spark.sql.files.openCostInBytes": "100"}
            ):
                ours = spark.table(log.name).rdd.getNumPartitions()
                assert ours == spark.read.parquet(*files).rdd.getNumPartitions()

    def test_statistics_reach_the_optimizer(self, spark: SparkSession, days: Log) -> None:
        with settings(spark, {"spark.sql.cbo.enabled": "true"}):  # Spark drops row counts otherwise
            frame = spark.sql(f"SELECT id FROM {days.name} WHERE day = 1")
            stats = frame._jdf.queryExecution().optimizedPlan().collectLeaves().head().stats()
        assert str(stats.rowCount().get()) == "500"
        assert 0 < int(str(stats.sizeInBytes())) < 100_000


class TestAggregates:
    def answered(self, spark: SparkSession, sql: str) -> list[tuple[Any, ...]] | None:
        """The rows, if no data file was read for them."""
        frame = spark.sql(sql)
        plan = plan_of(frame)
        return [tuple(row) for row in frame.collect()] if "LocalTableScan" in plan and "BatchScan" not in plan else None

    def test_counts_and_partition_columns_even_with_masks(self, spark: SparkSession, days: Log) -> None:
        assert self.answered(spark, f"SELECT count(*) FROM {days.name}") == [(len(live_ids()),)]
        assert self.answered(spark, f"SELECT min(day), max(day), count(day) FROM {days.name}") == [(0, 2, 2496)]
        grouped = self.answered(spark, f"SELECT day, count(*) FROM {days.name} WHERE day >= 1 GROUP BY day")
        assert sorted(grouped or []) == [(1, 500), (2, 996)]
        assert sorted(self.answered(spark, f"SELECT DISTINCT day FROM {days.name} WHERE day > 0") or []) == [(1,), (2,)]

    def test_bounds_of_unmasked_files(self, spark: SparkSession, days: Log) -> None:
        assert self.answered(spark, f"SELECT min(id), max(id), count(id) FROM {days.name} WHERE day = 0") == [
            (0, 999, 1000)
        ]

    @pytest.mark.parametrize(
        ("sql", "want"),
        [
            ("SELECT min(id) FROM {t} WHERE day = 1", 1001),
            ("SELECT max(id) FROM {t} WHERE day = 2", 2998),
            ("SELECT count(s) FROM {t} WHERE day = 1", 400),
            ("SELECT count(*) FROM {t} WHERE id < 10", 10),
            ("SELECT max(s) FROM {t}", "v6"),
            ("SELECT sum(id) FROM {t} WHERE day = 0", 499500),
            ("SELECT count(DISTINCT id) FROM {t} WHERE day = 0", 1000),
        ],
    )
    def test_what_is_not_exact_is_read(self, spark: SparkSession, days: Log, sql: str, want: Any) -> None:
        assert rows_of(spark, sql.format(t=days.name)) == [(want,)]
        assert self.answered(spark, sql.format(t=days.name)) is None

    def test_no_files(self, spark: SparkSession, tmp_path: Path) -> None:
        log = Log(tmp_path / "none", schema_of(("p", "integer"), ("x", "integer")), partitions=["p"])
        log.commit()
        assert rows_of(spark, f"SELECT count(*), min(x), max(p) FROM {log.name}") == [(0, None, None)]
        assert rows_of(spark, f"SELECT p, count(*) FROM {log.name} GROUP BY p") == []
        assert rows_of(spark, f"SELECT * FROM {log.name}") == []

    def test_a_file_without_statistics_is_read(self, spark: SparkSession, tmp_path: Path) -> None:
        log = Log(tmp_path / "t", schema_of(("x", "integer")))
        log.write("a.parquet", pa.table({"x": pa.array([1, 5, None], pa.int32())}))
        log.commit()
        assert rows_of(spark, f"SELECT min(x), max(x), count(x), count(*) FROM {log.name}") == [(1, 5, 2, 3)]


class TestColumns:
    def test_missing_columns_are_null(self, spark: SparkSession, tmp_path: Path, reader: str) -> None:
        log = Log(tmp_path / "t", schema_of(("x", "integer"), ("y", "string"), ("z", schema_of(("q", "integer")))))
        log.write("old.parquet", pa.table({"x": pa.array([1, 2], pa.int32())}))
        log.commit()
        assert rows_of(spark, f"SELECT z, y, x FROM {log.name} ORDER BY x") == [(None, None, 1), (None, None, 2)]
        assert rows_of(spark, f"SELECT x FROM {log.name} WHERE y IS NULL AND x > 1") == [(2,)]
        assert rows_of(spark, f"SELECT x FROM {log.name} WHERE y = 'a' OR x = 1") == [(1,)]

    def test_widened_types(self, spark: SparkSession, tmp_path: Path, reader: str) -> None:
        log = Log(
            tmp_path / "t",
            schema_of(
                ("a", "long"),
                ("f", "double"),
                ("d", "decimal(20,4)"),
                ("dt", "timestamp_ntz"),
                ("i", "double"),
                ("j", "decimal(12,1)"),
            ),
        )
        log.write(
            "old.parquet",
            pa.table(
                {
                    "a": pa.array([1, 2, 3], pa.int32()),
                    "f": pa.array([1.5, 2.5, None], pa.float32()),
                    "d": pa.array([Decimal("1.25"), None, Decimal("3.75")], pa.decimal128(5, 2)),
                    "dt": pa.array([0, 1, 2], pa.date32()),
                    "i": pa.array([1, 2, 3], pa.int32()),
                    "j": pa.array([1, 2, 3], pa.int32()),
                }
            ),
        )
        log.commit()
        got = rows_of(spark, f"SELECT a, f, d, CAST(dt AS STRING), i, j FROM {log.name} ORDER BY a")
        assert got == [
            (1, 1.5, Decimal("1.2500"), "1970-01-01 00:00:00", 1.0, Decimal("1.0")),
            (2, 2.5, None, "1970-01-02 00:00:00", 2.0, Decimal("2.0")),
            (3, None, Decimal("3.7500"), "1970-01-03 00:00:00", 3.0, Decimal("3.0")),
        ]
        for condition in (
            "a = 3",
            "d = 3.75",
            "dt = TIMESTAMP_NTZ'1970-01-03'",
            "i > 2.5D",
            "j > 2.5",
            "a NOT IN (1, 2, 4294967299)",
        ):
            assert rows_of(spark, f"SELECT a FROM {log.name} WHERE {condition}") == [(3,)], condition

    def test_physical_names(self, spark: SparkSession, tmp_path: Path, reader: str) -> None:
        inner = {
            "type": "struct",
            "fields": [
                mapped("x.y", "integer", 2, "c.3"),
                mapped(
                    "l",
                    {
                        "type": "array",
                        "containsNull": True,
                        "elementType": {"type": "struct", "fields": [mapped("z", "integer", 4, "col-5")]},
                    },
                    3,
                    "col-4",
                ),
            ],
        }
        fields = [mapped("a b", inner, 1, "col-2"), mapped("col-2", "integer", 5, "col-1")]
        log = Log(tmp_path / "t", {"type": "struct", "fields": fields}, mapping="name")
        deep = pa.struct([("c.3", pa.int32()), ("col-4", pa.list_(pa.struct([("col-5", pa.int32())])))])
        log.write(
            "f.parquet",
            pa.table(
                {
                    "col-1": pa.array([1, 2, 3], pa.int32()),
                    "col-2": pa.array([{"c.3": i, "col-4": [{"col-5": i * 10}]} for i in range(3)], deep),
                }
            ),
            row_group_size=1,
        )
        log.commit()
        assert rows_of(spark, f"SELECT `a b`.l[0].z FROM {log.name} WHERE `a b`.`x.y` = 2") == [(20,)]
        assert rows_of(spark, f"SELECT `col-2`, `a b`.`x.y` FROM {log.name} WHERE `col-2` = 2") == [(2, 1)]

    def test_field_ids_win_over_names(self, spark: SparkSession, tmp_path: Path, reader: str) -> None:
        pair = {"type": "struct", "fields": [mapped("x", "integer", 5, "x"), mapped("y", "integer", 4, "y")]}
        fields = [mapped("a", "string", 6, "a"), mapped("b", "integer", 1, "b"), mapped("s", pair, 3, "s")]
        log = Log(tmp_path / "t", {"type": "struct", "fields": fields}, mapping="id")
        swapped = pa.struct([numbered("x", pa.int32(), 4), numbered("y", pa.int32(), 5)])
        old = pa.schema([numbered("a", pa.int32(), 1), numbered("b", pa.int32(), 2), numbered("s", swapped, 3)])
        log.write(
            "old.parquet",
            pa.table(
                [
                    pa.array([1, 2], pa.int32()),
                    pa.array([10, 20], pa.int32()),
                    pa.array([{"x": 1, "y": 2}, {"x": 3, "y": 4}], swapped),
                ],
                schema=old,
            ),
        )
        now = pa.struct([numbered("x", pa.int32(), 5), numbered("y", pa.int32(), 4)])
        new = pa.schema([numbered("a", pa.string(), 6), numbered("b", pa.int32(), 1), numbered("s", now, 3)])
        log.write(
            "new.parquet",
            pa.table([pa.array(["new"]), pa.array([3], pa.int32()), pa.array([{"x": 6, "y": 5}], now)], schema=new),
        )
        log.commit()
        got = rows_of(spark, f"SELECT a, b, s.x, s.y FROM {log.name} ORDER BY b")
        assert got == [(None, 1, 2, 1), (None, 2, 4, 3), ("new", 3, 6, 5)]
        assert rows_of(spark, f"SELECT b FROM {log.name} WHERE b = 2") == [(2,)]
        assert rows_of(spark, f"SELECT s.x FROM {log.name} WHERE s.y = 3") == [(4,)]

    def test_partition_values_of_every_type(self, spark: SparkSession, tmp_path: Path, reader: str) -> None:
        values = {
            "boolean": "true",
            "byte": "1",
            "short": "2",
            "integer": "3",
            "long": "4",
            "float": "1.5",
            "double": "2.5",
            "string": "ä/ %",
            "decimal(30,2)": "12345678901234567890.12",
            "decimal(5,2)": "1.25",
            "date": "2020-01-01",
            "timestamp": "2020-01-02T03:04:05.678901Z",
            "timestamp_ntz": "2020-01-02 03:04:05.678901",
        }
        names = [f"p{i}" for i in range(len(values))]
        log = Log(tmp_path / "t", schema_of(("x", "integer"), *zip(names, values, strict=True)), partitions=names)
        table = pa.table({"x": pa.array([1, 2], pa.int32())})
        log.write("a.parquet", table, partition=dict(zip(names, values.values(), strict=True)))
        log.write("b.parquet", table, partition=dict.fromkeys(names))
        log.commit()
        row, nothing = rows_of(
            spark,
            f"SELECT {', '.join(f'CAST({n} AS STRING)' for n in names)} FROM {log.name} WHERE x = 2 ORDER BY p3 DESC",
        )
        assert row == tuple(v.replace("T", " ").rstrip("Z") for v in values.values())
        assert nothing == (None,) * len(names)
        whole = f"SELECT _partition.p9, _partition.p11 = p11 FROM {log.name} WHERE x = 1 AND p3 = 3"
        assert rows_of(spark, whole) == [(Decimal("1.25"), True)]


class TestDamage:
    def fails(self, spark: SparkSession, log: Log, match: str) -> None:
        with pytest.raises(errors.CorruptTableError, match=match) as caught:
            rows_of(spark, f"SELECT sum(x) FROM {log.name}")
        assert caught.value.remedy

    @pytest.fixture
    def log(self, tmp_path: Path) -> Log:
        return Log(tmp_path / "t", schema_of(("x", "integer")))

    @pytest.fixture
    def numbers(self) -> pa.Table:
        return pa.table({"x": pa.array([(i * 7919) % 50_021 for i in range(50_000)], pa.int32())})

    def test_a_missing_file(self, spark: SparkSession, log: Log, numbers: pa.Table, reader: str) -> None:
        path = log.write("gone.parquet", numbers)
        log.commit()
        path.unlink()
        self.fails(spark, log, r"gone\.parquet.*missing")

    @pytest.mark.parametrize("kept", [0, 3, 20_000])
    def test_a_truncated_file(self, spark: SparkSession, log: Log, numbers: pa.Table, reader: str, kept: int) -> None:
        path = log.write("cut.parquet", numbers)
        log.commit()
        path.write_bytes(path.read_bytes()[:kept])
        self.fails(spark, log, r"cut\.parquet.*cannot be read as Parquet")

    def test_overwritten_pages(self, spark: SparkSession, log: Log, numbers: pa.Table, reader: str) -> None:
        path = log.write("bad.parquet", numbers, row_group_size=50_000)
        log.commit()
        data = path.read_bytes()
        path.write_bytes(data[:4] + b"\xff" * 20_000 + data[20_004:])
        self.fails(spark, log, r"bad\.parquet.*cannot be read as Parquet")

    def test_a_column_of_another_type(self, spark: SparkSession, log: Log) -> None:
        log.write("text.parquet", pa.table({"x": ["a"]}))
        log.commit()
        self.fails(spark, log, r"text\.parquet.*stores column \W*x\W* as")

    def test_a_mask_with_a_wrong_checksum(self, spark: SparkSession, log: Log, numbers: pa.Table) -> None:
        log.write("f.parquet", numbers, mask=log.mask([1, 2], damage=1))
        log.commit()
        self.fails(spark, log, r"f\.parquet.*checksum")

    def test_a_mask_that_is_gone(self, spark: SparkSession, log: Log, numbers: pa.Table) -> None:
        log.write("f.parquet", numbers, mask=log.mask([1, 2]))
        log.commit()
        next(log.root.glob("mask*")).unlink()
        self.fails(spark, log, r"f\.parquet.*missing")


class TestWholeFiles:
    def test_rewrites_read_every_row_of_a_file_in_one_task(self, spark: SparkSession, tmp_path: Path) -> None:
        """Row changes that rewrite files need the rows a predicate does not match, too."""
        log = Log(tmp_path / "t", schema_of(("x", "integer")))
        log.write("f.parquet", pa.table({"x": pa.array(range(5000), pa.int32())}), row_group_size=500)
        log.commit()
        jvm, gateway = spark._jvm, spark.sparkContext._gateway
        assert jvm is not None and gateway is not None
        ident = jvm.org.apache.spark.sql.connector.catalog.Identifier.of(
            gateway.new_array(jvm.java.lang.String, 0), str(log.root)
        )
        catalog = spark._jsparkSession.sessionState().catalogManager().catalog("lake")
        table = catalog.loadTable(ident)
        options = jvm.org.apache.spark.sql.util.CaseInsensitiveStringMap.empty()
        writes = jvm.org.apache.spark.sql.connector.write
        command = writes.RowLevelOperation.Command.UPDATE
        update = table.newRowLevelOperationBuilder(writes.RowLevelOperationInfoImpl(command, options)).build()
        filters = jvm.org.apache.spark.sql.connector.expressions.filter
        expressions = jvm.org.apache.spark.sql.connector.expressions
        sides = gateway.new_array(expressions.Expression, 2)
        sides[0], sides[1] = expressions.Expressions.column("x"), expressions.Expressions.literal(1)
        predicates = gateway.new_array(filters.Predicate, 1)
        predicates[0] = filters.Predicate("=", sides)
        tasks, rows = {}, {}
        with settings(spark, {"spark.sql.files.maxPartitionBytes": "1000", "spark.sql.files.openCostInBytes": "0"}):
            for whole in (True, False):
                builder = (update if whole else table).newScanBuilder(options)
                assert len(builder.pushPredicates(predicates)) == 1
                scan = builder.build()
                partitions = scan.planInputPartitions()
                tasks[whole], rows[whole] = len(partitions), 0
                for partition in partitions:
                    reader = scan.createReaderFactory().createColumnarReader(partition)
                    while reader.next():
                        rows[whole] += reader.get().numRows()
                    reader.close()
        assert tasks[True] == 1 < tasks[False]
        assert rows[False] == 500, "one row group holds what the predicate asks for"
        assert rows[True] == 5000


class TestMask:
    def test_positions_beyond_two_to_the_31(self, spark: SparkSession) -> None:
        dead = [0, 7, 2**31 - 1, 2**31 + 5, 2**32 + 7, 2**40]
        assert spark._jvm is not None
        masks = spark._jvm.lakemend.read.Mask
        mask = masks(masks.positions(MAGIC + BitMap64(dead).serialize(), len(dead), -1))
        asked = sorted({p + d for p in dead for d in (0, 1, 2)})
        assert [p for p in asked if mask.isDead(p)] == dead
        assert mask.isDead(7), "asking for an earlier position starts over"
        assert not mask.isDead(8)


class TestText:
    def test_char_and_varchar(self, spark: SparkSession, namespace: str, reader: str) -> None:
        name = f"{namespace}.texts"
        spark.sql(f"CREATE TABLE {name} (c CHAR(5), v VARCHAR(5), p CHAR(3)) PARTITIONED BY (p)")
        spark.sql(f"INSERT INTO {name} VALUES ('ab', 'cd', 'x'), ('abcde', NULL, 'y')")
        assert rows_of(spark, f"SELECT c, v, p FROM {name} WHERE c = 'ab' AND p = 'x'") == [("ab   ", "cd", "x  ")]
        assert rows_of(spark, f"SELECT p, count(*) FROM {name} GROUP BY p ORDER BY p") == [("x  ", 1), ("y  ", 1)]
        assert rows_of(spark, f"SELECT c FROM {name} WHERE v IS NULL") == [("abcde",)]
