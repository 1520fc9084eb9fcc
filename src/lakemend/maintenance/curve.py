"""Where a cell of a grid lies on a curve that keeps neighbours together: Z-order and Hilbert, in pure Python.

`clustering.py` looks cells up here. A cell has one number per column, each of `bits` bits; its index puts them side by
side, the first column's highest.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np

# The cells that a table of positions may have.
_BITS = 16
CURVES = ("hilbert", "zorder")


def bits_for(columns: int) -> int:
    """Bits of each column's number. One column is a line, for which finer ranges cost nothing."""
    return 12 if columns == 1 else max(1, _BITS // columns)


@lru_cache(maxsize=32)
def positions(curve: str, columns: int, bits: int) -> np.ndarray:
    """The position on the curve of each cell, by its index."""
    cells = np.arange(1 << (columns * bits), dtype=np.int64)
    axes = [(cells >> (bits * (columns - 1 - axis))) & ((1 << bits) - 1) for axis in range(columns)]
    return _interleaved(_untangled(axes, bits) if curve == "hilbert" and columns > 1 else axes, bits)


def _interleaved(axes: list[np.ndarray], bits: int) -> np.ndarray:
    """The highest bits of all axes, then the next ones."""
    found = np.zeros_like(axes[0])
    for bit in range(bits - 1, -1, -1):
        for axis in axes:
            found = (found << 1) | ((axis >> bit) & 1)
    return found


def _untangled(axes: list[np.ndarray], bits: int) -> list[np.ndarray]:
    """Skilling's transform (Programming the Hilbert curve, 2004): interleaved, the result is the place on the curve."""
    x = [axis.copy() for axis in axes]
    q = 1 << (bits - 1)
    while q > 1:
        p = q - 1
        for i in range(len(x)):
            high = (x[i] & q) != 0
            swapped = np.where(high, 0, (x[0] ^ x[i]) & p)
            x[0] = np.where(high, x[0] ^ p, x[0] ^ swapped)
            if i:
                x[i] = x[i] ^ swapped
        q >>= 1
    for i in range(1, len(x)):
        x[i] = x[i] ^ x[i - 1]
    turn = np.zeros_like(x[0])
    q = 1 << (bits - 1)
    while q > 1:
        turn = np.where((x[-1] & q) != 0, turn ^ (q - 1), turn)
        q >>= 1
    return [axis ^ turn for axis in x]
