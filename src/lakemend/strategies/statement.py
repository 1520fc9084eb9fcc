"""One MERGE as a strategy puts it together: what it joins, and its clauses; run as SQL, or counted for a dry run.

A strategy's file makes a `Merge`, `__init__.py` runs it. In the texts of conditions and values `_target` is the table
and `_source` the source: columns of tables have other names. A clause is tried after the ones before it, as in SQL.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from functools import reduce
from typing import TYPE_CHECKING, Any, Literal

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from lakemend.replace import kept
from lakemend.report import Report
from lakemend.statements import pinned, rows_by_file

if TYPE_CHECKING:
    from lakemend.table import Table

Action = Literal["update", "insert", "delete"]


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
        """Runs it; for that time the source is the temporary view `name`."""
        with kept(spark, self.source) if self.kept else nullcontext(self.source) as source:
            source.createOrReplaceTempView(name)
            try:
                spark.sql(self.sql(table, name))
            finally:
                spark.catalog.dropTempView(name)

    def planned(self, table: Table) -> Report:
        """What it would do, read and counted by Spark; nothing is written."""
        seen = pinned(table)
        target, source = seen.to_df().alias("_target"), self.source.alias("_source")
        condition = F.expr(self.on)
        met = target.join(source, condition, "inner").select("_target._file", _fate(self.matched).alias("fate"))
        alone = target.join(source, condition, "left_anti")
        left = alone.select("_target._file", _fate(self.unmatched_by_source).alias("fate"))
        new = source.join(target, condition, "left_anti").select(_fate(self.unmatched).alias("fate"))
        changed = (met.union(left) if self.unmatched_by_source else met).where("fate IS NOT NULL")
        counts = {row["fate"]: row["n"] for row in changed.groupBy("fate").agg(F.count(F.lit(1)).alias("n")).collect()}
        inserted = new.where("fate IS NOT NULL").count() if self.unmatched else 0
        files = rows_by_file(seen, changed)
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


def text_of(value: Any) -> str:
    """A literal of SQL."""
    return "'" + str(value).replace("\\", "\\\\").replace("'", "\\'") + "'"
