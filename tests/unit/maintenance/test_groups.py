"""Bin-packing: nothing is lost, nothing overflows, and what is packed stays as it is."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from lakemend.maintenance.batches import batches_of
from lakemend.maintenance.groups import pack
from lakemend.maintenance.rewrite_plan import Group

WEIGHTS = st.lists(st.integers(0, 150).map(float), max_size=60)


@given(WEIGHTS)
def test_every_file_is_in_one_bin(weights: list[float]) -> None:
    assert sorted(i for found in pack(weights, 100) for i in found) == list(range(len(weights)))


@given(WEIGHTS)
def test_bins_are_as_large_as_the_target_at_most(weights: list[float]) -> None:
    for found in pack(weights, 100):
        assert len(found) == 1 or sum(weights[i] for i in found) <= 100


@given(WEIGHTS, st.randoms())
def test_what_is_packed_stays_as_it_is(weights: list[float], random: object) -> None:
    made = [sum(weights[i] for i in found) for found in pack(weights, 100)]
    random.shuffle(made)  # type: ignore[attr-defined]
    assert all(len(found) == 1 for found in pack(made, 100))


def test_neighbours_stay_together() -> None:
    assert pack([25.0] * 10, 100) == [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9]]
    assert pack([70.0, 40.0, 70.0, 40.0], 100) == [[0], [1, 3], [2]]
    assert pack([], 100) == []


@given(st.integers(0, 30), st.integers(1, 40))
def test_as_many_batches_as_were_asked_for(groups: int, count: int) -> None:
    made = [Group((i,), 1, 5, 5.0) for i in range(groups)]
    batches = batches_of(made, count)
    assert [group for batch in batches for group in batch] == made
    assert len(batches) == min(count, groups)
    assert all(batches)


def test_batches_by_size() -> None:
    made = [Group((i,), 1, 4 << 30, 5.0) for i in range(5)]
    assert [len(batch) for batch in batches_of(made, None)] == [2, 2, 1]
    assert [len(batch) for batch in batches_of(made, None, at_most=1)] == [1] * 5
