"""A place for a table, for the tests of this directory."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.unit.delta_write.delta_tables import Lake


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    return Lake(tmp_path / "t")
