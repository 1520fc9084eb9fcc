"""replaceWhere, replaceUsing and replaceOn from Python: incoming rows take the place of the rows that are named.

`Table` calls this. Each is one Spark statement (`connector/rows/ReplaceStatements.scala`), planned by the same rule
as `INSERT INTO … REPLACE WHERE`, and one commit or none; one that loses against a concurrent writer is run
again. A dry run is analysed like the real one, then reads and counts.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import reduce
from typing import TYPE_CHECKING, Any, TypeAlias
from weakref import WeakKeyDictionary

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import StructField
from pyspark.sql.utils import to_str

from lakemend.as_stored import as_stored
from lakemend.errors import InvalidInputError, ReplaceWhereError, RowsOutsidePredicateError
from lakemend.formats.char_types import KEY as CHAR_TYPE
from lakemend.report import Report
from lakemend.statements import pinned, rows_by_file, run_with_retries

if TYPE_CHECKING:
    from lakemend.table import Table

Condition: TypeAlias = str | Column

_SAMPLE = 5
_CHECK, _PARTITIONS = "replaceWhere.constraintCheck", "replaceWhere.partitionsOnly"
_entries: WeakKeyDictionary[Any, Any] = WeakKeyDictionary()


@dataclass(frozen=True)
class Settings:
    """How a replacement is to be done; `options` are Spark's write options."""

    check: bool = True
    partitions_only: bool = False
    schema_evolution: bool = False
    dry_run: bool = False
    retries: int | None = None
    options: Mapping[str, str] | None = None

    @property
    def written(self) -> str:
        """The options of the write, as JSON."""
        own = {
            _CHECK: "" if self.check else "false",
            _PARTITIONS: "true" if self.partitions_only else "",
        }
        given = {key: to_str(value) for key, value in (self.options or {}).items() if value is not None}
        return json.dumps({**given, **{key: value for key, value in own.items() if value}})

    def option(self, name: str) -> str | None:
        """One of the options, as Spark writes it; None if it is not given."""
        found = (value for key, value in (self.options or {}).items() if key.lower() == name.lower())
        return next((to_str(value) for value in found if value is not None), None)

    @property
    def checks(self) -> bool:
        return self.check and (self.option(_CHECK) or "").strip().lower() != "false"


def replace_where(table: Table, rows: Any, where: Condition | None, settings: Settings) -> Report:
    """Rows replace those that `where` names; or each of several frames, given as pairs, those of its own condition."""
    pairs = _pairs(table, rows, where)
    frames = [frame._jdf for frame, _ in pairs]
    conditions = [condition if isinstance(condition, str) else condition._jc for _, condition in pairs]
    name = json.dumps(table.parts)

    def run(spark: SparkSession, execute: bool = True) -> None:
        session, how = spark._jsparkSession, (settings.written, settings.schema_evolution, execute)
        if len(pairs) == 1:
            _statements(spark).where(session, name, frames[0], conditions[0], *how)
        else:
            _statements(spark).whereEach(session, name, frames, conditions, *how)

    if not settings.dry_run:
        return run_with_retries(table, "replace_where", run, settings.retries)
    run(table.spark, False)
    if settings.checks:
        for frame, condition in pairs:
            _require_inside(table, _fitted(table, frame), condition)
    named = reduce(lambda a, b: a | b, (_column(condition) for _, condition in pairs))
    seen = pinned(table)
    gone = seen.to_df().where(named)
    return _planned(seen, "replace_where", gone, sum(frame.count() for frame, _ in pairs))


def replace_using(table: Table, rows: Any, key_columns: Sequence[str], settings: Settings) -> Report:
    """Rows replace those that equal one of them in the key columns; NULL equals nothing."""
    keys = [key_columns] if isinstance(key_columns, str) else list(key_columns)
    if not keys:
        raise InvalidInputError("replace_using names no key column", remedy='pass key_columns=["id"]')
    if len({key.lower() for key in keys}) < len(keys):
        raise InvalidInputError(f"a key column is named twice: {', '.join(keys)}", remedy="name each once")

    def statement(spark: SparkSession, frame: DataFrame, execute: bool) -> None:
        name, columns = json.dumps(table.parts), json.dumps(keys)
        how = settings.written, settings.schema_evolution, execute
        _statements(spark).using(spark._jsparkSession, name, frame._jdf, columns, *how)

    def matching(target: DataFrame, incoming: DataFrame) -> Column:
        return reduce(lambda a, b: a & b, (target[_quoted(key)] == incoming[_quoted(key)] for key in keys))

    return _by_rows(table, "replace_using", rows, statement, matching, settings)


def replace_on(table: Table, rows: Any, condition: Condition, settings: Settings) -> Report:
    """Rows replace those for which the condition holds with one of them; `t` is the table, `s` the rows."""
    asked = condition if isinstance(condition, str) else condition._jc

    def statement(spark: SparkSession, frame: DataFrame, execute: bool) -> None:
        how = settings.written, settings.schema_evolution, execute
        _statements(spark).on(spark._jsparkSession, json.dumps(table.parts), frame._jdf, asked, *how)

    return _by_rows(table, "replace_on", rows, statement, lambda _, __: _column(condition), settings)


def _by_rows(
    table: Table,
    operation: str,
    rows: Any,
    statement: Callable[[SparkSession, DataFrame, bool], None],
    matching: Callable[[DataFrame, DataFrame], Column],
    settings: Settings,
) -> Report:
    if any(settings.option(name) is not None for name in (_CHECK, _PARTITIONS)):
        raise ReplaceWhereError(
            f"{operation} has no predicate to check or to restrict to partitions",
            remedy=f"leave the options {_CHECK} and {_PARTITIONS} out, or use replace_where",
        )
    given = table._frame(rows)

    def run(spark: SparkSession) -> None:
        with steady(spark, given) as frame:
            statement(spark, frame, True)

    if not settings.dry_run:
        return run_with_retries(table, operation, run, settings.retries)
    with steady(table.spark, given) as frame:
        statement(table.spark, frame, False)
        seen = pinned(table)
        target, incoming = seen.to_df().alias("t"), _fitted(table, frame).alias("s")
        gone = target.select("t.*", "_file").join(incoming, matching(target, incoming), "left_semi")
        return _planned(seen, operation, gone, frame.count())


@contextmanager
def steady(spark: SparkSession, frame: DataFrame) -> Iterator[DataFrame]:
    """The rows are read twice, for what goes and for what comes: both times they must be the same. Few of them may be
    marked to be sent everywhere."""
    entry = _statements(spark)
    kept = entry.steady(frame._jdf)
    try:
        yield DataFrame(kept, spark)
    finally:
        entry.release(kept)


@contextmanager
def steady_source(spark: SparkSession, frame: DataFrame) -> Iterator[DataFrame]:
    """The source of a merge by key: the same rows when it is looked at and when it is merged, also where they come from
    a table that goes on meanwhile."""
    entry = _statements(spark)
    kept = entry.source(frame._jdf)
    try:
        yield DataFrame(kept, spark)
    finally:
        entry.release(kept)


def at_hand(frame: DataFrame) -> bool:
    """Whether one task looks through the rows sooner than several exchange them."""
    return bool(_statements(frame.sparkSession).isAtHand(frame._jdf))


@contextmanager
def kept(spark: SparkSession, frame: DataFrame) -> Iterator[DataFrame]:
    """The rows as they are now, evaluated once; a statement that uses them has read what they were made of."""
    entry = spark._jvm.org.apache.spark.sql.lakemend.StatementReads  # type: ignore[union-attr]
    rows = entry.checkpoint(frame._jdf)
    try:
        yield DataFrame(rows, spark)
    finally:
        entry.release(rows)


def _pairs(table: Table, rows: Any, where: Condition | None) -> list[tuple[DataFrame, Condition]]:
    if where is not None:
        return [(table._frame(rows), where)]
    if not isinstance(rows, list | tuple) or not rows or not all(isinstance(p, tuple) and len(p) == 2 for p in rows):
        raise InvalidInputError(
            "replace_where does not say what is replaced",
            remedy="pass a condition, or a list of (rows, condition) pairs",
        )
    return [(table._frame(frame), condition) for frame, condition in rows]


# ---- dry run


def _planned(table: Table, operation: str, gone: DataFrame, inserted: int) -> Report:
    files = rows_by_file(table, gone)
    rows = sum(files.values())
    every = table.files().num_rows
    report = Report(operation, table.name, dry_run=True, inserted=inserted, deleted=rows)
    plan = {"version": table.version, "rows": rows, "files": files, "inserted": inserted}
    return replace(report, files_scanned=len(files), files_skipped=every - len(files), plan=plan)


def _require_inside(table: Table, frame: DataFrame, condition: Condition) -> None:
    outside = frame.where(~F.coalesce(_column(condition), F.lit(False)))
    count = outside.count()
    if count:
        shown = condition if isinstance(condition, str) else str(condition)
        sample = [row.asDict(recursive=True) for row in outside.limit(_SAMPLE).collect()]
        raise RowsOutsidePredicateError(
            f"{count} incoming rows do not satisfy {shown}, for example {sample[0]}",
            cause=f"they would lie outside of what is replaced in {table.name}",
            remedy="filter the rows, or widen the predicate; check=False lets them in. Nothing was changed",
            count=count,
            sample=sample,
            predicate=shown,
        )


def _fitted(table: Table, frame: DataFrame) -> DataFrame:
    """The frame's columns as the table would keep them, as far as it has them."""
    known = {field.name.lower(): field for field in table.schema.fields}
    partitions = {part["source"][0].lower() for part in table._load()["partitioning"]}
    return frame.select(
        *[
            _kept(field, known[field.name.lower()], field.name.lower() in partitions)
            for field in frame.schema.fields
            if field.name.lower() in known
        ]
    )


def _kept(incoming: StructField, field: StructField, partition: bool) -> Column:
    value = F.expr(as_stored(_quoted(incoming.name), incoming.dataType, field, partition=partition))
    declared = str(field.metadata.get(CHAR_TYPE, ""))
    # A CHAR is known for what it is: then Spark fills up what it is compared with.
    return value.alias(field.name, metadata={CHAR_TYPE: declared} if declared.startswith("char(") else {})


def _statements(spark: SparkSession) -> Any:
    """The connector's entry; looking it up costs a message per part of its name, so it is kept with its JVM."""
    jvm: Any = spark._jvm
    found = _entries.get(jvm)
    if found is None:
        found = _entries[jvm] = jvm.org.apache.spark.sql.lakemend.ReplaceStatements
    return found


def _column(condition: Condition) -> Column:
    return F.expr(condition) if isinstance(condition, str) else condition


def _quoted(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"
