"""update: rows of known keys become the source's, rows of new keys are ignored. A missing table stays missing."""

from __future__ import annotations

from lakemend.strategies.statement import Merge
from lakemend.strategies.strategy import CHANGING, Strategy
from lakemend.strategies.task import Task


def merge(task: Task) -> Merge:
    return Merge(task.source, task.on, matched=task.updates)


STRATEGY = Strategy("update", merge, options=CHANGING - {"partition_by"}, creates=False)
