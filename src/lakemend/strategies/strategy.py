"""What a strategy is. Each stands in a file of its own beside this one, and in the list in `__init__.py`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from pyspark.sql import DataFrame

from lakemend.report import Report
from lakemend.strategies.options import Options
from lakemend.strategies.statement import Merge
from lakemend.strategies.task import Task

# Options of every strategy that may create the table, and of those that change rows.
CREATING = frozenset({"schema_evolution", "rewrite_mode", "partition_by"})
CHANGING = CREATING | {"columns", "sequence_by", "delete_when", "soft_delete", "when_changed_only"}


@dataclass(frozen=True)
class Strategy:
    """`merge` makes the statement. A strategy that `runs` in a way of its own does so unless rows mean deletions."""

    name: str
    merge: Callable[[Task], Merge] | None = None
    options: frozenset[str] = CREATING
    creates: bool = True
    takes_empty: bool = False  # an empty source means something
    repeats: bool = False  # a key may occur several times in the source
    timed: Callable[[Task], tuple[DataFrame, str]] | None = None  # … once for each time: the source, and where that is
    prepares: Callable[[DataFrame, Sequence[str], Options], DataFrame] | None = None  # before keys are looked at
    starts: Callable[[Task], DataFrame] | None = None  # the rows of a new table, where they are not the source's
    runs: Callable[[Task, bool, int | None], Report] | None = None
