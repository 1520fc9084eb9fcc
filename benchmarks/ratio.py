"""How two ways to do one thing are compared, fairly, on a shared and noisy machine.

Both run alternately in one process (ours, theirs, theirs, ours, …) after a warm-up of each; the figure is the ratio of
the medians. Every benchmark module returns `Figure`s; `__main__` prints them and writes RESULTS.md.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Figure:
    """One measured line: `value` against `target` (a ratio, seconds or a count, as `unit` says)."""

    name: str
    value: float
    target: float
    unit: str
    note: str = ""

    @property
    def met(self) -> bool:
        return self.value <= self.target


@dataclass(frozen=True)
class Answer:
    """What a query took, and what it said."""

    seconds: float
    rows: list[list[Any]]


def seconds(action: Callable[[], object]) -> float:
    started = time.perf_counter()
    action()
    return time.perf_counter() - started


def compare(
    name: str,
    ours: Callable[[], object],
    theirs: Callable[[], object],
    *,
    target: float,
    rounds: int = 7,
    warm: int = 2,
) -> Figure:
    """The ratio ours/theirs, of medians over interleaved rounds."""
    for _ in range(warm):
        ours()
        theirs()
    mine: list[float] = []
    peer: list[float] = []
    for round in range(rounds):
        order = [(ours, mine), (theirs, peer)]
        for action, times in order if round % 2 == 0 else reversed(order):
            times.append(seconds(action))
    ratio = statistics.median(mine) / statistics.median(peer)
    pairs = sorted(a / b for a, b in zip(mine, peer, strict=True))
    note = (
        f"{statistics.median(mine):.3f} s against {statistics.median(peer):.3f} s; "
        f"pairwise {pairs[0]:.2f}–{pairs[-1]:.2f}, {rounds} rounds"
    )
    return Figure(name, ratio, target, "×", note)


def measure(name: str, action: Callable[[], object], *, target: float, rounds: int = 7, warm: int = 2) -> Figure:
    """Median seconds of one action."""
    for _ in range(warm):
        action()
    times = [seconds(action) for _ in range(rounds)]
    note = f"{min(times):.3f}–{max(times):.3f} s, {rounds} rounds"
    return Figure(name, statistics.median(times), target, "s", note)
