"""How a MERGE is planned: what is shuffled, which files are read, how often the source is evaluated."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from pyspark.sql import DataFrame, SparkSession

import lakemend
from lakemend import AmbiguousMergeError, Table
from tests.copies import copied
from tests.settings import kept_rows, settings
from tests.slip_in import slip_in

UPSERT = "WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *"
FILES = 6
ROWS = 60  # ten a file, by id


@pytest.fixture(params=["copy-on-write", "merge-on-read"])
def table(request: pytest.FixtureRequest, spark: SparkSession, namespace: str) -> Table:
    """Ids 0 to 59, ten in each of six files."""

    def make(path: str) -> None:
        table = lakemend.table(spark, path)
        for i in range(FILES):
            rows = spark.range(i * 10, i * 10 + 10, numPartitions=1).selectExpr("id", "id % 3 AS p", "'old' AS s")
            table.append(rows, properties={"write.merge.mode": request.param} if i == 0 else None)

    return copied(spark, (__name__, request.param), f"{namespace}.t", make)


@pytest.fixture
def source(spark: SparkSession) -> Callable[..., DataFrame]:
    def make(query: str = "SELECT id, 7L AS p, 'new' AS s FROM range(25, 32)") -> DataFrame:
        frame = spark.sql(query)
        frame.createOrReplaceTempView("source")
        return frame

    return make


def merge(table: Table, clauses: str = UPSERT, on: str = "t.id = s.id") -> str:
    return f"MERGE INTO {table.name} t USING source s ON {on} {clauses}"


def explained(spark: SparkSession, statement: str) -> str:
    return str(spark.sql(f"EXPLAIN {statement}").first()[0])


@pytest.mark.parametrize("clauses", [UPSERT, "WHEN NOT MATCHED THEN INSERT *"])
def test_a_small_source_leaves_the_target_where_it_is(
    table: Table, spark: SparkSession, source: Callable, clauses: str
) -> None:
    source()
    plan = explained(spark, merge(table, clauses))
    assert "FullOuter" not in plan
    assert "BroadcastHashJoin" in plan
    target = [line for line in plan.splitlines() if "BatchScan" in line]
    assert target and all("dynamicpruning" in line for line in target)
    assert _joins_above_the_scans(plan) == {"BroadcastHashJoin"}


def _joins_above_the_scans(plan: str) -> set[str]:
    """The first join that rows of the target come to; no exchange is between."""
    found, above = set(), []
    for line in plan.splitlines():
        depth = len(line) - len(line.lstrip(" :+-"))
        above = [(d, text) for d, text in above if d < depth]
        if "BatchScan" in line:
            found.add(next(text for _, text in reversed(above) if "Join" in text or "Exchange" in text))
        above.append((depth, line.lstrip(" :+-*()0123456789").split(" ")[0]))
    return found


def upserted_once(spark: SparkSession, name: str, **conf: str) -> str:
    with settings(spark, conf):
        return explained(spark, f"MERGE INTO {name} t USING source s ON t.id = s.id {UPSERT}")


def test_an_upsert_reads_the_table_once(spark: SparkSession, namespace: str, source: Callable) -> None:
    """Where rows are masked, those that match go to the source's rows; a partitioned table's stay in their order."""
    source()
    mode = "TBLPROPERTIES ('write.merge.mode' = 'merge-on-read')"
    for name, kind in (("whole", ""), ("parts", "PARTITIONED BY (p)")):
        spark.sql(f"CREATE TABLE {namespace}.{name} (id BIGINT, p BIGINT, s STRING) {kind} {mode}")
        spark.sql(f"INSERT INTO {namespace}.{name} SELECT id, id % 3, 'old' FROM range(60)")
    adaptive = "spark.sql.adaptive.enabled"
    once = upserted_once(spark, f"{namespace}.whole", **{adaptive: "true"})
    assert once.count("BatchScan") == 1 and "LeftSemi" in once and "RightOuter" in once
    for name, conf in (("parts", "true"), ("whole", "false")):
        staying = upserted_once(spark, f"{namespace}.{name}", **{adaptive: conf})
        assert "RightOuter" not in staying and "hashpartitioning" not in staying


def test_other_bounds_compile_nothing_again(table: Table, spark: SparkSession, source: Callable) -> None:
    compiled = spark._jvm.org.apache.spark.metrics.source.CodegenMetrics.METRIC_COMPILATION_TIME()
    counts = []
    for start in (0, 10, 20):  # ten rows of a file each
        source(f"SELECT id, 7L AS p, 'new' AS s FROM range({start}, {start + 10})")
        spark.sql("SELECT * FROM source").localCheckpoint().createOrReplaceTempView("source")
        before = compiled.getCount()
        spark.sql(merge(table, on=f"t.id = s.id AND t.id BETWEEN {start}L AND {start + 9}L"))
        counts.append(compiled.getCount() - before)
    assert counts[-1] == 0
    assert table.to_df().where("s = 'new'").count() == 30


@pytest.mark.parametrize("table", ["merge-on-read"], indirect=True)
def test_files_that_spark_reads_are_told_the_numbers(
    table: Table, spark: SparkSession, source: Callable, location: str
) -> None:
    spark.range(100).selectExpr("id", "id AS p", "'new' AS s").write.parquet(location)
    source(f"SELECT * FROM parquet.`{location}` WHERE id > 41 AND p < 73")
    with settings(spark, {"spark.lakemend.merge.broadcastThreshold": "1b"}):
        plan = explained(spark, merge(table, "WHEN MATCHED THEN UPDATE SET *"))
    assert "GreaterThan(id,41)" in plan and "LessThan(p,73)" in plan


def test_a_large_source_is_joined_as_spark_does_it(table: Table, spark: SparkSession, source: Callable) -> None:
    source()
    spark.conf.set("spark.lakemend.merge.broadcastThreshold", "1b")
    try:
        plan = explained(spark, merge(table))
        assert "RightOuter" in plan or "FullOuter" in plan
        spark.sql(merge(table))
    finally:
        spark.conf.unset("spark.lakemend.merge.broadcastThreshold")
    assert table.to_df().where("s = 'new'").count() == 7


@pytest.mark.sampled
@pytest.mark.parametrize(
    ("clauses", "on", "expected"),
    [
        (UPSERT, "t.id = s.id", {"new": 12, "old": 50}),
        ("WHEN MATCHED THEN DELETE", "t.id = s.id", {"old": 50}),
        ("WHEN NOT MATCHED THEN INSERT *", "t.id = s.id", {"new": 2, "old": 60}),
        ("WHEN MATCHED AND s.id < 55 THEN UPDATE SET s = 'some'", "t.id = s.id", {"some": 5, "old": 55}),
        (UPSERT + " WHEN NOT MATCHED BY SOURCE AND t.id < 5 THEN DELETE", "t.id = s.id", {"new": 12, "old": 45}),
        (
            "WHEN MATCHED THEN DELETE WHEN NOT MATCHED BY SOURCE THEN UPDATE SET s = 'alone'",
            "t.id = s.id",
            {"alone": 50},
        ),
        (UPSERT, "t.id = s.id AND t.p = 1", {"new": 12, "old": 57}),
        (UPSERT, "t.id <=> s.id", {"new": 12, "old": 50}),
        (UPSERT, "t.id BETWEEN s.id AND s.id", {"new": 12, "old": 50}),
    ],
)
@pytest.mark.parametrize("adaptive", ["true", "false"])
def test_every_shape_gives_what_it_should(
    table: Table, spark: SparkSession, source: Callable, clauses: str, on: str, expected: dict, adaptive: str
) -> None:
    source("SELECT id, 7L AS p, 'new' AS s FROM range(50, 62)")
    spark.conf.set("spark.sql.adaptive.enabled", adaptive)
    try:
        spark.sql(merge(table, clauses, on))
    finally:
        spark.conf.unset("spark.sql.adaptive.enabled")
    assert dict(table.to_df().groupBy("s").count().collect()) == expected


def test_files_without_a_key_of_the_source_stay_as_they_are(
    table: Table, spark: SparkSession, source: Callable
) -> None:
    source()  # ids 25 to 31: files 2 and 3
    before = set(table.files()["path"].to_pylist())
    spark.sql(merge(table))
    gone = before - set(table.files()["path"].to_pylist())
    assert len(gone) <= 2
    assert table.to_df().where("s = 'new'").count() == 7


def test_the_history_shows_the_condition(table: Table, spark: SparkSession, source: Callable) -> None:
    source()
    spark.sql(merge(table))
    assert "id = s.id" in str(table.history()[0]["parameters"]["predicate"])


@pytest.mark.parametrize("adaptive", ["true", "false"])
def test_a_source_that_differs_each_time_is_evaluated_once(
    table: Table, spark: SparkSession, source: Callable, adaptive: str
) -> None:
    before = kept_rows(spark)
    # Each evaluation draws other ids; a row that is updated and inserted, or neither, would change the count.
    source("SELECT CAST(rand() * 100 AS BIGINT) AS id, 7L AS p, 'new' AS s FROM range(40) GROUP BY 1")
    spark.conf.set("spark.sql.adaptive.enabled", adaptive)
    try:
        for _ in range(3):
            spark.sql(merge(table))
            ids = [r[0] for r in table.to_df().select("id").collect()]
            assert len(ids) == len(set(ids))
    finally:
        spark.conf.unset("spark.sql.adaptive.enabled")
    assert kept_rows(spark) <= before


def test_explain_evaluates_nothing(table: Table, spark: SparkSession, source: Callable) -> None:
    source("SELECT id, 7L AS p, IF(id > 0, raise_error('evaluated'), 'x') AS s FROM range(5) GROUP BY id")
    assert "BroadcastHashJoin" in explained(spark, merge(table))


def test_a_hint_never_sends_the_target_to_several_tasks(table: Table, spark: SparkSession, source: Callable) -> None:
    """Constraints stand between a MERGE's rows and their join's."""
    source()
    spark.sql(f"ALTER TABLE {table.name} ADD CONSTRAINT positive CHECK (id > -1)")
    for clauses in (UPSERT, "WHEN MATCHED THEN DELETE", "WHEN NOT MATCHED BY SOURCE THEN DELETE"):
        text = "\n".join(row[0] for row in spark.sql(f"EXPLAIN EXTENDED {merge(table, clauses)}").collect())
        analyzed = text.split("== Analyzed Logical Plan ==")[1].split("== Optimized Logical Plan ==")[0]
        joins = [line for line in analyzed.splitlines() if "Join" in line]
        assert joins and all("leftHint=(strategy=no_broadcast_and_replication)" in join for join in joins), analyzed


def test_an_ambiguous_source_is_counted_and_shown(table: Table, spark: SparkSession, source: Callable) -> None:
    version = table.version
    source("SELECT id % 9 AS id, id AS p, 'new' AS s FROM range(18)")
    for threshold in ("32m", "-1"):
        spark.conf.set("spark.lakemend.merge.broadcastThreshold", threshold)
        with pytest.raises(AmbiguousMergeError) as caught:
            spark.sql(merge(table))
        assert caught.value.count == 9
        assert len(caught.value.sample) == 5 and all(s.startswith("id = ") for s in caught.value.sample)
        assert "9 rows" in str(caught.value)
    spark.conf.unset("spark.lakemend.merge.broadcastThreshold")
    assert table.version == version


def test_several_matches_for_an_unconditional_delete_are_no_ambiguity(
    table: Table, spark: SparkSession, source: Callable
) -> None:
    source("SELECT id % 9 AS id, id AS p, 'new' AS s FROM range(18)")
    spark.sql(merge(table, "WHEN MATCHED THEN DELETE"))
    assert table.to_df().count() == ROWS - 9


def test_several_source_rows_without_a_match_are_all_inserted(
    table: Table, spark: SparkSession, source: Callable
) -> None:
    source("SELECT 100 + id % 3 AS id, id AS p, 'new' AS s FROM range(9)")
    spark.sql(merge(table))
    assert table.to_df().where("s = 'new'").count() == 9


def test_nulls_never_match(table: Table, spark: SparkSession, source: Callable) -> None:
    table.append(spark.sql("SELECT CAST(NULL AS BIGINT) AS id, 0L AS p, 'old' AS s"))
    source("SELECT CAST(NULL AS BIGINT) AS id, 7L AS p, 'new' AS s UNION ALL SELECT 3, 7, 'new'")
    spark.sql(merge(table))
    rows = sorted((r["s"], r["p"]) for r in table.to_df().where("id IS NULL").collect())
    assert rows == [("new", 7), ("old", 0)]


@pytest.mark.parametrize("empty", ["source", "target"])
def test_an_empty_side(table: Table, spark: SparkSession, source: Callable, empty: str) -> None:
    if empty == "target":
        table.delete()
    source("SELECT id, 7L AS p, 'new' AS s FROM range(25, 32)" + (" WHERE false" if empty == "source" else ""))
    version = table.version
    spark.sql(merge(table))
    assert table.to_df().count() == (ROWS if empty == "source" else 7)
    assert table.version == (version if empty == "source" else version + 1)


def test_two_merges_of_different_keys_both_land(
    table: Table, spark: SparkSession, source: Callable, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The one that loses has read an older version, and knows that the winner's keys are none of its own."""
    base, before = table.version, table.to_df().count()
    other = spark.newSession()
    other.sql("SELECT id, 7L AS p, 'other' AS s FROM range(200, 205)").createOrReplaceTempView("source")
    source("SELECT id, 7L AS p, 'new' AS s FROM range(100, 105)")
    slip_in(monkeypatch, lambda: other.sql(merge(table)))
    spark.sql(merge(table))
    assert table.version == base + 2
    assert table.to_df().count() == before + 10
    assert table.to_df().where("s = 'other'").count() == table.to_df().where("s = 'new'").count() == 5
    # Read predicates name the range of the source's keys, so that only writes into it conflict.
    assert "100" in str(_read_predicate(table)) and "104" in str(_read_predicate(table))
    slip_in(monkeypatch, lambda: other.sql(f"INSERT INTO {table.name} VALUES (102, 7, 'late')"))
    with pytest.raises(lakemend.CommitConflictError):
        spark.sql(merge(table))
    assert table.to_df().count() == before + 11


def _read_predicate(table: Table) -> object:
    import json
    from pathlib import Path

    location = table.detail()["location"].removeprefix("file:")
    newest = max(Path(location, "_delta_log").glob("*.json"))
    return [line for line in map(json.loads, newest.read_text().splitlines()) if "commitInfo" in line]


def test_a_join_reads_only_files_that_hold_its_keys(table: Table, spark: SparkSession, source: Callable) -> None:
    source()
    frame = spark.sql(f"SELECT t.* FROM {table.name} t JOIN source s ON t.id = s.id")
    assert len(frame.collect()) == 7
    assert "2 of 6 files" in frame._jdf.queryExecution().executedPlan().toString()
