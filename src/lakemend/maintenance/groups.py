"""Which small files become one: bin-packing, in pure Python.

`rewrite_plan.py` calls `pack` for the files of each partition. The order of the files is kept where it can be: files
that were written one after the other often hold neighbouring values, and so do the files made of them.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Sequence


def pack(weights: Sequence[float], limit: float) -> list[list[int]]:
    """Places of `weights` in bins of at most `limit`; one heavier than that has a bin of its own.

    No two bins fit together: what is packed again as it is stays as it is.
    """
    runs = _runs(weights, limit)
    sums = [sum(weights[i] for i in run) for run in runs]
    bins = _best_fit(sums, limit)
    return [[i for run in sorted(found) for i in runs[run]] for found in bins]


def _runs(weights: Sequence[float], limit: float) -> list[list[int]]:
    """Neighbours, for as long as they fit."""
    runs: list[list[int]] = []
    filled = limit
    for i, weight in enumerate(weights):
        if not runs or filled + weight > limit:
            runs.append([])
            filled = 0.0
        runs[-1].append(i)
        filled += weight
    return runs


def _best_fit(weights: Sequence[float], limit: float) -> list[list[int]]:
    """The heaviest first, each into the fullest bin that has room."""
    bins: list[list[int]] = []
    room: list[tuple[float, int]] = []  # ascending; (what is left of a bin, its place)
    for i in sorted(range(len(weights)), key=lambda i: (-weights[i], i)):
        at = bisect_left(room, (weights[i], -1))
        if at == len(room):
            bins.append([i])
            insort(room, (limit - weights[i], len(bins) - 1))
            continue
        left, found = room.pop(at)
        bins[found].append(i)
        insort(room, (left - weights[i], found))
    return sorted(bins, key=min)
