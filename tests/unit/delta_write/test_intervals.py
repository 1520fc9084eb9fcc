"""Durations in table properties: every spelling that Spark reads, and nothing expires by one that nobody reads."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from lakemend.brain.service import Brain
from lakemend.errors import InvalidInputError
from lakemend.formats.delta.checkpoint_writer import state_of, write_checkpoint
from lakemend.formats.delta.cleanup import clean_log
from lakemend.formats.delta.intervals import interval, parse_interval
from lakemend.formats.format import Change
from tests.unit.delta_write.delta_tables import Lake, metadata

DAY = 86_400_000
# As Spark's CalendarInterval reads them; tests/behaviour/test_intervals.py asks it.
SPELLINGS = {
    "interval 30 days": 30 * DAY,
    "30 days": 30 * DAY,
    "interval 1 weeks 2 days": 9 * DAY,
    "INTERVAL 1 Week 2 hours": 7 * DAY + 7_200_000,
    "  interval   1\tday ": DAY,
    "interval 604800000000 microseconds": 7 * DAY,
    "interval 1500 microseconds": 1,
    "interval 90 minutes 30 seconds 5 milliseconds": 5_430_005,
    "interval 1.5 seconds": 1500,
    "interval .25 second": 250,
    "interval 2. seconds": 2000,
    "interval 0.123456789 seconds": 123,
    "interval 2 days -1 hours": 2 * DAY - 3_600_000,
    "interval + 1 day - 1 second": DAY - 1000,
    "1 day 1 day": 2 * DAY,
    "interval 0 seconds": 0,
    "interval 007 days": 7 * DAY,
}
WRONG = [
    "", "interval", "30", "interval 30", "interval x days", "interval 1 fortnight", "interval 1.5 days", "P7D",
    "interval 1day", "intervals 1 day", "interval1 day", "interval 1 days,2 hours", "interval 1 nanosecond",
    "interval 1 dayss", "interval days 1", "interval -- 1 day", "interval 1 2 days", "interval 1e3 days",
]  # fmt: skip
UNEVEN = ["interval 1 month", "interval 1 year 2 days", "interval -1 day", "interval 1 hour -2 hours"]
KEY = "delta.logRetentionDuration"


@pytest.mark.parametrize("text", SPELLINGS)
def test_spellings(text: str) -> None:
    assert parse_interval(text) == SPELLINGS[text]


def test_quoted_as_in_sql() -> None:
    assert parse_interval("INTERVAL '1' WEEK") == 7 * DAY


@pytest.mark.parametrize("text", [*WRONG, *UNEVEN])
def test_what_is_no_duration(text: str) -> None:
    with pytest.raises(InvalidInputError) as caught:
        interval({KEY: text}, KEY, "interval 30 days")
    assert caught.value.values == {"property": KEY, "value": text}
    with pytest.raises(InvalidInputError, match=KEY):
        metadata(properties={KEY: text})


def test_a_property_that_is_not_set() -> None:
    assert interval({}, KEY, "interval 30 days") == 30 * DAY


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    """Version 1 took out the file of version 0."""
    made = Lake(tmp_path / "t")
    base = made.create(rows=[{"id": 1, "p": "a", "x": 0.0}])
    made.commit(base, Change("delete", removed=made.removed(base, 0), transaction=("app", 1)))
    return made


@pytest.mark.parametrize("text", ["a while", "interval 1 month"])
def test_nothing_expires_by_a_duration_that_nobody_reads(
    lake: Lake, text: str, caplog: pytest.LogCaptureFixture
) -> None:
    snapshot = lake.table.latest()
    keys = ("deletedFileRetentionDuration", "setTransactionRetentionDuration", "logRetentionDuration")
    properties = {f"delta.{key}": text for key in keys}
    snapshot.meta.configuration.update(properties)
    later = int(time.time() * 1000) + 10_000 * DAY
    write_checkpoint(lake.table.store, state_of(snapshot), later)
    assert clean_log(lake.table.store, properties, later) == 0
    for key in keys:
        assert f"delta.{key}" in caplog.text
    assert repr(text) in caplog.text
    assert (lake.root / "_delta_log" / f"{0:020d}.json").exists()
    (lake.root / "_delta_log" / f"{1:020d}.json").unlink()
    again = Lake(lake.root).table.latest()
    assert again.tombstones.num_rows == 1 and again.transaction("app") == 1
    with pytest.raises(InvalidInputError, match="deletedFileRetentionDuration"):
        Lake(lake.root).table.leftovers(None, later)
    with pytest.raises(InvalidInputError, match="deletedFileRetentionDuration"):
        Brain().vacuum({"path": str(lake.root)}, dry_run=True)
