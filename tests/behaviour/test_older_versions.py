"""Frames of an older version stay at it, through whichever door they are written."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

import lakemend
from lakemend import Table

BASE = [(1, "t1"), (2, "t2"), (3, "t3")]
MERGED = [(1, "old"), (2, "t2"), (3, "t3")]


class Place:
    """The table t; and s, which has a row that its version 1 has not."""

    def __init__(self, spark: SparkSession, namespace: str) -> None:
        self.spark, self.t, self.s, self.new = spark, f"{namespace}.t", f"{namespace}.s", f"{namespace}.new"
        for name in (self.t, self.s):
            spark.sql(f"CREATE TABLE {name} (k INT, v STRING)")
        spark.sql(f"INSERT INTO {self.t} VALUES (1, 't1'), (2, 't2'), (3, 't3')")
        spark.sql(f"INSERT INTO {self.s} VALUES (1, 'old')")
        self.between = datetime.now(UTC)
        spark.sql(f"INSERT INTO {self.s} VALUES (2, 'new')")

    @property
    def table(self) -> Table:
        return lakemend.table(self.spark, self.t)

    def view(self, frame: DataFrame) -> str:
        frame.createOrReplaceTempView("older")
        return "older"


SOURCES: dict[str, Callable[[Place], DataFrame]] = {
    "sql": lambda p: p.spark.sql(f"SELECT * FROM {p.s} VERSION AS OF 1"),
    "time": lambda p: p.spark.sql(f"SELECT * FROM {p.s} TIMESTAMP AS OF '{p.between:%Y-%m-%d %H:%M:%S.%f}'"),
    "option": lambda p: p.spark.read.option("versionAsOf", 1).table(p.s),
    "as_of": lambda p: lakemend.table(p.spark, p.s).as_of(version=1).to_df(),
    "joined": lambda p: p.spark.sql(f"SELECT o.* FROM {p.s} VERSION AS OF 1 o JOIN {p.s} n ON o.k = n.k"),
}
WRITES: dict[str, tuple[Callable[[Place, DataFrame], object], list[tuple[int, str]]]] = {
    "append": (lambda p, f: f.writeTo(p.t).append(), [*BASE, (1, "old")]),
    "insertInto": (lambda p, f: f.write.insertInto(p.t), [*BASE, (1, "old")]),
    "saveAsTable": (lambda p, f: f.write.format("delta").mode("append").saveAsTable(p.t), [*BASE, (1, "old")]),
    "view": (lambda p, f: p.spark.sql(f"INSERT INTO {p.t} SELECT * FROM {p.view(f)}"), [*BASE, (1, "old")]),
    "overwrite": (lambda p, f: f.writeTo(p.t).overwrite(F.lit(True)), [(1, "old")]),
    "table.append": (lambda p, f: p.table.append(f), [*BASE, (1, "old")]),
    "table.overwrite": (lambda p, f: p.table.overwrite(f), [(1, "old")]),
    "replace_where": (lambda p, f: p.table.replace_where(f, "k < 2"), MERGED),
    "replace_using": (lambda p, f: p.table.replace_using(f, ["k"]), MERGED),
    "replace_on": (lambda p, f: p.table.replace_on(f, "t.k = s.k"), MERGED),
    "mergeInto": (
        lambda p, f: f.alias("s").mergeInto(p.t, F.expr(f"{p.t}.k = s.k")).whenMatched().updateAll().merge(),
        MERGED,
    ),
    "merge": (
        lambda p, f: p.spark.sql(
            f"MERGE INTO {p.t} t USING {p.view(f)} s ON t.k = s.k WHEN MATCHED THEN UPDATE SET v = s.v"
        ),
        MERGED,
    ),
    "delete": (lambda p, f: p.spark.sql(f"DELETE FROM {p.t} WHERE k IN (SELECT k FROM {p.view(f)})"), BASE[1:]),
    "update": (
        lambda p, f: p.spark.sql(f"UPDATE {p.t} SET v = 'old' WHERE k IN (SELECT k FROM {p.view(f)})"),
        MERGED,
    ),
}


@pytest.fixture
def place(spark: SparkSession, namespace: str) -> Place:
    return Place(spark, namespace)


def rows(spark: SparkSession, name: str) -> list[tuple[int, str]]:
    return sorted(map(tuple, spark.table(name).collect()))


@pytest.mark.parametrize(
    ("source", "door"),
    [("sql", door) for door in WRITES] + [(source, "append") for source in SOURCES if source != "sql"],
)
def test_what_is_written_is_what_was_there(place: Place, source: str, door: str) -> None:
    write, expected = WRITES[door]
    write(place, SOURCES[source](place).where("k > 0").select("k", "v"))
    assert rows(place.spark, place.t) == sorted(expected)


def test_a_new_table_of_an_older_version(place: Place) -> None:
    SOURCES["sql"](place).where("k > 0").writeTo(place.new).create()
    assert rows(place.spark, place.new) == [(1, "old")]


def test_a_delete_is_undone(place: Place) -> None:
    def lose() -> None:
        place.spark.sql(f"DELETE FROM {place.t} WHERE k = 1")

    lose()
    place.table.overwrite(place.table.as_of(version=1).to_df().where("k > 0"))
    assert rows(place.spark, place.t) == BASE
    lose()
    before = place.table.as_of(version=1).to_df()
    before.exceptAll(place.table.to_df()).writeTo(place.t).append()
    assert rows(place.spark, place.t) == BASE


def test_a_dry_run_counts_the_older_rows(place: Place) -> None:
    report = place.table.replace_using(SOURCES["sql"](place), ["k"], dry_run=True)
    assert (report.inserted, report.deleted) == (1, 1)
