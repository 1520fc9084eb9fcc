"""Tables no writer at hand makes, through Spark: ids against names, foreign vectors, V2 checkpoints, widened files."""

from __future__ import annotations

import datetime as dt
import json
import uuid
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyroaring import BitMap64
from pyspark.sql import SparkSession

from lakemend.formats.delta import deletion_vector as dv
from lakemend.formats.masks import encode_blob
from tests.unit.delta_read.conftest import HandMade

FEATURES = {"readerFeatures": ["deletionVectors"], "writerFeatures": ["deletionVectors"]}


@pytest.fixture
def made(tmp_path: Path) -> HandMade:
    return HandMade(tmp_path / "made")


@pytest.fixture(params=["batches", "rows"])
def reader(request: pytest.FixtureRequest, spark: SparkSession) -> Any:
    spark.conf.set("spark.sql.parquet.enableVectorizedReader", str(request.param == "batches").lower())
    yield request.param
    spark.conf.unset("spark.sql.parquet.enableVectorizedReader")


def data_file(made: HandMade, name: str, table: pa.Table, **extra: Any) -> dict[str, Any]:
    """A data file and the action that adds it."""
    pq.write_table(table, made.root / name)
    return made.add(name, **{"size": (made.root / name).stat().st_size, **extra})


def rows(spark: SparkSession, made: HandMade, where: str = "true", *columns: str) -> list[tuple[Any, ...]]:
    table = spark.read.format("delta").load(str(made.root)).where(where).selectExpr(*(columns or ("*",)))
    return sorted((tuple(r) for r in table.collect()), key=repr)


# ---- deletion vectors


@pytest.mark.parametrize("storage", ["inline", "beside", "prefixed", "absolute"])
def test_vectors_of_others(spark: SparkSession, made: HandMade, tmp_path: Path, reader: str, storage: str) -> None:
    made.create(("id", "long"), ("s", "string"), protocol={"reader": 3, "writer": 7, **FEATURES})
    vector = BitMap64([0, 5, 9])
    if storage == "inline":
        blob = encode_blob(vector)
        described = {
            "storageType": "i",
            "pathOrInlineDv": dv.z85_encode(blob),
            "sizeInBytes": len(blob),
            "cardinality": 3,
        }
    else:
        file = dv.encode_file([BitMap64([1]), vector])
        prefix = "pre" if storage == "prefixed" else ""
        _, descriptor = dv.describe_file(uuid.uuid4(), file, [BitMap64([1]), vector], prefix)
        described = descriptor.to_json()
        target = made.root / dv.relative_path(descriptor.path_or_inline)
        if storage == "absolute":
            target = tmp_path / "a b" / "vector.bin"
            described |= {"storageType": "p", "pathOrInlineDv": target.as_uri()}
        target.parent.mkdir(exist_ok=True)
        target.write_bytes(file.data)
    table = pa.table({"id": pa.array(range(10), pa.int64()), "s": [f"s{i}" for i in range(10)]})
    made.commit(
        1, data_file(made, "f.parquet", table, deletionVector=described, stats={"numRecords": 10, "tightBounds": False})
    )
    alive = [i for i in range(10) if i not in vector]
    assert rows(spark, made) == [(i, f"s{i}") for i in alive]
    assert rows(spark, made, "id >= 5", "id", "_pos") == [(i, i) for i in alive if i >= 5]
    assert rows(spark, made, "true", "count(*)", "min(id)", "max(id)") == [(7, 1, 8)]


def test_the_same_file_under_two_vectors(spark: SparkSession, made: HandMade) -> None:
    made.create(("id", "long"), protocol={"reader": 3, "writer": 7, **FEATURES})
    table = pa.table({"id": pa.array(range(4), pa.int64())})

    def inline(*dead: int) -> dict[str, Any]:
        blob = encode_blob(BitMap64(dead))
        text = dv.z85_encode(blob)
        return {"storageType": "i", "pathOrInlineDv": text, "sizeInBytes": len(blob), "cardinality": len(dead)}

    made.commit(1, data_file(made, "f.parquet", table))
    made.commit(2, made.remove("f.parquet"), data_file(made, "f.parquet", table, deletionVector=inline(1)))
    made.commit(
        3,
        made.remove("f.parquet", deletionVector=inline(1)),
        data_file(made, "f.parquet", table, deletionVector=inline(1, 2)),
    )
    assert rows(spark, made) == [(0,), (3,)]
    old = spark.read.format("delta").option("versionAsOf", 2).load(str(made.root))
    assert sorted(r.id for r in old.collect()) == [0, 2, 3]


# ---- column mapping


def mapped(name: str, type: Any, id: int, physical: str | None = None) -> dict[str, Any]:
    keys = {"delta.columnMapping.id": id, "delta.columnMapping.physicalName": physical or f"col-{id}"}
    return {"name": name, "type": type, "nullable": True, "metadata": keys}


def with_id(name: str, type: pa.DataType, id: int) -> pa.Field:
    return pa.field(name, type, metadata={"PARQUET:field_id": str(id)})


def create_mapped(made: HandMade, mode: str, *columns: dict[str, Any]) -> None:
    made.create(*columns, protocol={"reader": 2, "writer": 5}, configuration={"delta.columnMapping.mode": mode})


def test_ids_win_over_names(spark: SparkSession, made: HandMade, reader: str) -> None:
    """The file's names are another column's; only its field ids say which is which."""
    create_mapped(
        made, "id", mapped("a", "long", 1, "x"), mapped("b", "string", 2, "y"), mapped("new", "integer", 9, "a")
    )
    schema = pa.schema([with_id("y", pa.int64(), 1), with_id("x", pa.string(), 2), with_id("a", pa.string(), 7)])
    table = pa.table([pa.array([1, 2, 3], pa.int64()), ["p", "q", "r"], ["old", "old", "old"]], schema=schema)
    made.commit(1, data_file(made, "swapped.parquet", table))
    assert rows(spark, made) == [(1, "p", None), (2, "q", None), (3, "r", None)]
    assert rows(spark, made, "a >= 2", "b") == [("q",), ("r",)]
    assert rows(spark, made, "b = 'q'", "a") == [(2,)]
    assert rows(spark, made, "new IS NULL", "a", "_pos") == [(1, 0), (2, 1), (3, 2)]
    assert rows(spark, made, "new = 5") == []


def test_ids_inside(spark: SparkSession, made: HandMade, reader: str) -> None:
    inner = {"type": "struct", "fields": [mapped("x", "long", 3), mapped("y", "string", 4)]}
    element = {"type": "struct", "fields": [mapped("z", "long", 6)]}
    create_mapped(
        made, "id", mapped("id", "long", 1), mapped("s", inner, 2),
        mapped("l", {"type": "array", "elementType": element, "containsNull": True}, 5),
    )  # fmt: skip
    struct = pa.struct([with_id("foreign-y", pa.string(), 4), with_id("foreign-x", pa.int64(), 3)])
    items = pa.list_(pa.field("element", pa.struct([with_id("foreign-z", pa.int64(), 6)])))
    schema = pa.schema(
        [with_id("foreign-l", items, 5), with_id("foreign-s", struct, 2), with_id("foreign-id", pa.int64(), 1)]
    )
    columns = [
        pa.array([[{"foreign-z": 7}], None], items),
        pa.array([{"foreign-y": "why", "foreign-x": 10}, None], struct),
        pa.array([1, 2], pa.int64()),
    ]
    made.commit(1, data_file(made, "f.parquet", pa.Table.from_arrays(columns, schema=schema)))
    assert rows(spark, made, "true", "id", "s.x", "s.y", "l[0].z") == [(1, 10, "why", 7), (2, None, None, None)]
    assert rows(spark, made, "s.x = 10", "id") == [(1,)]
    assert rows(spark, made, "s IS NULL", "id") == [(2,)]


@pytest.mark.parametrize("mode", ["name", "id"])
def test_renamed_and_swapped(spark: SparkSession, made: HandMade, reader: str, mode: str) -> None:
    before = [mapped("a", "long", 1, "a"), mapped("b", "long", 2, "b")]
    create_mapped(made, mode, *before)
    schema = pa.schema([with_id("a", pa.int64(), 1), with_id("b", pa.int64(), 2)])
    first = pa.table([pa.array([1], pa.int64()), pa.array([2], pa.int64())], schema=schema)
    stats = {
        "numRecords": 1,
        "minValues": {"a": 1, "b": 2},
        "maxValues": {"a": 1, "b": 2},
        "nullCount": {"a": 0, "b": 0},
    }
    made.commit(1, data_file(made, "f.parquet", first, stats=stats))
    swapped = [mapped("b", "long", 1, "a"), mapped("a", "long", 2, "b"), mapped("c", "string", 3, "c-3")]
    made.commit(2, made.metadata(*swapped, configuration={"delta.columnMapping.mode": mode}))
    assert rows(spark, made, "true", "a", "b", "c") == [(2, 1, None)]
    assert rows(spark, made, "a = 2 AND b = 1", "a") == [(2,)]
    assert rows(spark, made, "a = 1") == []
    assert rows(spark, made, "true", "min(a)", "max(b)", "count(c)") == [(2, 1, 0)]
    spark.sql("SELECT 20L AS a, 10L AS b, 'x' AS c").write.format("delta").mode("append").save(str(made.root))
    assert rows(spark, made, "true", "a", "b", "c") == [(2, 1, None), (20, 10, "x")]
    assert rows(spark, made, "b > 5", "a") == [(20,)]


# ---- checkpoints


@pytest.mark.parametrize("top", ["json", "parquet"])
def test_v2_checkpoint_with_sidecars(spark: SparkSession, made: HandMade, top: str) -> None:
    features = ["v2Checkpoint"]
    protocol = made.protocol(3, 7, readerFeatures=features, writerFeatures=features)
    metadata = made.metadata(("id", "long"), ("p", "string"), partition_by=("p",))
    made.commit(0, protocol, metadata)
    adds = []
    for i in range(3):
        folder = made.root / f"p=v {i}"
        folder.mkdir()
        path = f"p=v {i}/f.parquet"
        action = data_file(made, path, pa.table({"id": pa.array([i], pa.int64())}), stats={"numRecords": 1})["add"]
        adds.append(action | {"path": path.replace(" ", "%20"), "partitionValues": [("p", f"v {i}")]})
    sidecars = made.log / "_sidecars"
    sidecars.mkdir()
    type = pa.struct(
        [
            ("path", pa.string()), ("partitionValues", pa.map_(pa.string(), pa.string())), ("size", pa.int64()),
            ("modificationTime", pa.int64()), ("dataChange", pa.bool_()), ("stats", pa.string()),
        ]
    )  # fmt: skip
    listed = []
    for part in (adds[:2], adds[2:]):
        name = f"{uuid.uuid4()}.parquet"
        pq.write_table(pa.table({"add": pa.array(part, type)}), sidecars / name)
        size = (sidecars / name).stat().st_size
        listed.append({"path": name, "sizeInBytes": size, "modificationTime": 1})
    name = f"{1:020d}.checkpoint.{uuid.uuid4()}.{top}"
    actions = [protocol, metadata, {"checkpointMetadata": {"version": 1}}, *({"sidecar": s} for s in listed)]
    if top == "json":
        (made.log / name).write_text("".join(json.dumps(a) + "\n" for a in actions))
    else:
        _write_actions(made.log / name, actions)
    made.commit(1)
    made.commit(2, made.remove("p=v%200/f.parquet"))
    (made.log / f"{0:020d}.json").unlink()
    (made.log / f"{1:020d}.json").unlink()
    assert rows(spark, made) == [(1, "v 1"), (2, "v 2")]
    assert rows(spark, made, "p = 'v 2'", "id") == [(2,)]
    spark.sql("SELECT 9L AS id, 'v 9' AS p").write.format("delta").mode("append").save(str(made.root))
    assert rows(spark, made, "true", "count(*)", "max(p)") == [(3, "v 9")]


def _write_actions(path: Path, actions: list[dict[str, Any]]) -> None:
    strings = pa.map_(pa.string(), pa.string())
    schema = pa.schema(
        {
            "protocol": pa.struct(
                [
                    ("minReaderVersion", pa.int32()), ("minWriterVersion", pa.int32()),
                    ("readerFeatures", pa.list_(pa.string())), ("writerFeatures", pa.list_(pa.string())),
                ]
            ),
            "metaData": pa.struct(
                [
                    ("id", pa.string()), ("format", pa.struct([("provider", pa.string()), ("options", strings)])),
                    ("schemaString", pa.string()), ("partitionColumns", pa.list_(pa.string())),
                    ("configuration", strings), ("createdTime", pa.int64()),
                ]
            ),
            "checkpointMetadata": pa.struct([("version", pa.int64())]),
            "sidecar": pa.struct(
                [("path", pa.string()), ("sizeInBytes", pa.int64()), ("modificationTime", pa.int64())]
            ),
        }
    )  # fmt: skip
    rows = []
    for action in actions:
        if "metaData" in action:
            body = action["metaData"]
            action = {"metaData": body | {"configuration": [], "format": {"provider": "parquet", "options": []}}}
        rows.append(action)
    pq.write_table(pa.Table.from_pylist(rows, schema), path)


# ---- widened types

WIDENED = [
    ("short", "integer", pa.int16(), 7, 7),
    ("integer", "long", pa.int32(), 7, 7),
    ("byte", "long", pa.int8(), 7, 7),
    ("float", "double", pa.float32(), 1.5, 1.5),
    ("integer", "double", pa.int32(), 7, 7.0),
    ("date", "timestamp_ntz", pa.date32(), dt.date(2024, 2, 29), dt.datetime(2024, 2, 29)),
    ("decimal(6,2)", "decimal(20,2)", pa.decimal128(6, 2), Decimal("1.25"), Decimal("1.25")),
    ("decimal(6,2)", "decimal(20,8)", pa.decimal128(6, 2), Decimal("1.25"), Decimal("1.25000000")),
    ("integer", "decimal(12,2)", pa.int32(), 7, Decimal("7.00")),
    ("long", "decimal(22,2)", pa.int64(), 7, Decimal("7.00")),
]


@pytest.mark.parametrize(
    ("old", "new", "arrow", "value", "expected"), WIDENED, ids=[f"{w[0]} to {w[1]}" for w in WIDENED]
)
def test_widened_files(
    spark: SparkSession, made: HandMade, reader: str, old: str, new: str, arrow: pa.DataType, value: Any, expected: Any
) -> None:
    features = {"readerFeatures": ["typeWidening", "timestampNtz"], "writerFeatures": ["typeWidening", "timestampNtz"]}
    changed = {
        "name": "v",
        "type": new,
        "nullable": True,
        "metadata": {"delta.typeChanges": [{"fromType": old, "toType": new}]},
    }
    made.create(("id", "long"), ("v", old), protocol={"reader": 3, "writer": 7, **features})
    table = pa.table({"id": pa.array([1, 2], pa.int64()), "v": pa.array([value, None], arrow)})
    text = str(value) if isinstance(value, dt.date) else float(value)
    stats = {"numRecords": 2, "minValues": {"v": text}, "maxValues": {"v": text}, "nullCount": {"v": 1}}
    made.commit(1, data_file(made, "f.parquet", table, stats=stats))
    made.commit(2, made.metadata(("id", "long"), changed, configuration={"delta.enableTypeWidening": "true"}))
    assert rows(spark, made) == [(1, expected), (2, None)]
    sql_type = {"integer": "int", "long": "bigint"}.get(new, new)
    for where, ids in {
        f"v = CAST('{expected}' AS {sql_type})": [1],
        f"v > CAST('{expected}' AS {sql_type})": [],
        f"v >= CAST('{expected}' AS {sql_type})": [1],
        "v IS NULL": [2],
    }.items():
        assert [r[0] for r in rows(spark, made, where, "id")] == ids, where
    assert rows(spark, made, "true", "min(v)", "max(v)", "count(v)") == [(expected, expected, 1)]
