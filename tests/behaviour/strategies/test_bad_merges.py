"""Merges that make no sense: a typed error that says what is wrong and what to do, and nothing is written."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.errors import AnalysisException
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

import lakemend
from lakemend import InvalidInputError, SchemaMismatchError, Table
from lakemend.errors import StorageError
from tests.behaviour.strategies.conftest import rows

pytestmark = pytest.mark.either("people", "mode")

ROW = {"id": 1, "v": "a"}
BAD: dict[str, tuple[Any, dict[str, Any], type[Exception], str]] = {
    "NULL key": ([{"id": None, "v": "a"}, ROW], {}, ValueError, "id is NULL in 1 row of the source"),
    "key twice": ([ROW, ROW], {}, ValueError, r"more than once in the source, for example id=1 \(2 times\)"),
    "no such key": ([ROW], {"key_columns": "idd"}, ValueError, "no key column idd"),
    "key only in the source": ([{**ROW, "w": 1}], {"key_columns": "w"}, ValueError, "no key column w"),
    "key named twice": ([ROW], {"key_columns": ["id", "ID"]}, ValueError, "named twice"),
    "keys that are no list": ([ROW], {"key_columns": None}, ValueError, "no key columns"),
    "columns that are no list": ([ROW], {"columns": 5}, ValueError, "columns is 5"),
    "columns that are asked once": ([ROW], {"columns": (c for c in "v")}, ValueError, "columns is <generator"),
    "sequence that is a list": ([{**ROW, "n": 1}], {"sequence_by": ["n"]}, ValueError, "sequence_by is "),
    "flag that is no name": ([ROW], {"soft_delete": 5}, ValueError, "soft_delete is 5"),
    "no such flag": ([ROW], {"soft_delete": "gone"}, ValueError, "no column for soft_delete, gone.*ADD COLUMN `gone`"),
    "delete_when of a number": ([ROW], {"delete_when": 5}, ValueError, "delete_when is 5"),
    "delete_when of a text": ([ROW], {"delete_when": "v"}, ValueError, "delete_when is of type string"),
    "delete_when of no column": (
        [{**ROW, "action": "D"}], {"delete_when": "actoin = 'D'"}, ValueError,
        "the source has no column actoin for delete_when; did you mean action"),
    "delete_when that is no SQL": (
        [ROW], {"delete_when": "v = "}, ValueError, "delete_when cannot be understood.*yntax error"),
    "retries": ([ROW], {"retries": -1}, ValueError, "retries is -1"),
    "no columns": ([ROW], {"columns": []}, ValueError, "columns names no column"),
    "sequence in the key": (
        [{**ROW, "n": 1}], {"key_columns": ["id", "n"], "sequence_by": "N"}, ValueError, "names the key column n"),
    "times in one column": (
        [ROW], {"strategy": "scd2", "valid_from": "n", "valid_to": "N", "is_current": "v"}, ValueError,
        "each needs a column of its own"),
    "times in the key": (
        [ROW], {"strategy": "scd2", "valid_from": "ID", "valid_to": "n", "is_current": "v"}, ValueError,
        "each needs a column of its own"),
    "no key": ([ROW], {"key_columns": []}, ValueError, "no key columns"),
    "key of another kind": ([{"id": "1"}], {}, TypeError, "id is bigint .* and string in the source"),
    "key with digits that are lost": (
        "SELECT 1.5BD AS id, 'a' AS v", {}, pa.ArrowInvalid, r"id is bigint .* and decimal\(2,1\)"),
    "extra column": ([{**ROW, "w": 1}], {}, SchemaMismatchError, "has no column w"),
    "column twice": ("SELECT 1L AS id, 1 AS v, 2 AS V", {}, SchemaMismatchError, "column v more than once"),
    "strategy": ([ROW], {"strategy": "upsurt"}, ValueError, "did you mean upsert"),
    "dedup_order_by": ([ROW], {"dedup_order_by": "v"}, ValueError, "no meaning for the strategy upsert"),
    "delete_when": ([ROW], {"strategy": "insert", "delete_when": "true"}, ValueError, "no meaning"),
    "partition_by": ([ROW], {"strategy": "update", "partition_by": "v"}, ValueError, "no meaning"),
    "rewrite_mode": ([ROW], {"rewrite_mode": "partly"}, ValueError, "rewrite_mode 'partly'"),
    "full_merge": ([ROW], {"strategy": "full_merge", "rewrite_mode": "incremental"}, ValueError, "be incremental"),
    "columns": ([ROW], {"columns": ["w"]}, ValueError, "no column w"),
    "sequence_by": ([ROW], {"sequence_by": "n"}, ValueError, "the source has no column for sequence_by, n"),
    "misspelt sequence_by": (
        [{**ROW, "changed_at": 1}],
        {"strategy": "scd2", "sequence_by": "chnaged_at"},
        ValueError,
        "no column for sequence_by, chnaged_at; did you mean changed_at",
    ),
    "forgotten sequence": (
        [{**ROW, "n": 1}], {"sequence_by": "n", "delete_when": "n = 1"}, ValueError, "soft_delete"),
    "soft_delete": ([ROW], {"delete_when": "true", "soft_delete": "v"}, SchemaMismatchError, "BOOLEAN"),
    "other partitioning": ([ROW], {"partition_by": ["v"]}, ValueError, "partition_by"),
}  # fmt: skip


@pytest.fixture(scope="module")
def table(spark: SparkSession) -> Table:
    made = lakemend.table(spark, "bad.merges")
    made.append([{"id": 1, "v": "old", "n": 1}])
    return made


@pytest.mark.parametrize("dry_run", [True, False])
def test_values_that_do_not_fit(people: Table, dry_run: bool) -> None:
    with pytest.raises(SchemaMismatchError, match="do not fit the table lake.*n"):
        people.merge([{"id": 1, "n": "many"}], "id", dry_run=dry_run)
    with pytest.raises(SchemaMismatchError, match="do not fit the table lake.*n"):
        people.update({"n": "'many'"}, dry_run=dry_run)
    with pytest.raises(AnalysisException, match="UNRESOLVED_COLUMN"):
        people.update({"v": "Paris"}, dry_run=dry_run)


@pytest.mark.parametrize("what", BAD)
@pytest.mark.parametrize("dry_run", [False, True])
@pytest.mark.sampled
def test_bad(spark: SparkSession, table: Table, what: str, dry_run: bool) -> None:
    source, options, kind, said = BAD[what]
    version = table.version
    with pytest.raises(kind, match=said) as error:
        table.merge(
            **{"key_columns": "id", "dry_run": dry_run, **options},
            source=spark.sql(source) if isinstance(source, str) else source,
        )
    assert error.value.remedy  # type: ignore[attr-defined]
    assert table.version == version


@pytest.mark.parametrize("dry_run", [False, True])
@pytest.mark.parametrize("option", ["columns", "partition_by"])
def test_names_that_a_new_table_would_not_have(spark: SparkSession, namespace: str, option: str, dry_run: bool) -> None:
    table = lakemend.table(spark, f"{namespace}.new")
    with pytest.raises(InvalidInputError, match="has no column.* w"):
        table.merge([ROW], "id", dry_run=dry_run, **{option: ["w"]})  # type: ignore[arg-type]
    assert not table.exists()


def test_a_null_key_in_the_table(spark: SparkSession, namespace: str) -> None:
    table = lakemend.table(spark, f"{namespace}.t")
    table.append([{"id": 1, "v": "a"}, {"id": None, "v": "b"}])
    with pytest.raises(InvalidInputError, match="id is NULL in 1 row of"):
        table.merge([{"id": 1, "v": "new"}], "id")
    assert table.version == 0


def test_an_empty_text_is_no_key_where_it_is_a_partition(spark: SparkSession, namespace: str) -> None:
    spark.sql(f"CREATE TABLE {namespace}.t (k STRING, v INT) PARTITIONED BY (k)")
    with pytest.raises(InvalidInputError, match="k is NULL in 1 row of the source"):
        lakemend.table(spark, f"{namespace}.t").merge([{"k": "", "v": 1}], "k")


def test_modes_of_write(table: Table) -> None:
    for settings in ({"mode": "overwrite"}, {"mode": "append"}, {"where": "id = 1"}):
        with pytest.raises(ValueError, match=r"leave|takes no condition"):
            table.write([ROW], strategy="upsert", key_columns="id", **settings)
    with pytest.raises(ValueError, match="belong to a merge"):
        table.write([ROW], key_columns="id")
    with pytest.raises(ValueError, match="no key columns"):
        table.write([ROW], strategy="upsert")
    with pytest.raises(ValueError, match="mode 'append' does not go .* leave mode out, or use strategy='insert'"):
        table.write([ROW], mode="append", strategy="delete_insert", key_columns="id")


def test_settings_that_a_write_does_not_have(table: Table) -> None:
    with pytest.raises(ValueError, match="mode 'append' takes no optons; did you mean options"):
        table.write([ROW], optons={})
    with pytest.raises(ValueError, match="strategy 'upsert' takes no options.* takes key_columns, columns, "):
        table.write([ROW], strategy="upsert", key_columns="id", options={})
    with pytest.raises(ValueError, match="mode 'overwrite' takes no sequence_by"):
        table.write([ROW], "overwrite", sequence_by="n")


@pytest.mark.parametrize("source", [None, 5])
def test_a_source_that_holds_no_rows(table: Table, source: Any) -> None:
    with pytest.raises(InvalidInputError, match=r"list of dicts; or another Table, a table's name, or a path"):
        table.merge(source, "id")


def test_a_condition_as_a_column(table: Table) -> None:
    with pytest.raises(InvalidInputError, match="the source has no column w for delete_when"):
        table.merge([ROW], "id", delete_when=F.col("w") == 1)


def test_a_source_that_is_not_there(table: Table, tmp_path: Any) -> None:
    with pytest.raises(OSError, match="merge cannot read its source"):
        table.merge(str(tmp_path / "none"), "id")
    with pytest.raises(FileNotFoundError):
        table.merge("bad.nothing", "id")


def test_a_violated_constraint(spark: SparkSession, namespace: str) -> None:
    spark.sql(f"CREATE TABLE {namespace}.t (id BIGINT NOT NULL, v INT, CONSTRAINT some CHECK (v > 0))")
    table = lakemend.table(spark, f"{namespace}.t")
    table.merge([{"id": 1, "v": 1}], "id")
    with pytest.raises(lakemend.ConstraintViolationError):
        table.merge([{"id": 1, "v": -1}, {"id": 2, "v": 1}], "id")
    assert rows(table) == [(1, 1)]


def test_a_file_that_is_not_parquet(people: Table, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "people.csv").write_text("id,v\n1,a\n")
    monkeypatch.chdir(tmp_path)
    with pytest.raises(InvalidInputError, match=r"name of a table.*pass ./people.csv"):
        people.merge("people.csv", "id")
    with pytest.raises(StorageError, match="no Parquet file.*pass the frame"):
        people.merge(str(tmp_path / "people.csv"), "id")
