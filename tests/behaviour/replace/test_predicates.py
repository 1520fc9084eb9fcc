"""Which rows a predicate takes away, in both modes, and how values are compared."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

import lakemend
from lakemend import Report, Table
from lakemend.errors import (
    InvalidPredicateError,
    RowsOutsidePredicateError,
)
from tests.behaviour.replace.doors import KINDS_OF_DOOR
from tests.behaviour.replace.rows import ALL, MODES, Make, Row, content, frame, on_disk, ordered

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
    after = content(table)
    assert after == ordered([r for r in before if not matches(r)] + new), predicate
    assert (report.deleted, report.inserted, report.total) == (len(gone), len(new), len(after)), predicate
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
