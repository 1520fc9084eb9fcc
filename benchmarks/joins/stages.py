"""What the tasks of a piece of work did, as Spark's status store has it (there is one without the UI, too)."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from benchmarks.data import spark

_numbers = itertools.count(1)


@dataclass(frozen=True)
class Work:
    """Of all tasks together, and of the one that needed most."""

    shuffled: int  # bytes written for other tasks to read
    peak: int  # bytes a single task held at most, to sort and to join


def work_of(action: Callable[[], object]) -> Work:
    """Runs the action, and says what its tasks did."""
    context = spark().sparkContext
    group = f"lakemend-bench-{next(_numbers)}"
    scala = context._jsc.sc()
    context.setJobGroup(group, group)
    try:
        action()
    finally:
        scala.clearJobGroup()
    scala.listenerBus().waitUntilEmpty()  # what tasks did arrives later than their results
    store = scala.statusStore()
    stages = [store.lastStageAttempt(number) for number in _stage_ids(store, group)]
    stages = [stage for stage in stages if stage.numCompleteTasks() > 0]  # the others found their work done
    if not stages:
        raise AssertionError(f"Spark's status store knows of no stage of {group}")
    return Work(
        sum(stage.shuffleWriteBytes() for stage in stages),
        max(_largest_peak(store, stage) for stage in stages),
    )


def _stage_ids(store: Any, group: str) -> set[int]:
    jobs = [job for job in _seq(store.jobsList(None)) if job.jobGroup().isDefined() and job.jobGroup().get() == group]
    return {stage for job in jobs for stage in _seq(job.stageIds())}


def _largest_peak(store: Any, stage: Any) -> int:
    """A stage's own figure is the sum of its tasks'."""
    gateway: Any = spark().sparkContext._gateway
    quantiles = gateway.new_array(gateway.jvm.double, 1)
    quantiles[0] = 1.0
    summary = store.taskSummary(stage.stageId(), stage.attemptId(), quantiles)
    return int(summary.get().peakExecutionMemory().apply(0)) if summary.isDefined() else 0


def _seq(items: Any) -> Iterator[Any]:
    for i in range(items.length()):
        yield items.apply(i)
