"""delete_insert: all rows of the source's keys are replaced by the source's rows; a key may occur many times in both.

It is `replace_using`, with the checks and the statistics of a merge.
"""

from __future__ import annotations

from lakemend.replace import Settings, replace_using
from lakemend.report import Report
from lakemend.strategies.strategy import CREATING, Strategy
from lakemend.strategies.task import Task


def replaced(task: Task, dry_run: bool, retries: int | None) -> Report:
    settings = Settings(schema_evolution=task.options.schema_evolution, dry_run=dry_run, retries=retries)
    return replace_using(task.table, task.source, [key.table for key in task.keys], settings)


STRATEGY = Strategy("delete_insert", runs=replaced, options=CREATING, repeats=True)
