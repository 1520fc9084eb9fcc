"""delete_insert: all rows of the source's keys are replaced by the source's rows; a key may occur many times in both.

It is `replace_using`, with the checks and the statistics of a merge. With `delete_when` it is a MERGE: rows that mean a
deletion name their key, as all others do, and do not come in.
"""

from __future__ import annotations

from pyspark.sql import functions as F

from lakemend.replace import Settings, replace_using
from lakemend.report import Report
from lakemend.strategies.statement import Clause, Merge, quoted
from lakemend.strategies.strategy import CREATING, Strategy
from lakemend.strategies.task import GONE, Task

_KEY = "__lakemend_key"


def merge(task: Task) -> Merge:
    """Each key of the source once, which matches what goes, and the rows that come in, which match nothing."""
    keys = task.source.select(*[F.col(quoted(key.source)) for key in task.keys]).distinct()
    rows = task.source.where(f"NOT {quoted(GONE)}") if task.gone is not None else task.source
    source = rows.withColumn(_KEY, F.lit(False)).unionByName(
        keys.withColumn(_KEY, F.lit(True)), allowMissingColumns=True
    )
    values = {own: f"_source.{quoted(incoming)}" for own, incoming in task.shared}
    return Merge(
        source,
        f"_source.{_KEY} AND {task.on}",
        matched=[Clause("delete")],
        unmatched=[Clause("insert", f"NOT _source.{_KEY}", values)],
        kept=True,
    )


def replaced(task: Task, dry_run: bool, retries: int | None) -> Report:
    settings = Settings(schema_evolution=task.options.schema_evolution, dry_run=dry_run, retries=retries)
    return replace_using(task.table, task.source, [key.table for key in task.keys], settings)


STRATEGY = Strategy("delete_insert", merge, runs=replaced, options=CREATING | {"delete_when"}, repeats=True)
