"""Tests that ask for `read`, `append` or `create` run through every door."""

from __future__ import annotations

import pytest

from tests.behaviour.doors import APPENDS, CREATES, READS, Door


@pytest.fixture(params=["api", "sql", "dataframe"])
def door(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def read(door: str) -> Door:
    return READS[door]


@pytest.fixture
def append(door: str) -> Door:
    return APPENDS[door]


@pytest.fixture
def create(door: str) -> Door:
    return CREATES[door]
