"""Journals answer as plain tables do: a sample of generated statements on DuckDB, and ten thousand on demand."""

from __future__ import annotations

import pytest

from tests.journal.equivalence import ODD_NAMES, PLAIN_NAMES, Tally, run
from tests.unit.journal.duck import Duck

KINDS = [
    pytest.param(PLAIN_NAMES, "BIGINT", False, id="bigint"),
    pytest.param(ODD_NAMES, "TIMESTAMP", False, id="odd names, timestamp"),
    pytest.param(ODD_NAMES, "BIGINT", True, id="odd names, settled"),
]


def worlds(shapes: object, kind: str, settled: bool, seeds: range, steps: int) -> Tally:
    engine, total = Duck(kind, settled), Tally()
    for seed in seeds:
        tally = run(engine, seed, steps, shapes)  # type: ignore[arg-type]
        for name in ("changes", "changed", "errors", "queries", "rows"):
            setattr(total, name, getattr(total, name) + getattr(tally, name))
        total.kinds += tally.kinds
    return total


@pytest.mark.parametrize(("shapes", "kind", "settled"), KINDS)
def test_a_sample(shapes: object, kind: str, settled: bool) -> None:
    total = worlds(shapes, kind, settled, range(4), 50)
    assert {"INSERT", "UPDATE", "DELETE", "MERGE", "ON CONFLICT"} <= set(total.kinds)
    # Statements that all fail, or find no rows, would prove nothing.
    assert total.changed > total.changes / 2
    assert total.errors < total.changes / 2
    assert total.rows > total.queries


@pytest.mark.slow
@pytest.mark.parametrize(("shapes", "kind", "settled"), KINDS)
def test_ten_thousand(shapes: object, kind: str, settled: bool) -> None:
    total = worlds(shapes, kind, settled, range(1000, 1040), 100)
    assert total.changes + total.queries >= 3900
    assert {"INSERT", "UPDATE", "DELETE", "MERGE", "ON CONFLICT", "as of"} <= set(total.kinds)
