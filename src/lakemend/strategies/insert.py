"""insert: rows of new keys come in, rows of known keys are ignored, and no file that is there is touched."""

from __future__ import annotations

from lakemend.strategies.statement import Merge
from lakemend.strategies.strategy import CREATING, Strategy
from lakemend.strategies.task import Task


def merge(task: Task) -> Merge:
    return Merge(task.source, task.on, unmatched=task.inserts)


STRATEGY = Strategy("insert", merge, options=CREATING)
