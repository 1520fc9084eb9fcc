"""Merging by key: a strategy says what becomes of rows whose key is known, new, or missing in the source.

`Table.merge` calls `merge`. The source becomes a frame (`source.py`), keys and columns are checked (`keys.py`,
`task.py`), the strategy puts one MERGE together (a file for each, `statement.py`), and that is run, or counted for a
dry run. A new strategy is a new file and an entry in `STRATEGIES`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any
from uuid import uuid4

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from lakemend.errors import CommitConflictError, InvalidInputError, TableExistsError, TableNotFoundError
from lakemend.own_names import require_free_names
from lakemend.redaction import logger
from lakemend.replace import steady_source
from lakemend.report import Report
from lakemend.spelling import nearest
from lakemend.statements import retry_limit, run_with_retries
from lakemend.strategies import deduplicate, delete_insert, full_merge, insert, scd2, update, upsert
from lakemend.strategies.keys import Key, column, key_names, look_at_source, require_keys_in_table
from lakemend.strategies.options import Options, names
from lakemend.strategies.source import as_frame
from lakemend.strategies.strategy import Strategy
from lakemend.strategies.task import Task, require_soft, task_of

if TYPE_CHECKING:
    from lakemend.table import Table

log = logger(__name__)

STRATEGIES: dict[str, Strategy] = {
    module.STRATEGY.name: module.STRATEGY
    for module in (upsert, insert, update, full_merge, deduplicate, delete_insert, scd2)
}


def merge(
    table: Table,
    source: Any,
    key_columns: str | Sequence[str],
    strategy: str,
    options: Options,
    *,
    dry_run: bool = False,
    retries: int | None = None,
) -> Report:
    """Merges the source into the table by its keys, in one version."""
    chosen = strategy_named(strategy)
    options.require_meaning(chosen.name, chosen.options)
    retry_limit(table.spark, retries)  # a dry run, too, refuses what the merge would refuse
    if chosen.name != "scd2":
        require_soft(options)
    keys = key_names(key_columns)
    frame = as_frame(table, source)
    require_free_names(frame.columns, "the source")
    if chosen.prepares is not None:
        frame = chosen.prepares(frame, keys, options)
    with steady_source(table.spark, frame) as rows:
        there = table.exists()
        try:
            return _merged(table, rows, keys, chosen, options, dry_run, retries)
        except (CommitConflictError, TableExistsError):
            if there:
                raise
            log.info("%s was made by another writer, and is merged into", table.name)
            return _merged(table, rows, keys, chosen, options, dry_run, retries)


def _merged(
    table: Table,
    source: DataFrame,
    key_columns: Sequence[str],
    strategy: Strategy,
    options: Options,
    dry_run: bool,
    retries: int | None,
) -> Report:
    target = _schema(table)
    require_free_names(() if target is None else target.names, table.name)
    task = task_of(table, source, key_columns, options, target)
    made = strategy.merge if strategy.runs is None or options.delete_when is not None else None
    if made is not None and target is not None:
        made(task)  # names that cannot be found are told before anything is read
    looked, unique = task.source, list(task.keys)
    if strategy.timed is not None and options.sequence_by is not None:
        looked, time = strategy.timed(task)
        unique.append(Key(time, time, None))
    facts = look_at_source(looked, unique, strategy.repeats)
    task = replace(task, facts=facts)
    if target is None:
        return _created(task, strategy, dry_run)
    table._require_shape(options.partition_by, None)
    if not facts.rows and not strategy.takes_empty and not options.retire_missing:
        return _with_stats(table, Report("merge", table.name, dry_run=dry_run))
    require_keys_in_table(table, task.keys)
    if made is None:
        assert strategy.runs is not None
        report = strategy.runs(task, dry_run, retries)
        return _with_stats(table, replace(report, operation="merge"))
    if dry_run:
        planned = replace(made(task), schema_evolution=options.schema_evolution)
        # Keys are known to occur once in the source as it came.
        one_each = [key.source for key in task.keys] if planned.source is task.source and not strategy.repeats else []
        return _with_stats(table, planned.planned(table, one_each))

    def statement(spark: SparkSession) -> None:
        schema = table.schema  # another writer may have brought columns since
        fresh = task if schema == target else task_of(table, source, key_columns, options, schema)
        merge = replace(made(replace(fresh, facts=facts)), schema_evolution=options.schema_evolution)
        merge.run(spark, table.name, f"lakemend_merge_{uuid4().hex}")

    return _with_stats(table, replace(run_with_retries(table, "merge", statement, retries), operation="merge"))


def _schema(table: Table) -> StructType | None:
    try:
        return table.schema
    except TableNotFoundError:
        return None


def _created(task: Task, strategy: Strategy, dry_run: bool) -> Report:
    """The table that the merge makes, if it is one that makes tables."""
    table = task.table
    if not strategy.creates:
        return replace(Report("merge", table.name, dry_run=dry_run), stats=_stats(0, 0, 0, 0))
    rows = strategy.starts(task) if strategy.starts is not None else task.first_rows
    for name in names(task.options.partition_by):
        column(rows.schema, name, "the source", "column for partition_by,")
    if dry_run:
        count = rows.count()
        return replace(Report("merge", table.name, dry_run=True, inserted=count), stats=_stats(count, 0, 0, count))
    report = table._create(rows, names(task.options.partition_by), None, None)
    total = report.total if report.total is not None else report.inserted
    return replace(report, operation="merge", stats=_stats(report.inserted, 0, 0, total))


def _with_stats(table: Table, report: Report) -> Report:
    """The report with the four counts of a merge; those of a dry run are what they would be."""
    total = report.total
    if total is None:
        rows = table.detail()["rows"]
        total = table.to_df().count() if rows is None else rows
        if report.dry_run:
            total += report.inserted - report.deleted
    return replace(report, total=total, stats=_stats(report.inserted, report.updated, report.deleted, total))


def _stats(inserted: int, updated: int, deleted: int, total: int) -> dict[str, int]:
    return {"inserted": inserted, "updated": updated, "deleted": deleted, "total": total}


def require_mode(strategy: str, mode: str | None) -> None:
    """Raises where a mode of a plain write contradicts the strategy."""
    chosen = strategy_named(strategy).name
    if mode is None or (str(mode).lower() == "append" and chosen == "insert"):
        return
    raise InvalidInputError(
        f"mode {mode!r} does not go with strategy {chosen!r}",
        cause="the strategy says which rows are written, and which take the place of others",
        remedy="leave mode out" + ("" if chosen == "insert" else ", or use strategy='insert', which only appends"),
        mode=str(mode),
        strategy=chosen,
    )


def strategy_named(name: str) -> Strategy:
    found = STRATEGIES.get(str(name))
    if found is None:
        meant = nearest(str(name), STRATEGIES)
        raise InvalidInputError(
            f"there is no strategy {name!r}" + (f"; did you mean {meant}?" if meant else ""),
            cause=f"the strategies are {', '.join(STRATEGIES)}",
            remedy="use one of them",
            strategy=str(name),
        )
    return found
