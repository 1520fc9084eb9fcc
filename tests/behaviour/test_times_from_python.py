"""A time without a zone is a local time of the session, through whatever frame it comes and wherever it comes from."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from datetime import UTC, date, datetime, timedelta
from typing import Any
from zoneinfo import ZoneInfo

import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

import lakemend
from tests.settings import settings

LOCAL = datetime(2020, 7, 1, 12, 30, 0, 123456)
FRAMES: dict[str, Callable[[], Any]] = {
    "dicts": lambda: [{"t": LOCAL}],
    "arrow": lambda: pa.table({"t": [LOCAL]}),
    "polars": lambda: pl.DataFrame({"t": [LOCAL]}),
    "pandas": lambda: pd.DataFrame({"t": [LOCAL]}),
    "pandas, objects": lambda: pd.DataFrame({"t": pd.Series([LOCAL], dtype=object)}),
    "pandas, nanoseconds": lambda: pd.DataFrame({"t": pd.to_datetime([f"{LOCAL.isoformat()}789"])}),
    "pandas over arrow": lambda: pd.DataFrame({"t": pd.array([LOCAL], dtype=pd.ArrowDtype(pa.timestamp("us")))}),
    "pandas, categories": lambda: pd.DataFrame({"t": pd.Categorical([LOCAL])}),
    "arrow, dictionary": lambda: pa.table({"t": pa.array([LOCAL]).dictionary_encode()}),
}
_TIME = pa.timestamp("us")
LISTS: dict[str, Callable[[], Any]] = {
    "dicts": lambda: [{"t": [LOCAL]}],
    "polars": lambda: pl.DataFrame({"t": [[LOCAL]]}),
    "polars, arrays": lambda: pl.DataFrame({"t": pl.Series([[LOCAL]], dtype=pl.Array(pl.Datetime("us"), 1))}),
    "arrow, large": lambda: pa.table({"t": pa.array([[LOCAL]], pa.large_list(_TIME))}),
    "arrow, fixed": lambda: pa.table({"t": pa.array([[LOCAL]], pa.list_(_TIME, 1))}),
}


@pytest.fixture
def new_york(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    before = os.environ.get("TZ")
    monkeypatch.setenv("TZ", "America/New_York")
    time.tzset()
    yield
    if before is None:
        monkeypatch.delenv("TZ")
    else:
        monkeypatch.setenv("TZ", before)
    time.tzset()


@pytest.mark.usefixtures("new_york")
def test_local_times(spark: SparkSession, location: str) -> None:
    with settings(spark, {"spark.sql.session.timeZone": "Europe/Berlin"}):
        for number, (name, make) in enumerate(FRAMES.items()):
            table = lakemend.table(spark, f"{location}/{number}")
            table.append(make())
            found = table.to_df().selectExpr("CAST(t AS STRING)").collect()
            assert [row[0] for row in found] == ["2020-07-01 12:30:00.123456"], name


@pytest.mark.usefixtures("new_york")
def test_local_times_in_lists(spark: SparkSession, location: str) -> None:
    with settings(spark, {"spark.sql.session.timeZone": "Europe/Berlin"}):
        for number, (name, make) in enumerate(LISTS.items()):
            table = lakemend.table(spark, f"{location}/{number}")
            table.append(make())
            found = table.to_df().selectExpr("CAST(t[0] AS STRING)").collect()
            assert [row[0] for row in found] == ["2020-07-01 12:30:00.123456"], name


def test_what_timestamp_means_is_no_matter(spark: SparkSession, namespace: str) -> None:
    name, zones = f"{namespace}.t", {"spark.sql.session.timeZone": "Asia/Tokyo"}
    with settings(spark, {**zones, "spark.sql.timestampType": "TIMESTAMP_NTZ"}):
        spark.sql(f"CREATE TABLE {name} (t TIMESTAMP_LTZ)")
        table = lakemend.table(spark, name)
        table.append([{"t": None}])
        table.update({"t": datetime(2020, 7, 1, 12, 30, tzinfo=UTC)})
        assert table.to_df().selectExpr("CAST(t AS STRING)").collect()[0][0] == "2020-07-01 21:30:00"
        made = datetime.fromtimestamp(table.history()[0]["timestamp"] / 1000, ZoneInfo("Asia/Tokyo"))
        later = made + timedelta(hours=1)
        for moment in (later, later.replace(tzinfo=None), str(later)):
            assert table.as_of(timestamp=moment).version == table.version
        with pytest.raises(lakemend.VersionNotFoundError):
            _ = table.as_of(timestamp=(made - timedelta(hours=1)).replace(tzinfo=None)).version


VALUES: list[tuple[str, Any, str]] = [
    ("t", LOCAL, "2020-07-01 12:30:00.123456"),
    ("t", datetime(2020, 7, 1, 12, 30, tzinfo=UTC), "2020-07-01 14:30:00"),
    ("t", pd.Timestamp(LOCAL), "2020-07-01 12:30:00.123456"),
    ("t", datetime(1800, 1, 1), "1800-01-01 00:00:00"),
    ("t", date(2020, 7, 1), "2020-07-01 00:00:00"),
    ("z", LOCAL, "2020-07-01 12:30:00.123456"),
    ("z", datetime(2020, 3, 29, 2, 30), "2020-03-29 02:30:00"),
    ("d", date(1582, 10, 10), "1582-10-10"),
    ("d", date(1, 1, 1), "0001-01-01"),
    ("d", LOCAL, "2020-07-01"),
    ("s", LOCAL, "2020-07-01 12:30:00.123456"),
    ("l", [LOCAL, None], "[2020-07-01 12:30:00.123456, null]"),
    ("l", (datetime(2020, 7, 1, 12, 30, tzinfo=UTC),), "[2020-07-01 14:30:00]"),
    ("w", ["id", "x"], "[id, x]"),
]


@pytest.mark.usefixtures("new_york")
def test_values_of_an_update(spark: SparkSession, namespace: str) -> None:
    name = f"{namespace}.t"
    types = "id INT, t TIMESTAMP, z TIMESTAMP_NTZ, d DATE, s STRING, l ARRAY<TIMESTAMP>, w ARRAY<STRING>"
    spark.sql(f"CREATE TABLE {name} ({types})")
    table = lakemend.table(spark, name)
    with settings(spark, {"spark.sql.session.timeZone": "Europe/Berlin"}):
        table.append([{"id": 1}])
        for column, value, expected in VALUES:
            table.update({column: value})
            found = table.to_df().selectExpr(f"CAST({column} AS STRING)").collect()
            assert [row[0] for row in found] == [expected], (column, value)


@pytest.mark.parametrize("empty", ["", 0, [], False])
def test_a_timestamp_that_is_none(spark: SparkSession, location: str, empty: Any) -> None:
    table = lakemend.table(spark, location)
    table.append([{"a": 1}])
    with pytest.raises(lakemend.InvalidInputError):
        table.as_of(timestamp=empty)
