"""Places where a table may be made: what a writer left that died before it had made its table does not count."""

from __future__ import annotations

import os

import pytest

from lakemend.errors import NotATableError
from tests.unit.brain.conftest import SCHEMA

FIRST = "part-00000-0b0f6f1c-7a3e-4d3f-9d3a-1f6f0d1c2b3a-first.snappy.parquet"
PLAIN = FIRST.replace("-first", "-c000")


@pytest.mark.parametrize(
    ("left", "may_be_made"),
    [
        ([FIRST], True),
        ([FIRST, f"day=2024-01-01/{FIRST}", "_temporary/x", f".{FIRST}.crc"], True),
        ([f"day=2024-01-01/hour=3/{FIRST}"], True),
        (["day=2024-01-01/"], True),
        ([PLAIN], False),
        ([FIRST, PLAIN], False),
        ([FIRST, "data.csv"], False),
        ([f"day=2024-01-01/{PLAIN}"], False),
        ([FIRST, "day=2024-01-01/data.csv"], False),
        ([f"sub/{FIRST}"], False),
        (["sub/"], False),
    ],
)
def test_what_a_dead_writer_left_does_not_count(lake, left, may_be_made):
    for name in left:
        os.makedirs(os.path.dirname(os.path.join(lake.path, name)), exist_ok=True)
        if not name.endswith("/"):
            lake.on_disk({"path": name})
    request = {"table": lake.at, "mode": "create", "schema": SCHEMA, "partitioning": []}
    if may_be_made:
        assert lake.load(creatable=True)["version"] is None
        lake.create()
        assert lake.commit(added=[lake.file()])["version"] == "1"
        return
    for op in ("stage", "load"):
        with pytest.raises(NotATableError, match="no table can be made"):
            lake.brain.ask(op, {**request, "creatable": True})
