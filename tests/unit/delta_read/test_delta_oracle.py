"""Tables deltalake writes: files, partitions and statistics agree with its own answer."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

import deltalake
import pyarrow as pa
import pytest
from deltalake import DeltaTable as Oracle
from deltalake import write_deltalake

from lakemend.formats.delta.table import DeltaTable
from lakemend.schema import leaves

UTC = dt.UTC
ROWS = pa.table(
    {
        "id": pa.array([1, 2, None, 4], pa.int64()),
        "small": pa.array([1, -2, 3, None], pa.int8()),
        "short": pa.array([1, -2, 3, None], pa.int16()),
        "int": pa.array([1, -2, 3, None], pa.int32()),
        "flag": pa.array([True, False, None, True]),
        "real": pa.array([1.5, -0.25, None, 3.0], pa.float32()),
        "double": pa.array([1.5, -0.25, None, 3.0], pa.float64()),
        "text": pa.array(["a", "ü", None, "zebra" * 20]),
        "bytes": pa.array([b"a", b"b", None, b"c"]),
        "day": pa.array([dt.date(2024, 1, 1), dt.date(1969, 12, 31), None, dt.date(2030, 2, 3)]),
        "at": pa.array(
            [dt.datetime(2024, 1, 1, 1, 2, 3, 456789, UTC), None, dt.datetime(1960, 1, 1, tzinfo=UTC), None],
            pa.timestamp("us", "UTC"),
        ),
        "local": pa.array(
            [dt.datetime(2024, 1, 1, 1, 2, 3, 456789), None, dt.datetime(1960, 1, 1), None], pa.timestamp("us")
        ),
        "price": pa.array([Decimal("1.25"), Decimal("-99999999.99"), None, Decimal("3.00")], pa.decimal128(10, 2)),
        "nested": pa.array([{"x": 1, "y": {"z": "q"}}, {"x": 5, "y": None}, None, {"x": None, "y": {"z": "a"}}]),
        "with space": pa.array([1, 2, 3, 4], pa.int32()),
        "dot.ted": pa.array([5, 6, 7, 8], pa.int32()),
        "größe": pa.array([9, 10, 11, 12], pa.int32()),
        "list": pa.array([[1], [], None, [2]], pa.list_(pa.int64())),
    }
)


def frame(**parts: Any) -> pa.Table:
    table = ROWS
    for name, value in parts.items():
        table = table.append_column(name, pa.array([value] * 4, value_type(value)))
    return table


def value_type(value: Any) -> pa.DataType:
    return pa.scalar(value).type if value is not None else pa.string()


def oracle(path: Path) -> dict[str, dict[str, Any]]:
    actions = pa.table(Oracle(str(path)).get_add_actions(flatten=True))
    return {row["path"]: row for row in actions.to_pylist()}


def check_bounds(table: DeltaTable, path: Path) -> None:
    snapshot = table.latest()
    expected = oracle(path)
    files = snapshot.files.to_pylist()
    assert {f["path"] for f in files} == set(expected)
    for file in files:
        theirs = expected[file["path"]]
        assert file["size"] == theirs["size_bytes"]
        assert file["modified"] == theirs["modification_time"]
        assert file["rows"] == theirs["num_records"]
        for name, value in file["partition"].items():
            assert theirs[f"partition.{name}"] == value
    compared = 0
    for leaf, kind in leaves(snapshot.metadata.schema):
        stats = snapshot.stats(leaf)
        key = ".".join(leaf)
        if stats is None:
            assert all(row.get(f"min.{key}") is None for row in expected.values()) or kind == "binary"
            continue
        for row, file in enumerate(files):
            theirs = expected[file["path"]]
            low, high = theirs.get(f"min.{key}"), theirs.get(f"max.{key}")
            mine = stats.min[row].as_py(), stats.max[row].as_py()
            assert stats.nulls[row].as_py() == theirs.get(f"null_count.{key}")
            if stats.exact[row].as_py():
                assert mine == (low, high)
            if mine[0] is not None and low is not None:
                assert mine[0] <= low
            if mine[1] is not None and high is not None:
                assert mine[1] >= high
            compared += 1
    assert compared


@pytest.fixture(params=["json", "checkpoint", "checkpoint and json"])
def table(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    path = tmp_path / "t"
    for i, part in enumerate(["a", "b/c", "50% off", "ü ö", None]):
        write_deltalake(str(path), frame(part=part, number=i), partition_by=["part", "number"], mode="append")
        if request.param != "json" and i == (4 if request.param == "checkpoint" else 2):
            Oracle(str(path)).create_checkpoint()
    return path


def test_files_and_statistics_agree(table: Path, opened: Callable[[Path], DeltaTable]) -> None:
    check_bounds(opened(table), table)


def test_partition_values_are_typed(table: Path, opened: Callable[[Path], DeltaTable]) -> None:
    parts = opened(table).latest().files.column("partition").to_pylist()
    assert sorted((p["number"], p["part"]) for p in parts) == list(enumerate(["a", "b/c", "50% off", "ü ö", None]))


def test_urls_point_at_the_files(table: Path, opened: Callable[[Path], DeltaTable]) -> None:
    snapshot = opened(table).latest()
    for path in snapshot.files.column("path").to_pylist():
        assert Path(snapshot.url(path).removeprefix("file://")).is_file()


def test_time_travel_and_updates(tmp_path: Path, opened: Callable[[Path], DeltaTable]) -> None:
    path = tmp_path / "t"
    write_deltalake(str(path), frame())
    table = opened(path)
    first = table.latest()
    assert (first.version, first.files.num_rows) == (0, 1)
    assert table.latest() is first
    write_deltalake(str(path), frame(), mode="append")
    write_deltalake(str(path), frame(), mode="overwrite")
    newest = table.latest()
    assert (newest.version, newest.files.num_rows) == (2, 1)
    assert set(newest.files.column("path").to_pylist()) == set(oracle(path))
    assert newest.tombstones.num_rows == 2
    assert table.at_version(1).files.num_rows == 2
    assert table.at_version(0).files.equals(first.files)
    assert opened(path).latest().files.sort_by("path").equals(newest.files.sort_by("path"))
    history = table.history()
    assert [h["version"] for h in history] == [2, 1, 0]
    theirs = {h["version"]: h for h in Oracle(str(path)).history()}
    assert all(theirs[h["version"]]["operation"] == h["operation"] for h in history)
    assert table.history(1) == history[:1]
    times = {h["version"]: h["timestamp"] for h in history}
    for version, time in times.items():
        assert table.at_timestamp(time).version == version
    assert table.at_timestamp(times[2] + 10**6).version == 2


def test_many_updates_stay_equal(tmp_path: Path, opened: Callable[[Path], DeltaTable]) -> None:
    path = tmp_path / "t"
    rows = pa.table({"id": pa.array([1, 2], pa.int64())})
    write_deltalake(str(path), rows)
    table = opened(path)
    for _ in range(20):
        write_deltalake(str(path), rows, mode="append")
        table.latest()
    Oracle(str(path)).optimize.compact()
    snapshot = table.latest()
    assert snapshot.files.column("path").to_pylist() == list(oracle(path))
    assert snapshot.files.column("rows").to_pylist() == [42]
    fresh = opened(path).latest()
    assert snapshot.stats(("id",)).min.equals(fresh.stats(("id",)).min)
    assert snapshot.stats_json().equals(fresh.stats_json())
    assert snapshot.tombstones.num_rows == fresh.tombstones.num_rows == 21


def test_changes_since(tmp_path: Path, opened: Callable[[Path], DeltaTable]) -> None:
    path = tmp_path / "t"
    rows = pa.table({"id": pa.array([1, 2], pa.int64()), "p": ["x", "y"]})
    write_deltalake(str(path), rows, partition_by=["p"])
    write_deltalake(str(path), rows, mode="append")
    Oracle(str(path)).delete("p = 'x'")
    Oracle(str(path)).alter.add_constraint({"positive": "id > 0"})
    append, delete, constraint = opened(path).changes_since(0)
    assert (append.version, append.operation, append.removed) == (1, "append", frozenset())
    assert append.data_change and not append.metadata_changed
    assert append.added.column("partition").to_pylist() in ([{"p": "x"}, {"p": "y"}], [{"p": "y"}, {"p": "x"}])
    assert append.stats(("id",)).min.to_pylist() and append.stats(("nothing",)) is None
    assert len(delete.removed) == 2 and delete.operation == "delete" and not delete.masked
    assert constraint.metadata_changed and constraint.protocol_changed and not constraint.added.num_rows
    assert opened(path).latest().metadata.checks == {"positive": "id > 0"}


def test_checkpoint_keeps_transactions(tmp_path: Path, opened: Callable[[Path], DeltaTable]) -> None:
    path = tmp_path / "t"
    properties = deltalake.CommitProperties(app_transactions=[deltalake.Transaction("app", 7)])
    write_deltalake(str(path), pa.table({"id": [1]}), commit_properties=properties)
    assert opened(path).latest().transaction("app") == 7
    Oracle(str(path)).create_checkpoint()
    write_deltalake(str(path), pa.table({"id": [1]}), mode="append")
    assert opened(path).latest().transaction("app") == 7
    assert opened(path).latest().transaction("other") is None


@pytest.mark.parametrize(
    ("name", "values"),
    [
        ("day", [dt.date(2024, 2, 29), dt.date(1900, 1, 1)]),
        ("flag", [True, False]),
        ("price", [Decimal("1.50"), Decimal("2.25")]),
        ("double", [1.5, -0.25]),
        ("at", [dt.datetime(2024, 1, 1, 1, 2, 3, 456789, UTC), dt.datetime(1960, 1, 1, tzinfo=UTC)]),
        ("text", ["a b", "x/y=z%", "日本", "'\"\\:?*"]),
    ],
)
def test_every_partition_type(
    tmp_path: Path, opened: Callable[[Path], DeltaTable], name: str, values: list[Any]
) -> None:
    path = tmp_path / "t"
    kind = ROWS.schema.field(name).type
    table = pa.table({"id": list(range(len(values) + 1)), name: pa.array([*values, None], kind)})
    write_deltalake(str(path), table, partition_by=[name])
    Oracle(str(path)).create_checkpoint()
    found = opened(path).latest().files.column("partition").to_pylist()
    assert sorted(map(str, (f[name] for f in found))) == sorted(map(str, [*values, None]))
