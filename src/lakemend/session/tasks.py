"""How far the Spark jobs of a statement are, by the tasks of the stages that run. Verbs ask for their progress bars."""

from __future__ import annotations

from collections.abc import Callable

from pyspark.sql import SparkSession

PROGRESS_SETTING = "spark.lakemend.progress"


def bars_wanted(spark: SparkSession) -> bool | None:
    """What the session says of bars; None: where they can be seen. Spark's own bar leaves no room for another."""
    said = str(spark.conf.get(PROGRESS_SETTING, "") or "").strip().lower()
    if not said and spark.conf.get("spark.ui.showConsoleProgress", "false") == "true":
        return False
    return {"true": True, "false": False}.get(said)


def share_done(spark: SparkSession) -> Callable[[], float]:
    """A share from 0 to 1 that never falls: stages that are still to come are not known."""
    seen: dict[int, tuple[int, int]] = {}
    highest = 0.0

    def share() -> float:
        nonlocal highest
        tracker = spark.sparkContext.statusTracker()
        active = set(tracker.getActiveStageIds())
        for stage in active:
            told = tracker.getStageInfo(stage)
            if told is not None:
                seen[stage] = told.numCompletedTasks, told.numTasks
        for stage in seen.keys() - active:
            seen[stage] = seen[stage][1], seen[stage][1]
        tasks = sum(every for _, every in seen.values())
        if tasks:
            highest = max(highest, min(sum(done for done, _ in seen.values()) / tasks, 1.0))
        return highest

    return share
