"""Curves through cells, and how they are cut into files."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakemend.maintenance.boundaries import boundaries
from lakemend.maintenance.curve import CURVES, bits_for, positions


@pytest.mark.parametrize("curve", CURVES)
@pytest.mark.parametrize("columns", range(1, 17))
def test_every_cell_has_a_place_of_its_own(curve: str, columns: int) -> None:
    bits = bits_for(columns)
    assert columns * bits <= 16
    found = positions(curve, columns, bits)
    assert np.array_equal(np.sort(found), np.arange(1 << (columns * bits)))


@pytest.mark.parametrize(("columns", "bits"), [(2, 1), (2, 3), (2, 8), (3, 2), (3, 5), (4, 4), (5, 3)])
def test_hilbert_goes_from_neighbour_to_neighbour(columns: int, bits: int) -> None:
    cells = np.argsort(positions("hilbert", columns, bits))
    axes = np.stack([(cells >> (bits * (columns - 1 - i))) & ((1 << bits) - 1) for i in range(columns)])
    assert (np.abs(np.diff(axes, axis=1)).sum(axis=0) == 1).all()


def test_zorder_interleaves_bits() -> None:
    assert positions("zorder", 2, 2).tolist() == [0, 1, 4, 5, 2, 3, 6, 7, 8, 9, 12, 13, 10, 11, 14, 15]


@given(st.lists(st.integers(0, 63), min_size=1, max_size=400), st.integers(1, 12))
def test_files_are_in_order_and_about_as_large(sampled: list[int], files: int) -> None:
    positions = np.array(sampled)
    found = boundaries(positions, 64, files)
    assert (np.diff(found.first) >= 0).all()
    assert (found.first >= 0).all()
    assert (found.first + found.spread < files).all()
    light = np.floor(found.first[positions[found.spread[positions] == 0]])
    counts = np.bincount(light.astype(int), minlength=files)
    # A file may be as full as its share, and a position more on either side.
    heaviest = max(np.bincount(positions)[found.spread[np.arange(positions.max() + 1)] == 0], default=0)
    assert counts.max(initial=0) <= len(sampled) / files + 2 * heaviest + 1


def test_a_position_that_fills_several_files_is_spread() -> None:
    found = boundaries(np.zeros(1000, int), 4, 5)
    assert (found.first[0], round(found.spread[0], 3)) == (0, 5)
    assert not found.is_plain
    assert boundaries(np.arange(1000) % 4, 4, 4).is_plain
