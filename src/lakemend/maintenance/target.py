"""How large the new files are to be: in bytes or in rows.

`compact.py` and `optimize.py` ask before anything is read; `groups.py` weighs files by it.
"""

from __future__ import annotations

from dataclasses import dataclass
from numbers import Real
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakemend.errors import InvalidInputError

MEBIBYTE = 1 << 20
# A file of this share of the target, and as many of its rows alive, is left alone.
FULL = 0.75
_CODECS = ("none", "uncompressed", "snappy", "gzip", "zstd", "lz4_raw")


@dataclass(frozen=True, slots=True)
class Target:
    """`size` counts bytes of live rows, or live rows where `by_rows`."""

    size: float
    by_rows: bool

    def weights(self, files: pa.Table) -> np.ndarray:
        """What is left of each file when it is written again, as far as the log tells."""
        if not self.by_rows:
            return np.asarray(files["size"].to_numpy() * live_shares(files))
        if files["rows"].null_count:
            raise InvalidInputError(
                "target_rows_per_file needs files that say how many rows they have",
                cause=f"{files['rows'].null_count} files of the table do not: their writer left it out",
                remedy="use target_mb_per_file",
            )
        return np.asarray(files["rows"].to_numpy() - files["masked"].to_numpy(), np.float64)

    def rows_per_file(self) -> int:
        """0: any number."""
        return int(self.size) if self.by_rows else 0


def target_of(mb: Any, rows: Any) -> Target:
    """`rows` goes before `mb`."""
    if isinstance(mb, bool) or not isinstance(mb, Real) or not 0 < float(mb) < float("inf"):
        raise _no_threshold("target_mb_per_file", mb, "a number above 0")
    if rows is not None:
        if isinstance(rows, bool) or not isinstance(rows, int) or rows <= 0:
            raise _no_threshold("target_rows_per_file", rows, "a whole number above 0")
        return Target(rows, by_rows=True)
    return Target(max(float(mb) * MEBIBYTE, 1.0), by_rows=False)


def require_codec(compression: Any) -> str | None:
    """The codec in Spark's spelling; None: the table's own."""
    if compression is None:
        return None
    codec = str(compression).strip().lower()
    if codec not in _CODECS:
        raise InvalidInputError(
            f"there is no compression {compression!r}",
            remedy=f"use one of {', '.join(_CODECS)}, or leave it out",
            compression=str(compression),
        )
    return codec


def require_batches(batches: Any) -> None:
    if batches is not None and (isinstance(batches, bool) or not isinstance(batches, int) or batches <= 0):
        raise _no_threshold("batches", batches, "a whole number above 0")


def require_retries(retries: Any) -> None:
    if isinstance(retries, bool) or not isinstance(retries, int) or retries < 0:
        raise _no_threshold("retries", retries, "a whole number from 0")


def live_shares(files: pa.Table) -> np.ndarray:
    """Of each file, the share of rows that is not masked."""
    rows = np.maximum(pc.fill_null(files["rows"], 0).to_numpy(), 1)
    return np.asarray(1.0 - np.minimum(files["masked"].to_numpy() / rows, 1.0))


def _no_threshold(name: str, value: object, wanted: str) -> InvalidInputError:
    return InvalidInputError(
        f"{name} is {value!r}", cause=f"it must be {wanted}", remedy="pass such a number", **{name: str(value)}
    )
