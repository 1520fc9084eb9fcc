"""A dry run tells of the rows that the replacement itself then takes: what comes is compared as the table keeps it."""

from __future__ import annotations

import pytest
from pyspark.sql import SparkSession

import lakemend

OLD = "(1, 'a', 'a', 'x'), (2, 'ab', 'a ', 'y'), (3, NULL, NULL, NULL), (4, 'abc', 'b', 'y')"
NEW = "(9, 'a', 'a', 'x'), (8, 'b ', 'b', ''), (7, 'ab ', NULL, NULL)"
USING = [["c"], ["c", "v"], ["p", "c"]]
ON = ["t.c <=> s.c", "t.c > s.c", "t.p <=> s.p", "t.p = s.p AND s.c = 'a'", "s.c IN ('a', 'x')"]


@pytest.mark.parametrize("partition_by", ["p", "c"])
def test_as_the_table_keeps_them(spark: SparkSession, namespace: str, partition_by: str) -> None:
    new = spark.sql(f"SELECT * FROM VALUES {NEW} AS v(id, c, v, p)")
    clause = f"PARTITIONED BY ({partition_by})" if partition_by else ""
    for number, named in enumerate([*USING, *ON]):
        name = f"{namespace}.t{number}"
        spark.sql(f"CREATE TABLE {name} (id INT, c CHAR(3), v VARCHAR(5), p STRING) {clause}")
        spark.sql(f"INSERT INTO {name} VALUES {OLD}")
        table = lakemend.table(spark, name)
        told, done = (
            table.replace_on(new, named, dry_run=dry)
            if isinstance(named, str)
            else table.replace_using(new, named, dry_run=dry)
            for dry in (True, False)
        )
        assert (told.deleted, told.inserted) == (done.deleted, done.inserted), named
        if named == "t.p = s.p AND s.c = 'a'":
            assert done.deleted == 1


def test_rows_are_inside_as_the_table_keeps_them(spark: SparkSession, namespace: str) -> None:
    spark.sql(f"CREATE TABLE {namespace}.t (id INT, c CHAR(3), p STRING) PARTITIONED BY (p)")
    table = lakemend.table(spark, f"{namespace}.t")
    for value in ("a", "a  "):
        new = spark.sql(f"SELECT 1 AS id, '{value}' AS c, '' AS p")
        for where in ("c = 'a'", "p IS NULL", "length(c) = 3"):
            assert table.replace_where(new, where, dry_run=True).inserted == 1
            assert table.replace_where(new, where).inserted == 1
