"""Versions as numbers: each is above all before it, whatever the clock says."""

from __future__ import annotations

import pytest
from pyspark.sql import types as T

from lakemend.errors import JournalModelError
from lakemend.journal.spark.versions import Versions

BIGINT = Versions("BIGINT", T.LongType())
TIMESTAMP = Versions("TIMESTAMP", T.TimestampType())
LOCAL = Versions("TIMESTAMP", T.TimestampNTZType())


def test_the_next_one() -> None:
    assert [BIGINT.next(last) for last in (None, 0, 41)] == [1, 1, 42]
    assert TIMESTAMP.next(None, now=2.5) == 2_500_000
    assert TIMESTAMP.next(2_499_999, now=2.5) == 2_500_000
    # A clock that is behind, or stands still.
    assert TIMESTAMP.next(2_500_000, now=2.5) == 2_500_001
    assert TIMESTAMP.next(9_000_000, now=2.5) == 9_000_001


@pytest.mark.parametrize("last", [0, 1, 999, 1000, 1001, 1_700_000_000_123_456])
def test_a_boundary_that_statistics_can_tell(last: int) -> None:
    """They cut times to milliseconds, and raise the maximum by one of them."""
    boundary = TIMESTAMP.boundary(last)
    padded_maximum = last // 1000 * 1000 + 1000
    assert last < padded_maximum <= boundary
    following = TIMESTAMP.next(TIMESTAMP.after(boundary), now=0)
    assert following // 1000 * 1000 > boundary
    assert BIGINT.boundary(last) == last < BIGINT.next(BIGINT.after(last))


def test_as_sql() -> None:
    assert BIGINT.sql(7) == "CAST(7 AS BIGINT)"
    assert TIMESTAMP.sql(7) == "timestamp_micros(CAST(7 AS BIGINT))"
    assert LOCAL.sql(1_500_000) == "TIMESTAMP_NTZ '1970-01-01 00:00:01.500000'"
    assert [v.shown(1_500_000) for v in (BIGINT, TIMESTAMP)] == [1_500_000, "1970-01-01 00:00:01.500000+00:00"]


@pytest.mark.parametrize(("kind", "type"), [("BIGINT", T.IntegerType()), ("TIMESTAMP", T.LongType())])
def test_another_type(kind: str, type: T.DataType) -> None:
    with pytest.raises(JournalModelError, match="journal"):
        Versions.of(kind, type, "depts_journal", "version_number")
