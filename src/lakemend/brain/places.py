"""The sum by which a statement that writes files again shows that every row of them was seen once.

Tasks add up a number for each row of the target that reaches them (`connector/rows/Tally.scala`); `balance.py`
compares the sum with that of the rows which the log says are there. The number of a place is the product of one for
the block of 65,536 rows it lies in and one for its place in the block, drawn anew for each statement by its token,
modulo 2^64: a set of rows that is not the one expected has the same sum once in about 2^60 statements, and the sum of
a whole file is had without looking at each row.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable

import numpy as np
from pyroaring import BitMap64

_BLOCK = 1 << 16
_GOLDEN = np.uint64(0x9E3779B97F4A7C15)
_FIRST, _SECOND = np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB)


class Places:
    """The numbers of one statement."""

    def __init__(self, token: str) -> None:
        self._token = token
        self._within = _mixed(self._seed(""), np.arange(_BLOCK, dtype=np.uint64))

    def sum(self, path: str, rows: int, dead: BitMap64 | None = None) -> int:
        """Of the live rows of a file with `rows` rows, of which `dead` are masked. `path` is its absolute location."""
        blocks = _mixed(self._seed(path), np.arange((rows + _BLOCK - 1) // _BLOCK, dtype=np.uint64))
        whole = rows // _BLOCK
        total = _total(blocks[:whole]) * _total(self._within)
        if rows % _BLOCK:
            total += int(blocks[whole]) * _total(self._within[: rows % _BLOCK])
        for positions in _chunks(dead) if dead else ():
            of, within = positions >> np.uint64(16), positions & np.uint64(_BLOCK - 1)
            total -= _total(blocks[of.astype(np.int64)] * self._within[within.astype(np.int64)])
        return total % (1 << 64)

    def _seed(self, path: str) -> int:
        return int.from_bytes(hashlib.sha256(f"{self._token}\n{path}".encode()).digest()[:8], "big")


def _mixed(seed: int, numbers: np.ndarray) -> np.ndarray:
    """The finalizer of SplitMix64, made odd. Arrays of unsigned integers wrap around without a word."""
    z = np.uint64(seed) + (numbers + np.uint64(1)) * _GOLDEN
    z = (z ^ (z >> np.uint64(30))) * _FIRST
    z = (z ^ (z >> np.uint64(27))) * _SECOND
    return np.asarray((z ^ (z >> np.uint64(31))) | np.uint64(1))


def _total(numbers: np.ndarray) -> int:
    return int(numbers.sum(dtype=np.uint64)) if len(numbers) else 0


def _chunks(positions: BitMap64, size: int = 1 << 20) -> Iterable[np.ndarray]:
    found = np.fromiter(positions, dtype=np.uint64, count=len(positions))
    return (found[start : start + size] for start in range(0, len(found), size))
