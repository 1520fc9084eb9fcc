"""Tables of versions: events in any order and in any batches leave the versions that a model in plain Python has."""

from __future__ import annotations

import random
from collections.abc import Callable
from datetime import date, datetime
from typing import Any

import pytest
from pyspark.sql import SparkSession

import lakemend
from lakemend import InvalidInputError, Report, Table
from tests.behaviour.strategies.conftest import MODES

pytestmark = pytest.mark.either("table", "mode")

FIRST_DRY_RUN = 2  # the first merge of most tests is into an empty table
Merged = Callable[..., Report]
Event = dict[str, Any]
COLUMNS = ("id", "v", "w", "valid_from", "valid_to", "is_current")


def day(number: int) -> datetime:
    return datetime(2026, 1, number)


def event(id: int, v: str | None, at: int, op: str = "U", w: int | None = None) -> Event:
    return {"id": id, "v": v, "w": w, "at": day(at), "op": op}


def versions(table: Table) -> list[tuple[Any, ...]]:
    return [tuple(row) for row in table.to_df().select(*COLUMNS).orderBy("id", "valid_from").collect()]


def model(there: list[tuple[Any, ...]], events: list[Event], tracked: tuple[str, ...]) -> list[tuple[Any, ...]]:
    """One event after the other in order of time, each put among the versions by looking at them one by one."""
    table = [dict(zip(COLUMNS, row, strict=True)) for row in there]
    stops = {(row["id"], row["valid_to"]) for row in table if row["valid_to"]}
    for new in sorted(events, key=lambda e: e["at"]):
        own = [row for row in table if row["id"] == new["id"]]
        if any(row["valid_from"] == new["at"] for row in own):
            continue
        covering = next(
            (r for r in own if r["valid_from"] < new["at"] and (r["valid_to"] is None or new["at"] < r["valid_to"])),
            None,
        )
        gone = new["op"] == "D"
        if gone and covering is None:
            continue
        if not gone and covering is not None and all(covering[name] == new[name] for name in tracked):
            continue
        known = {row["valid_from"] for row in own} | {at for id, at in stops if id == new["id"]}
        ends = min((at for at in known if at > new["at"]), default=None)
        if covering is not None:
            covering |= {"valid_to": new["at"], "is_current": False}
        if not gone:
            table.append({"id": new["id"], "v": new["v"], "w": new["w"], "valid_from": new["at"], "valid_to": ends,
                          "is_current": ends is None})  # fmt: skip
    return sorted((tuple(row[name] for name in COLUMNS) for row in table), key=lambda row: (row[0], row[3]))


@pytest.fixture(params=MODES)
def table(request: pytest.FixtureRequest, spark: SparkSession, namespace: str) -> Table:
    spark.sql(f"""CREATE TABLE {namespace}.versions (id INT, v STRING, w INT, valid_from TIMESTAMP, valid_to TIMESTAMP,
                  is_current BOOLEAN) TBLPROPERTIES ('write.merge.mode' = '{request.param}')""")
    return lakemend.table(spark, f"{namespace}.versions")


def apply(table: Table, events: list[Event], merged: Merged, **options: Any) -> Report:
    frame = table.spark.createDataFrame(events, "id INT, v STRING, w INT, at TIMESTAMP, op STRING")
    return merged(table, frame, "id", "scd2", sequence_by="at", delete_when="op = 'D'", **options)


def test_versions_open_and_close(table: Table, merged: Merged) -> None:
    first = apply(table, [event(1, "a", 1), event(2, "b", 1)], merged)
    assert first.stats == {"inserted": 2, "updated": 0, "deleted": 0, "total": 2}
    second = apply(table, [event(1, "a", 3), event(2, "B", 3), event(3, "c", 3)], merged)
    assert second.stats == {"inserted": 2, "updated": 1, "deleted": 0, "total": 4}
    assert versions(table) == [
        (1, "a", None, day(1), None, True),
        (2, "b", None, day(1), day(3), False),
        (2, "B", None, day(3), None, True),
        (3, "c", None, day(3), None, True),
    ]
    # The same batch again is known already.
    assert apply(table, [event(1, "a", 3), event(2, "B", 3), event(3, "c", 3)], merged).version is None


def test_several_changes_in_a_batch_and_late_ones(table: Table, merged: Merged) -> None:
    apply(table, [event(1, "a", 10), event(1, "b", 20), event(1, "b", 22)], merged)
    report = apply(table, [event(1, "late", 15), event(1, "early", 5)], merged)
    assert report.stats == {"inserted": 2, "updated": 1, "deleted": 0, "total": 4}
    assert [(row[1], row[3].day, row[4] and row[4].day, row[5]) for row in versions(table)] == [
        ("early", 5, 10, False),
        ("a", 10, 15, False),
        ("late", 15, 20, False),
        ("b", 20, None, True),
    ]


def test_deletions(table: Table, merged: Merged) -> None:
    apply(table, [event(1, "a", 1), event(2, "b", 1)], merged)
    report = apply(table, [event(1, None, 5, "D"), event(9, None, 5, "D")], merged)
    assert report.stats == {"inserted": 0, "updated": 1, "deleted": 0, "total": 2}
    # It comes back later, and a late event fills a part of the gap.
    apply(table, [event(1, "back", 9), event(1, "between", 7)], merged)
    assert [(row[1], row[3].day, row[4] and row[4].day) for row in versions(table)[:3]] == [
        ("a", 1, 5),
        ("between", 7, 9),
        ("back", 9, None),
    ]


def test_only_tracked_columns_open_a_version(table: Table, merged: Merged) -> None:
    apply(table, [event(1, "a", 1, w=1)], merged)
    assert apply(table, [event(1, "a", 2, w=2)], merged, columns="v").version is None
    assert apply(table, [event(1, "b", 3, w=3)], merged, columns="v").stats == {
        "inserted": 1, "updated": 1, "deleted": 0, "total": 2}  # fmt: skip


def test_keys_that_the_source_lacks_are_retired_if_asked_for(table: Table, merged: Merged) -> None:
    def snapshot(at: int, *keys: int) -> list[int]:
        stats = apply(table, [event(key, "a", at) for key in keys], merged, retire_missing=True).stats
        assert stats is not None
        return [stats["inserted"], stats["updated"]]

    # At the time of the snapshot that lacks them, so that they may come back in the next one.
    assert snapshot(1, 1, 2) == [2, 0]
    assert snapshot(2, 1) == [0, 1]
    assert [(row[3], row[4], row[5]) for row in versions(table)][1] == (day(1), day(2), False)
    assert snapshot(2, 1) == [0, 0]
    assert snapshot(4, 1, 2) == [1, 0]
    assert [row[3:] for row in versions(table) if row[0] == 2] == [(day(1), day(2), False), (day(4), None, True)]
    # An older one says nothing of what began later.
    assert snapshot(3, 1) == [0, 0]
    with pytest.raises(InvalidInputError, match="retire_missing has no time"):
        apply(table, [], merged, retire_missing=True)


def test_without_times_they_are_retired_now(spark: SparkSession, namespace: str, merged: Merged) -> None:
    table = lakemend.table(spark, f"{namespace}.plain")
    merged(table, [{"id": 1, "v": "a"}, {"id": 2, "v": "a"}], "id", "scd2")
    assert merged(table, [{"id": 1, "v": "a"}], "id", "scd2", retire_missing=True).updated == 1
    gone = table.to_df().where("id = 2").collect()[0]
    assert gone.valid_to > gone.valid_from
    assert not gone.is_current


def test_versions_to_come_are_retired_before_they_begin(table: Table, merged: Merged) -> None:
    """The one of now is closed, too; what comes between them later is seen once at any time."""
    to_come = {number: day(number).replace(year=2126) for number in (2, 5)}
    apply(table, [event(1, "a", 1), event(1, "b", 5) | {"at": to_come[5]}], merged)
    others = [{"id": 2, "v": "z"}]
    assert merged(table, others, "id", "scd2", retire_missing=True).updated == 2
    now, (start, end) = versions(table)[0][4], versions(table)[1][3:5]
    assert day(1) < now < to_come[2]
    assert (start, end) == (to_come[5], to_come[5])
    assert merged(table, others, "id", "scd2", retire_missing=True).version is None
    apply(table, [event(1, "c", 2) | {"at": to_come[2]}], merged)
    spans = [(row[3], row[4]) for row in versions(table)[:3]]
    assert spans == [(day(1), now), (to_come[2], to_come[5]), (to_come[5], to_come[5])]


def test_other_names_days_and_no_sequence(spark: SparkSession, namespace: str, merged: Merged) -> None:
    table = lakemend.table(spark, f"{namespace}.days")
    names = {"valid_from": "start", "valid_to": "end", "is_current": "now"}
    merged(table, [{"id": 1, "v": "a", "at": date(2026, 1, 1)}], "id", "scd2", sequence_by="at", **names)
    merged(table, [{"id": 1, "v": "b", "at": date(2026, 1, 2)}], "id", "scd2", sequence_by="at", **names)
    assert [tuple(row) for row in table.to_df().orderBy("start").collect()] == [
        (1, "a", date(2026, 1, 1), date(2026, 1, 2), False),
        (1, "b", date(2026, 1, 2), None, True),
    ]
    plain = lakemend.table(spark, f"{namespace}.plain")
    for value in "aab":
        plain.merge([{"id": 1, "gone": value}], "id", "scd2")
    assert [row.gone for row in plain.to_df().orderBy("valid_from").collect()] == ["a", "b"]
    assert plain.to_df().where("is_current").count() == 1


def test_bad_versions(table: Table, spark: SparkSession, namespace: str) -> None:
    twice = [{"id": 1, "v": "a", "at": day(1)}, {"id": 1, "v": "b", "at": day(1)}]
    with pytest.raises(InvalidInputError, match="more than once"):
        table.merge(twice, "id", "scd2", sequence_by="at")
    with pytest.raises(InvalidInputError, match="at is NULL in 1 row"):
        table.merge([{"id": 1, "v": "a", "at": None}], "id", "scd2", sequence_by="at")
    with pytest.raises(InvalidInputError, match="no column for valid_from"):
        table.merge(twice[:1], "id", "scd2", sequence_by="at", valid_from="since")
    assert table.version == 0


def test_a_new_column(table: Table, merged: Merged) -> None:
    apply(table, [event(1, "a", 1)], merged)
    table.merge([{"id": 1, "v": "b", "x": 5, "at": day(2)}], "id", "scd2", sequence_by="at", schema_evolution=True)
    assert [row.x for row in table.to_df().orderBy("valid_from").collect()] == [None, 5]


@pytest.mark.parametrize(
    ("seed", "batches"), [(1, 3), *(pytest.param(n, 5, marks=pytest.mark.slow) for n in range(1, 30))]
)
def test_random_events_in_random_batches(table: Table, seed: int, batches: int, merged: Merged) -> None:
    chance = random.Random(seed)
    expected: list[tuple[Any, ...]] = []
    for _ in range(batches):
        moments = {(chance.randrange(3), chance.randrange(1, 28)) for _ in range(chance.randrange(1, 9))}
        events = [
            event(id, chance.choice(["a", "b", None]), at, chance.choice("UUUD"), chance.choice([1, None]))
            for id, at in moments
        ]
        before, expected = expected, model(expected, events, ("v", "w"))
        stats = apply(table, events, merged).stats
        assert versions(table) == expected, (seed, before, events)
        old = {(row[0], row[3]): row for row in before}
        assert stats is not None
        assert stats["inserted"] == len(expected) - len(before)
        assert stats["updated"] == sum(old.get((row[0], row[3]), row) != row for row in expected)


def test_batches_of_two_writers_at_once(table: Table, merged: Merged, monkeypatch: pytest.MonkeyPatch) -> None:
    from tests.slip_in import slip_in

    apply(table, [event(1, "a", 1)], merged)
    spark, name = table.spark, table.name
    other = [{"id": 1, "v": "theirs", "at": day(5)}]
    slip_in(
        monkeypatch,
        lambda: lakemend.table(spark.newSession(), name).merge(other, "id", "scd2", sequence_by="at"),
    )
    report = table.merge([{"id": 1, "v": "ours", "at": day(7)}], "id", "scd2", sequence_by="at")
    assert report.attempts == 2
    assert [(row[1], row[4] and row[4].day) for row in versions(table)] == [("a", 5), ("theirs", 7), ("ours", None)]
