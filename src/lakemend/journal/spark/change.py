"""One INSERT, UPDATE, DELETE or MERGE: its rows are made once, proven, and appended to the journal.

`session.py` calls `run_change` with the rewritten statement. What is appended is what was proven: the rows are kept
before they are looked at, and the append conflicts with everything that changed the journal since it was pinned.
Nothing is written before every proof has passed.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace
from functools import reduce
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql import types as T

from lakemend.errors import CardinalityError, DuplicateKeyError, JournalRefusedError
from lakemend.journal.model import Model, Table
from lakemend.journal.rewriting import Check, Rewrite
from lakemend.journal.spark.declared import fitted
from lakemend.journal.spark.pinned import Pinned, Storage
from lakemend.journal.spark.relations import Relations, keep, release
from lakemend.journal.sql import Sql
from lakemend.report import Report
from lakemend.table.names import quoted

_COUNT = "__lakemend_count"
_KEY = "__lakemend_key_"
# The current rows of a small table are made once for a statement that reads them more often than this.
_OFTEN, _FEW = 2, 1_000_000
# Up to so many rows of a statement go into one file.
_ONE_FILE = 100_000


@dataclass(frozen=True)
class Change:
    """A rewritten statement with what it runs on."""

    spark: SparkSession
    model: Model
    table: Table
    rewrite: Rewrite
    args: Any
    storage: Storage
    pinned: Pinned
    relations: Relations
    journal: str  # the names that stand for the journal and for the current rows in its texts
    current: str

    def frame(self, sql: Sql, version: str) -> DataFrame:
        bound = sql.bound(version)
        with self.relations.in_place(bound):
            return self.spark.sql(str(bound), args=arguments(bound, self.args))


def run_change(change: Change) -> Report:
    """CommitConflictError: somebody was faster, and nothing has happened."""
    texts = [check.query for check in change.rewrite.checks] + [*change.rewrite.statements]
    rows = change.pinned.rows
    often = change.relations.uses(change.current, *texts) > _OFTEN and rows is not None and rows <= _FEW
    with change.relations.kept(change.current) if often else nullcontext():
        return _run(change)


def _run(change: Change) -> Report:
    rewrite, pinned, storage = change.rewrite, change.pinned, change.storage
    number = storage.versions.next(pinned.last)
    version = storage.versions.sql(number)
    # All are read by Spark before the first one runs, so that what they name is as much the same as it can be.
    checks = [(check, change.frame(check.query, version)) for check in rewrite.checks]
    wanted = _rows(change, version)
    _require_none(checks)
    rows = keep(wanted)
    try:
        written = rows.count()
        report = Report(rewrite.kind, str(change.table))
        if written == 0:
            return report
        _prove(change, rows, version)
        counts = _counts(change, rows, written, version)
        few = rows.coalesce(1) if written <= _ONE_FILE else rows
        landed = storage.append(pinned, few, number, rewrite.kind)
        shown = storage.versions.shown(number)
        return replace(report, version=landed, plan={change.model.version: shown}, **counts)
    finally:
        release(rows)


def _rows(change: Change, version: str) -> DataFrame:
    """What the statement appends, with the columns of the journal and their types."""
    frames = [_typed(change.frame(_query(s), version), s.columns, change.storage) for s in change.rewrite.statements]
    return reduce(DataFrame.unionAll, frames)


def _query(statement: Sql) -> Sql:
    if statement.query is None or statement.query.lstrip()[:6].upper() == "VALUES":
        raise JournalRefusedError(
            "DEFAULT cannot be written as a value here",
            cause="the rows are made before they are inserted, and a query has no DEFAULT",
            remedy="leave the column out of the column list of INSERT",
            keyword="DEFAULT",
        )
    return statement.query


def _typed(frame: DataFrame, columns: Sequence[str], storage: Storage) -> DataFrame:
    """Values as INSERT stores them: what does not fit its column is an error; a column left out has its default."""
    schema = storage.schema
    given = T.StructType([T.StructField(name, schema[name].dataType) for name in columns])
    frame = frame.toDF(*columns).to(given).select(*[fitted(schema[name]).alias(name) for name in columns])
    for field in schema.fields:
        if field.name not in columns:
            default = F.expr((field.metadata or {}).get("CURRENT_DEFAULT", "NULL"))
            frame = frame.withColumn(field.name, fitted(field, default.cast(field.dataType)))
    return frame.select(*[F.col(quoted(name)) for name in schema.names])


def _require_none(checks: Sequence[tuple[Check, DataFrame]]) -> None:
    """In one query, as they have much in common; which row it was is asked where there is one."""
    if not checks:
        return
    found = [frame.limit(1).select(F.lit(i).alias("i")) for i, (_, frame) in enumerate(checks)]
    failed = reduce(DataFrame.unionAll, found).agg(F.min("i")).collect()[0][0]
    if failed is not None:
        check, frame = checks[failed]
        raise check.error(frame.head())


def _prove(change: Change, rows: DataFrame, version: str) -> None:
    """A key has one row of a version. What the checks saw may have changed, where it is none of ours: here it has
    not."""
    keys = [F.col(quoted(k)) for k in change.table.key]
    twice = rows.groupBy(*keys).agg(F.count(F.lit(1)).alias(_COUNT)).where(F.col(_COUNT) > 1).drop(_COUNT).head()
    if twice is not None:
        shown = ", ".join(f"{k} = {v!r}" for k, v in zip(change.table.key, twice, strict=True))
        kind = DuplicateKeyError if change.rewrite.kind == "insert" else CardinalityError
        raise kind(
            f"the {change.rewrite.kind} gives {change.table} the row {shown} more than once",
            cause="its source has several rows of this key",
            remedy="Make the source have one row of each key",
            table=str(change.table),
        )
    # The proofs ask for rows of this version: to them the new rows are the journal.
    if change.rewrite.proofs:
        change.relations.put(change.journal, lambda: rows)
        _require_none([(proof, change.frame(proof.query, version)) for proof in change.rewrite.proofs])


def _counts(change: Change, rows: DataFrame, written: int, version: str) -> dict[str, Any]:
    """The rows of the logical table that were changed."""
    kind = change.rewrite.kind
    if kind == "merge":
        return _counts_of_merge(change, rows, written)
    if change.rewrite.affected is not None:
        change.relations.put(change.journal, lambda: rows)
        row = change.frame(change.rewrite.affected, version).head()
        written = 0 if row is None else int(row[0])
    return {{"insert": "inserted", "update": "updated", "delete": "deleted"}[kind]: written}


def _counts_of_merge(change: Change, rows: DataFrame, written: int) -> dict[str, Any]:
    """A row that stays was there before, or is new."""
    live = rows.where(F.col(quoted(change.model.subsequent)).isNull())
    names = [f"{_KEY}{i}" for i in range(len(change.table.key))]
    there = change.relations.frame(change.current)
    there = there.select(*[F.col(quoted(k)).alias(name) for k, name in zip(change.table.key, names, strict=True)])
    same = [live[quoted(k)] == there[name] for k, name in zip(change.table.key, names, strict=True)]
    staying, updated = live.count(), live.join(there, same, "left_semi").count()
    return {"inserted": staying - updated, "updated": updated, "deleted": written - staying}


def arguments(sql: Sql, args: Any) -> Any:
    """The values of a text's placeholders as Spark takes them."""
    found = sql.arguments(args if args is not None else ())
    return (found if isinstance(found, dict) else list(found)) or None
