"""TPC-H-like queries: those that join what lies together on disk, and those that must not pay for it.

Broadcasting stays on, as users have it.
"""

from __future__ import annotations

from collections.abc import Iterator

from benchmarks.joins.tpch_queries import ALIGNED, INDIFFERENT
from benchmarks.joins.tpch_tables import names
from benchmarks.joins.turns import AUTO, SHUFFLED, compare_plans
from benchmarks.ratio import Figure

MOST = 10


def run() -> Iterator[Figure]:
    tables = names()
    figures = []
    for what, query in ALIGNED.items():
        name = f"TPC-H-like, {what}: auto against shuffled"
        figures.append(compare_plans(name, query.format(**tables), AUTO, SHUFFLED, target=0.9, most=MOST))
        yield figures[-1]
    best = min(figures, key=lambda figure: figure.value)
    yield Figure("the best of these", best.value, 0.5, "×", best.name)
    for what, query in INDIFFERENT.items():
        name = f"TPC-H-like, no use for grouping: {what}"
        yield compare_plans(name, query.format(**tables), AUTO, SHUFFLED, target=1.03, most=MOST, warm=2)
