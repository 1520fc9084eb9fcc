"""The brain's side of the wire cases; the connector's is in tests/behaviour/test_wire.py."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from lakemend.brain.plan import wire_values
from lakemend.brain.predicate_text import to_sql
from lakemend.brain.predicates import conjunction
from lakemend.schema import from_wire, to_arrow, to_wire
from tests.wire.cases import cases


@pytest.mark.parametrize("case", cases("values"), ids=lambda case: case["sql"])
def test_values(case: dict[str, Any]) -> None:
    value = from_wire(case["wire"], case["type"])
    assert to_wire(value) == case["wire"]
    assert wire_values(pa.array([value], to_arrow(case["type"]))) == [case["wire"]]


@pytest.mark.parametrize("case", cases("predicates"), ids=lambda case: case["condition"])
def test_predicates(case: dict[str, Any]) -> None:
    assert to_sql(conjunction(case["wire"])) == case["sql"]
