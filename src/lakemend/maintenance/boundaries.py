"""Which file a position on the curve goes to, so that all files hold about as many rows.

`clustering.py` calls this with the positions of a sample.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

# A position that would fill more than this many files is spread over several.
_HEAVY = 1.5


@dataclass(frozen=True)
class Files:
    """By position, the file where its rows begin, and over how many files they are spread: 0 for one."""

    first: np.ndarray
    spread: np.ndarray

    @property
    def is_plain(self) -> bool:
        return not self.spread.any()


def boundaries(sampled: np.ndarray, places: int, files: int) -> Files:
    """Positions in order fill the files in order; `sampled` are positions below `places`."""
    counts = np.bincount(sampled, minlength=places).astype(np.float64)
    share = counts * (files / max(counts.sum(), 1.0))
    before = np.concatenate([[0.0], np.cumsum(share)[:-1]])
    heavy = share > _HEAVY
    first = np.where(heavy, before, np.floor(before + share / 2))
    spread = np.where(heavy, share, 0.0)
    return Files(np.minimum(first, files - 1), np.minimum(spread, files - 1e-6 - np.minimum(first, files - 1)).clip(0))
