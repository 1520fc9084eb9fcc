"""upsert: rows of known keys become the source's, rows of new keys come in, all others stay."""

from __future__ import annotations

from lakemend.strategies.statement import Merge
from lakemend.strategies.strategy import CHANGING, Strategy
from lakemend.strategies.task import Task


def merge(task: Task) -> Merge:
    return Merge(task.source, task.on, matched=task.updates, unmatched=task.inserts)


STRATEGY = Strategy("upsert", merge, options=CHANGING)
