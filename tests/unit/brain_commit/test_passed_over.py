"""Write-serializable statements let appends pass, as if those had come later.

Whoever has seen such an append came later still, and must not have missed the statement: otherwise there is no order
in which all of them make sense.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from lakemend.brain.commit import commit
from lakemend.brain.predicates import ALWAYS_FALSE
from lakemend.errors import CommitConflictError
from lakemend.formats.format import Change, NewFile, Snapshot
from tests.unit.brain_commit.writers import Lake, append, file_of, make_table, part, update, write
from tests.unit.delta_write.delta_tables import equals

Winner = Callable[[Lake, Snapshot], Change]


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    return make_table(tmp_path / "t")


def _appended(lake: Lake) -> NewFile:
    """Row 1 is what we look for; row 80 is not."""
    return lake.write([{"id": 1, "x": 9.0}, {"id": 80, "x": 9.0}], partition=("c",))


def copies(lake: Lake, seen: Snapshot) -> Change:
    """DELETE … WHERE id = 80, copy-on-write."""
    rest = lake.write([{"id": 1, "x": 9.0}], partition=("c",))
    gone = lake.removed(seen, file_of(seen, "c"))
    return Change("delete", added=[rest], removed=gone, read_predicate=equals("id", 80), brings=ALWAYS_FALSE)


def masks(lake: Lake, seen: Snapshot) -> Change:
    """DELETE … WHERE id = 80, merge-on-read."""
    masked = [lake.masked(seen, file_of(seen, "c"), 1)]
    return Change("delete", masked=masked, read_predicate=equals("id", 80), brings=ALWAYS_FALSE)


def counts(lake: Lake, seen: Snapshot) -> Change:
    """INSERT INTO … SELECT count(*) FROM … WHERE p = 'c'"""
    return Change("append", added=write(lake, [(90, "b", 2.0)]), read_predicate=part("c"))


def looks_elsewhere(lake: Lake, seen: Snapshot) -> Change:
    return Change("append", added=write(lake, [(90, "b", 2.0)]), read_predicate=part("b"))


def appends(lake: Lake, seen: Snapshot) -> Change:
    return append((95, "c", 1.0)).change(lake, seen)


def compacts(lake: Lake, seen: Snapshot) -> Change:
    gone = lake.removed(seen, file_of(seen, "c"))
    return Change("compact", added=[_appended(lake)], removed=gone, data_change=False)


@pytest.mark.parametrize("rounds", [1, 2], ids=["at once", "one after the other"])
@pytest.mark.parametrize(
    ("winners", "conflicts"),
    [
        ([copies], True),
        ([masks], True),
        ([counts], True),
        ([compacts, masks], True),
        ([compacts, copies], True),
        ([looks_elsewhere], False),
        ([appends], False),
        ([compacts, looks_elsewhere], False),
    ],
)
def test_who_has_seen_what_we_passed_over(
    lake: Lake, monkeypatch: pytest.MonkeyPatch, winners: list[Winner], conflicts: bool, rounds: int
) -> None:
    base = lake.table.latest()
    ours = replace(update("mor", 1).change(lake, base), isolation="write-serializable")
    lake.append(_appended(lake))
    other, attempts = Lake(lake.root), 0

    def win() -> None:
        for winner in winners:
            seen = other.table.latest()
            other.commit(seen, winner(other, seen))

    real = lake.table.try_commit

    def attempt(base: Snapshot, change: Change) -> int:
        nonlocal attempts
        attempts += 1
        if attempts == rounds:
            win()
        return real(base, change)

    monkeypatch.setattr(lake.table, "try_commit", attempt)
    if conflicts:
        with pytest.raises(CommitConflictError, match="appended after this statement began") as caught:
            commit(lake.table, base, ours)
        assert caught.value.rule == "passed"
    else:
        assert commit(lake.table, base, ours).version == lake.table.latest().version


def test_an_append_that_we_could_not_have_read_may_be_seen(lake: Lake) -> None:
    base = lake.table.latest()
    ours = replace(update("mor", 1).change(lake, base), isolation="write-serializable")
    lake.append(lake.write([{"id": 80, "x": 9.0}, {"id": 81, "x": 9.0}], partition=("c",)))
    seen = lake.table.latest()
    lake.commit(seen, Change("delete", masked=[lake.masked(seen, file_of(seen, "c"), 1)], read_predicate=part("c")))
    assert commit(lake.table, base, ours).version == seen.version + 2


def test_what_another_engine_read_is_not_known(lake: Lake) -> None:
    base = lake.table.latest()
    ours = replace(update("mor", 1).change(lake, base), isolation="write-serializable")
    lake.append(_appended(lake))
    seen = lake.table.latest()
    lake.commit(seen, replace(looks_elsewhere(lake, seen), read_predicate=None, removed=lake.removed(seen, 1)))
    with pytest.raises(CommitConflictError) as caught:
        commit(lake.table, base, ours)
    assert caught.value.rule == "passed"
