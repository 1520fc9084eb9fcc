"""deduplicate: one row of each key, always the same one."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

import lakemend
from lakemend import Table
from lakemend.errors import CommitConflictError, InvalidInputError
from lakemend.maintenance import deduplicate
from lakemend.session import brain
from tests.behaviour.maintenance.test_compact import rows_of
from tests.slip_in import slip_in

MODES = ["merge-on-read", "copy-on-write"]


@pytest.mark.parametrize("mode", MODES)
def test_the_highest_row_remains(spark: SparkSession, location: str, mode: str) -> None:
    table = lakemend.table(spark, location)
    query = "SELECT id % 10 AS k, IF(id < 10, NULL, id) AS v, CAST(id AS STRING) AS s FROM range(45)"
    table.append(spark.sql(query).repartition(3), properties={"write.merge.mode": mode})
    planned = table.deduplicate("k", "v", dry_run=True)
    assert (table.version, planned.deleted, planned.plan["deduplicated"]) == (0, 35, 35)
    report = table.deduplicate("K", ["V"])
    assert (report.operation, report.deleted, report.total, report.version) == ("deduplicate", 35, 10, 1)
    found = sorted((row.k, row.v) for row in table.to_df().collect())
    assert found == [(k, 40 + k if k < 5 else 30 + k) for k in range(10)]
    for key in ("before_file_count", "compacted_file_count", "planned_groups", "deduplicated"):
        assert planned.plan[key] == report.plan[key]
    assert table.deduplicate("k", "v").version is None


def test_null_is_lowest_and_a_key_like_any_other(spark: SparkSession, location: str) -> None:
    table = lakemend.table(spark, location)
    table.append(spark.sql("SELECT * FROM VALUES (1, NULL), (1, -5), (NULL, 1), (NULL, 2), (2, NULL) AS t(k, v)"))
    table.deduplicate("k", "v")
    assert sorted(map(str, table.to_df().collect())) == ["Row(k=1, v=-5)", "Row(k=2, v=None)", "Row(k=None, v=2)"]


def test_ties_are_decided_by_the_other_columns(spark: SparkSession, namespace: str) -> None:
    rows = [(k, 1, f"s{k}{i}", {"a": i}) for k in range(5) for i in range(4)]
    found = set()
    for turn in range(3):
        random.Random(turn).shuffle(rows)
        table = lakemend.table(spark, f"{namespace}.t{turn}")
        table.append(spark.createDataFrame(rows, "k INT, v INT, s STRING, m MAP<STRING, INT>").repartition(turn + 1))
        table.deduplicate(["k"], "v")
        found.add(str(sorted(map(str, table.to_df().collect()))))
    assert len(found) == 1


def test_without_keys_equal_rows_are_left_once(spark: SparkSession, location: str) -> None:
    table = lakemend.table(spark, location)
    row = (
        "SELECT id % 7 AS a, CAST(NULL AS STRING) AS n, MAP('x', id % 7, 'y', NULL) AS m, ARRAY(id % 7) AS l, "
        "STRUCT(id % 7 AS x, MAP(1, ARRAY(2.5D)) AS y) AS s, PARSE_JSON(CONCAT('{\"v\":', id % 7, '}')) AS v, "
        "IF(id % 7 = 0, DOUBLE('NaN'), id % 7) AS d FROM range(30)"
    )
    table.append(spark.sql(row).repartition(4))
    assert table.deduplicate().deleted == 23
    assert sorted(r.a for r in table.to_df().select("a").collect()) == list(range(7))


def test_maps_are_equal_whatever_the_order_of_their_entries(spark: SparkSession, location: str) -> None:
    table = lakemend.table(spark, location)
    table.append(spark.sql("SELECT MAP('a', 1, 'b', 2) AS m UNION ALL SELECT MAP('b', 2, 'a', 1)"))
    assert table.deduplicate().deleted == 1


def test_only_files_with_a_duplicate_are_touched(spark: SparkSession, location: str) -> None:
    table = lakemend.table(spark, location)
    for start in (0, 100, 200):
        table.append(spark.range(start, start + 100).coalesce(1), properties={"write.merge.mode": "copy-on-write"})
    table.append(spark.range(150, 151).coalesce(1))
    before = set(table.files()["path"].to_pylist())
    report = table.deduplicate("id")
    assert report.deleted == 1
    assert len(before - set(table.files()["path"].to_pylist())) == 1


def test_within_partitions(spark: SparkSession, location: str) -> None:
    table = lakemend.table(spark, location)
    table.append(spark.sql("SELECT id % 4 AS p, id % 8 AS k FROM range(32)"), partition_by="p")
    assert table.deduplicate("k", partition_filter="p=1").deleted == 6
    assert table.deduplicate("k", partition_filter=F.col("p") == 2).deleted == 6
    assert table.to_df().count() == 20
    with pytest.raises(FileNotFoundError):
        table.deduplicate("k", partition_filter="p=9")


@pytest.mark.parametrize(
    "wrong",
    [{"key_columns": "no"}, {"key_columns": ["k", "k"]}, {"key_columns": "s.x"}, {"key_columns": 7},
     {"dedup_order_by": "k"}, {"key_columns": "k", "dedup_order_by": "no"}, {"key_columns": "k", "retries": -1}],
    ids=str,
)  # fmt: skip
def test_wrong_columns(spark: SparkSession, location: str, wrong: dict[str, Any]) -> None:
    table = lakemend.table(spark, location)
    table.append(spark.sql("SELECT 1 AS k, STRUCT(1 AS x) AS s"))
    with pytest.raises(InvalidInputError):
        table.deduplicate(**wrong)
    assert table.version == 0


def test_columns_that_hide_places(spark: SparkSession, location: str) -> None:
    table = lakemend.table(spark, location)
    table.append(spark.sql("SELECT 1 AS k, 2 AS _pos"))
    with pytest.raises(InvalidInputError, match="_pos"):
        table.deduplicate("k")


def test_the_change_feed_tells_what_went(spark: SparkSession, location: str) -> None:
    table = lakemend.table(spark, location)
    table.append(
        spark.sql("SELECT id % 3 AS k, id AS v FROM range(6)"), properties={"delta.enableChangeDataFeed": "true"}
    )
    version = table.deduplicate("k", "v").version
    changes = spark.sql(f"SELECT * FROM {table.name} CHANGES FROM VERSION {version} TO VERSION {version}")
    assert sorted((r._change_type, r.k, r.v) for r in changes.collect()) == [("delete", k, k) for k in range(3)]


def test_rows_appended_meanwhile_count(spark: SparkSession, location: str, monkeypatch: pytest.MonkeyPatch) -> None:
    table = lakemend.table(spark, location)
    table.append(spark.sql("SELECT id % 5 AS k, id AS v FROM range(10)"))
    slip_in(monkeypatch, lambda: lakemend.table(spark, location).append(spark.sql("SELECT 1L AS k, 100L AS v")))
    report = table.deduplicate("k", "v")
    assert (report.deleted, report.attempts) == (6, 2)
    assert sorted((r.k, r.v) for r in table.to_df().collect()) == [(0, 5), (1, 100), (2, 7), (3, 8), (4, 9)]


@pytest.mark.parametrize("writer", ["append", "delete", "delete of the one that stays"])
def test_without_retries_it_conflicts(
    spark: SparkSession, location: str, monkeypatch: pytest.MonkeyPatch, writer: str
) -> None:
    table = lakemend.table(spark, location)
    for part in ("id < 5", "id >= 5"):
        table.append(spark.sql(f"SELECT id % 5 AS k, id AS v FROM range(10) WHERE {part}").coalesce(1))
    other = lakemend.table(spark, location)
    acts = {
        "append": lambda: other.append(spark.sql("SELECT 1L AS k, 100L AS v")),
        "delete": lambda: other.delete("v = 1"),
        "delete of the one that stays": lambda: other.delete("v = 6"),
    }
    slip_in(monkeypatch, acts[writer])
    with pytest.raises(CommitConflictError):
        table.deduplicate("k", "v", retries=0)
    assert table.to_df().count() == (11 if writer == "append" else 9)
    assert brain() is not None


@pytest.fixture
def before_delete(monkeypatch: pytest.MonkeyPatch) -> Callable[[Callable[[], object]], None]:
    """Has something happen once between finding the rows and deleting them."""

    def slip(action: Callable[[], object]) -> None:
        pending = [action]

        def late(original: Callable[..., Any]) -> Callable[..., Any]:
            def act(*args: Any) -> Any:
                if pending:
                    pending.pop()()
                return original(*args)

            return act

        for name in ("mask_places", "_delete"):
            monkeypatch.setattr(deduplicate, name, late(getattr(deduplicate, name)))

    return slip


def doubled(spark: SparkSession, location: str, mode: str) -> Table:
    table = lakemend.table(spark, location)
    for part in ("id < 5", "id >= 5"):
        query = f"SELECT id % 5 AS k, id AS v, id % 5 % 2 AS p FROM range(10) WHERE {part}"
        table.append(spark.sql(query).coalesce(1), partition_by="p", properties={"write.merge.mode": mode})
    return table


HIGHEST = [(k, k + 5) for k in range(5)]


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("partition", [None, "p=1"])
def test_rows_that_a_compaction_has_moved_are_found_again(
    spark: SparkSession, location: str, mode: str, partition: str | None, before_delete: Any
) -> None:
    table = doubled(spark, location, mode)
    before_delete(lambda: lakemend.table(spark, location).compact(partition_filter=partition))
    report = table.deduplicate("k", "v")
    assert (report.deleted, report.total, report.attempts) == (5, 5, 2)
    assert sorted((row.k, row.v) for row in table.to_df().collect()) == HIGHEST


def test_a_clustering_finds_them_again_too(spark: SparkSession, location: str, before_delete: Any) -> None:
    table = doubled(spark, location, "merge-on-read")
    before_delete(lambda: lakemend.table(spark, location).compact())
    report = table.optimize(["v"], deduplicate_key_columns=["k"], dedup_order_by=["v"])
    assert (report.deleted, report.plan["deduplicated"]) == (5, 5)
    assert sorted((row.k, row.v) for row in table.to_df().collect()) == HIGHEST


def test_rows_that_moved_are_told_where_nothing_is_tried_again(
    spark: SparkSession, location: str, before_delete: Any
) -> None:
    table = doubled(spark, location, "copy-on-write")
    before_delete(lambda: lakemend.table(spark, location).compact(partition_filter="p=1"))
    with pytest.raises(CommitConflictError, match="2 rows .* not found again.*3 rows have been deleted"):
        table.deduplicate("k", "v", retries=0)
    assert table.to_df().count() == 7


def test_rows_are_masked_all_or_none(spark: SparkSession, location: str, before_delete: Any) -> None:
    table = doubled(spark, location, "merge-on-read")
    before_delete(lambda: lakemend.table(spark, location).compact(partition_filter="p=1"))
    with pytest.raises(CommitConflictError):
        table.deduplicate("k", "v", retries=0)
    assert table.to_df().count() == 10
    assert table.deduplicate("k", "v", retries=0).deleted == 5


@pytest.mark.parametrize("share", ["1", "0.1"])
def test_masks_join_those_that_are_there(spark: SparkSession, location: str, share: str) -> None:
    """In a file of more rows than a bucket of bits has; the table allows so many dead ones, or has it written again."""
    table, gone = lakemend.table(spark, location), (0, 1, 2, 32_767, 32_768, 65_536, 99_999)
    rows = spark.range(0, 100_000, 1, 1).selectExpr("id DIV 3 AS k", "id AS v")
    table.append(rows, properties={"write.mask.max-dead-share": share})
    table.delete(f"v IN {gone}")
    highest = {v // 3: v for v in range(100_000) if v not in gone}
    report = table.deduplicate("k", "v")
    assert {row.k: row.v for row in table.to_df().collect()} == highest
    assert (report.deleted, report.total) == (100_000 - len(gone) - len(highest), len(highest))
    assert bool(report.files_masked) == (share == "1")
    assert table.deduplicate("k", "v").deleted == 0


def test_a_column_that_is_called_like_an_alias(spark: SparkSession, namespace: str) -> None:
    table = lakemend.table(spark, f"{namespace}.t")
    spark.sql(f"CREATE TABLE {table.name} (k INT, t STRUCT<_file: STRING, _pos: BIGINT>, s INT) USING delta")
    spark.sql(f"INSERT INTO {table.name} SELECT /*+ COALESCE(1) */ * FROM VALUES (1, NULL, 1), (2, NULL, 1)")
    spark.sql(f"INSERT INTO {table.name} SELECT 1, struct('zzz', 99L), 2")
    file, position = table.to_df().where("k = 1 AND t IS NULL").select("_file", "_pos").first()
    spark.sql(f"INSERT INTO {table.name} SELECT 50, struct('{file}', {position}L), 3")
    assert table.deduplicate("k").deleted == 1
    assert sorted(row.k for row in table.to_df().collect()) == [1, 2, 50]


@pytest.mark.parametrize("name", ["__lakemend_position", "__LAKEMEND_rank"])
def test_names_of_columns_that_are_added_on_the_way(spark: SparkSession, location: str, name: str) -> None:
    table = lakemend.table(spark, location)
    table.append(spark.sql(f"SELECT 1 AS k, 2 AS {name}"))
    for call in (lambda: table.deduplicate("k"), lambda: table.optimize("k"), lambda: table.merge([{"k": 1}], "k")):
        with pytest.raises(InvalidInputError, match=name):
            call()
    assert table.version == 0


@settings(max_examples=12, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    rows=st.lists(
        st.tuples(st.none() | st.integers(0, 3), st.none() | st.integers(0, 3), st.sampled_from(["a", "b", ""])),
        max_size=25,
    ),
    keys_and_order=st.sampled_from(
        [(["k"], ["v"]), (["k"], None), (["k", "s"], ["v"]), (["k", "s"], None), (None, None)]
    ),
)
def test_against_plain_python(
    spark: SparkSession, tmp_path_factory: Any, rows: list[Any], keys_and_order: tuple[Any, Any]
) -> None:
    keys, order = keys_and_order
    table = lakemend.table(spark, str(tmp_path_factory.mktemp("dedup") / "t"))
    table.append(spark.createDataFrame(rows, "k INT, v INT, s STRING").repartition(2))
    names = ["k", "v", "s"]
    own = keys or names
    ranks = [n for n in (order or []) if n not in own] + [n for n in names if n not in own and n not in (order or [])]

    def rank(row: Any) -> Any:
        values = [row[names.index(n)] for n in ranks]
        return [(False,) if value is None else (True, value) for value in values]

    best: dict[Any, Any] = {}
    for row in rows:
        key = tuple(row[names.index(n)] for n in own)
        if key not in best or rank(row) > rank(best[key]):
            best[key] = row
    report = table.deduplicate(keys, order)
    assert report.deleted == len(rows) - len(best)
    assert sorted(map(repr, map(tuple, table.to_df().collect()))) == sorted(map(repr, best.values()))
    assert len(rows_of(spark, table)) == len(best)
