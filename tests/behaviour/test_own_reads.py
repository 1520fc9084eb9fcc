"""A statement that reads the table it writes, by whatever door, conflicts with a change of what it read."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import deltalake
import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession

import lakemend
from lakemend import replace
from tests.copies import copied
from tests.slip_in import slip_in


class Place:
    """A table with the rows (1, 'a', 10) and (2, 'b', 20), and all its spellings."""

    def __init__(self, spark: SparkSession, name: str, link: Path) -> None:
        self.spark, self.name = spark, name
        self.table = copied(spark, __name__, name, self.make)
        self.path = self.table.detail()["location"].removeprefix("file://")
        os.symlink(self.path, link)
        self.link = str(link)
        self.second = "second." + name.split(".", 1)[1]
        warehouse = spark.conf.get("spark.sql.catalog.lake.warehouse")
        spark.conf.set("spark.sql.catalog.second", "lakemend.catalog.LakeCatalog")
        spark.conf.set("spark.sql.catalog.second.warehouse", str(warehouse))

    def make(self, path: str) -> None:
        self.spark.sql(f"CREATE TABLE lake.delta.`{path}` (id BIGINT, p STRING, x BIGINT) PARTITIONED BY (p)")
        self.spark.sql(f"INSERT INTO lake.delta.`{path}` VALUES (1, 'a', 10), (2, 'b', 20)")

    def sums(self, frame: DataFrame) -> DataFrame:
        """One new row that tells the sum of the rows in partition a."""
        frame.createOrReplaceTempView("own_rows")
        return self.spark.sql("SELECT 9L AS id, 'z' AS p, sum(x) AS x FROM own_rows WHERE p = 'a'")

    def load(self, path: str | None = None) -> DataFrame:
        return self.spark.read.format("delta").load(path or self.path)

    def rows(self) -> list[tuple[object, ...]]:
        return sorted(tuple(row) for row in self.spark.newSession().table(self.name).collect())


@pytest.fixture
def place(spark: SparkSession, namespace: str, tmp_path: Path) -> Place:
    return Place(spark, f"{namespace}.t", tmp_path / "link")


SUM = "SELECT 9L, 'z', sum(x) FROM {source} WHERE p = 'a'"
MERGE = """MERGE INTO {target} t USING (SELECT 2L AS id, sum(x) AS x FROM {source} WHERE p = 'a') s
    ON t.id = s.id AND t.p = 'b' WHEN MATCHED THEN UPDATE SET x = s.x"""
UPDATE = "UPDATE {target} SET x = (SELECT sum(x) FROM {source} WHERE p = 'a') WHERE p = 'b'"
DELETE = "DELETE FROM {target} WHERE p = 'b' AND x < (SELECT sum(x) + 100 FROM {source} WHERE p = 'a')"
DYNAMIC = {"partitionOverwriteMode": "dynamic"}


def sql(text: str, target: str, source: str) -> Callable[[Place], object]:
    def run(place: Place) -> None:
        names = {"name": place.name, "path": f"delta.`{place.path}`", "link": f"delta.`{place.link}`"}
        names["second"] = place.second
        place.spark.sql(text.format(target=names[target], source=names[source]))

    return run


def cached(place: Place) -> None:
    kept = place.spark.table(place.name).cache()
    rows = place.sums(kept)
    assert rows.count() == 1
    try:
        rows.writeTo(place.name).append()
    finally:
        kept.unpersist()


def cached_count(place: Place) -> None:
    rows = place.spark.sql(f"SELECT 9L AS id, 'z' AS p, count(*) AS x FROM {place.name} WHERE p = 'a'").cache()
    assert rows.collect()
    try:
        rows.writeTo(place.name).append()
    finally:
        rows.unpersist()


def cached_twice(place: Place) -> None:
    """A query with a name that is used twice, and an answer from statistics: scans cannot tell what was read."""
    rows = place.spark.sql(
        f"WITH c AS (SELECT * FROM {place.name} WHERE p = 'b') SELECT 9L AS id, 'z' AS p, m.top AS x "
        f"FROM c JOIN c d ON c.id = d.id CROSS JOIN (SELECT max(x) AS top FROM {place.name}) m"
    ).cache()
    assert rows.collect() == [(9, "z", 20)]
    try:
        rows.writeTo(place.name).append()
    finally:
        rows.unpersist()


DOORS: dict[str, Callable[[Place], object]] = {
    "insert from itself": sql("INSERT INTO {target} " + SUM, "name", "name"),
    "insert from path": sql("INSERT INTO {target} " + SUM, "name", "path"),
    "insert into path": sql("INSERT INTO {target} " + SUM, "path", "name"),
    "insert from link": sql("INSERT INTO {target} " + SUM, "name", "link"),
    "insert into link": sql("INSERT INTO {target} " + SUM, "link", "path"),
    "insert from second catalog": sql("INSERT INTO {target} " + SUM, "name", "second"),
    "insert into second catalog": sql("INSERT INTO {target} " + SUM, "second", "name"),
    "replace where": sql("INSERT INTO {target} REPLACE WHERE p = 'z' " + SUM, "name", "path"),
    "overwrite partition": sql(
        "INSERT OVERWRITE {target} PARTITION (p = 'z') SELECT 9L, sum(x) FROM {source} WHERE p = 'a'", "name", "path"
    ),
    "insertInto": lambda place: place.sums(place.spark.table(place.name)).write.insertInto(place.name),
    "insertInto dynamic": lambda place: (
        place.sums(place.spark.table(place.name)).write.options(**DYNAMIC).mode("overwrite").insertInto(place.name)
    ),
    "insertInto replaceWhere": lambda place: (
        place.sums(place.spark.table(place.name))
        .write.option("replaceWhere", "p = 'z'")
        .mode("overwrite")
        .insertInto(place.name)
    ),
    "insertInto from path": lambda place: place.sums(place.load()).write.insertInto(place.name),
    "saveAsTable": lambda place: (
        place.sums(place.spark.table(place.name)).write.format("delta").mode("append").saveAsTable(place.name)
    ),
    "writeTo from path": lambda place: place.sums(place.load()).writeTo(place.name).append(),
    "writeTo from link": lambda place: place.sums(place.load(place.link)).writeTo(place.name).append(),
    "writeTo overwritePartitions": lambda place: place.sums(place.load()).writeTo(place.name).overwritePartitions(),
    "save to path": lambda place: (
        place.sums(place.spark.table(place.name)).write.format("delta").mode("append").save(place.path)
    ),
    "save from path": lambda place: place.sums(place.load()).write.format("delta").mode("append").save(place.path),
    "python append": lambda place: place.table.append(place.sums(place.load())),
    "cached": cached,
    "cached count": cached_count,
    "cached twice": cached_twice,
    **{
        f"{verb} {target} from {source}": sql(text, target, source)
        for verb, text in {"update": UPDATE, "delete": DELETE, "merge": MERGE}.items()
        for target, source in [
            ("name", "name"),
            ("name", "path"),
            ("path", "name"),
            ("name", "link"),
            ("name", "second"),
        ]
    },
}


# One of every kind; `./run test-long` runs every door.
TELLING = (
    "insert from path",
    "insert into link",
    "insert into second catalog",
    "insertInto",
    "insertInto dynamic",
    "insertInto replaceWhere",
    "saveAsTable",
    "save to path",
    "cached count",
    "cached twice",
    "update name from path",
    "delete path from name",
    "merge name from link",
)


def doors(names: Iterable[str], telling: Sequence[str]) -> list[Any]:
    return [pytest.param(name, marks=[] if name in telling else [pytest.mark.slow]) for name in names]


@pytest.mark.parametrize("door", doors(DOORS, TELLING))
def test_what_was_read_has_changed(place: Place, door: str, monkeypatch: pytest.MonkeyPatch) -> None:
    other = place.spark.newSession()
    slip_in(monkeypatch, lambda: other.sql(f"INSERT INTO {place.name} VALUES (3, 'a', 30)"))
    with pytest.raises(lakemend.CommitConflictError):
        DOORS[door](place)
    assert place.rows() == [(1, "a", 10), (2, "b", 20), (3, "a", 30)]


# What is written tells the sum of all rows.
TOTALS: dict[str, Callable[[Place, DataFrame], object]] = {
    "dynamic": lambda place, rows: rows.write.options(**DYNAMIC).mode("overwrite").insertInto(place.name),
    "overwritePartitions": lambda place, rows: rows.writeTo(place.name).overwritePartitions(),
    "overwrite": lambda place, rows: rows.write.mode("overwrite").insertInto(place.name),
    "replaceWhere": lambda place, rows: place.table.replace_where(rows, "p = 'z'", retries=0),
    "replace_using": lambda place, rows: place.table.replace_using(rows, "id", retries=0),
    "replace_on": lambda place, rows: place.table.replace_on(rows, "t.id = s.id", retries=0),
    "append": lambda place, rows: rows.writeTo(place.name).append(),
}


@pytest.mark.parametrize(
    ("door", "mode"),
    [
        pytest.param(
            door, mode, marks=[] if (door, mode[0]) in (("dynamic", "m"), ("overwrite", "c")) else pytest.mark.slow
        )
        for door in TOTALS
        for mode in ("copy-on-write", "merge-on-read")
    ],
)
def test_what_was_read_is_gone(place: Place, door: str, mode: str, monkeypatch: pytest.MonkeyPatch) -> None:
    place.spark.sql(f"INSERT INTO {place.name} VALUES (4, 'a', 5)")
    place.spark.sql(f"ALTER TABLE {place.name} SET TBLPROPERTIES ('write.delete.mode' = '{mode}')")
    rows = place.spark.sql(f"SELECT 9L AS id, 'z' AS p, sum(x) AS x FROM {place.name}")
    other = place.spark.newSession()
    slip_in(monkeypatch, lambda: other.sql(f"DELETE FROM {place.name} WHERE x = 10"))
    with pytest.raises(lakemend.CommitConflictError):
        TOTALS[door](place, rows)
    assert place.rows() == [(2, "b", 20), (4, "a", 5)]


@pytest.mark.parametrize("mode", ["copy-on-write", pytest.param("merge-on-read", marks=pytest.mark.slow)])
@pytest.mark.parametrize("source", ["count(*) AS x", pytest.param("max(x) AS x", marks=pytest.mark.slow)])
def test_changes_of_the_table_itself_were_read_too(
    place: Place, source: str, mode: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    place.spark.sql(f"ALTER TABLE {place.name} SET TBLPROPERTIES ('write.merge.mode' = '{mode}')")
    other = place.spark.newSession()
    slip_in(monkeypatch, lambda: other.sql(f"INSERT INTO {place.name} VALUES (3, 'a', 30)"))
    with pytest.raises(lakemend.CommitConflictError):
        place.spark.sql(
            f"MERGE INTO {place.name} t USING (SELECT 9L AS id, 'z' AS p, {source} FROM {place.name} "
            "CHANGES FROM VERSION 1) s ON t.id = s.id AND t.p = s.p "
            "WHEN MATCHED THEN UPDATE SET x = s.x WHEN NOT MATCHED THEN INSERT *"
        )
    assert place.rows() == [(1, "a", 10), (2, "b", 20), (3, "a", 30)]


@pytest.mark.parametrize("verb", ["replace_using", "replace_on"])
@pytest.mark.parametrize("mode", ["copy-on-write", "merge-on-read"])
def test_rows_that_are_kept_apart_were_read_too(
    place: Place, verb: str, mode: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    place.spark.sql(f"ALTER TABLE {place.name} SET TBLPROPERTIES ('write.delete.mode' = '{mode}')")
    rows = place.spark.sql(f"SELECT 2L AS id, 'b' AS p, sum(x) AS x FROM {place.name} WHERE p = 'a'").limit(1)
    how = {"replace_using": "id", "replace_on": "t.id = s.id AND t.p = 'b'"}[verb]
    other = place.spark.newSession()
    slip_in(monkeypatch, lambda: other.sql(f"INSERT INTO {place.name} VALUES (3, 'a', 30)"))
    with pytest.raises(lakemend.CommitConflictError):
        getattr(place.table, verb)(rows, how, retries=0)
    assert place.rows() == [(1, "a", 10), (2, "b", 20), (3, "a", 30)]
    slip_in(monkeypatch, lambda: other.sql(f"INSERT INTO {place.name} VALUES (4, 'a', 40)"))
    report = getattr(place.table, verb)(rows, how)
    assert report.attempts == 2
    assert place.rows() == [(1, "a", 10), (2, "b", 80), (3, "a", 30), (4, "a", 40)]


def test_rows_that_are_kept_apart_may_be_older_than_the_table(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    """The table moves on between the two looks at it."""
    rows = place.spark.sql(f"SELECT 2L AS id, 'b' AS p, sum(x) AS x FROM {place.name} WHERE p = 'a'").limit(1)
    other, original = place.spark.newSession(), replace._statements

    class Slow:
        def steady(self, frame: object) -> object:
            kept = original(place.spark).steady(frame)
            other.sql(f"INSERT INTO {place.name} VALUES (3, 'a', 30)")
            return kept

        def using(self, *how: object) -> None:
            original(place.spark).using(*how)

        def release(self, kept: object) -> None:
            original(place.spark).release(kept)

    monkeypatch.setattr(replace, "_statements", lambda spark: Slow())
    with pytest.raises(lakemend.CommitConflictError) as caught:
        place.table.replace_using(rows, "id", retries=0)
    assert (caught.value.base_version, caught.value.version) == (1, 2)
    assert place.rows() == [(1, "a", 10), (2, "b", 20), (3, "a", 30)]


CACHED: dict[str, Callable[[Place, DataFrame], object]] = {
    "writeTo": lambda place, rows: rows.writeTo(place.name).append(),
    "insertInto": lambda place, rows: rows.write.insertInto(place.name),
    "saveAsTable": lambda place, rows: rows.write.format("delta").mode("append").saveAsTable(place.name),
    "writeTo path": lambda place, rows: rows.writeTo(f"delta.`{place.path}`").append(),
    "save": lambda place, rows: rows.write.format("delta").mode("append").save(place.path),
    "view": lambda place, rows: (
        rows.createOrReplaceTempView("cached_rows"),
        place.spark.sql(f"INSERT INTO {place.name} SELECT * FROM cached_rows"),
    ),
}


@pytest.mark.parametrize("door", doors(CACHED, ["writeTo", "insertInto"]))
@pytest.mark.parametrize("source", doors(["name", "path", "whole table", "whole path"], ["name", "whole path"]))
def test_cached_rows_are_of_the_version_they_were_read_at(place: Place, door: str, source: str) -> None:
    """Another process changes the table, of which no cache hears: the cached rows are read again, or refused."""
    frame = place.load() if "path" in source else place.spark.table(place.name)
    kept = (frame if "whole" in source else place.sums(frame)).cache()
    cached = place.sums(frame) if "whole" in source else kept
    assert kept.count() and cached.collect() == [(9, "z", 10)]
    deltalake.write_deltalake(place.path, pa.table({"id": [3], "p": ["a"], "x": [30]}), mode="append")
    try:
        CACHED[door](place, cached)
        assert place.rows() == [(1, "a", 10), (2, "b", 20), (3, "a", 30), (9, "z", 40)]
    except lakemend.CommitConflictError as error:
        assert (error.base_version, error.version) == (1, 2)
        assert "unpersist" in error.remedy
        kept.unpersist()
        assert place.rows() == [(1, "a", 10), (2, "b", 20), (3, "a", 30)]
    finally:
        kept.unpersist()


def test_cached_rows_that_still_hold_land(place: Place) -> None:
    cached = place.sums(place.spark.table(place.name)).cache()
    assert cached.collect() == [(9, "z", 10)]
    deltalake.write_deltalake(place.path, pa.table({"id": [3], "p": ["b"], "x": [30]}), mode="append")
    cached.writeTo(place.name).append()
    cached.unpersist()
    assert place.rows() == [(1, "a", 10), (2, "b", 20), (3, "b", 30), (9, "z", 10)]


@pytest.mark.parametrize("door", ["insert from path", "insertInto", "save to path", "update name from path"])
def test_what_was_not_read_may_change(place: Place, door: str, monkeypatch: pytest.MonkeyPatch) -> None:
    other = place.spark.newSession()
    slip_in(monkeypatch, lambda: other.sql(f"INSERT INTO {place.name} VALUES (3, 'c', 30)"))
    DOORS[door](place)
    assert len(place.rows()) == (3 if door.startswith("update") else 4)


def test_an_older_version_that_was_asked_for_does_not_change(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    other = place.spark.newSession()
    reads = [f"{place.name} VERSION AS OF 1", f"delta.`{place.path}` VERSION AS OF 1"]
    for n, source in enumerate(reads):
        slip_in(monkeypatch, lambda n=n: other.sql(f"INSERT INTO {place.name} VALUES ({n}, 'a', 30)"))  # type: ignore[misc]
        place.spark.sql(f"INSERT INTO {place.name} {SUM.format(source=source)}")
    slip_in(monkeypatch, lambda: other.sql(f"INSERT INTO {place.name} VALUES (7, 'a', 30)"))
    old = place.spark.read.format("delta").option("versionAsOf", 1).load(place.path)
    place.sums(old).writeTo(place.name).append()
    assert [x for _, p, x in place.rows() if p == "z"] == [10, 10, 10]


def test_a_copy_is_another_table(place: Place, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shutil.copytree(place.path, tmp_path / "copy")
    other = place.spark.newSession()
    other.sql(f"INSERT INTO {place.name} VALUES (3, 'a', 30)")
    slip_in(monkeypatch, lambda: other.sql(f"INSERT INTO {place.name} VALUES (4, 'a', 40)"))
    place.sums(place.load(str(tmp_path / "copy"))).writeTo(place.name).append()
    assert (9, "z", 10) in place.rows()


@pytest.mark.parametrize(("end", "lands"), [("", False), (" TO VERSION 1", True)])
def test_changes_of_itself_up_to_now_are_a_read(
    place: Place, end: str, lands: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = place.spark.newSession()
    slip_in(monkeypatch, lambda: other.sql(f"INSERT INTO {place.name} VALUES (3, 'a', 30)"))
    insert = f"INSERT INTO {place.name} SELECT 9L, 'z', sum(x) FROM {place.name} CHANGES FROM VERSION 0{end}"
    if lands:
        place.spark.sql(insert)
        assert len(place.rows()) == 4
    else:
        with pytest.raises(lakemend.CommitConflictError):
            place.spark.sql(insert)
