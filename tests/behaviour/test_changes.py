"""Row changes, read with CHANGES and spark.read.changes: with and without a change data feed, in both modes."""

from __future__ import annotations

import json
import os
import random
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import deltalake
import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

import lakemend
from lakemend import Table
from lakemend.brain import write
from lakemend.errors import (
    CommitConflictError,
    ConstraintViolationError,
    InvalidInputError,
    SchemaMismatchError,
    TableNotFoundError,
    UnsupportedFeatureError,
    VersionNotFoundError,
)

MODES = ("copy-on-write", "merge-on-read")
Make = Callable[..., Table]
Rows = list[tuple[Any, ...]]


@pytest.fixture(params=MODES)
def mode(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(params=[False, True], ids=["without", "feed"])
def feed(request: pytest.FixtureRequest) -> bool:
    return bool(request.param)


def properties(mode: str, feed: bool) -> dict[str, str]:
    modes = {f"write.{verb}.mode": mode for verb in ("update", "delete", "merge")}
    return modes | ({"delta.enableChangeDataFeed": "true"} if feed else {})


def created(spark: SparkSession, name: str, query: str, mode: str, feed: bool, partition_by: Any = ()) -> Table:
    table = lakemend.table(spark, name)
    table.append(spark.sql(query), partition_by=partition_by, properties=properties(mode, feed))
    return table


def read(spark: SparkSession, table: Table, start: int = 0, **options: Any) -> DataFrame:
    reader = spark.read.option("startingVersion", start)
    for key, value in options.items():
        reader = reader.option(key, value)
    return reader.changes(table.name)


def told(frame: DataFrame) -> dict[int, Rows]:
    """By version, (type, values …), sorted; times are checked where they matter."""
    found: dict[int, Rows] = {}
    for row in frame.collect():
        *values, kind, version, time = tuple(row)
        assert time is not None
        found.setdefault(version, []).append((kind, *values))
    return {version: sorted(rows, key=repr) for version, rows in sorted(found.items())}


def halves(rows: Rows) -> Rows:
    """Images of updates as what they are without a key: a row that went and one that came."""
    plain = {"update_preimage": "delete", "update_postimage": "insert"}
    return sorted(((plain.get(kind, kind), *values) for kind, *values in rows), key=repr)


ROWS = "SELECT CAST(col1 AS INT) AS id, col2 AS p, col3 AS v FROM VALUES " + ", ".join(
    f"({i}, '{'ab'[i % 2]}', 'v{i}')" for i in range(8)
)
STATEMENTS = (
    "UPDATE {t} SET v = 'new' WHERE id IN (1, 2)",
    "UPDATE {t} SET p = 'c' WHERE id = 3",
    "DELETE FROM {t} WHERE id = 4",
    """MERGE INTO {t} t USING (SELECT CAST(col1 AS INT) AS id, col2 AS v FROM VALUES (1, 'm'), (5, 'd'), (9, 'i')) s
       ON t.id = s.id WHEN MATCHED AND s.v = 'd' THEN DELETE WHEN MATCHED THEN UPDATE SET v = s.v
       WHEN NOT MATCHED THEN INSERT (id, p, v) VALUES (s.id, 'a', s.v)
       WHEN NOT MATCHED BY SOURCE AND t.id = 6 THEN UPDATE SET v = 'nobody'
       WHEN NOT MATCHED BY SOURCE AND t.id = 7 THEN DELETE""",
    "DELETE FROM {t} WHERE p = 'c'",
    "INSERT INTO {t} VALUES (10, NULL, NULL), (10, NULL, NULL)",
    "DELETE FROM {t} WHERE id = 10",
)
EXPECTED: dict[int, Rows] = {
    0: [("insert", i, "ab"[i % 2], f"v{i}") for i in range(8)],
    1: [
        *(("update_postimage", i, "ab"[i % 2], "new") for i in (1, 2)),
        *(("update_preimage", i, "ab"[i % 2], f"v{i}") for i in (1, 2)),
    ],
    2: [("update_postimage", 3, "c", "v3"), ("update_preimage", 3, "b", "v3")],
    3: [("delete", 4, "a", "v4")],
    4: [
        ("delete", 5, "b", "v5"),
        ("delete", 7, "b", "v7"),
        ("insert", 9, "a", "i"),
        ("update_postimage", 1, "b", "m"),
        ("update_postimage", 6, "a", "nobody"),
        ("update_preimage", 1, "b", "new"),
        ("update_preimage", 6, "a", "v6"),
    ],
    5: [("delete", 3, "c", "v3")],
    6: [("insert", 10, None, None), ("insert", 10, None, None)],
    7: [("delete", 10, None, None), ("delete", 10, None, None)],
}


@pytest.mark.sampled
@pytest.mark.parametrize("partition_by", [(), "p"], ids=["plain", "partitioned"])
def test_every_verb(spark: SparkSession, namespace: str, mode: str, feed: bool, partition_by: Any) -> None:
    table = created(spark, f"{namespace}.t", ROWS, mode, feed, partition_by)
    for statement in STATEMENTS:
        spark.sql(statement.format(t=table.name))
    assert table.version == len(STATEMENTS)
    with_key = told(read(spark, table, key="id"))
    assert with_key == EXPECTED
    without = told(read(spark, table))
    assert without == (EXPECTED if feed else {version: halves(rows) for version, rows in EXPECTED.items()})
    if feed:
        assert told(read(spark, table, computeUpdates="true")) == EXPECTED
        assert theirs(table) == EXPECTED
    # What is left of all of it: every row but those that came and went.
    left = told(read(spark, table, deduplicationMode="netChanges"))
    assert sorted(row[1:] for rows in left.values() for row in rows) == sorted(
        tuple(r) for r in table.to_df().collect()
    )
    assert {row[0] for rows in left.values() for row in rows} == {"insert"}


def location(table: Table) -> str:
    return str(table.detail()["location"]).removeprefix("file://")


def theirs(table: Table, start: int = 0) -> dict[int, Rows]:
    """The same by deltalake."""
    frame = pa.table(deltalake.DeltaTable(location(table)).load_cdf(starting_version=start)).to_pylist()
    found: dict[int, Rows] = {}
    names = table.to_df().columns
    for row in frame:
        found.setdefault(row["_commit_version"], []).append((row["_change_type"], *(row[name] for name in names)))
    return {version: sorted(rows, key=repr) for version, rows in sorted(found.items())}


def test_rows_that_stay_the_same_are_no_changes(spark: SparkSession, namespace: str, mode: str) -> None:
    """Without a feed nothing tells a copy from an update that changes nothing: neither is a change."""
    query = "SELECT id, 1 AS v FROM VALUES (1), (2), (2), (3) AS t(id)"
    table = created(spark, f"{namespace}.t", query, mode, feed=False)
    spark.sql(f"UPDATE {table.name} SET v = v WHERE id < 3")
    one_two_less = f"SELECT * FROM {table.name} WHERE id <> 2 UNION ALL SELECT 2, 1"
    spark.sql(f"INSERT OVERWRITE {table.name} {one_two_less} UNION ALL SELECT 4, 1")
    assert told(read(spark, table, 1)) == {2: [("delete", 2, 1), ("insert", 4, 1)]}
    # As they stand in the files, on request.
    raw = told(read(spark, table, 1, deduplicationMode="none"))
    assert Counter(kind for kind, *_ in raw[2]) == {"delete": 4, "insert": 4}


def test_with_a_feed_every_update_counts(spark: SparkSession, namespace: str, mode: str) -> None:
    table = created(spark, f"{namespace}.t", "SELECT 1 AS id, 1 AS v UNION ALL SELECT 2, 2", mode, feed=True)
    spark.sql(f"UPDATE {table.name} SET v = v WHERE id = 1")
    spark.sql(f"INSERT OVERWRITE {table.name} SELECT * FROM {table.name}")
    everything = [("delete", 1, 1), ("delete", 2, 2), ("insert", 1, 1), ("insert", 2, 2)]
    images = [("update_postimage", 1, 1), ("update_preimage", 1, 1)]
    assert told(read(spark, table, 1)) == {1: images, 2: everything} == theirs(table, 1)
    assert told(read(spark, table, 1, deduplicationMode="netChanges")) == {}


@pytest.mark.parametrize("vectors", ["true", "false"])
def test_rows_that_are_replaced(spark: SparkSession, namespace: str, mode: str, feed: bool, vectors: str) -> None:
    """Files wholly and partly inside of the predicate, and rows that are the same before and after."""
    if mode == "merge-on-read" and vectors == "false":
        pytest.skip("rows cannot be masked without deletion vectors")
    table = lakemend.table(spark, f"{namespace}.t")
    more = properties(mode, feed) | {"delta.enableDeletionVectors": vectors}
    for low in (0, 10, 20):
        table.append(spark.sql(f"SELECT id, id % 2 AS v FROM range({low}, {low + 4})"), properties=more)
    spark.sql(f"INSERT INTO {table.name} REPLACE WHERE id >= 12 SELECT 13L, 1 UNION ALL SELECT 50L, 5")
    table.replace_using(spark.sql("SELECT 1L AS id, 7 AS v"), ["id"])
    gone = [("delete", id, id % 2) for id in (12, 13, 20, 21, 22, 23)]
    expected = {
        3: sorted([*gone, ("insert", 13, 1), ("insert", 50, 5)], key=repr),
        4: [("delete", 1, 1), ("insert", 1, 7)],
    }
    if not feed:
        expected[3] = [row for row in expected[3] if row[1:] != (13, 1)]
    assert told(read(spark, table, 3)) == expected
    if feed and mode == "copy-on-write":
        assert theirs(table, 3) == expected
        assert all(masked == 0 for masked in table.files()["masked"].to_pylist())


def test_a_feed_turned_on_and_off(spark: SparkSession, namespace: str, mode: str) -> None:
    table = created(spark, f"{namespace}.t", "SELECT id, 1 AS v FROM range(4)", mode, feed=False)
    change = f"UPDATE {table.name} SET v = v + 1 WHERE id = 2"
    for on in ("true", "false"):
        spark.sql(change)
        spark.sql(f"ALTER TABLE {table.name} SET TBLPROPERTIES ('delta.enableChangeDataFeed' = '{on}')")
    spark.sql(change)
    assert told(read(spark, table, 1)) == {
        1: [("delete", 2, 1), ("insert", 2, 2)],
        3: [("update_postimage", 2, 3), ("update_preimage", 2, 2)],
        5: [("delete", 2, 3), ("insert", 2, 4)],
    }
    with pytest.raises(InvalidInputError, match="version 1 deleted and inserted"):
        read(spark, table, 1, computeUpdates="true")
    assert len(told(read(spark, table, 1, computeUpdates="true", key="id"))) == 3
    spark.sql(f"ALTER TABLE {table.name} SET TBLPROPERTIES ('lakemend.changes.key' = 'ID')")
    assert {row[0] for rows in told(read(spark, table, 1)).values() for row in rows} == {
        "update_preimage",
        "update_postimage",
    }


def test_keys_that_are_not_unique_pair_nothing(spark: SparkSession, namespace: str, mode: str) -> None:
    query = "SELECT col1 AS a, col2 AS b, col3 AS v FROM VALUES (1, 1, 1), (1, 1, 2), (2, NULL, 3), (3, 3, 4)"
    table = created(spark, f"{namespace}.t", query, mode, feed=False)
    spark.sql(f"UPDATE {table.name} SET v = v + 10")
    assert told(read(spark, table, 1, key="a, b")) == {
        1: [
            ("delete", 1, 1, 1),
            ("delete", 1, 1, 2),
            ("delete", 2, None, 3),
            ("insert", 1, 1, 11),
            ("insert", 1, 1, 12),
            ("insert", 2, None, 13),
            ("update_postimage", 3, 3, 14),
            ("update_preimage", 3, 3, 4),
        ]
    }


def rich(low: int, high: int) -> str:
    """Rows of every kind of value: nulls, NaN and -0.0, nested ones, and some that cannot be compared in SQL."""
    return f"""SELECT CAST(id AS INT) AS id, IF(id % 3 = 0, NULL, concat('p ', id % 3)) AS p, concat('s', id) AS s,
    IF(id % 4 = 0, CAST('NaN' AS DOUBLE), IF(id % 4 = 1, -0.0D, id / 3)) AS d, map('k', id, 'l', NULL) AS m,
    named_struct('a', id, 'b', array(named_struct('c', concat('c', id)))) AS n, CAST(id / 7 AS DECIMAL(20, 4)) AS x,
    IF(id % 5 = 0, NULL, TIMESTAMP'2024-01-01 00:00:00' + make_interval(0, 0, 0, 0, 0, 0, id)) AS t,
    parse_json(concat('{{"a": ', id, '}}')) AS j FROM range({low}, {high})"""


RANDOM = (
    "UPDATE {t} SET s = concat(s, '!'), n.a = n.a + 1 WHERE id % {n} = {r}",
    "UPDATE {t} SET p = IF(p IS NULL, 'p 1', NULL) WHERE id % {n} = {r}",
    "UPDATE {t} SET d = 0.0D, m = map('k', id + {r}) WHERE id % {n} = {r}",
    "DELETE FROM {t} WHERE id % {n} = {r}",
    """MERGE INTO {t} t USING ({rich}) s ON t.id = s.id WHEN MATCHED AND s.id % 2 = {r} THEN DELETE
       WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *""",
    "INSERT INTO {t} {rich}",
    "DELETE FROM {t} WHERE p = 'p 2'",
    "INSERT INTO {t} REPLACE WHERE p = 'p 1' SELECT * FROM ({rich}) WHERE p = 'p 1'",
)


@pytest.mark.sampled
@pytest.mark.parametrize("seed", [1, 2])
def test_changes_lead_from_each_version_to_the_next(
    spark: SparkSession, namespace: str, mode: str, feed: bool, seed: int
) -> None:
    chance = random.Random(seed)
    table = created(spark, f"{namespace}.t", rich(0, 20), mode, feed, "p" if seed == 1 else ())
    for _ in range(7):
        low = chance.randrange(15)
        source = rich(low, low + chance.randrange(1, 12))
        n = chance.randrange(2, 5)
        spark.sql(chance.choice(RANDOM).format(t=table.name, rich=source, n=n, r=chance.randrange(2)))
    columns = [c if c != "j" else "to_json(j) AS j" for c in table.to_df().columns]

    def content(version: int) -> Counter[str]:
        rows = spark.read.option("versionAsOf", version).table(table.name).selectExpr(*columns)
        return Counter(repr(tuple(row)) for row in rows.collect())

    contents = [content(version) for version in range(table.version + 1)]
    for key in ({}, {"key": "id"}):
        by_version: dict[int, list[tuple[str, str]]] = {}
        frame = read(spark, table, 1, **key).selectExpr(*columns, "_change_type", "_commit_version")
        for row in frame.collect():
            *values, kind, version = tuple(row)
            by_version.setdefault(version, []).append((kind, repr(tuple(values))))
        for version in range(1, table.version + 1):
            state = contents[version - 1].copy()
            for kind, row in by_version.get(version, []):
                state[row] += 1 if kind in ("insert", "update_postimage") else -1
            assert +state == contents[version] and min(state.values(), default=0) >= 0, version
        if not feed and not key:
            # Nothing is listed that did not change.
            for changes in by_version.values():
                assert not {r for k, r in changes if k == "insert"} & {r for k, r in changes if k == "delete"}
    net = contents[0].copy()
    frame = read(spark, table, 1, deduplicationMode="netChanges").selectExpr(*columns, "_change_type")
    for row in frame.collect():
        *values, kind = tuple(row)
        net[repr(tuple(values))] += 1 if kind == "insert" else -1
    assert +net == contents[-1]


# ---- which versions


@pytest.fixture
def numbers(spark: SparkSession, namespace: str) -> Table:
    table = created(spark, f"{namespace}.numbers", "SELECT 0 AS id", "merge-on-read", feed=False)
    for n in range(1, 4):
        spark.sql(f"INSERT INTO {table.name} VALUES ({n})")
    return table


@pytest.mark.parametrize(
    ("clause", "expected"),
    [
        ("FROM VERSION 1", [1, 2, 3]),
        ("FROM VERSION 1 TO VERSION 2", [1, 2]),
        ("FROM VERSION 1 EXCLUSIVE TO VERSION 3 INCLUSIVE", [2, 3]),
        ("FROM VERSION 1 INCLUSIVE TO VERSION 3 EXCLUSIVE", [1, 2]),
        ("FROM VERSION 3 EXCLUSIVE", []),
        ("FROM VERSION 2 TO VERSION 2", [2]),
        ("FROM TIMESTAMP '2020-01-01' TO TIMESTAMP '2020-01-02'", []),
        ("FROM TIMESTAMP '2020-01-01'", [0, 1, 2, 3]),
        ("FROM TIMESTAMP '2200-01-01'", []),
    ],
)
def test_ranges(spark: SparkSession, numbers: Table, clause: str, expected: list[int]) -> None:
    frame = spark.sql(f"SELECT id, _commit_version FROM {numbers.name} CHANGES {clause}")
    assert sorted(tuple(row) for row in frame.collect()) == [(n, n) for n in expected]


def test_times(spark: SparkSession, numbers: Table) -> None:
    for version in range(4):
        path = os.path.join(location(numbers), "_delta_log", f"{version:020d}.json")
        os.utime(path, (1_700_000_000 + 60 * version,) * 2)
    spark.sql(f"INSERT INTO {numbers.name} VALUES (4)")
    rows = spark.sql(
        f"SELECT id, _commit_timestamp FROM {numbers.name} CHANGES FROM TIMESTAMP '2023-11-14 22:14:20' EXCLUSIVE "
        "TO TIMESTAMP '2023-11-14 22:16:20' ORDER BY id"
    ).collect()
    assert [(r.id, str(r._commit_timestamp)) for r in rows] == [(2, "2023-11-14 22:15:20"), (3, "2023-11-14 22:16:20")]
    reader = spark.read.option("startingTimestamp", "2023-11-14 22:14:20").option("endingBoundInclusive", "false")
    found = reader.option("endingTimestamp", "2023-11-14 22:16:20").changes(numbers.name)
    assert sorted(row.id for row in found.collect()) == [1, 2]
    # No bounds at all: everything.
    assert spark.read.changes(numbers.name).count() == 5


def test_a_query_can_do_with_changes_what_it_does_with_rows(spark: SparkSession, namespace: str, mode: str) -> None:
    table = created(spark, f"{namespace}.t", ROWS, mode, False, "p")
    spark.sql(f"UPDATE {table.name} SET v = 'x' WHERE id < 4")
    frame = read(spark, table)
    assert frame.count() == 16
    assert frame.where("_commit_version = 1 AND p = 'a' AND _change_type = 'insert'").select("id").orderBy(
        "id"
    ).collect() == [(0,), (2,)]
    one, other = frame.alias("one"), frame.alias("other")
    pairs = one.join(other, "id").where("one._change_type = 'delete' AND other.v = 'x'")
    assert sorted(row.id for row in pairs.select("id").collect()) == [0, 1, 2, 3]
    assert frame.groupBy("_change_type").count().orderBy("_change_type").collect() == [("delete", 4), ("insert", 12)]
    frame.createOrReplaceTempView("seen")
    spark.sql(f"DELETE FROM {table.name}")
    assert spark.sql("SELECT count(*) FROM seen").first() == (16,)
    spark.sql(f"INSERT INTO {table.name} SELECT id, p, v FROM {table.name} CHANGES FROM VERSION 0 TO VERSION 0")
    assert table.to_df().count() == 8
    spark.catalog.dropTempView("seen")
    files = read(spark, table).where("_commit_version = 3")._jdf.queryExecution().toString()
    assert "2 of" in files


# ---- columns


@pytest.mark.sampled
@pytest.mark.parametrize("mapping", ["name", "id"])
def test_columns_with_other_names_in_files(
    spark: SparkSession, namespace: str, mode: str, feed: bool, mapping: str
) -> None:
    name = f"{namespace}.t"
    listed = ", ".join(f"'{k}' = '{v}'" for k, v in properties(mode, feed).items())
    spark.sql(
        f"CREATE TABLE {name} (id INT, `a b` STRING, p INT) PARTITIONED BY (p) "
        f"TBLPROPERTIES ('delta.columnMapping.mode' = '{mapping}', {listed})"
    )
    table = lakemend.table(spark, name)
    spark.sql(f"INSERT INTO {name} VALUES (1, 'x', 1), (2, 'y', 1)")
    spark.sql(f"UPDATE {name} SET `a b` = 'z' WHERE id = 1")
    spark.sql(f"ALTER TABLE {name} RENAME COLUMN `a b` TO c")
    spark.sql(f"ALTER TABLE {name} RENAME COLUMN p TO q")
    spark.sql(f"ALTER TABLE {name} ADD COLUMN n INT")
    spark.sql(f"UPDATE {name} SET q = 2, n = 7 WHERE id = 2")
    frame = read(spark, table, key="id")
    assert frame.columns == ["id", "c", "q", "n", "_change_type", "_commit_version", "_commit_timestamp"]
    assert told(frame) == {
        1: [("insert", 1, "x", 1, None), ("insert", 2, "y", 1, None)],
        2: [("update_postimage", 1, "z", 1, None), ("update_preimage", 1, "x", 1, None)],
        6: [("update_postimage", 2, "y", 2, 7), ("update_preimage", 2, "y", 1, None)],
    }
    spark.sql(f"ALTER TABLE {name} DROP COLUMN c")
    with pytest.raises(SchemaMismatchError, match="with version 7 column c was dropped") as raised:
        read(spark, table)
    assert raised.value.version == 7
    assert told(spark.read.option("startingVersion", 7).changes(name)) == {}
    ended = spark.read.option("startingVersion", 6).option("endingVersion", 6).option("key", "id").changes(name)
    assert len(told(ended)[6]) == 2


def test_a_merge_that_brings_columns(spark: SparkSession, namespace: str, mode: str, feed: bool) -> None:
    table = created(spark, f"{namespace}.t", "SELECT id, 1 AS v FROM range(3)", mode, feed)
    spark.sql(
        f"MERGE WITH SCHEMA EVOLUTION INTO {table.name} t USING (SELECT id, 2 AS v, 'n' AS more FROM range(2, 4)) s "
        "ON t.id = s.id WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *"
    )
    assert told(read(spark, table, 1, key="id")) == {
        1: [("insert", 3, 2, "n"), ("update_postimage", 2, 2, "n"), ("update_preimage", 2, 1, None)]
    }


def test_columns_that_get_wider(spark: SparkSession, namespace: str, feed: bool) -> None:
    table = created(spark, f"{namespace}.t", "SELECT 1 AS id, 1 AS v", "merge-on-read", feed)
    spark.sql(f"ALTER TABLE {table.name} ALTER COLUMN v TYPE BIGINT")
    spark.sql(f"UPDATE {table.name} SET v = 9000000000")
    frame = read(spark, table, key="id")
    assert dict(frame.dtypes)["v"] == "bigint"
    assert told(frame) == {
        0: [("insert", 1, 1)],
        2: [("update_postimage", 1, 9_000_000_000), ("update_preimage", 1, 1)],
    }


@pytest.mark.parametrize("name", ["_before", "_change_type"])
def test_names_a_feed_needs(spark: SparkSession, namespace: str, name: str) -> None:
    on = "TBLPROPERTIES ('delta.enableChangeDataFeed' = 'true')"
    if name == "_change_type":
        with pytest.raises(InvalidInputError, match="cannot have a column _change_type"):
            spark.sql(f"CREATE TABLE {namespace}.t (id INT, {name} STRING) {on}")
        spark.sql(f"CREATE TABLE {namespace}.t (id INT, {name} STRING)")
        with pytest.raises(InvalidInputError, match="cannot be read"):
            spark.sql(f"SELECT * FROM {namespace}.t CHANGES FROM VERSION 0")
        return
    spark.sql(f"CREATE TABLE {namespace}.t (id INT, {name} STRING) {on}")
    spark.sql(f"INSERT INTO {namespace}.t VALUES (1, 'own')")
    assert spark.sql(f"SELECT {name} FROM {namespace}.t").first() == ("own",)
    with pytest.raises(InvalidInputError, match="rename the column _before"):
        spark.sql(f"UPDATE {namespace}.t SET id = 2")


# ---- what cannot be told


def test_versions_that_are_not_there(spark: SparkSession, numbers: Table) -> None:
    for clause in ("FROM VERSION 4", "FROM VERSION 0 TO VERSION 9"):
        with pytest.raises(VersionNotFoundError, match="0 to 3"):
            spark.sql(f"SELECT * FROM {numbers.name} CHANGES {clause}")
    with pytest.raises(InvalidInputError, match="make no span"):
        spark.sql(f"SELECT * FROM {numbers.name} CHANGES FROM VERSION 2 TO VERSION 1")
    with pytest.raises(TableNotFoundError, match="numbers_other"):
        spark.sql(f"SELECT * FROM {numbers.name}_other CHANGES FROM VERSION 0")


def test_files_that_were_vacuumed(spark: SparkSession, namespace: str, mode: str) -> None:
    table = created(spark, f"{namespace}.t", "SELECT id FROM range(4)", mode, feed=False)
    spark.sql(f"INSERT OVERWRITE {table.name} SELECT 9")
    kept = {os.path.basename(path) for path in table.files()["path"].to_pylist()}
    for path in Path(location(table)).glob("*.parquet"):
        if path.name not in kept:
            path.unlink()
    with pytest.raises(VersionNotFoundError, match="a file that holds them is gone.*start at a later version"):
        read(spark, table, 0).collect()
    assert table.to_df().count() == 1


def test_a_log_that_was_cleaned_up(spark: SparkSession, namespace: str) -> None:
    table = created(spark, f"{namespace}.t", "SELECT 0 AS id", "merge-on-read", feed=False)
    spark.sql(f"ALTER TABLE {table.name} SET TBLPROPERTIES ('delta.checkpointInterval' = '2')")
    for n in range(2, 5):
        spark.sql(f"INSERT INTO {table.name} VALUES ({n})")
    for version in range(2):
        os.unlink(os.path.join(location(table), "_delta_log", f"{version:020d}.json"))
    spark.sql(f"INSERT INTO {table.name} VALUES (5)")
    with pytest.raises(VersionNotFoundError, match="cleaned up.*2 to 5"):
        read(spark, table, 1)
    assert told(read(spark, table, 2)) == {n: [("insert", n)] for n in range(2, 6)}


def test_streams_are_refused(spark: SparkSession, numbers: Table, tmp_path: Path) -> None:
    stream = spark.readStream.option("startingVersion", 0).changes(numbers.name)
    with pytest.raises(UnsupportedFeatureError, match="as a stream"):
        stream.writeStream.format("noop").option("checkpointLocation", str(tmp_path)).start().processAllAvailable()


# ---- other doors, other writers


def test_the_usual_option_of_delta(spark: SparkSession, namespace: str, mode: str) -> None:
    table = created(spark, f"{namespace}.t", "SELECT id, 1 AS v FROM range(3)", mode, feed=True)
    spark.sql(f"UPDATE {table.name} SET v = 2 WHERE id = 1")
    for format in ("delta", "lakemend"):
        reader = spark.read.format(format).option("readChangeFeed", "true")
        frame = reader.option("startingVersion", 1).load(location(table))
        assert told(frame) == {1: [("update_postimage", 1, 2), ("update_preimage", 1, 1)]}
        assert told(reader.option("startingVersion", 0).option("endingVersion", 0).load(location(table))).keys() == {0}
        since = spark.read.format(format).option("readChangeFeed", "true").option("startingTimestamp", "2020-01-01")
        assert since.load(location(table)).count() == 5
        with pytest.raises(InvalidInputError, match="set startingVersion"):
            spark.read.format(format).option("readChangeFeed", "true").load(location(table))
    with pytest.raises(InvalidInputError, match=r"spark\.read.*changes"):
        spark.read.option("readChangeFeed", "true").option("startingVersion", 0).table(table.name).collect()
    by_path = spark.sql(f"SELECT * FROM lake.delta.`{location(table)}` CHANGES FROM VERSION 1")
    assert by_path.count() == 2


def test_files_that_do_not_say_how_many_rows_they_have(spark: SparkSession, location_of: str) -> None:
    rows = pa.table({"id": [1, 2, 3], "v": [1, 1, 1]})
    turned = {"delta.enableChangeDataFeed": "true", "delta.enableDeletionVectors": "false"}
    deltalake.write_deltalake(location_of, rows, configuration=turned)
    log = Path(location_of, "_delta_log", f"{0:020d}.json")
    actions = [json.loads(line) for line in log.read_text().splitlines()]
    for action in actions:
        action.get("add", {}).pop("stats", None)
    log.write_text("".join(json.dumps(action) + "\n" for action in actions))
    table = lakemend.table(spark, location_of)
    table.update(set={"v": "2"}, where="id = 2")
    frame = spark.read.option("startingVersion", 1).changes(f"lake.delta.`{location_of}`")
    assert told(frame) == {1: [("update_postimage", 2, 2), ("update_preimage", 2, 1)]} == theirs(table, 1)
    assert table.to_df().count() == 3


def test_changes_made_by_deltalake(spark: SparkSession, location_of: str) -> None:
    rows = pa.table({"id": [1, 2, 3], "v": ["a", "b", "c"]})
    deltalake.write_deltalake(location_of, rows, configuration={"delta.enableChangeDataFeed": "true"})
    table = deltalake.DeltaTable(location_of)
    table.update(predicate="id = 1", updates={"v": "'x'"})
    table.delete("id = 2")
    source = pa.table({"id": [3, 4], "v": ["m", "n"]})
    merge = table.merge(source, "t.id = s.id", source_alias="s", target_alias="t")
    merge.when_matched_update_all().when_not_matched_insert_all().execute()
    deltalake.write_deltalake(location_of, pa.table({"id": [9], "v": ["o"]}), mode="overwrite")
    ours = lakemend.table(spark, location_of)
    frame = spark.read.option("startingVersion", 0).changes(f"lake.delta.`{location_of}`")
    assert told(frame) == theirs(ours)
    assert {row[0] for row in told(frame)[1]} == {"update_preimage", "update_postimage"}


@pytest.fixture
def location_of(tmp_path: Path) -> str:
    return str(tmp_path / "theirs")


def test_compaction_changes_no_row(spark: SparkSession, location_of: str) -> None:
    for n in range(3):
        deltalake.write_deltalake(location_of, pa.table({"id": [n]}), mode="append")
    table = deltalake.DeltaTable(location_of)
    assert table.optimize.compact()["numFilesRemoved"] == 3
    table.delete("id = 1")
    name = f"lake.delta.`{location_of}`"
    frame = spark.read.option("startingVersion", 0).changes(name)
    assert told(frame) == {0: [("insert", 0)], 1: [("insert", 1)], 2: [("insert", 2)], 4: [("delete", 1)]}


# ---- what a statement leaves behind


def records(table: Table) -> list[Path]:
    return sorted(Path(location(table), "_change_data").rglob("*.parquet"))


def test_a_statement_that_fails_leaves_no_records(
    spark: SparkSession, namespace: str, mode: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = created(spark, f"{namespace}.t", ROWS, mode, True, "p")
    spark.sql(f"ALTER TABLE {table.name} ADD CONSTRAINT short CHECK (length(v) < 5)")
    before = sorted(p for p in Path(location(table)).rglob("*.parquet"))
    with pytest.raises(ConstraintViolationError):
        spark.sql(f"UPDATE {table.name} SET v = IF(id = 7, 'far too long', 'x')")

    def conflict(*_: Any, **__: Any) -> None:
        raise CommitConflictError("somebody was faster")

    monkeypatch.setattr(write, "make_version", conflict)
    with pytest.raises(CommitConflictError):
        spark.sql(f"DELETE FROM {table.name} WHERE id < 4")
    monkeypatch.undo()
    assert sorted(p for p in Path(location(table)).rglob("*.parquet")) == before
    spark.sql(f"DELETE FROM {table.name} WHERE id = 100")
    assert records(table) == []
    spark.sql(f"DELETE FROM {table.name} WHERE p = 'a'")
    assert records(table) == [], "a deletion of whole files is told by the log"
    spark.sql(f"DELETE FROM {table.name} WHERE id = 1")
    assert len(records(table)) == 1


def test_files_that_become_mostly_dead(spark: SparkSession, namespace: str, feed: bool) -> None:
    """They are written again in the same version, which changes none of their other rows."""
    table = created(spark, f"{namespace}.t", "SELECT id, 0 AS v FROM range(0, 10, 1, 1)", "merge-on-read", feed)
    spark.sql(f"ALTER TABLE {table.name} SET TBLPROPERTIES ('write.mask.max-dead-share' = '0.5')")
    assert table.update(set={"v": "1"}, where="id < 8").files_masked == 0
    assert {row[1] for row in told(read(spark, table, 2))[2]} == set(range(8))
    spark.sql(f"INSERT INTO {table.name} REPLACE WHERE id >= 2 SELECT 9L, 9")
    changed = told(read(spark, table, 3))[3]
    assert sorted(row[1] for row in changed if row[0] == "delete") == list(range(2, 10))
    assert [row for row in changed if row[0] == "insert"] == [("insert", 9, 9)]


def test_a_row_deleted_twice_is_told_once(spark: SparkSession, namespace: str, mode: str) -> None:
    table = created(spark, f"{namespace}.t", "SELECT id FROM range(6)", mode, feed=True)
    spark.sql(
        f"MERGE INTO {table.name} t USING (SELECT explode(array(1, 1, 1, 2)) AS id) s ON t.id = s.id "
        "WHEN MATCHED THEN DELETE"
    )
    assert told(read(spark, table, 1)) == {1: [("delete", 1), ("delete", 2)]}


def test_large_statements_write_several_records(spark: SparkSession, namespace: str, mode: str) -> None:
    name = f"{namespace}.t"
    table = lakemend.table(spark, name)
    rows = spark.range(0, 20_000, 1, 4).selectExpr("id", "id % 7 AS p", "CAST(id AS STRING) AS s")
    table.append(rows, properties=properties(mode, True), partition_by="p")
    report = table.update(set={"p": "p + 1", "s": "concat(s, s)"}, where="id % 3 = 0")
    changes = read(spark, table, 1)
    found = (
        changes.selectExpr("_change_type AS kind", "p").groupBy("kind").agg(F.count("*"), F.sum("p")).orderBy("kind")
    )
    thirds = [i for i in range(20_000) if i % 3 == 0]
    total = sum(i % 7 for i in thirds)
    assert report.updated == len(thirds)
    assert found.collect() == [
        ("update_postimage", len(thirds), total + len(thirds)),
        ("update_preimage", len(thirds), total),
    ]
    assert len(records(table)) >= 8


def test_rows_of_versions_that_allowed_null(spark: SparkSession, namespace: str, mode: str) -> None:
    name = f"{namespace}.t"
    kept = "TBLPROPERTIES ('delta.enableChangeDataFeed' = 'true', 'write.update.mode' = '" + mode + "')"
    spark.sql(f"CREATE TABLE {name} (id INT, s STRUCT<a: INT, b: INT>, l ARRAY<STRUCT<c: INT>>) {kept}")
    spark.sql(f"INSERT INTO {name} VALUES (NULL, struct(NULL, 1), array(struct(NULL)))")
    spark.sql(f"UPDATE {name} SET s.b = 2")
    strict = "id INT NOT NULL, s STRUCT<a: INT NOT NULL, b: INT> NOT NULL, l ARRAY<STRUCT<c: INT NOT NULL>>"
    spark.sql(f"CREATE OR REPLACE TABLE {name} ({strict}) {kept}")
    spark.sql(f"INSERT INTO {name} VALUES (1, struct(1, 1), array(struct(1)))")
    changes = spark.sql(f"SELECT * FROM {name} CHANGES FROM VERSION 0")
    assert "false" not in changes.schema.json()
    assert changes.where("id IS NULL").count() == changes.where("s.a IS NULL").count() == 4
    # A shuffle writes what the schema says can be NULL, and nothing else.
    shown = changes.repartition(3).orderBy("_commit_version").select("id", "s.a", F.col("l")[0]["c"], "s").collect()
    assert [row[:3] for row in shown] == [(None, None, None)] * 4 + [(1, 1, 1)]
    assert [row[3]["a"] for row in shown] == [None] * 4 + [1]
