"""Names that were mistyped: which known one is meant. Whoever knows names asks here."""

from __future__ import annotations

from collections.abc import Iterable

_EDITS = 2
_SHORTEST = 6  # two letters more or less make any short word of another


def nearest(name: str, known: Iterable[str]) -> str | None:
    """The known name within two letters of this one, case aside; None if there is none, or if it is known itself."""
    lowered = name.lower()
    best: tuple[int, str] | None = None
    for candidate in known:
        if candidate.lower() == lowered:
            return None
        if len(candidate) < _SHORTEST or abs(len(candidate) - len(name)) > _EDITS:
            continue
        distance = _distance(lowered, candidate.lower())
        if distance <= _EDITS and (best is None or distance < best[0]):
            best = (distance, candidate)
    return best and best[1]


def _distance(a: str, b: str) -> int:
    """Letters inserted, dropped or replaced, and neighbours swapped, to get from one to the other."""
    before: list[int] = []
    row = list(range(len(b) + 1))
    for i, x in enumerate(a, 1):
        older, before, row = before, row, [i]
        for j, y in enumerate(b, 1):
            step = min(before[j] + 1, row[j - 1] + 1, before[j - 1] + (x != y))
            if i > 1 and j > 1 and x == b[j - 2] and a[i - 2] == y:
                step = min(step, older[j - 2] + 1)
            row.append(step)
    return row[-1]
