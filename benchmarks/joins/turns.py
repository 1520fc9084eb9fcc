"""Several ways to one answer, which take turns: how long each took, and that all of them say the same.

The modules of this package hand over an action per way; what they get back makes their figures.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from benchmarks.data import settings, spark
from benchmarks.ratio import Answer, Figure, seconds

# Fewer rounds say nothing, more say nothing new; what lies between depends on how long a round takes.
LEAST = 3
MOST = 31

SWITCH = "spark.lakemend.planning.preserveDataGrouping"
SHUFFLES = "spark.sql.shuffle.partitions"
NO_BROADCAST = {"spark.sql.autoBroadcastJoinThreshold": "-1", "spark.sql.adaptive.autoBroadcastJoinThreshold": "-1"}


@dataclass(frozen=True)
class Way:
    """How a query is planned: a name for it, and the settings that make it so."""

    name: str
    settings: Mapping[str, str]

    def answer(self, query: str) -> Answer:
        with settings(self.settings):
            rows: list[list[object]] = []
            taken = seconds(lambda: rows.extend(list(row) for row in spark().sql(query).collect()))
        return Answer(taken, rows)

    def without_broadcasts(self) -> Way:
        return Way(self.name, {**self.settings, **NO_BROADCAST})


AUTO = Way("auto", {SWITCH: "auto"})
ALWAYS = Way("true", {SWITCH: "true"})
# Into as many parts as the session's own setting says, which is made for this machine; and into Spark's default number.
SHUFFLED = Way("shuffled", {SWITCH: "false"})
SHUFFLED_200 = Way("shuffled into 200", {SWITCH: "false", SHUFFLES: "200"})


@dataclass(frozen=True)
class Turns:
    """Seconds per way and round."""

    times: Mapping[str, list[float]]

    def median(self, way: str) -> float:
        return statistics.median(self.times[way])

    def figure(self, name: str, mine: str, *theirs: str, target: float) -> Figure:
        """The ratio of medians of one way to the best of the others."""
        best = min(theirs, key=self.median)
        pairs = sorted(a / b for a, b in zip(self.times[mine], self.times[best], strict=True))
        medians = ", ".join(f"{way} {self.median(way):.3f} s" for way in (mine, *theirs))
        note = f"{medians}; pairwise {pairs[0]:.2f}–{pairs[-1]:.2f}, {len(pairs)} rounds"
        return Figure(name, self.median(mine) / self.median(best), target, "×", note)


def take_turns(actions: Mapping[str, Callable[[], Answer]], *, most: float = 12, warm: int = 3) -> Turns:
    """Rounds of all actions, each round beginning with another, for about `most` seconds after the `warm` ones.

    Every answer of every way must be the same, in whatever order its rows come.
    """
    names = list(actions)
    times: dict[str, list[float]] = {name: [] for name in names}
    first: tuple[str, list[str]] | None = None
    number, spent = -warm, 0.0
    while number < LEAST or (number < MOST and spent * (number + 1) / number <= most):
        turn = number % len(names)
        for name in names[turn:] + names[:turn]:
            answer = actions[name]()
            rows = sorted(map(repr, answer.rows))
            first = first or (name, rows)
            if rows != first[1]:
                raise AssertionError(f"{name} answers {rows[:5]}, {first[0]} answers {first[1][:5]}")
            if number >= 0:
                times[name].append(answer.seconds)
                spent += answer.seconds
        number += 1
    return Turns(times)


def compare_plans(
    name: str, query: str, mine: Way, *theirs: Way, target: float, most: float = 12, warm: int = 3
) -> Figure:
    """A query planned in several ways: the ratio of the first to the best of the others."""
    ways = (mine, *theirs)
    turns = take_turns({way.name: lambda way=way: way.answer(query) for way in ways}, most=most, warm=warm)  # type: ignore[misc]
    return turns.figure(name, *(way.name for way in ways), target=target)
