"""UPDATE, DELETE and MERGE in both modes, through SQL and through the Python API."""

from __future__ import annotations

from collections.abc import Callable

import pyarrow as pa
import pytest
from pyspark.errors import AnalysisException
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

import lakemend
from lakemend import Table
from lakemend.errors import ConstraintViolationError, InvalidInputError, SchemaMismatchError
from tests.copies import copied

MODES = ("copy-on-write", "merge-on-read")
Make = Callable[..., Table]


@pytest.fixture(params=MODES)
def mode(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(params=[False, True], ids=["plain", "partitioned"])
def make(request: pytest.FixtureRequest, spark: SparkSession, namespace: str, mode: str) -> Make:
    """A table of a query in the mode under test, in several files."""

    def create(query: str, partition_by: str = "p", name: str = "t") -> Table:
        properties = {f"write.{verb}.mode": mode for verb in ("update", "delete", "merge")}
        columns = partition_by if request.param else ()
        return copied(
            spark,
            (__name__, query, columns, mode),
            f"{namespace}.{name}",
            lambda path: lakemend.table(spark, path).append(
                spark.sql(query).repartition(3), partition_by=columns, properties=properties
            ),
        )

    return create


ROWS = "SELECT id, id % 4 AS p, CAST(id AS STRING) AS s, IF(id % 5 = 0, NULL, id * 10) AS v FROM range(40)"


def content(table: Table, columns: str = "id, p, s, v") -> list[tuple]:
    frame = table.to_df().selectExpr(*[c.strip() for c in columns.split(",")])
    return sorted((tuple(r) for r in frame.collect()), key=lambda r: tuple((x is None, x) for x in r))


def expected(change: Callable[[dict], dict | None]) -> list[tuple]:
    rows = [{"id": i, "p": i % 4, "s": str(i), "v": None if i % 5 == 0 else i * 10} for i in range(40)]
    kept = [r for r in (change(dict(r)) for r in rows) if r is not None]
    return sorted((tuple(r.values()) for r in kept), key=lambda r: tuple((x is None, x) for x in r))


def test_update_swaps_on_the_original_row(make: Make) -> None:
    table = make(ROWS)
    report = table.update(set={"id": "v", "v": "id"}, where="id BETWEEN 10 AND 19 AND v IS NOT NULL")
    assert (report.updated, report.inserted, report.deleted, report.total) == (8, 0, 0, 40)
    assert content(table) == expected(
        lambda r: {**r, "id": r["v"], "v": r["id"]} if 10 <= r["id"] <= 19 and r["v"] is not None else r
    )


def test_update_moves_rows_to_another_partition(make: Make) -> None:
    table = make(ROWS)
    assert table.update(set={"p": "p + 100"}, where="id % 2 = 0").updated == 20
    assert content(table) == expected(lambda r: {**r, "p": r["p"] + 100} if r["id"] % 2 == 0 else r)
    assert table.update(set={"p": "1"}, where="p >= 100").updated == 20
    assert content(table) == expected(lambda r: {**r, "p": 1} if r["id"] % 2 == 0 else r)


def test_the_same_row_twice(make: Make) -> None:
    table = make(ROWS)
    for _ in range(3):
        assert table.update(set={"v": "coalesce(v, 0) + 1"}, where="id = 7").updated == 1
    assert table.delete("id = 7").deleted == 1
    assert table.delete("id = 7").version is None
    assert content(table) == expected(lambda r: None if r["id"] == 7 else r)


def test_no_match_makes_no_version_and_no_file(make: Make, spark: SparkSession) -> None:
    table = make(ROWS)
    before, files = table.version, sorted(table.files()["path"].to_pylist())
    assert table.update(set={"v": "0"}, where="id = 1000").version is None
    assert table.update(set={"v": "0"}, where="s = 'no such'").version is None
    assert table.delete("id % 50 = 49").version is None
    spark.sql(f"UPDATE {table.name} SET v = 1 WHERE id IN (SELECT 12345)")
    spark.sql(f"MERGE INTO {table.name} t USING (SELECT -1 AS id) s ON t.id = s.id WHEN MATCHED THEN DELETE")
    assert table.version == before
    assert sorted(table.files()["path"].to_pylist()) == files


def test_whole_table(make: Make) -> None:
    table = make(ROWS)
    assert table.update(set={"s": "'all'"}).updated == 40
    assert {r[2] for r in content(table)} == {"all"}
    report = table.delete()
    assert (report.deleted, report.total, report.files_added) == (40, 0, 0)
    assert content(table) == []
    assert table.update(set={"s": "'x'"}).version is None
    assert table.delete().version is None


def test_delete_of_whole_files_reads_nothing(make: Make, spark: SparkSession) -> None:
    table = make(ROWS)
    partitioned = bool(table.detail()["partitioning"])
    report = table.delete("p = 2" if partitioned else "id >= 0")
    assert report.files_added == 0 and report.files_masked == 0 and report.files_removed > 0
    assert report.deleted == (10 if partitioned else 40)


@pytest.mark.sampled
@pytest.mark.parametrize(
    ("condition", "matches"),
    [
        ("v = NULL", lambda r: False),
        ("v <=> NULL", lambda r: r["v"] is None),
        ("v IS NULL", lambda r: r["v"] is None),
        ("v NOT IN (10, NULL)", lambda r: False),
        ("v IN (10, 20, NULL)", lambda r: r["v"] in (10, 20)),
        ("NOT (v > 100)", lambda r: r["v"] is not None and r["v"] <= 100),
        ("v > 100 OR id < 3", lambda r: (r["v"] is not None and r["v"] > 100) or r["id"] < 3),
        ("s LIKE '1%'", lambda r: r["s"].startswith("1")),
        ("p = 1 AND id > 20", lambda r: r["p"] == 1 and r["id"] > 20),
        ("p = 1 OR id = 2", lambda r: r["p"] == 1 or r["id"] == 2),
        ("length(s) = 1", lambda r: len(r["s"]) == 1),
    ],
)
def test_conditions(make: Make, condition: str, matches: Callable[[dict], bool]) -> None:
    table = make(ROWS)
    count = sum(matches({"id": i, "p": i % 4, "s": str(i), "v": None if i % 5 == 0 else i * 10}) for i in range(40))
    dry = table.delete(condition, dry_run=True)
    assert (dry.deleted, dry.version, dry.dry_run) == (count, None, True)
    assert table.update(set={"s": "concat(s, '!')"}, where=condition).updated == count
    assert content(table) == expected(lambda r: {**r, "s": r["s"] + "!"} if matches(r) else r)


@pytest.mark.sampled
@pytest.mark.parametrize(
    "condition",
    [
        "id IN (SELECT id + 1 FROM {t} WHERE p = 1)",
        "id NOT IN (SELECT id FROM {t} WHERE p <> 2)",
        "EXISTS (SELECT 1 FROM {t} o WHERE o.id = {n}.id + 1 AND o.p = 3)",
        "NOT EXISTS (SELECT 1 FROM {t} o WHERE o.id = {n}.id AND o.p <> 2)",
        "v > (SELECT avg(v) FROM {t})",
    ],
)
def test_subqueries(make: Make, spark: SparkSession, condition: str) -> None:
    table = make(ROWS)
    text = condition.format(t=table.name, n=table.name)
    rest = sorted(r[0] for r in spark.sql(f"SELECT id FROM {table.name}").collect())
    gone = {r[0] for r in spark.sql(f"SELECT id FROM {table.name} WHERE {text}").collect()}
    spark.sql(f"DELETE FROM {table.name} WHERE {text}")
    assert sorted(r[0] for r in content(table)) == [i for i in rest if i not in gone]
    assert table.history(1)[0]["metrics"]["numDeletedRows"] == len(gone)


def test_nested_fields_and_columns(make: Make) -> None:
    table = make(
        "SELECT id, id % 4 AS p, named_struct('a', id, 'b', named_struct('c', 'x')) AS n, array(id) AS l FROM range(8)"
    )
    report = (
        table.update()
        .set("n.b.c", F.lit("y"))
        .set("n.a", "n.a + 1")
        .set("l", F.array(F.col("id")))
        .filter("id < 4")
        .execute()
    )
    assert report.updated == 4
    rows = {r.id: r for r in table.to_df().collect()}
    assert rows[1].n.a == 2 and rows[1].n.b.c == "y" and rows[5].n.a == 5 and rows[5].n.b.c == "x"


def test_bad_statements_change_nothing(make: Make, spark: SparkSession) -> None:
    table = make(ROWS)
    before = table.version
    for statement in (
        lambda: table.update(set={"nope": "1"}),
        lambda: table.update(set={"v": "1"}, where="nope = 1"),
        lambda: table.delete("rand() > 0.5"),
        lambda: table.delete("sum(id) > 1"),
        lambda: spark.sql(f"UPDATE {table.name} SET v = 1, v = 2"),
        lambda: spark.sql(f"UPDATE {table.name} SET n.x = 1"),
    ):
        with pytest.raises(AnalysisException):
            statement()
    with pytest.raises(SchemaMismatchError, match=f"do not fit the table {table.name}"):
        table.update(set={"id": "'abc'"})
    with pytest.raises(InvalidInputError, match="twice"):
        table.update().set("v", 1).set("V", 2)
    with pytest.raises(InvalidInputError, match="sets nothing"):
        table.update().where("id = 1").execute()
    with pytest.raises(Exception, match="DIVIDE_BY_ZERO"):
        table.update(set={"v": "1 div (id - 20)"})
    assert table.version == before
    assert content(table) == expected(lambda r: r)


def test_overflow_is_an_error(make: Make) -> None:
    table = make("SELECT CAST(id AS INT) AS id, id % 4 AS p FROM range(10)")
    with pytest.raises(Exception, match="(?i)overflow"):
        table.update(set={"id": "id + 3000000000L"})
    assert table.version == 0


def test_constraints_are_kept(spark: SparkSession, namespace: str, mode: str) -> None:
    t = f"{namespace}.t"
    properties = ", ".join(f"'write.{verb}.mode' = '{mode}'" for verb in ("update", "delete", "merge"))
    spark.sql(
        f"CREATE TABLE {t} (id INT NOT NULL, v INT, CONSTRAINT small CHECK (v < 100)) TBLPROPERTIES ({properties})"
    )
    spark.sql(f"INSERT INTO {t} VALUES (1, 1), (2, 2)")
    for statement in (
        f"UPDATE {t} SET v = 100 WHERE id = 1",
        f"UPDATE {t} SET id = NULL WHERE id = 1",
        f"MERGE INTO {t} t USING (SELECT 3 AS id, 500 AS v) s ON t.id = s.id WHEN NOT MATCHED THEN INSERT *",
    ):
        with pytest.raises(ConstraintViolationError):
            spark.sql(statement)
    assert lakemend.table(spark, t).version == 1


MERGE = """
    MERGE INTO {t} t
    USING (SELECT id, 'm' AS s, id * 7 AS v, id % 4 AS p FROM range(30, 50)) s
    ON t.id = s.id
    WHEN MATCHED AND t.id >= 38 THEN DELETE
    WHEN MATCHED AND t.id % 2 = 0 THEN UPDATE SET s = s.s, v = s.v
    WHEN MATCHED THEN UPDATE SET t.s = concat(t.s, '+')
    WHEN NOT MATCHED AND s.id < 48 THEN INSERT *
    WHEN NOT MATCHED BY SOURCE AND t.id < 5 THEN DELETE
    WHEN NOT MATCHED BY SOURCE AND t.id < 10 THEN UPDATE SET v = -1
"""


def test_merge_with_every_clause(make: Make, spark: SparkSession) -> None:
    table = make(ROWS)
    spark.sql(MERGE.format(t=table.name))

    def change(r: dict) -> dict | None:
        if r["id"] >= 38 or r["id"] < 5:
            return None
        if r["id"] >= 30:
            return {**r, "s": "m", "v": r["id"] * 7} if r["id"] % 2 == 0 else {**r, "s": r["s"] + "+"}
        return {**r, "v": -1} if r["id"] < 10 else r

    inserted = [(i, i % 4, "m", i * 7) for i in range(40, 48)]
    assert content(table) == sorted(expected(change) + inserted, key=lambda r: tuple((x is None, x) for x in r))
    metrics = table.history(1)[0]["metrics"]
    counts = [metrics[f"numTargetRows{k}"] for k in ("Inserted", "Updated", "Deleted")]
    assert counts == [8, 8 + 5, 2 + 5]


def test_merge_insert_only_and_self_merge(make: Make, spark: SparkSession) -> None:
    table = make(ROWS)
    spark.sql(
        f"MERGE INTO {table.name} t USING (SELECT id, id % 4 AS p, 'n' AS s, 0L AS v FROM range(38, 42)) s "
        "ON t.id = s.id "
        "WHEN NOT MATCHED THEN INSERT *"
    )
    assert len(content(table)) == 42
    spark.sql(
        f"MERGE INTO {table.name} t USING {table.name} s ON t.id = s.id + 1 AND t.p = 1 "
        "WHEN MATCHED THEN UPDATE SET v = s.v"
    )
    assert {r[0]: r[3] for r in content(table)}[13] == 120


def test_merge_of_an_ambiguous_source_changes_nothing(make: Make, spark: SparkSession) -> None:
    table = make(ROWS)
    with pytest.raises(lakemend.AmbiguousMergeError):
        spark.sql(
            f"MERGE INTO {table.name} t USING (SELECT 3 AS id, 'a' AS s UNION ALL SELECT 3, 'b') s ON t.id = s.id "
            "WHEN MATCHED THEN UPDATE SET s = s.s"
        )
    assert table.version == 0


def test_merge_with_schema_evolution_is_one_version(make: Make, spark: SparkSession) -> None:
    table = make(ROWS)
    spark.sql(
        f"MERGE WITH SCHEMA EVOLUTION INTO {table.name} t USING "
        "(SELECT id, id % 4 AS p, 'e' AS s, 0L AS v, 'new' AS extra "
        "FROM range(39, 41)) s ON t.id = s.id WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *"
    )
    assert table.version == 1
    assert [r for r in content(table, "id, s, extra") if r[2]] == [(39, "e", "new"), (40, "e", "new")]


def test_merge_into_dataframe_api(make: Make, spark: SparkSession) -> None:
    table = make(ROWS)
    source = spark.sql("SELECT id, id % 4 AS p, 'd' AS s, 1L AS v FROM range(39, 42)").alias("source")
    merge = source.mergeInto(table.name, F.expr(f"{table.name}.id = source.id"))
    merge.whenMatched().updateAll().whenNotMatched().insertAll().merge()
    assert [r[0] for r in content(table) if r[2] == "d"] == [39, 40, 41]


def test_after_many_changes_other_engines_agree(make: Make, spark: SparkSession) -> None:
    import deltalake

    table = make(ROWS)
    table.update(set={"s": "'a'"}, where="id % 3 = 0")
    table.delete("id % 7 = 0")
    spark.sql(MERGE.format(t=table.name))
    table.update(set={"p": "0"}, where="id > 42")
    location = table.detail()["location"].removeprefix("file://")
    found = deltalake.QueryBuilder().register("t", deltalake.DeltaTable(location)).execute("SELECT id, p, s, v FROM t")
    rows = sorted(
        (tuple(r.values()) for r in pa.table(found.read_all()).to_pylist()),
        key=lambda r: tuple((x is None, x) for x in r),
    )
    assert rows == content(table)
    for version in range(table.version + 1):
        assert table.as_of(version=version).to_df().count() > 0


@pytest.mark.parametrize("mode", MODES)
def test_a_column_named_as_the_one_that_says_what_becomes_of_a_row(
    spark: SparkSession, namespace: str, mode: str
) -> None:
    table, name = f"{namespace}.named", "__row_operation"
    modes = ", ".join(f"'write.{verb}.mode' = '{mode}'" for verb in ("update", "delete", "merge"))
    spark.sql(f"CREATE TABLE {table} TBLPROPERTIES ({modes}) AS SELECT id, 10L AS {name} FROM range(4)")
    for statement in (
        f"UPDATE {table} SET id = 7 WHERE id = 1",
        f"DELETE FROM {table} WHERE {name} + id = 11",
        f"MERGE INTO {table} t USING (SELECT 1L AS id) s ON t.id = s.id WHEN MATCHED THEN UPDATE SET id = 8",
        f"INSERT INTO {table} REPLACE WHERE id = 1 SELECT 1L, 5L",
    ):
        with pytest.raises(lakemend.InvalidInputError, match=f"rename the column {name}"):
            spark.sql(statement)
    spark.sql(f"INSERT INTO {table} VALUES (4, 10)")
    assert sorted(map(tuple, spark.table(table).collect())) == [(id, 10) for id in range(5)]


def test_a_table_whose_own_column_hides_the_place_is_refused(spark: SparkSession, namespace: str) -> None:
    spark.sql(f"CREATE TABLE {namespace}.t AS SELECT id, 'x' AS _file FROM range(3)")
    with pytest.raises(InvalidInputError, match="rename the column _file"):
        spark.sql(f"UPDATE {namespace}.t SET id = 0 WHERE id = 1")
    assert lakemend.table(spark, f"{namespace}.t").version == 0


@pytest.mark.parametrize("feed", [False, True], ids=["no_feed", "feed"])
def test_constraints_are_not_asked_of_rows_that_go(spark: SparkSession, namespace: str, mode: str, feed: bool) -> None:
    name = f"{namespace}.t"
    spark.sql(
        f"CREATE TABLE {name} (id BIGINT NOT NULL, v STRING, p STRING) PARTITIONED BY (p) TBLPROPERTIES ("
        + ", ".join(f"'write.{verb}.mode' = '{mode}'" for verb in ("update", "delete", "merge"))
        + f", 'delta.enableChangeDataFeed' = '{str(feed).lower()}')"
    )
    spark.sql(f"ALTER TABLE {name} ADD CONSTRAINT told CHECK (v IS NOT NULL AND coalesce(p, 'none') <> 'none')")
    spark.sql(f"INSERT INTO {name} SELECT id, 'v', 'p' FROM range(10)")
    table = lakemend.table(spark, name)
    spark.sql(f"""
        MERGE INTO {name} t USING (SELECT id AS k FROM range(8, 12)) s ON t.id = s.k
        WHEN MATCHED AND k = 8 THEN DELETE WHEN MATCHED THEN UPDATE SET v = 'new'
        WHEN NOT MATCHED THEN INSERT (id, v, p) VALUES (k, 'in', 'p')
        WHEN NOT MATCHED BY SOURCE AND id < 5 THEN DELETE""")
    assert content(table, "id, v") == [(5, "v"), (6, "v"), (7, "v"), (9, "new"), (10, "in"), (11, "in")]
    table.replace_where(spark.sql("SELECT 6L AS id, 'again' AS v, 'p' AS p"), "id = 6")
    spark.sql(f"DELETE FROM {name} WHERE id = 5")
    for broken in ("UPDATE SET v = NULL", "UPDATE SET p = ''"):
        with pytest.raises(ConstraintViolationError):
            spark.sql(f"MERGE INTO {name} t USING (SELECT 7L AS k) s ON t.id = s.k WHEN MATCHED THEN {broken}")
    assert content(table, "id, v") == [(6, "again"), (7, "v"), (9, "new"), (10, "in"), (11, "in")]
