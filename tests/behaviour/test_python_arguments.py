"""Arguments of the Python API are obeyed or refused."""

from __future__ import annotations

import logging
import uuid
from decimal import Decimal
from typing import Any

import pandas as pd
import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

import lakemend

ROWS = [{"id": 1, "v": "a"}, {"id": 2, "v": "b"}]


@pytest.fixture
def table(spark: SparkSession, namespace: str) -> lakemend.Table:
    found = lakemend.table(spark, f"{namespace}.t")
    found.append(ROWS)
    return found


def rows(table: lakemend.Table) -> list[Any]:
    return sorted(table.to_arrow().to_pylist(), key=str)


def test_a_dry_run_told_to_the_builder(table: lakemend.Table) -> None:
    report = table.update(where="id = 1", dry_run=True).set("v", "'x'").execute()
    assert (report.dry_run, report.updated, table.version, rows(table)) == (True, 1, 0, ROWS)
    with pytest.raises(lakemend.InvalidInputError, match="retries"):
        table.update(where="id = 1", retries=-1).set("v", "'x'").execute()


@pytest.mark.parametrize("value", [Decimal("NaN"), 2**64, uuid.UUID(int=1), {"a": 1}, {1}, object(), [object()]])
def test_values_that_no_column_can_have(table: lakemend.Table, value: Any) -> None:
    with pytest.raises(lakemend.InvalidInputError, match="cannot be a value of a column") as failed:
        table.update({"v": value})
    assert "SQL expression" in str(failed.value)
    assert rows(table) == ROWS


@pytest.mark.parametrize("value", [None, pd.NA, pd.NaT])
def test_nothing_as_pandas_says_it(table: lakemend.Table, value: Any) -> None:
    assert table.update({"v": value}, "id = 1").updated == 1
    assert [row["v"] for row in rows(table) if row["id"] == 1] == [None]


@pytest.mark.parametrize("verb", ["append", "overwrite"])
def test_properties_for_a_table_that_exists(table: lakemend.Table, verb: str, caplog: pytest.LogCaptureFixture) -> None:
    write = getattr(table, verb)
    with pytest.raises(lakemend.InvalidInputError, match="enableChangeDataFeed"):
        write(ROWS, properties={"delta.enableChangeDataFeeed": "true"})
    assert table.version == 0
    with caplog.at_level(logging.WARNING, "lakemend"):
        write(ROWS, properties={"write.update.mode": "merge-on-read"})
        assert not caplog.records
        write(ROWS, properties={"delta.enableChangeDataFeed": "true", "owner": "me"})
    assert [("delta.enable" in r.getMessage(), "owner" in r.getMessage()) for r in caplog.records] == [
        (True, False),
        (False, True),
    ]


def test_options_of_replacements(table: lakemend.Table) -> None:
    table.replace_where(ROWS[:1], "id = 1", options={"userMetadata": None})  # type: ignore[dict-item]
    assert table.history(1)[0]["user_metadata"] is None
    for option in ("replaceWhere.partitionsOnly", "replacewhere.constraintcheck"):
        with pytest.raises(lakemend.ReplaceWhereError):
            table.replace_using(ROWS, "id", options={option: "true"})
        with pytest.raises(lakemend.ReplaceWhereError):
            table.replace_on(ROWS, "s.id = t.id", options={option: "true"})
    unchecked = {"replaceWhere.constraintCheck": False}
    planned = table.replace_where(ROWS[1:], "id = 1", options=unchecked, dry_run=True)  # type: ignore[arg-type]
    done = table.replace_where(ROWS[1:], "id = 1", options=unchecked)  # type: ignore[arg-type]
    assert (planned.inserted, planned.deleted) == (done.inserted, done.deleted) == (1, 1)


@pytest.mark.parametrize("form", ["delta.`{}`", "lakemend.`{}`", "lake.delta.`{}`", "Delta.`{}`"])
def test_a_path_as_sql_writes_it(spark: SparkSession, location: str, form: str) -> None:
    plain, quoted = lakemend.table(spark, location), lakemend.table(spark, form.format(location))
    plain.append(ROWS)
    assert quoted.append(ROWS).version == 1
    assert (quoted.path, plain.to_df().count(), quoted.as_of(version=0).to_df().count()) == (location, 4, 2)


def test_a_slash_in_a_quoted_name(spark: SparkSession, namespace: str) -> None:
    table = lakemend.table(spark, f"{namespace}.`a/b:c`")
    assert (table.path, table.parts[-1]) == (None, "a/b:c")


def test_one_column_by_its_name(spark: SparkSession, location: str) -> None:
    table = lakemend.table(spark, location)
    table.append([{"a": 1, "b": 2, "ab": 3}])
    assert table.to_arrow(columns="ab").to_pydict() == {"ab": [3]}


@pytest.mark.parametrize("where", [None, "amount > 1"])
def test_a_column_that_is_not_there(spark: SparkSession, location: str, where: str | None) -> None:
    table = lakemend.table(spark, location)
    table.append([{"id": 1, "amount": 2}])
    with pytest.raises(lakemend.InvalidInputError, match="has no column amuont for columns; did you mean amount") as e:
        table.to_arrow(columns=["id", "amuont"], where=where)
    assert e.value.remedy


def test_dry_runs_where_a_column_hides_the_file(spark: SparkSession, location: str) -> None:
    table = lakemend.table(spark, location)
    table.append([{"id": 1, "_file": "x"}, {"id": 2, "_file": "y"}])
    for run in (
        lambda: table.delete("id < 3", dry_run=True),
        lambda: table.update({"id": "3"}, dry_run=True),
        lambda: table.replace_where([{"id": 1}], "id = 1", dry_run=True),
    ):
        with pytest.raises(lakemend.InvalidInputError, match="_file"):
            run()


@pytest.mark.parametrize("sizes", [(2, 0, 2), (0, 0, 1), (1, 0, 0, 1), (0,)])
def test_rows_behind_an_empty_piece_of_an_arrow_table(
    spark: SparkSession, location: str, sizes: tuple[int, ...]
) -> None:
    pieces = [pa.table({"id": pa.array(range(n), pa.int64())}) for n in sizes]
    report = lakemend.table(spark, location).append(pa.concat_tables(pieces))
    assert (report.inserted, spark.read.format("delta").load(location).count()) == (sum(sizes), sum(sizes))


def test_a_table_in_a_notebook(spark: SparkSession, namespace: str) -> None:
    table = lakemend.table(spark, f"{namespace}.shown")
    assert "does not exist" in table._repr_html_()
    table.append([{"id": 1}, {"id": 2}])
    shown = table._repr_html_()
    assert f"{namespace}.shown" in shown and "<td>id long</td>" in shown and "{" not in shown
    assert "<th style='text-align:left'>version</th>" in table.history()._repr_html_()
    assert "<td>2</td>" in table.detail()._repr_html_()
    assert "<pre>" in table.join_advice(table, on="id")._repr_html_()


def test_names_that_a_table_does_not_have(spark: SparkSession, namespace: str) -> None:
    table = lakemend.table(spark, f"{namespace}.t")
    names = {"count": r"call to_df\(\).count", "upsert": r"call merge\(", "apend": "did you mean append"}
    for name, said in names.items():
        with pytest.raises(AttributeError, match=said):
            getattr(table, name)
    assert not hasattr(table, "_ipython_display_")
