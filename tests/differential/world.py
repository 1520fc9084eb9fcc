"""A Lakemend table and its mirror, side by side: runs a step on both and compares them.

The test module's state machine owns one `World` per example; verbs and queries read its columns and
change them. Every statement is kept, so that a failure shows the whole story.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

import duckdb
import polars
import pyarrow as pa
import pyarrow.compute as pc
from deltalake import DeltaTable, QueryBuilder
from pyspark.errors import ArithmeticException
from pyspark.sql import DataFrame, SparkSession

import lakemend
from lakemend.errors import ConstraintViolationError
from lakemend.report import Report
from lakemend.session import brain
from tests.differential.kinds import STRING
from tests.differential.ledger import Entry, Ledger
from tests.differential.oracle import Mirror, Rows, describe_difference, multiset
from tests.differential.tables import Column, Design, Row, rows_for, to_arrow

# What deltalake says of tables whose types were widened: it knows the feature in part, and parses partition values
# that were written under the old type as the new one.
_NOT_FOR_DELTALAKE = ("TypeWidening", "typeWidening", "Failed to parse value")
# Polars reads tables with deletion vectors, and says so where it cannot follow a feature.
_NOT_FOR_POLARS = ("which polars does not support",)
# Where the history tells how many rows a statement changed.
_METRICS = {
    "UPDATE": {"updated": "numUpdatedRows", "copied": "numCopiedRows"},
    "DELETE": {"deleted": "numDeletedRows", "copied": "numCopiedRows"},
    "MERGE": {
        "inserted": "numTargetRowsInserted",
        "updated": "numTargetRowsUpdated",
        "deleted": "numTargetRowsDeleted",
        "copied": "numTargetRowsCopied",
    },
}


@dataclass(frozen=True)
class Step:
    """One statement: how Spark runs it, what it does to the mirror, and whether it must fail."""

    statement: str
    run: Callable[[], Report | None]
    mirror: Callable[[], Counts]
    fails_with: type[Exception] | tuple[type[Exception], ...] | None = None
    refused_by_spark: tuple[str, ...] = ()  # Spark may fail with such a text, and then nothing may have happened
    facts: dict[str, Any] = field(default_factory=dict)  # what the error it fails with must know, where it has it

    def is_refusal(self, error: Exception) -> bool:
        return any(text in str(error) for text in self.refused_by_spark)


@dataclass(frozen=True)
class Counts:
    """What the report must say; None where it says nothing of rows (ALTER TABLE). Where rows could have been updated
    and nothing changed at all, no version may be made."""

    inserted: int | None = None
    deleted: int | None = None
    updated: int | None = None
    evolved: bool = False  # the statement changed the columns too


class Source(NamedTuple):
    """A table in Spark and in DuckDB, and its columns."""

    spark: str
    duck: str
    columns: tuple[Column, ...]


@dataclass(frozen=True)
class Version:
    """What a version held when it was the newest."""

    columns: tuple[Column, ...]
    rows: Rows
    same_zeros: tuple[str, ...]


@dataclass
class World:
    spark: SparkSession
    name: str
    location: Path
    design: Design
    mirror: Mirror = field(default_factory=Mirror)
    checks: dict[str, tuple[str, str]] = field(default_factory=dict)  # name: the condition in Spark, in DuckDB
    versions: dict[int, Version] = field(default_factory=dict)
    statements: list[str] = field(default_factory=list)
    widened: bool = False
    _other: Source | None = None

    @cached_property
    def ledger(self) -> Ledger:
        return Ledger(self.location)

    # ---- what verbs and queries ask

    @property
    def columns(self) -> tuple[Column, ...]:
        return self.design.columns

    @property
    def partition_columns(self) -> tuple[Column, ...]:
        return tuple(self.column(name) for name in self.design.partition_by)

    @property
    def data_columns(self) -> tuple[Column, ...]:
        return tuple(c for c in self.columns if c.name not in self.design.partition_by)

    @property
    def version(self) -> int:
        return max(self.versions, default=-1)

    @property
    def table(self) -> lakemend.Table:
        return lakemend.table(self.spark, self.name)

    def column(self, name: str) -> Column:
        return next(c for c in self.columns if c.name == name)

    def same_zeros(self) -> tuple[str, ...]:
        """Both zeros make one partition."""
        return self.design.partition_by

    def frame(self, columns: tuple[Column, ...], rows: list[Row], files: int = 1) -> DataFrame:
        frame = self.spark.createDataFrame(to_arrow(columns, rows))
        return frame.repartition(files) if files > 1 else frame.coalesce(1)

    def reported(self, statement: Callable[[], object]) -> Report:
        """Runs a statement under a request id, as the Python API does, for the report of it."""
        request, context = uuid.uuid4().hex, self.spark.sparkContext
        context.setLocalProperty("lakemend.request", request)
        try:
            statement()
        finally:
            context.setLocalProperty("lakemend.request", None)  # type: ignore[arg-type]
        return brain().pop_report(request) or Report("statement", self.name)

    def sql(self, text: str) -> Report:
        return self.reported(lambda: self.spark.sql(text).collect())

    def offer(self, columns: tuple[Column, ...], rows: list[Row], partition_by: tuple[str, ...] | None = None) -> bool:
        """Puts rows into the mirror's `incoming`; whether the table's constraints let them in."""
        partitions = self.design.partition_by if partition_by is None else partition_by
        self.mirror.offer(columns, rows, empty_is_null=partitions)
        conditions = [f"{c.duck} IS NULL" for c in columns if not c.nullable]
        conditions += [f"({duck}) IS NOT TRUE" for _, duck in self.checks.values()]
        wrong = " OR ".join(conditions)
        return not wrong or not self.mirror.number(f"SELECT count(*) FROM incoming WHERE {wrong}")

    def rehearse(self, change: Callable[[], object]) -> tuple[type[Exception], ...]:
        """With which errors Spark must refuse what `change` does to the mirror, which is then as before: values that
        do not fit their column, rows that break a constraint. Empty: it must succeed."""
        with self.mirror.undone():
            try:
                change()
            except (duckdb.ConversionException, duckdb.OutOfRangeException):
                return (ArithmeticException, ConstraintViolationError)
            conditions = [f"{c.duck} IS NULL" for c in self.columns if not c.nullable]
            conditions += [f"({duck}) IS NOT TRUE" for _, duck in self.checks.values()]
            wrong = " OR ".join(conditions) or "false"
            broken = self.mirror.number(f"SELECT count(*) FROM t WHERE {wrong}")
        return (ConstraintViolationError,) if broken else ()

    def blank(self) -> None:
        """An empty string in a partition column is null in the table."""
        for column in self.partition_columns:
            if column.kind is STRING:
                self.mirror.execute(f"UPDATE t SET {column.duck} = NULL WHERE {column.duck} = ''")

    def other(self, draw: Callable[[Any], Any]) -> Source:
        """A second table, for subqueries and as a source; made when it is first asked for."""
        if self._other is None:
            kinds = list(dict.fromkeys(c.kind for c in self.columns))
            columns = tuple(Column(f"o{i}", kind) for i, kind in enumerate(kinds))
            rows = draw(rows_for(columns))
            source = Source(f"{self.name}_o", "other", columns)
            self.mirror.create(columns, "other")
            self.mirror.fill("other", columns, rows)
            frame = self.frame(columns, rows)
            frame.writeTo(source.spark).using("delta").create()
            self.statements.append(f"{source.spark}: {columns!r} {rows!r}")
            self._other = source
        return self._other

    # ---- a step

    def take(self, step: Step) -> None:
        self.statements.append(step.statement)
        with self._told():
            if step.fails_with:
                self._fails(step)
            else:
                self._succeeds(step)

    def _fails(self, step: Step) -> None:
        try:
            step.run()
        except Exception as error:
            expected = isinstance(error, step.fails_with or ()) or step.is_refusal(error)
            assert expected, f"{type(error).__name__}: {error}"
            known = getattr(error, "values", {})
            wrong = {name: known[name] for name, value in step.facts.items() if known.get(name, value) != value}
            assert not wrong, f"{wrong} instead of {step.facts}: {error}"
        else:
            raise AssertionError(f"{step.statement} should have failed with {step.fails_with}")
        assert self.table.version == self.version, "a failed statement made a version"
        self.compare()

    def _succeeds(self, step: Step) -> None:
        before = self.version
        try:
            report = step.run()
        except Exception as error:
            if not step.is_refusal(error):
                raise
            assert self.table.version == before, "a refused statement made a version"
            return
        counts = step.mirror()
        version = self.table.version
        self._check_report(report, counts, before, version)
        if version != before:
            assert version == before + 1, f"version {before} was followed by {version}"
            self._check_entry(self.ledger.follow(version), counts, report)
            self.versions[version] = Version(self.columns, self.expected(), self.same_zeros())
        self.compare()

    def _check_report(self, report: Report | None, counts: Counts, before: int, version: int) -> None:
        if report is None:
            return
        for name in ("inserted", "deleted", "updated"):
            expected = getattr(counts, name)
            assert expected is None or getattr(report, name) == expected, f"{name}: {expected} expected, {report}"
        if counts.inserted or counts.deleted or counts.updated or counts.evolved:
            assert version == before + 1, f"rows changed and no version was made: {report}"
        elif counts.updated is not None:
            assert version == before, f"no row changed, and version {version} was made: {report}"
        if counts != Counts():
            assert report.version == (version if version != before else None), f"version {version}: {report}"
            assert report.total in (self.mirror.count(), None if report.version is None else -1), f"total: {report}"

    def _check_entry(self, entry: Entry, counts: Counts, report: Report | None) -> None:
        """The log agrees with the mirror, with the report and with itself."""
        assert self.ledger.rows == self.mirror.count(), f"the log has {self.ledger.rows} rows"
        if report is not None and report.version is not None:
            assert report.files_added == len(entry.added), f"{len(entry.added)} files added: {report!r}"
            assert report.files_removed == len(entry.removed), f"{len(entry.removed)} files removed: {report!r}"
            assert report.files_masked == len(entry.masked), f"{len(entry.masked)} files masked: {report!r}"
            assert report.bytes_added == sum(add["size"] for add in entry.added), f"bytes: {report!r}"
        if counts.updated is None:
            return
        inserted, deleted = counts.inserted or 0, counts.deleted or 0
        copied = entry.written - inserted - counts.updated
        assert copied >= 0, f"{entry.written} rows were written: {counts}"
        assert entry.dead == counts.updated + deleted + copied, (
            f"{entry.dead} rows died, {copied} were copied: {counts}"
        )
        assert report is None or report.copied == copied, f"{copied} rows were copied: {report!r}"
        told = {"inserted": inserted, "updated": counts.updated, "deleted": deleted, "copied": copied}
        for name, metric in _METRICS.get(entry.info["operation"], {}).items():
            found = entry.metrics.get(metric, 0 if name == "copied" else None)
            assert found == told[name], f"{metric}: {told}, {entry.metrics}"

    # ---- comparisons

    def expected(self) -> Rows:
        names = ", ".join(c.duck for c in self.columns)
        return multiset(self.mirror.query(f"SELECT {names} FROM t"), self.same_zeros())

    def compare(self) -> None:
        """The newest version in Spark, DuckDB and deltalake; and every number the log knows by itself."""
        expected = self.expected()
        self.same(expected, multiset(self.spark.table(self.name).toArrow(), self.same_zeros()), "Spark's rows")
        assert [c.name for c in self.columns] == self.spark.table(self.name).columns
        self._compare_deltalake(expected)
        self._compare_polars(expected)

    def _compare_polars(self, expected: Rows) -> None:
        try:
            found = polars.scan_delta(str(self.location)).collect().to_arrow()
        except Exception as error:
            # Polars asks deltalake what the table is.
            if any(text in str(error) for text in _NOT_FOR_POLARS) or self._widened_for(error):
                return
            raise
        found = found.select([c.name for c in self.columns])
        self.same(expected, multiset(found, self.same_zeros()), "Polars' rows")

    def _compare_deltalake(self, expected: Rows) -> None:
        try:
            reader = QueryBuilder().register("t", DeltaTable(str(self.location))).execute("SELECT * FROM t")
            found = pa.table(reader).select([c.name for c in self.columns])
        except Exception as error:
            if self._widened_for(error):
                return
            raise
        self.same(expected, multiset(found, self.same_zeros()), "deltalake's rows")

    def _widened_for(self, error: Exception) -> bool:
        return self.widened and any(text in str(error) for text in _NOT_FOR_DELTALAKE)

    def compare_version(self, version: int, how: str) -> None:
        """An earlier version still holds what it held."""
        past = self.versions[version]
        if how == "sql":
            frame = self.spark.sql(f"SELECT * FROM {self.name} VERSION AS OF {version}")
        elif how == "option":
            frame = self.spark.read.option("versionAsOf", version).format("lakemend").load(str(self.location))
        else:
            frame = self.table.as_of(version=version).to_df()
        with self._told():
            assert frame.columns == [c.name for c in past.columns]
            self.same(past.rows, multiset(frame.toArrow(), past.same_zeros), f"version {version} by {how}")

    def compare_changes(self, first: int, last: int) -> None:
        """The rows that versions `first` to `last` brought and took away are what they differ by."""
        before, after = self.versions[first - 1], self.versions[last]
        names = ", ".join(c.spark for c in after.columns)
        changes = f"SELECT {names}, _change_type FROM {self.name} CHANGES FROM VERSION {first} TO VERSION {last}"
        self.statements.append(f"-- {changes}")
        with self._told():
            found = self.spark.sql(changes).toArrow()
            kinds = pc.is_in(found["_change_type"], value_set=pa.array(["insert", "update_postimage"]))
            rows = found.drop_columns(["_change_type"])
            came, went = (multiset(rows.filter(mask), after.same_zeros) for mask in (kinds, pc.invert(kinds)))
            held = before.rows + came
            held.subtract(went)
            assert min(held.values(), default=0) >= 0, f"rows went that were never there: {-held}"
            self.same(after.rows, +held, f"version {first - 1} and its changes until {last}")
        self.statements.pop()

    def compare_answers(self, spark: str, duck: str, loose: bool = False) -> None:
        """The same question in both dialects. `loose`: zeros may differ in sign, as they do between files."""
        self.statements.append(f"-- {spark}")
        with self._told():
            expected, actual = self.mirror.query(duck), self.spark.sql(spark).toArrow()
            expected = expected.rename_columns(actual.column_names)
            names = actual.column_names if loose else self.same_zeros()
            self.same(multiset(expected, names), multiset(actual, names), spark)
        self.statements.pop()

    def same(self, expected: Rows, actual: Rows, what: str) -> None:
        assert expected == actual, f"{what}: {describe_difference(expected, actual)}"

    # ---- its life

    def start(self) -> None:
        for key, value in self.design.conf.items():
            self.spark.conf.set(key, value)
            self.statements.append(f"SET {key} = {value}")

    def close(self) -> None:
        for key in self.design.conf:
            self.spark.conf.unset(key)
        self.spark.sql(f"DROP TABLE IF EXISTS {self.name}")
        self.spark.sql(f"DROP TABLE IF EXISTS {self.name}_o")
        self.spark.catalog.clearCache()
        self.mirror.close()

    @contextmanager
    def _told(self) -> Iterator[None]:
        try:
            yield
        except Exception as error:
            story = "\n".join(f"  {i:2}  {text}" for i, text in enumerate(self.statements))
            causes = [line for line in str(error).splitlines() if line.startswith("Caused by")]
            detail = "\n".join([str(error).split("\n\tat ")[0][:3000], *causes[:3]])
            raise AssertionError(f"{type(error).__name__}: {detail}\nafter\n{story}\n") from error


class Verb:
    """`weight`: how often it is drawn, compared with the others."""

    weight = 1

    def applies(self, world: World) -> bool:
        return True

    def draw(self, draw: Callable[[Any], Any], world: World) -> Step:
        raise NotImplementedError


def violation(fine: bool) -> type[Exception] | None:
    return None if fine else ConstraintViolationError


def fresh_name(namespace: str) -> str:
    return f"{namespace}.d{uuid.uuid4().hex[:10]}"
