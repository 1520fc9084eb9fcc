"""One MERGE as a strategy puts it together: what it joins, and its clauses; run as SQL, or counted for a dry run.

A strategy's file makes a `Merge`, `__init__.py` runs it. In the texts of conditions and values `_target` is the table
and `_source` the source: columns of tables have other names. A clause is tried after the ones before it, as in SQL.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from functools import reduce
from typing import TYPE_CHECKING, Literal
from uuid import uuid4

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from lakemend.replace import kept
from lakemend.report import Report
from lakemend.statements import check, pinned, require_no_column_of_files

if TYPE_CHECKING:
    from lakemend.table import Table

Action = Literal["update", "insert", "delete"]
_ROW = "__lakemend_row"
_FILE = "_file"


@dataclass(frozen=True)
class Clause:
    """What becomes of rows: `values` are the columns that an update or an insert sets, each by an expression."""

    action: Action
    when: str | None = None
    values: Mapping[str, str] | None = None

    def sql(self, head: str) -> str:
        condition = f" AND {self.when}" if self.when else ""
        return f"{head}{condition} THEN {self._effect()}"

    def _effect(self) -> str:
        if self.action == "delete":
            return "DELETE"
        values = self.values or {}
        if self.action == "update":
            return "UPDATE SET " + ", ".join(f"{quoted(name)} = {value}" for name, value in values.items())
        return f"INSERT ({', '.join(map(quoted, values))}) VALUES ({', '.join(values.values())})"


@dataclass(frozen=True)
class Merge:
    """A MERGE of `source` into a table, whose rows match by `on`."""

    source: DataFrame
    on: str
    matched: Sequence[Clause] = ()
    unmatched: Sequence[Clause] = ()
    unmatched_by_source: Sequence[Clause] = ()
    schema_evolution: bool = False
    kept: bool = False  # the source is made of the table itself: it is evaluated once, and known to have been read

    def sql(self, table: str, source: str) -> str:
        lines = [
            f"MERGE {'WITH SCHEMA EVOLUTION ' if self.schema_evolution else ''}INTO {table} AS _target",
            f"USING {source} AS _source",
            f"ON {self.on}",
            *(clause.sql("WHEN MATCHED") for clause in self.matched),
            *(clause.sql("WHEN NOT MATCHED") for clause in self.unmatched),
            *(clause.sql("WHEN NOT MATCHED BY SOURCE") for clause in self.unmatched_by_source),
        ]
        return "\n".join(lines)

    @property
    def does_something(self) -> bool:
        return bool(self.matched or self.unmatched or self.unmatched_by_source)

    def run(self, spark: SparkSession, table: str, name: str) -> None:
        """Runs it; for that time the source is the temporary view `name`. SQL has no MERGE without a clause."""
        if not self.does_something:
            return
        with kept(spark, self.source) if self.kept else nullcontext(self.source) as source:
            source.createOrReplaceTempView(name)
            try:
                spark.sql(self.sql(table, name))
            finally:
                spark.catalog.dropTempView(name)

    def _check(self, table: Table) -> None:
        """Raises what the MERGE would raise before it reads or writes. One that changes the table is not asked."""
        if not self.does_something or self.schema_evolution:
            return
        name = f"lakemend_merge_{uuid4().hex}"
        self.source.createOrReplaceTempView(name)
        try:
            check(table, self.sql(table.name, name))
        finally:
            table.spark.catalog.dropTempView(name)

    def planned(self, table: Table, keys: Sequence[str] = ()) -> Report:
        """What it would do, read and counted by Spark in one join; nothing is written. No two rows of the source have
        the same `keys`, where those are given."""
        self._check(table)
        seen = pinned(table)
        require_no_column_of_files(seen)
        files: dict[str, int] = {}
        counts: dict[str, int] = {}
        met = 0
        for row in self._counted(seen, keys).collect():
            if row["of_source"]:
                met += row["sources"]
            elif row["fate"] is not None:
                files[row["file"]] = files.get(row["file"], 0) + row["n"]
                counts[row["fate"]] = counts.get(row["fate"], 0) + row["n"]
        new = self.source.alias("_source").where(_fate(self.unmatched).isNotNull()).count() if self.unmatched else 0
        inserted = new - met
        every = seen.files().num_rows
        return Report(
            "merge",
            table.name,
            dry_run=True,
            inserted=inserted,
            updated=counts.get("update", 0),
            deleted=counts.get("delete", 0),
            files_scanned=len(files),
            files_skipped=every - len(files),
            plan={"version": seen.version, "rows": sum(files.values()), "files": files, "inserted": inserted},
        )

    def _counted(self, seen: Table, keys: Sequence[str]) -> DataFrame:
        """Rows of the table by file and fate, and beside them how many rows of the source that would be inserted have
        met a row. A row of the source is known by its keys: a number of its own would hide from Spark that its values
        are the same each time, by which files are ruled out."""
        source = self.source if keys else self.source.withColumn(_ROW, F.monotonically_increasing_id())
        names = [f"{_ROW}{i}" for i, _ in enumerate(keys or (_ROW,))]
        values = [F.col(f"_source.{quoted(key)}") for key in keys or (_ROW,)]
        joined = (
            seen.to_df()
            .select("*", _FILE)  # a column of the frame: `_target._file` may also be a part of a column `_target`
            .alias("_target")
            .join(source.alias("_source"), F.expr(self.on), "left" if self.unmatched_by_source else "inner")
        )
        fate = F.when(values[0].isNotNull(), _fate(self.matched)).otherwise(_fate(self.unmatched_by_source))
        told = joined.select(
            F.col(f"_target.{_FILE}").alias("file"),
            fate.alias("fate"),
            (values[0].isNotNull() & _fate(self.unmatched).isNotNull()).alias("source"),
            *[value.alias(name) for value, name in zip(values, names, strict=True)],
        )
        columns = ["file", "fate", "source", *names]
        sets = [["file", "fate"], ["source", *names]]
        grouped = told.groupingSets(sets, *columns).agg(
            F.count(F.lit(1)).alias("n"), F.grouping("file").alias("of_source")
        )
        return grouped.groupBy("of_source", "file", "fate").agg(
            F.sum("n").alias("n"), F.count(F.when(F.col("source"), True)).alias("sources")
        )


def _fate(clauses: Sequence[Clause]) -> Column:
    """Which action a row is subject to; NULL if to none."""
    if not clauses:
        return F.lit(None).cast("string")

    def added(rest: Column, clause: Clause) -> Column:
        condition = F.expr(clause.when) if clause.when else F.lit(True)
        return F.when(condition, F.lit(clause.action)).otherwise(rest)

    return reduce(added, reversed(clauses), F.lit(None).cast("string"))


def quoted(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"


def both(*conditions: str | None) -> str | None:
    """All of the conditions that are given."""
    given = [f"({condition})" for condition in conditions if condition]
    return " AND ".join(given) or None
