"""Numbers that contradict each other never reach the log."""

from __future__ import annotations

import random
from typing import Any

import pytest
from pyroaring import BitMap64

from lakemend.brain.balance import Tally, require_balance, require_moved, told_tally
from lakemend.brain.places import Places
from lakemend.errors import InvalidInputError, LakemendError


@pytest.mark.parametrize(
    ("tally", "written", "died"),
    [
        (Tally(6, 4, 0, 0), 10, 10), (Tally(0, 0, 0, 0), 0, 0), (Tally(6, 0, 4, 0), 6, 10), (Tally(0, 0, 4, 0), 0, 4),
        (Tally(1, 2, 3, 4), 7, 6), (Tally(0, 0, 0, 9), 9, 0),
    ],
)  # fmt: skip
def test_what_fits(tally: Tally, written: int, died: int) -> None:
    require_balance("merge", tally, written, died, None)


@pytest.mark.parametrize(
    ("tally", "written", "died"),
    [
        (Tally(6, 4, 0, 0), 10, 9),  # a row came twice
        (Tally(6, 4, 0, 0), 10, 11),  # a row did not come
        (Tally(6, 0, 4, 0), 6, 9),  # doubled, and hidden by a deletion
        (Tally(6, 0, 4, 0), 6, 11),
        (Tally(0, 3, 2, 0), 3, 4),  # masked twice
        (Tally(6, 0, 4, 1), 6, 10),  # a new row was not written
        (Tally(6, 0, 4, 1), 8, 10),
    ],
)
def test_what_does_not(tally: Tally, written: int, died: int) -> None:
    with pytest.raises(LakemendError, match="contradict") as error:
        require_balance("merge", tally, written, died, None)
    assert (error.value.written, error.value.died, error.value.copied) == (written, died, tally.copied)


def test_one_row_twice_and_another_not_at_all() -> None:
    with pytest.raises(LakemendError, match="some were seen twice"):
        require_balance("update", Tally(6, 4, 0, 0, 17), 10, 10, 18)
    require_balance("update", Tally(6, 4, 0, 0, 17), 10, 10, 17)


@pytest.mark.parametrize("operation", ["rewrite_files", "mask_rows"])
def test_a_row_change_that_says_nothing_of_its_rows_is_refused(operation: str) -> None:
    with pytest.raises(InvalidInputError, match="what became"):
        told_tally({"operation": operation})
    assert told_tally({"operation": "append"}) is None


def number(places: Places, path: str, position: int) -> int:
    """Of one place: that of all rows up to it without those before."""
    return places.sum(path, position + 1, BitMap64(range(position))) % 2**64


def test_the_sum_of_a_file_is_that_of_its_places() -> None:
    places, chance = Places("token"), random.Random(1)
    for rows in (0, 1, 5, 65_535, 65_536, 65_537, 200_000):
        dead = BitMap64(chance.sample(range(rows), min(rows, 1000) // 2))
        alive = (p for p in range(rows) if p not in dead)
        some = [p for _, p in zip(range(300), alive, strict=False)]
        rest = BitMap64(set(range(rows)) - set(some))
        assert places.sum("a", rows, rest) == sum(number(places, "a", p) for p in some) % 2**64


def test_sums_tell_rows_files_and_statements_apart() -> None:
    one, other = Places("one"), Places("other")
    numbers = {number(p, path, i) for p in (one, other) for path in "ab" for i in (0, 1, 65_535, 65_536, 131_072)}
    assert len(numbers) == 20 and 0 not in numbers
    # A row doubled, another lost: patterns that sums of positions or of their powers do not see.
    both = [number(one, "a", i) for i in range(8)]
    assert (both[0] + both[3] + both[5] + both[6]) % 2**64 != (both[1] + both[2] + both[4] + both[7]) % 2**64


def test_the_numbers_stay_those_of_the_connector() -> None:
    """`Places` in connector/rows/Tally.scala draws the same; tests/plans hold the two together on real statements."""
    found = [number(Places("t"), "file:/a b/ä", i) for i in (0, 70_000)]
    assert found == [8751343159263804357, 10292350789602600537]


@pytest.mark.parametrize(
    "more",
    [
        {"tally": {"copied": 1, "updated": 1, "deleted": 0, "inserted": 0}},
        {"tally": {"copied": 1, "updated": 0, "deleted": 1, "inserted": 0}},
        {"tally": {"copied": 1, "updated": 0, "deleted": 0, "inserted": 1}},
        {"masked": {"a": ""}}, {"predicates": [{"op": "ALWAYS_TRUE"}]}, {"schema": {"fields": []}},
        {"feed": [{}]}, {"schema_changes": [{}]}, {"staged": {"kind": "replace"}},
    ],
    ids=str,
)  # fmt: skip
def test_a_compaction_does_nothing_else(more: dict[str, Any]) -> None:
    request = {"operation": "compact", "tally": {"copied": 1, "updated": 0, "deleted": 0, "inserted": 0}, **more}
    tally = told_tally(request)
    assert tally is not None
    with pytest.raises(InvalidInputError, match="changes no rows"):
        require_moved(request, tally)


def test_a_compaction_says_what_it_saw() -> None:
    with pytest.raises(InvalidInputError, match="does not say"):
        told_tally({"operation": "compact"})
