"""Journals answer as plain tables do: generated statements on PostgreSQL, a sample, and ten thousand on demand."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.journal.equivalence import ODD_NAMES, PLAIN_NAMES, Tally, run
from tests.journal.postgres.engine import Postgres
from tests.journal.postgres.server import Server

KINDS = [
    pytest.param((PLAIN_NAMES, "BIGINT", True, False), id="bigint"),
    pytest.param((ODD_NAMES, "TIMESTAMP", True, True), id="odd names, timestamp, parameters"),
    pytest.param((ODD_NAMES, "BIGINT", False, False), id="odd names, in transactions"),
]


@pytest.fixture(params=KINDS)
def kind(request: pytest.FixtureRequest, server: Server) -> Iterator[tuple[Postgres, object]]:
    shapes, *options = request.param
    engine = Postgres(server, *options)
    yield engine, shapes
    engine.close()


def worlds(kind: tuple[Postgres, object], seeds: range, steps: int) -> Tally:
    engine, shapes = kind
    total = Tally()
    for seed in seeds:
        tally = run(engine, seed, steps, shapes)  # type: ignore[arg-type]
        for name in ("changes", "changed", "errors", "queries", "rows"):
            setattr(total, name, getattr(total, name) + getattr(tally, name))
        total.kinds += tally.kinds
    return total


@pytest.mark.crossed
def test_a_sample(kind: tuple[Postgres, object]) -> None:
    total = worlds(kind, range(2), 40)
    # Statements that all fail, or find no rows, would prove nothing.
    assert total.changed > total.changes / 2
    assert total.errors < total.changes / 2
    assert total.rows > total.queries


@pytest.mark.slow
@pytest.mark.crossed
def test_ten_thousand(kind: tuple[Postgres, object]) -> None:
    total = worlds(kind, range(2000, 2040), 100)
    assert total.changes + total.queries >= 3900
    assert {"INSERT", "UPDATE", "DELETE", "MERGE", "as of"} <= set(total.kinds)
