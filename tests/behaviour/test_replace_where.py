"""replaceWhere through every door, in both modes: which rows go, which come, and what is refused."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

import lakemend
from lakemend import Report, Table
from lakemend.errors import (
    CommitConflictError,
    InvalidInputError,
    InvalidPredicateError,
    NonPartitionedTableError,
    PartitionColumnNotFoundError,
    ReplaceWhereError,
    RowsOutsidePredicateError,
    SchemaMismatchError,
    TableNotFoundError,
    TypeMismatchError,
    UnsupportedOperatorError,
)
from lakemend.session import brain

MODES = ("copy-on-write", "merge-on-read")
COLUMNS = "id LONG, p LONG, s STRING, v LONG"
Make = Callable[..., Table]
Row = tuple[Any, ...]
Door = Callable[[Table, DataFrame, str], None]


@pytest.fixture(params=MODES)
def mode(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(params=[False, True], ids=["plain", "partitioned"])
def partitioned(request: pytest.FixtureRequest) -> bool:
    return bool(request.param)


@pytest.fixture
def make(spark: SparkSession, namespace: str, mode: str, partitioned: bool) -> Make:
    """A table of a query in the mode under test, in several files."""

    def create(query: str = "", partition_by: str = "p", name: str = "t") -> Table:
        table = lakemend.table(spark, f"{namespace}.{name}")
        frame = spark.sql(query or ROWS).repartition(3)
        columns = partition_by if partitioned else ()
        table.append(frame, partition_by=columns, properties={"write.delete.mode": mode})
        return table

    return create


ROWS = "SELECT id, id % 4 AS p, CAST(id AS STRING) AS s, IF(id % 5 = 0, NULL, id * 10) AS v FROM range(40)"
ALL: list[Row] = [(i, i % 4, str(i), None if i % 5 == 0 else i * 10) for i in range(40)]


def ordered(rows: list[Row]) -> list[Row]:
    return sorted(rows, key=lambda r: tuple((x is None, x) for x in r))


def content(table: Table) -> list[Row]:
    return ordered([tuple(r) for r in table.to_df().collect()])


def frame(spark: SparkSession, rows: list[Row], columns: str = COLUMNS) -> DataFrame:
    return spark.createDataFrame(rows, columns)


@pytest.fixture
def unchanged() -> Iterator[Callable[[Table], None]]:
    """Remembers a table; afterwards it must be the same version, with the same rows and no file beside its own."""
    seen: list[tuple[Table, int, list[Row], set[str]]] = []
    yield lambda table: seen.append((table, table.version, content(table), on_disk(table)))
    for table, version, rows, files in seen:
        assert table.version == version
        assert content(table) == rows
        assert on_disk(table) == files


def on_disk(table: Table) -> set[str]:
    root = Path(table.detail()["location"].removeprefix("file://"))
    return {f"file://{path}" for path in root.rglob("*.parquet") if "_delta_log" not in path.parts}


# ---- which rows go


# On a partitioned table these read no file.
BY_PARTITION: list[tuple[str, Callable[[Row], bool]]] = [
    ("p = 1", lambda r: r[1] == 1),
    ("P <> 1", lambda r: r[1] != 1),
    ("p IN (0, 3)", lambda r: r[1] in (0, 3)),
    ("p BETWEEN 1 AND 2", lambda r: r[1] in (1, 2)),
    ("NOT (p = 1 OR p = 2)", lambda r: r[1] in (0, 3)),
    ("p IS NULL", lambda r: False),
    ("p IS NOT NULL", lambda r: True),
    ("p >= 2 AND p <= 2.5", lambda r: r[1] == 2),
    ("p > 1 AND NOT p = 3", lambda r: r[1] == 2),
    ("CAST(p AS STRING) LIKE '%1'", lambda r: r[1] == 1),
    ("p + 0 = 2", lambda r: r[1] == 2),
    ("p = 77", lambda r: False),
    ("true", lambda r: True),
    ("1 = 1", lambda r: True),
    ("false", lambda r: False),
    ("p = NULL", lambda r: False),
]
BY_ROW: list[tuple[str, Callable[[Row], bool]]] = [
    ("id BETWEEN 3 AND 9", lambda r: 3 <= r[0] <= 9),
    ("p = 1 AND id < 20", lambda r: r[1] == 1 and r[0] < 20),
    ("p = 1 OR id = 2", lambda r: r[1] == 1 or r[0] == 2),
    ("v IS NULL", lambda r: r[3] is None),
    ("v > 100", lambda r: r[3] is not None and r[3] > 100),
    ("NOT (v > 100)", lambda r: r[3] is not None and r[3] <= 100),
    ("v <=> NULL OR s LIKE '1%'", lambda r: r[3] is None or r[2].startswith("1")),
    ("s LIKE '%_5'", lambda r: len(r[2]) == 2 and r[2].endswith("5")),
    ("length(s) = 1 AND p = 3", lambda r: len(r[2]) == 1 and r[1] == 3),
    ("pmod(id + p, 7) = 3", lambda r: (r[0] + r[1]) % 7 == 3),
    ("v NOT IN (10, NULL)", lambda r: False),
]


def check_predicate(spark: SparkSession, table: Table, predicate: str, matches: Callable[[Row], bool]) -> Report:
    before, version = content(table), table.version
    gone = [r for r in before if matches(r)]
    new = gone[:2]
    report = table.replace_where(frame(spark, new), predicate)
    assert content(table) == ordered([r for r in before if not matches(r)] + new), predicate
    assert (report.deleted, report.inserted, report.total) == (len(gone), len(new), len(content(table))), predicate
    assert report.version == (version + 1 if gone else None), predicate
    if gone:
        metrics = table.history(1)[0]["metrics"]
        assert (metrics["numDeletedRows"], metrics.get("numOutputRows", 0)) == (len(gone), len(new)), predicate
    # Put back what went.
    table.append(frame(spark, gone[2:])) if gone[2:] else None
    assert content(table) == before
    return report


@pytest.mark.parametrize("mode", MODES[:1], indirect=True)
def test_predicates_on_partition_columns(spark: SparkSession, make: Make, partitioned: bool) -> None:
    table = make()
    for predicate, matches in BY_PARTITION:
        report = check_predicate(spark, table, predicate, matches)
        if partitioned:
            assert (report.files_scanned, report.files_masked, report.copied) == (0, 0, 0), predicate


def test_predicates_on_any_column(spark: SparkSession, make: Make) -> None:
    table = make()
    for predicate, matches in BY_ROW:
        check_predicate(spark, table, predicate, matches)


def test_the_mode_decides_how_rows_go(spark: SparkSession, make: Make, mode: str) -> None:
    table = make()
    report = table.replace_where(frame(spark, [(5, 1, "new", 1)]), "id BETWEEN 4 AND 6")
    assert (report.deleted, report.inserted) == (3, 1)
    if mode == "merge-on-read":
        assert report.files_masked > 0
        assert (report.copied, report.files_added) == (0, 1)
    else:
        assert report.files_masked == 0
        assert report.files_removed > 0
        assert report.copied > 0
    assert report.bytes_added > 0


@pytest.mark.parametrize("partitioned", [True], indirect=True)
def test_partition_predicates_read_no_file(spark: SparkSession, make: Make) -> None:
    table = make()
    for predicate in ("p = 1", "p + 0 = 1", "CAST(p AS STRING) LIKE '1%'", "p IN (1) AND p IS NOT NULL"):
        break_data_files(table)
        report = table.replace_where(frame(spark, [(1, 1, "x", 1)]), predicate)
        assert (report.files_scanned, report.files_masked, report.copied) == (0, 0, 0)
        assert report.inserted == 1
        assert report.files_removed == 1
        assert report.bytes_removed > 0


def break_data_files(table: Table) -> None:
    """Whoever reads one of them now fails."""
    for url in table.files()["path"].to_pylist():
        file = Path(url.removeprefix("file://"))
        file.write_bytes(b"\0" * file.stat().st_size)
        file.parent.joinpath(f".{file.name}.crc").unlink(missing_ok=True)


def test_files_wholly_inside_are_not_read(spark: SparkSession, namespace: str, mode: str) -> None:
    table = lakemend.table(spark, f"{namespace}.t")
    for start in range(0, 50, 10):
        table.append(
            spark.sql(f"SELECT id, 'x' AS s FROM range({start}, {start + 10})").coalesce(1),
            **({"properties": {"write.delete.mode": mode}} if start == 0 else {}),
        )
    report = table.replace_where(spark.sql("SELECT 15L AS id, 'new' AS s"), "id >= 5 AND id < 35")
    assert (report.files_scanned, report.files_skipped) == (2, 3)
    assert (report.deleted, report.inserted) == (30, 1)
    assert report.files_removed == (2 if mode == "merge-on-read" else 4)
    assert sorted(r.id for r in table.to_df().collect()) == [*range(5), 15, *range(35, 50)]
    # Statistics decide for every file: nothing is read.
    assert table.replace_where(spark.sql("SELECT 45L AS id, 'new' AS s"), "id >= 40").files_scanned == 0


def test_a_match_nowhere_only_adds(spark: SparkSession, make: Make) -> None:
    table = make()
    files = set(table.files()["path"].to_pylist())
    for predicate, row in (
        ("p = 9", (1, 9, "a", 1)),
        ("id > 100", (200, 1, "b", 1)),
        ("s || 'x' = 'cx'", (1, 1, "c", 1)),
    ):
        report = table.replace_where(frame(spark, [row]), predicate)
        assert (report.deleted, report.inserted, report.copied, report.files_removed) == (0, 1, 0, 0)
    assert files < set(table.files()["path"].to_pylist())
    assert on_disk(table) == set(table.files()["path"].to_pylist())


def test_an_empty_source_empties_the_part(spark: SparkSession, make: Make) -> None:
    table = make()
    assert table.replace_where(frame(spark, []), "p = 1").deleted == 10
    assert table.replace_where(frame(spark, []), "id < 8 AND p <> 1").deleted == 6
    assert content(table) == ordered([r for r in ALL if r[1] != 1 and r[0] >= 8])
    assert table.replace_where(frame(spark, []), "p = 1").version is None


def test_a_null_is_matched_by_is_null_alone(spark: SparkSession, namespace: str, mode: str, partitioned: bool) -> None:
    table = lakemend.table(spark, f"{namespace}.t")
    rows = [(1, None), (2, 1), (3, 2), (4, None)]
    table.append(
        frame(spark, rows, "id LONG, p LONG"),
        partition_by="p" if partitioned else (),
        properties={"write.delete.mode": mode},
    )
    assert table.replace_where(frame(spark, [(9, 2)], "id LONG, p LONG"), "p <> 1").deleted == 1
    assert table.replace_where(frame(spark, [(5, None)], "id LONG, p LONG"), "p IS NULL").deleted == 2
    assert content(table) == [(2, 1), (5, None), (9, 2)]
    with pytest.raises(RowsOutsidePredicateError):
        table.replace_where(frame(spark, [(5, None)], "id LONG, p LONG"), "p = 1")


def test_columns_with_odd_names(spark: SparkSession, namespace: str, mode: str) -> None:
    columns = "`a b` LONG, `p.q` LONG, `tick``s` STRING, `GRÖßE` LONG"
    table = lakemend.table(spark, f"{namespace}.t")
    rows = [(i, i % 3, str(i), i) for i in range(9)]
    properties = {"write.delete.mode": mode, "delta.columnMapping.mode": "name"}
    table.append(frame(spark, rows, columns), partition_by="p.q", properties=properties)
    table.replace_where(frame(spark, [(1, 1, "new", 1)], columns), "`p.q` = 1 AND `a b` < 5")
    table.replace_where(frame(spark, [(8, 2, "p", 8)], columns), "`P.Q` = 2")
    table.replace_where(frame(spark, [(0, 0, "t", 0)], columns), "`tick``s` = '3' OR `größe` = 0", check=False)
    assert content(table) == [(0, 0, "t", 0), (1, 1, "new", 1), (6, 0, "6", 6), (7, 1, "7", 7), (8, 2, "p", 8)]
    assert table.history(1)[0]["parameters"]["predicate"] == "((`tick``s` = '3') OR (`GRÖßE` = 0))"


def test_nested_fields_and_every_column_type(spark: SparkSession, namespace: str, mode: str) -> None:
    spark.sql(
        f"""CREATE TABLE {namespace}.t (id INT NOT NULL, o STRUCT<a: INT, b: STRING>, l ARRAY<INT>, m MAP<STRING, INT>,
        d DATE, ts TIMESTAMP, dec DECIMAL(10,2), b BINARY, f FLOAT) TBLPROPERTIES ('write.delete.mode' = '{mode}')"""
    )
    values = (
        "named_struct('a', {0}, 'b', 'x'), array({0}), map('k', {0}), DATE'2024-01-0{0}', "
        "TIMESTAMP'2024-01-0{0} 10:00:00', {0}.5, X'0{0}', {0}"
    )
    for i in (1, 2, 3):
        spark.sql(f"INSERT INTO {namespace}.t VALUES ({i}, {values.format(i)})")
    table = lakemend.table(spark, f"{namespace}.t")
    for predicate in (
        "o.a = 2",
        "l[0] = 2",
        "m['k'] = 2",
        "d = '2024-01-02'",
        "ts >= '2024-01-02' AND ts < '2024-01-03'",
    ):
        report = table.replace_where(
            spark.sql(f"SELECT * FROM VALUES (2, {values.format(2)})").toDF(*table.schema.names), predicate
        )
        assert (report.deleted, report.inserted) == (1, 1), predicate
    assert sorted(r.id for r in table.to_df().collect()) == [1, 2, 3]


# ---- typed values


@pytest.mark.parametrize("ansi", [True, False], ids=["ansi", "lenient"])
def test_string_partitions_are_compared_as_spark_compares(spark: SparkSession, namespace: str, ansi: bool) -> None:
    def table(name: str, years: list[str]) -> Table:
        made = lakemend.table(spark, f"{namespace}.{name}")
        made.append(frame(spark, [(i, y) for i, y in enumerate(years)], "id LONG, year STRING"), partition_by="year")
        return made

    spark.conf.set("spark.sql.ansi.enabled", str(ansi).lower())
    try:
        for name, door in KINDS_OF_DOOR.items():
            good = table(f"good_{name}", ["1", "01", "2"])
            door(good, frame(spark, [(7, "1")], "id LONG, year STRING"), "year = 1")
            assert content(good) == [(2, "2"), (7, "1")], name
            bad = table(f"bad_{name}", ["1", "01", "abc"])
            if ansi:
                with pytest.raises(InvalidPredicateError, match="abc"):
                    door(bad, frame(spark, [(7, "1")], "id LONG, year STRING"), "year = 1")
                assert (bad.version, len(content(bad))) == (0, 3)
            else:
                door(bad, frame(spark, [(7, "1")], "id LONG, year STRING"), "year = 1")
                assert content(bad) == [(2, "abc"), (7, "1")]
    finally:
        spark.conf.unset("spark.sql.ansi.enabled")


def test_values_are_typed_and_not_text(spark: SparkSession, namespace: str) -> None:
    columns = "id LONG, month INT"
    for name, door in KINDS_OF_DOOR.items():
        table = lakemend.table(spark, f"{namespace}.{name}")
        table.append(frame(spark, [(i, i) for i in range(1, 13)], columns), partition_by="month")
        door(table, frame(spark, [(100, 11)], columns), "month IN ('11', '12')")
        door(table, frame(spark, [(101, 8)], columns), "month < 9")
        assert content(table) == [(9, 9), (10, 10), (100, 11), (101, 8)], name
        entry = table.history(1)[0]["metrics"]
        assert (entry["numDeletedRows"], entry["numRemovedFiles"]) == (8, 8), name


def test_a_cast_that_fails_on_a_stored_row_is_an_error(
    spark: SparkSession, namespace: str, mode: str, unchanged: Callable[[Table], None]
) -> None:
    table = lakemend.table(spark, f"{namespace}.t")
    table.append(frame(spark, [(1, "1"), (2, "abc")], "id LONG, s STRING"), properties={"write.delete.mode": mode})
    unchanged(table)
    with pytest.raises(Exception, match="abc"):
        table.replace_where(frame(spark, [(1, "1")], "id LONG, s STRING"), "s = 1")


# ---- every door


def by_save(format: str, mode: str) -> Door:
    def door(table: Table, rows: DataFrame, where: str) -> None:
        rows.write.format(format).mode(mode).option("replaceWhere", where).save(table.detail()["location"])

    return door


def by_sql(table: Table, rows: DataFrame, where: str) -> None:
    rows.createOrReplaceTempView("incoming_rows")
    rows.sparkSession.sql(f"INSERT INTO {table.name} REPLACE WHERE {where} SELECT * FROM incoming_rows")


DOORS: dict[str, Door] = {
    "replace_where": lambda t, df, where: t.replace_where(df, where) and None,
    "column": lambda t, df, where: t.replace_where(df, F.expr(where)) and None,
    "write": lambda t, df, where: t.write(df, mode="replaceWhere", where=where) and None,
    "pairs": lambda t, df, where: t.replace_where([(df, where)]) and None,
    "write_to": lambda t, df, where: df.writeTo(t.name).overwrite(F.expr(where)),
    "sql": by_sql,
    "save_overwrite": by_save("lakemend", "overwrite"),
    "save_append": by_save("lakemend", "append"),
    "save_delta_overwrite": by_save("delta", "overwrite"),
    "save_delta_append": by_save("delta", "append"),
    "insert_into": lambda t, df, where: df.write.mode("overwrite").option("replaceWhere", where).insertInto(t.name),
    "insert_append": lambda t, df, where: df.write.mode("append").option("REPLACEWHERE", where).insertInto(t.name),
    "save_as_append": lambda t, df, where: df.write.mode("append").option("replaceWhere", where).saveAsTable(t.name),
    "write_to_append": lambda t, df, where: df.writeTo(t.name).option("replaceWhere", where).append(),
}


# One for each way in which the condition reaches Spark.
KINDS_OF_DOOR = {
    name: DOORS[name] for name in ("replace_where", "column", "write_to", "sql", "save_append", "insert_into")
}


@pytest.mark.parametrize(("mode", "partitioned"), zip(MODES, (True, False), strict=True), indirect=True)
@pytest.mark.parametrize("door", DOORS.values(), ids=DOORS.keys())
def test_every_door_does_the_same(
    spark: SparkSession, make: Make, door: Door, unchanged: Callable[[Table], None]
) -> None:
    table = make()
    door(table, frame(spark, [(1, 1, "part", 1)]), "p = 1")
    door(table, frame(spark, [(6, 2, "rows", 1)]), "id >= 4 AND id < 8")
    left = [r for r in ALL if r[1] != 1 and not 4 <= r[0] < 8]
    assert content(table) == ordered([*left, (1, 1, "part", 1), (6, 2, "rows", 1)])
    assert [h["operation"] for h in table.history(2)] == ["WRITE", "WRITE"]
    assert table.history(1)[0]["parameters"]["predicate"] == "((id >= 4) AND (id < 8))"
    assert table.history(1)[0]["parameters"]["mode"] == "Overwrite"
    unchanged(table)
    for where in ("p = 2", "id = 5"):
        with pytest.raises(RowsOutsidePredicateError) as caught:
            door(table, frame(spark, [(5, 2, "in", 1), (7, 3, "out", 1), (8, 3, "out", None)]), where)
        assert caught.value.count == 2
        assert {row["s"] for row in caught.value.sample} == {"out"}
    for where, error in REFUSED.items():
        with pytest.raises(error):
            door(table, frame(spark, [(5, 1, "x", 1)]), where)


REFUSED: dict[str, type[Exception]] = {
    "nope = 1": InvalidPredicateError,
    "p": InvalidPredicateError,
    "p = 'abc'": TypeMismatchError,
    "p = true": TypeMismatchError,
    "rand() < 0.5": UnsupportedOperatorError,
    "id IN (SELECT 1)": UnsupportedOperatorError,
    "EXISTS (SELECT 1)": UnsupportedOperatorError,
    "count(id) > 1": UnsupportedOperatorError,
}


@pytest.mark.parametrize("mode", MODES[:1], indirect=True)
@pytest.mark.parametrize("partitioned", [True], indirect=True)
def test_what_an_error_says(spark: SparkSession, make: Make, unchanged: Callable[[Table], None]) -> None:
    table = make()
    unchanged(table)
    new = frame(spark, [(5, 1, "x", 1)])
    with pytest.raises(InvalidPredicateError) as unknown:
        table.replace_where(new, "nope = 1")
    assert unknown.value.predicate == "nope = 1"
    assert "nope" in unknown.value.reason and "id, p, s, v" in unknown.value.reason
    with pytest.raises(InvalidPredicateError) as unparsable:
        table.replace_where(new, "p = ")
    assert "parsed" in unparsable.value.reason
    with pytest.raises(TypeMismatchError) as mismatch:
        table.replace_where(new, "p = 'abc'")
    assert (mismatch.value.column, mismatch.value.expected, mismatch.value.actual) == ("p", "bigint", "'abc'")
    with pytest.raises(UnsupportedOperatorError) as operator:
        table.replace_where(new, "rand() > 0.1")
    assert operator.value.operator == "rand"
    with pytest.raises(RowsOutsidePredicateError) as outside:
        table.replace_where(frame(spark, [(i, 2, None, i) for i in range(100)]), "p = 1 AND id > 1")
    assert outside.value.count == 100
    assert len(outside.value.sample) == 5
    assert all(row["p"] == 2 and row["s"] is None for row in outside.value.sample)
    for error in (unknown, unparsable, mismatch, operator, outside):
        assert isinstance(error.value, ReplaceWhereError | InvalidInputError | ValueError)
        assert error.value.remedy
    assert isinstance(mismatch.value, TypeError)


def test_types_that_do_not_fit_without_ansi_either(spark: SparkSession, make: Make) -> None:
    table = make()
    spark.conf.set("spark.sql.ansi.enabled", "false")
    try:
        with pytest.raises(TypeMismatchError):
            table.replace_where(frame(spark, [(5, 1, "x", 1)]), "p = 'abc'")
        with pytest.raises(TypeMismatchError):
            table.replace_where(frame(spark, [(5, 1, "x", 1)]), "id IN ('1', 'x')")
    finally:
        spark.conf.unset("spark.sql.ansi.enabled")
    assert table.version == 0


def test_save_as_table_never_wipes(spark: SparkSession, make: Make, unchanged: Callable[[Table], None]) -> None:
    table = make()
    unchanged(table)
    new = frame(spark, [(1, 1, "x", 1)])
    with pytest.raises(ReplaceWhereError):
        new.write.mode("overwrite").option("replaceWhere", "p = 1").saveAsTable(table.name)
    with pytest.raises(ReplaceWhereError):
        new.write.format("delta").mode("overwrite").option("replacewhere", "p = 1").saveAsTable(table.name)
    with pytest.raises(ReplaceWhereError):
        new.writeTo(table.name).option("replaceWhere", "p = 1").createOrReplace()
    with pytest.raises(ReplaceWhereError):
        new.write.mode("append").option("replaceWhere", "p = 1").saveAsTable(f"{table.name}_new")


@pytest.mark.parametrize("partitioned", [True], indirect=True)
def test_combinations_are_refused(spark: SparkSession, make: Make, unchanged: Callable[[Table], None]) -> None:
    table = make()
    path = table.detail()["location"]
    unchanged(table)
    new = frame(spark, [(1, 1, "x", 1)])
    where = new.write.option("replaceWhere", "p = 1")
    with pytest.raises(ReplaceWhereError, match="dynamic"):
        new.write.format("lakemend").mode("overwrite").option("replaceWhere", "p = 1").option(
            "partitionOverwriteMode", "dynamic"
        ).save(path)
    with pytest.raises(ReplaceWhereError, match="overwriteSchema"):
        new.write.format("lakemend").mode("overwrite").option("replaceWhere", "p = 1").option(
            "overwriteSchema", "true"
        ).save(path)
    with pytest.raises(ReplaceWhereError):
        new.writeTo(table.name).option("replaceWhere", "p = 1").overwritePartitions()
    with pytest.raises(ReplaceWhereError):
        new.writeTo(table.name).option("replaceWhere", "p = 1").overwrite(F.col("p") == 2)
    with pytest.raises(ReplaceWhereError):
        table.replace_using(new, ["id"], options={"replaceWhere": "p = 1"})
    with pytest.raises(ReplaceWhereError):
        table.replace_using(new, ["id"], options={"partitionOverwriteMode": "dynamic"})
    with pytest.raises(ReplaceWhereError):
        table.replace_where(new, "p = 1", options={"partitionOverwriteMode": "dynamic"})
    with pytest.raises(ReplaceWhereError):
        table.write(new, mode="overwrite", where="p = 1")
    spark.conf.set("spark.sql.sources.partitionOverwriteMode", "dynamic")
    try:
        with pytest.raises(ReplaceWhereError):
            where.mode("overwrite").insertInto(table.name)
    finally:
        spark.conf.unset("spark.sql.sources.partitionOverwriteMode")


def test_a_new_table_by_path(spark: SparkSession, location: str) -> None:
    new = frame(spark, [(1, 1, "x", 1), (2, 2, "y", 2)])
    for mode in ("overwrite", "append"):
        with pytest.raises(RowsOutsidePredicateError) as caught:
            new.write.format("lakemend").mode(mode).option("replaceWhere", "p = 1").save(location)
        assert (caught.value.count, caught.value.sample[0]["id"]) == (1, 2)
        assert not lakemend.table(spark, location).exists()
    new.write.format("lakemend").mode("overwrite").option("replaceWhere", "p > 0").save(location)
    assert len(content(lakemend.table(spark, location))) == 2
    with pytest.raises(TableNotFoundError):
        lakemend.table(spark, location + "_not").replace_where(new, "p = 1")


def test_unchecked_rows_come_in(spark: SparkSession, make: Make) -> None:
    table = make()
    assert table.replace_where(frame(spark, [(1, 3, "out", 1)]), "p = 1", check=False).inserted == 1
    frame(spark, [(2, 3, "out", 1)]).write.option("replaceWhere.CONSTRAINTCHECK", "false").option(
        "replaceWhere", "id = 2"
    ).mode("overwrite").insertInto(table.name)
    assert [r for r in content(table) if r[2] == "out"] == [(1, 3, "out", 1), (2, 3, "out", 1)]
    with pytest.raises(ReplaceWhereError, match="maybe"):
        table.replace_where(frame(spark, []), "p = 1", options={"replaceWhere.constraintCheck": "maybe"})


def test_partitions_only(
    spark: SparkSession, make: Make, partitioned: bool, unchanged: Callable[[Table], None]
) -> None:
    table = make()
    new = frame(spark, [(1, 1, "x", 1)])
    if not partitioned:
        unchanged(table)
        with pytest.raises(NonPartitionedTableError):
            table.replace_where(new, "p = 1", partitions_only=True)
        return
    assert table.replace_where(new, "P = 1", partitions_only=True).deleted == 10
    unchanged(table)
    with pytest.raises(PartitionColumnNotFoundError) as caught:
        table.replace_where(new, "p = 1 AND ID = 1", partitions_only=True)
    assert (caught.value.column, caught.value.available) == ("id", ["p"])
    with pytest.raises(PartitionColumnNotFoundError):
        spark.sql(
            f"INSERT INTO {table.name} WITH (`replaceWhere.partitionsOnly` = 'true') REPLACE WHERE id = 1 "
            "SELECT 1L, 1L, 'x', 1L"
        )
    with pytest.raises(ReplaceWhereError):
        new.writeTo(table.name).option("replaceWhere.partitionsOnly", "true").append()


# ---- what comes


def test_the_incoming_schema_must_fit(spark: SparkSession, make: Make, unchanged: Callable[[Table], None]) -> None:
    table = make()
    # Promotion as in every other write: INT goes into LONG, columns are matched by name.
    promoted = spark.sql("SELECT 'x' AS s, 1 AS p, 5 AS id, CAST(NULL AS INT) AS v")
    assert table.replace_where(promoted, "id = 5 OR p = 1").inserted == 1
    assert table.replace_where(promoted, "p = 1").inserted == 1
    unchanged(table)
    with pytest.raises(SchemaMismatchError):
        table.replace_where(spark.sql("SELECT 5L AS id, 1L AS p, 'x' AS s, 1L AS v, 2 AS extra"), "p = 1")
    with pytest.raises(SchemaMismatchError):
        table.replace_where(spark.sql("SELECT 'five' AS id, 1L AS p, 'x' AS s, 1L AS v"), "id = 5")


def test_columns_may_come_with_the_rows(spark: SparkSession, make: Make) -> None:
    table = make()
    wider = spark.sql("SELECT 5L AS id, 1L AS p, 'x' AS s, 1L AS v, 'more' AS extra")
    report = table.replace_where(wider, "id = 5", schema_evolution=True)
    assert (report.deleted, report.inserted) == (1, 1)
    assert table.schema.names == ["id", "p", "s", "v", "extra"]
    again = spark.sql("SELECT 7L AS id, 1L AS p, 'x' AS s, 1L AS v, 'more' AS extra, 1 AS yet")
    again.write.format("delta").mode("overwrite").option("mergeSchema", "true").option("replaceWhere", "p = 1").save(
        table.detail()["location"]
    )
    assert table.schema.names[-1] == "yet"
    assert sorted(r.id for r in table.to_df().where("extra IS NOT NULL").collect()) == [7]


def test_constraints_hold_for_what_comes(spark: SparkSession, make: Make, unchanged: Callable[[Table], None]) -> None:
    table = make()
    spark.sql(f"ALTER TABLE {table.name} ADD CONSTRAINT small CHECK (id < 1000)")
    assert table.replace_where(frame(spark, [(1, 1, "x", 1)]), "p = 1").inserted == 1
    unchanged(table)
    for predicate in ("p = 1", "id = 5000 OR id = 2"):
        with pytest.raises(lakemend.ConstraintViolationError):
            table.replace_where(frame(spark, [(5000, 1, "x", 1)]), predicate)


def test_rows_read_from_the_table_itself(spark: SparkSession, make: Make) -> None:
    table = make()
    spark.sql(f"INSERT INTO {table.name} REPLACE WHERE p = 1 SELECT id, p, 'again', v FROM {table.name} WHERE p = 1")
    spark.sql(f"INSERT INTO {table.name} REPLACE WHERE id < 7 SELECT id, p, 'self', v FROM {table.name} WHERE id < 7")
    expected = [(i, p, "self" if i < 7 else "again" if p == 1 else s, v) for i, p, s, v in ALL]
    assert content(table) == ordered(expected)


# ---- several at once


def test_several_predicates_in_one_version(spark: SparkSession, make: Make) -> None:
    table = make()
    shuffled = spark.sql("SELECT 'two' AS s, 2L AS p, 2L AS id, 2L AS v")
    report = table.replace_where([(frame(spark, [(1, 1, "one", 1)]), "p = 1"), (shuffled, "p = 2 AND id < 20")])
    left = [r for r in ALL if not (r[1] == 1 or (r[1] == 2 and r[0] < 20))]
    assert content(table) == ordered([*left, (1, 1, "one", 1), (2, 2, "two", 2)])
    assert (report.version, report.deleted, report.inserted) == (1, 15, 2)


def test_each_frame_has_its_own_predicate(spark: SparkSession, make: Make, unchanged: Callable[[Table], None]) -> None:
    table = make()
    unchanged(table)
    with pytest.raises(RowsOutsidePredicateError) as caught:
        table.replace_where(
            [(frame(spark, [(1, 1, "one", 1)]), "p = 1"), (frame(spark, [(1, 1, "wrong", 1)]), "p = 2")]
        )
    assert (caught.value.count, caught.value.predicate) == (1, "(p = 2)")
    for one, other in (("p = 1", "p < 2"), ("id < 10", "p = 1"), ("p = 1", "length(s) = 2")):
        with pytest.raises(InvalidPredicateError, match="overlap|both"):
            table.replace_where([(frame(spark, []), one), (frame(spark, []), other)])
    with pytest.raises(InvalidInputError):
        table.replace_where([])
    with pytest.raises(InvalidInputError):
        table.replace_where(frame(spark, []))


# ---- by rows


def test_replace_using_keys(spark: SparkSession, make: Make) -> None:
    table = make()
    new = [(3, 3, "new", 1), (3, 3, "twice", 1), (7, 9, "moved", 1), (100, 0, "added", 1), (None, 1, "null", 1)]
    report = table.replace_using(frame(spark, new), ["ID"])
    left = [r for r in ALL if r[0] not in (3, 7)]
    assert content(table) == ordered([*left, *new])
    assert (report.deleted, report.inserted, report.total) == (2, 5, 43)
    assert table.history(1)[0]["parameters"]["replaceUsing"] == "ID"
    # NULL equals nothing: the row stays.
    assert table.replace_using(frame(spark, [(None, 1, "null", 2)]), "id").deleted == 0
    report = table.replace_using(frame(spark, [(1, 2, "x", 1), (3, 3, "x", 2)]), key_columns=["p", "id"])
    assert (report.deleted, report.inserted) == (2, 2)


def test_replace_using_rewrites_only_what_it_must(spark: SparkSession, namespace: str, mode: str) -> None:
    table = lakemend.table(spark, f"{namespace}.t")
    for start in range(0, 50, 10):
        table.append(
            spark.sql(f"SELECT id, 'x' AS s FROM range({start}, {start + 10})").coalesce(1),
            **({"properties": {"write.delete.mode": mode}} if start == 0 else {}),
        )
    report = table.replace_using(frame(spark, [(15, "new"), (17, "new"), (17, "twice")], "id LONG, s STRING"), ["id"])
    assert (report.deleted, report.inserted) == (2, 3)
    assert report.files_removed + report.files_masked == 1


def test_replace_on_a_condition(spark: SparkSession, make: Make) -> None:
    table = make()
    new = [(10, 1, "new", 10), (20, 2, "new", None)]
    report = table.replace_on(frame(spark, new), "t.id = s.id + 1 AND t.p = s.p + 2 OR t.v = s.v")
    gone = [r for r in ALL if (r[0] == 11 and r[1] == 3) or r[3] == 10]
    assert gone
    assert content(table) == ordered([r for r in ALL if r not in gone] + new)
    assert (report.deleted, report.inserted) == (len(gone), 2)
    assert table.history(1)[0]["parameters"]["replaceOn"].startswith("t.id = s.id + 1")
    assert table.replace_on(frame(spark, []), F.col("t.id") == F.col("s.id")).version is None


def test_rows_that_are_aggregated_or_joined(spark: SparkSession, make: Make) -> None:
    table = make()
    frame(spark, [(3, 1, "a", 1), (3, 1, "a", 2), (7, 1, "b", 5)]).createOrReplaceTempView("incoming_rows")
    summed = spark.sql("SELECT id, max(p) AS p, min(s) AS s, sum(v) AS v FROM incoming_rows GROUP BY id")
    joined = summed.alias("a").join(summed.alias("b"), "id").select("id", "a.p", "b.s", "a.v")
    new = [(3, 1, "a", 3), (7, 1, "b", 5)]
    for run in (
        lambda: table.replace_using(summed, "id"),
        lambda: table.replace_on(joined, "t.id = s.id"),
        lambda: table.replace_where(joined, "id IN (3, 7)"),
    ):
        report = run()
        assert (report.deleted, report.inserted) == (2, 2)
        assert content(table) == ordered([*(r for r in ALL if r[0] not in (3, 7)), *new])


def test_replace_by_rows_refusals(spark: SparkSession, make: Make, unchanged: Callable[[Table], None]) -> None:
    table = make()
    unchanged(table)
    new = frame(spark, [(1, 1, "x", 1)])
    for run in (
        lambda: table.replace_using(new, ["nope"]),
        lambda: table.replace_on(new, "t.nope = s.id"),
        lambda: table.replace_on(new, "t.id ="),
        lambda: table.replace_on(new, "t.id + s.id"),
    ):
        with pytest.raises(InvalidPredicateError):
            run()
    with pytest.raises(UnsupportedOperatorError):
        table.replace_on(new, "t.id = s.id AND rand() > 0.5")
    with pytest.raises(UnsupportedOperatorError):
        table.replace_on(new, "t.id IN (SELECT 1)")
    for keys in ([], ["id", "ID"]):
        with pytest.raises(InvalidInputError):
            table.replace_using(new, keys)


def test_an_unstable_frame_is_read_once(spark: SparkSession, make: Make) -> None:
    table = make()
    new = spark.sql("SELECT CAST(floor(rand() * 40) AS LONG) AS id, 1L AS p, 'new' AS s, 1L AS v FROM range(5)")
    report = table.replace_using(new, ["id"])
    ids = [r[0] for r in content(table) if r[2] == "new"]
    assert report.inserted == len(ids) == 5
    # Had the frame been evaluated twice, other rows would have gone than those that came for.
    assert {r[0] for r in content(table) if r[2] != "new"} == set(range(40)) - set(ids)


def test_dynamic_partition_overwrite(spark: SparkSession, make: Make, partitioned: bool) -> None:
    table = make()
    report = table.overwrite_partitions(frame(spark, [(1, 1, "x", 1), (2, 9, "y", 1)]))
    assert report.deleted == (10 if partitioned else 40)
    frame(spark, [(1, 2, "x", 1)]).write.format("lakemend").mode("overwrite").option(
        "partitionOverwriteMode", "dynamic"
    ).save(table.detail()["location"])
    assert {r[1] for r in content(table)} == ({0, 1, 2, 3, 9} if partitioned else {2})


# ---- see first


def test_dry_runs_change_nothing(spark: SparkSession, make: Make, unchanged: Callable[[Table], None]) -> None:
    table = make()
    unchanged(table)
    new = frame(spark, [(1, 1, "x", 1)])
    report = table.replace_where(new, "p = 1 AND id < 20", dry_run=True)
    assert (report.dry_run, report.version, report.deleted, report.inserted) == (True, None, 5, 1)
    assert report.plan is not None and sum(report.plan["files"].values()) == 5
    assert table.replace_using(frame(spark, [(3, 3, "x", 1)]), ["id"], dry_run=True).deleted == 1
    assert table.replace_on(new, "t.p = s.p", dry_run=True).deleted == 10
    with pytest.raises(RowsOutsidePredicateError):
        table.replace_where(new, "p = 2", dry_run=True)
    for where, error in REFUSED.items():
        with pytest.raises(error):
            table.replace_where(new, where, dry_run=True)


# ---- two writers


@pytest.fixture
def overtake(monkeypatch: pytest.MonkeyPatch) -> Callable[[Callable[[], object]], None]:
    """Has another statement land in the moment before the next commit is handled."""

    def slip_in(other: Callable[[], object]) -> None:
        original, pending = brain().call, [other]

        def call(op: str, payload: str) -> str:
            if op == "commit" and pending:
                with ThreadPoolExecutor(1) as pool:
                    pool.submit(pending.pop()).result()
            return original(op, payload)

        monkeypatch.setattr(brain(), "call", call)

    return slip_in


PART_9, PART_1, PART_2 = (1, 9, "x", 1), (1, 1, "x", 1), (2, 2, "x", 1)
ID_1009, ID_1012 = (1009, 5, "x", 1), (1012, 5, "y", 1)


@pytest.mark.parametrize("partitioned", [True], indirect=True)
@pytest.mark.parametrize(
    ("ours", "theirs", "conflict"),
    [
        (("p = 9", PART_9), ("p = 9", PART_9), True),  # neither finds a file to remove
        (("p >= 9", PART_9), ("p IN (9, 10)", PART_9), True),
        (("p = 1", PART_1), ("p = 9", PART_9), False),
        (("p = 1", PART_1), ("p = 2", PART_2), False),
        (("id >= 1000 AND id < 1010", ID_1009), ("id >= 1009", ID_1009), True),
        (("id >= 1000 AND id < 1010", ID_1009), ("id >= 1010", ID_1012), False),
        (("p = 1 AND id < 20", PART_1), ("p = 2 AND id < 20", PART_2), False),
        (("p = 1 AND id < 20", PART_1), ("p = 1 AND id < 5", PART_1), True),
    ],
)
def test_overlapping_predicates_conflict(
    spark: SparkSession,
    make: Make,
    overtake: Callable[[Callable[[], object]], None],
    ours: tuple[str, Row],
    theirs: tuple[str, Row],
    conflict: bool,
) -> None:
    table = make()
    overtake(lambda: table.replace_where(frame(spark, [theirs[1]]), theirs[0]))
    if conflict:
        with pytest.raises(CommitConflictError) as caught:
            table.replace_where(frame(spark, [ours[1]]), ours[0], retries=0)
        assert (table.version, caught.value.version) == (1, 1)
        assert on_disk(table) >= set(table.files()["path"].to_pylist())
    else:
        assert table.replace_where(frame(spark, [ours[1]]), ours[0], retries=0).version == 2
        assert {ours[1], theirs[1]} <= set(content(table))


@pytest.mark.parametrize("partitioned", [True], indirect=True)
def test_a_statement_that_lost_is_run_again(
    spark: SparkSession, make: Make, overtake: Callable[[Callable[[], object]], None]
) -> None:
    table = make()
    rows = [(5, 1, "theirs", 1), (500, 1, "theirs", 1)]
    overtake(lambda: table.replace_where(frame(spark, rows), "p = 1"))
    report = table.replace_where(frame(spark, [(1, 1, "ours", 1)]), "p = 1 AND id < 100")
    assert (report.attempts, report.deleted, report.inserted) == (2, 1, 1)
    assert [r for r in content(table) if r[1] == 1] == [(1, 1, "ours", 1), (500, 1, "theirs", 1)]


# ---- the version


def test_one_version_tells_everything(spark: SparkSession, make: Make, partitioned: bool) -> None:
    table = make()
    table.replace_where(frame(spark, [(1, 1, "x", 1), (5, 1, "y", None)]), "p = 1")
    log = Path(table.detail()["location"].removeprefix("file://")) / "_delta_log" / f"{1:020}.json"
    actions = [json.loads(line) for line in log.read_text().splitlines()]
    info = next(a["commitInfo"] for a in actions if "commitInfo" in a)
    assert (info["operation"], info["operationParameters"]["predicate"]) == ("WRITE", "(p = 1)")
    assert (info["operationMetrics"]["numOutputRows"], info["operationMetrics"]["numDeletedRows"]) == ("2", "10")
    adds = [a["add"] for a in actions if "add" in a and json.loads(a["add"]["stats"])["numRecords"] <= 2]
    assert adds and all(a["dataChange"] and a["size"] and a["path"] for a in adds)
    assert sum(json.loads(a["stats"])["numRecords"] for a in adds) == 2
    removes = [a["remove"] for a in actions if "remove" in a]
    assert removes and all(r["dataChange"] for r in removes)
    if partitioned:
        assert all(a["partitionValues"] == {"p": "1"} for a in [*adds, *removes])


def test_the_write_node_shows_files_rows_and_bytes(spark: SparkSession, make: Make) -> None:
    table = make()
    for predicate in ("p = 1 AND id < 20", "p = 2"):
        report = table.replace_where(frame(spark, [(2, 2, "x", 1)]), predicate, check=False)
        assert written(spark) == {
            "rows added": 1,
            "rows removed": report.deleted,
            "files added": report.files_added,
            "files removed": report.files_removed,
            "bytes added": report.bytes_added,
            "bytes removed": report.bytes_removed,
        }


def written(spark: SparkSession) -> dict[str, int]:
    """What the write node of the newest execution shows in Spark's UI."""
    spark.sparkContext._jsc.sc().listenerBus().waitUntilEmpty()
    store = spark._jsparkSession.sharedState().statusStore()
    executions = [store.executionsList().apply(i) for i in range(store.executionsList().size())]
    newest = max(executions, key=lambda e: int(e.executionId()))
    values = store.executionMetrics(newest.executionId())
    metrics = [newest.metrics().apply(i) for i in range(newest.metrics().size())]
    named = {m.name(): m.accumulatorId() for m in metrics if m.name().endswith((" added", " removed"))}
    return {name: int(values.get(accumulator).get().replace(",", "")) for name, accumulator in named.items()}
