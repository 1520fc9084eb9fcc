"""full_merge: the table gets the source's keys, and no others: known ones change, new ones come in, the rest goes."""

from __future__ import annotations

from lakemend.errors import InvalidInputError
from lakemend.strategies.statement import Merge
from lakemend.strategies.strategy import CHANGING, Strategy
from lakemend.strategies.task import Task


def merge(task: Task) -> Merge:
    if task.options.rewrite_mode == "incremental":
        raise InvalidInputError(
            "full_merge cannot be incremental",
            cause="every row whose key the source lacks goes, in whatever file it is",
            remedy="leave rewrite_mode out, or use upsert",
            option="rewrite_mode",
        )
    updates, gone = task.updates_of_all, [task.retired]
    return Merge(task.source, task.on, matched=updates, unmatched=task.inserts, unmatched_by_source=gone)


STRATEGY = Strategy("full_merge", merge, options=CHANGING, takes_empty=True)
