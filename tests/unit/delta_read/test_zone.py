"""Timestamps without a zone are local times of the session that asks; CHAR values are filled up where it does so."""

from __future__ import annotations

import datetime as dt
from typing import Any

import pyarrow as pa
import pytest

from lakemend.brain.service import Brain
from lakemend.errors import SessionError
from lakemend.formats.delta.partition_values import parse_column
from lakemend.formats.zone import in_zone

LOCAL = "2026-07-01 12:34:56"


@pytest.mark.parametrize(
    ("zone", "hour", "minute"),
    [("UTC", 12, 34), ("Z", 12, 34), ("America/Los_Angeles", 19, 34), ("+02:00", 10, 34), ("-05:30", 18, 4),
     ("GMT+02:00", 10, 34), ("UTC-1", 13, 34), ("Asia/Kolkata", 7, 4)],
)  # fmt: skip
def test_local_times(zone: str, hour: int, minute: int) -> None:
    values = pa.array([LOCAL, "2026-07-01T12:34:56Z", "2026-07-01T12:34:56+01:00", None])
    with in_zone(zone):
        found = parse_column(values, "timestamp", "t").to_pylist()
        plain = parse_column(values.slice(0, 1), "timestamp_ntz", "t").to_pylist()
    assert found[0] == dt.datetime(2026, 7, 1, hour, minute, 56, tzinfo=dt.UTC)
    assert [m and m.hour for m in found[1:]] == [12, 11, None]
    assert plain == [dt.datetime(2026, 7, 1, 12, 34, 56)]


def test_clocks_that_jump_are_read_as_java_reads_them() -> None:
    with in_zone("Europe/Berlin"):
        found = parse_column(pa.array(["2026-03-29 02:30:00", "2026-10-25 02:30:00"]), "timestamp", "t").to_pylist()
    assert [(m.hour, m.minute) for m in found] == [(1, 30), (0, 30)]


def test_an_unknown_zone_matters_only_for_local_times() -> None:
    with in_zone("Middle/Earth"):
        parse_column(pa.array(["2026-07-01T12:34:56Z"]), "timestamp", "t")
        with pytest.raises(SessionError, match="Middle/Earth"):
            parse_column(pa.array([LOCAL]), "timestamp", "t")


def test_requests_of_two_zones_share_a_snapshot(made: Any) -> None:
    made.create(("a", "long"), ("t", "timestamp"), partition_by=("t",))
    made.commit(1, made.add("f", {"t": LOCAL}))
    brain = Brain()

    def planned(zone: str | None) -> int:
        table = {"path": str(made.root)}
        request = {"table": table, "version": "1", "predicates": [], **({"time_zone": zone} if zone else {})}
        return int(brain.ask("plan", request)["files"][0]["partition"][0])

    hour = 3_600_000_000
    assert planned("+02:00") == planned("UTC") - 2 * hour == planned("-01:00") - 3 * hour
    assert planned(None) == planned("UTC")


def test_char_values_are_filled_up_for_a_session_that_does_so(made: Any) -> None:
    declared = {"__CHAR_VARCHAR_TYPE_STRING": "char(3)"}
    char = {"name": "c", "type": "string", "nullable": True, "metadata": declared}
    made.create(("a", "long"), char, ("s", "string"), partition_by=("c", "s"))
    made.commit(
        1, *(made.add(f"f{i}", {"c": value, "s": value}) for i, value in enumerate(["b", "b  ", "é", "long", None]))
    )
    brain = Brain()

    def planned(padded: bool | None, predicates: list[Any] | None = None) -> list[list[Any]]:
        request = {"table": {"path": str(made.root)}, "version": "1", "predicates": predicates or []}
        answer = brain.ask("plan", {**request, **({} if padded is None else {"pad_chars": padded})})
        return [file["partition"] for file in answer["files"]]

    stored = [["b", "b"], ["b  ", "b  "], ["é", "é"], ["long", "long"], [None, None]]
    assert planned(None) == planned(False) == stored
    assert planned(True) == [["b  ", "b"], ["b  ", "b  "], ["é  ", "é"], ["long", "long"], [None, None]]
    equal = [{"op": "=", "args": [{"col": ["c"]}, {"lit": "b  ", "type": "string"}]}]
    assert (len(planned(True, equal)), len(planned(False, equal))) == (2, 1)
