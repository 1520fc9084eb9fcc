"""One PostgreSQL for the tests of this directory, a schema of its own for each test that asks for one."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.journal.postgres.server import MISSING, Server, programs, running
from tests.journal.postgres.world import World


@pytest.fixture(scope="session")
def server() -> Iterator[Server]:
    pytest.importorskip("psycopg")
    if programs() is None:
        pytest.skip(MISSING)
    with running("fsync=off", "synchronous_commit=off", "full_page_writes=off") as started:
        yield started


@pytest.fixture
def conninfo(server: Server) -> Iterator[str]:
    """Of an empty schema."""
    name = server.make_schema()
    yield server.conninfo(name)
    server.drop_schema(name)


@pytest.fixture(params=["TIMESTAMP", "BIGINT"])
def world(request: pytest.FixtureRequest, conninfo: str) -> Iterator[World]:
    """The table `depts` (id, name, budget, city), journaled with versions of each type."""
    made = World.of(conninfo, request.param)
    yield made
    made.close()
