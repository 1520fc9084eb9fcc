"""The equivalence suite's engine over Spark: plain tables in one namespace of `lake`, journals in another place."""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from typing import Any

from pyspark.sql import DataFrame, SparkSession

import lakemend
from lakemend.journal import JournalSession
from lakemend.report import Report
from tests.journal.equivalence import Outcome, Shape, quoted

_TYPES = {"INT": "INT", "VARCHAR": "STRING"}


class SparkEngine:
    dialect = "spark"
    features = frozenset({"update key", "merge", "lateral", "archive"})

    def __init__(self, spark: SparkSession, storage: str, kind: str) -> None:
        self.spark, self.kind = spark, kind
        self.catalog = "lake" if storage == "lake" else "spark_catalog"
        self.made: list[str] = []

    def begin(self, shapes: Sequence[Shape]) -> None:
        self.end()
        own = uuid.uuid4().hex[:12]
        self.sides = f"lake.p{own}", f"{self.catalog}.j{own}"
        model = {
            "journalTables": {s.name: list(s.key) for s in shapes if s.journaled},
            "journalVersionType": self.kind,
        }
        for side in self.sides:
            self.spark.sql(f"CREATE NAMESPACE {side}")
            self.made.append(side)
        self.session = JournalSession(self.spark, model, namespace=self.sides[1])
        columns = {s.name: {n: _TYPES[t] for n, t in s.columns.items()} for s in shapes}
        # Odd names need it.
        mapped = "'delta.columnMapping.mode' = 'name'"
        properties = {"delta.columnMapping.mode": "name"} if self.catalog == "lake" else {}
        self.session.init({s.name: columns[s.name] for s in shapes if s.journaled}, properties=properties)
        for shape in shapes:
            listed = ", ".join(f"{quoted('spark', n)} {t}" for n, t in columns[shape.name].items())
            name, using = quoted("spark", shape.name), f"delta TBLPROPERTIES ({mapped})"
            self.spark.sql(f"CREATE TABLE {self.sides[0]}.{name} ({listed}) USING {using}")
            if not shape.journaled:
                using = using if self.catalog == "lake" else "parquet"
                self.spark.sql(f"CREATE TABLE {self.sides[1]}.{name} ({listed}) USING {using}")
        self.last: Any = None

    def end(self) -> None:
        self.spark.sql("USE spark_catalog.default")
        for side in self.made:
            self.spark.sql(f"DROP NAMESPACE IF EXISTS {side} CASCADE")
        self.made = []

    def plain(self, sql: str, unique: Shape | None = None) -> Outcome:
        self.spark.sql(f"USE {self.sides[0]}")
        if unique is None:
            outcome = self._outcome(sql)
            if not sql.lstrip().upper().startswith(("SELECT", "WITH", "FROM", "(")):
                self.spark.sql(f"USE {self.sides[1]}")
                self.spark.sql(sql)
            return outcome
        name = f"{self.sides[0]}.{quoted('spark', unique.name)}"
        table = lakemend.table(self.spark, name)
        before = table.version
        try:
            report = table._run("plain", lambda: self.spark.sql(sql))
            keys = ", ".join(quoted("spark", k) for k in unique.key)
            null = " OR ".join(f"{quoted('spark', k)} IS NULL" for k in unique.key)
            bad = (
                f"SELECT 1 FROM {name} WHERE {null} UNION ALL SELECT 1 FROM {name} GROUP BY {keys} HAVING COUNT(*) > 1"
            )
            if table.version != before and self.spark.sql(bad).head() is not None:
                raise ValueError("the key is null or not unique")
        except Exception as error:
            if table.version != before:
                table.restore(version=before)
            return Outcome(error=error)
        return Outcome(count=report.inserted + report.updated + report.deleted)

    def journaled(self, sql: str) -> Outcome:
        self.spark.sql(f"USE {self.sides[1]}")
        try:
            done = self.session.sql(sql)
            if isinstance(done, DataFrame):
                return Outcome(rows=[tuple(row) for row in done.collect()])
            assert isinstance(done, Report)
            if done.plan is not None:
                self.last = max(done.plan["version_number"], self.last or done.plan["version_number"])
            return Outcome(count=done.inserted + done.updated + done.deleted)
        except Exception as error:
            return Outcome(error=error)

    def _outcome(self, sql: str) -> Outcome:
        try:
            return Outcome(rows=[tuple(row) for row in self.spark.sql(sql).collect()])
        except Exception as error:
            return Outcome(error=error)

    def version(self) -> str | None:
        # Numbers are each table's own, so that none stands for a moment of all of them.
        return None if self.last is None or self.kind == "BIGINT" else f"TIMESTAMP AS OF '{self.last}'"

    def archive(self, shape: Shape) -> None:
        self.session.archive(shape.name)
