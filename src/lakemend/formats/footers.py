"""How many rows a Parquet file holds, where the log does not say or what it says cannot be.

The brain asks before rows of it are replaced, formats before some are masked.
"""

from __future__ import annotations

import struct

import pyarrow as pa
import pyarrow.parquet as pq

from lakemend.errors import CorruptTableError
from lakemend.storage import Store, open_store

_MAGIC = b"PAR1"


def stored_rows(store: Store, url: str) -> int:
    """By the file's footer. `url` is its absolute location, `store` the table's own."""
    root = store.url.rstrip("/") + "/"
    folder, _, name = url.rpartition("/")
    place, path = (store, url[len(root) :]) if url.startswith(root) else (open_store(folder), name)
    entry = place.head(path)
    if entry is None:
        raise _corrupt(url, "the file does not exist; it may have been vacuumed")
    end = place.get_range(path, entry.size - 8, 8) if entry.size >= 8 else b""
    if end[4:] != _MAGIC:
        raise _corrupt(url, "it does not end as a Parquet file does")
    length = int(struct.unpack("<I", end[:4])[0]) + 8
    if length > entry.size:
        raise _corrupt(url, "its footer is longer than the file")
    try:
        return int(pq.read_metadata(pa.BufferReader(place.get_range(path, entry.size - length, length))).num_rows)
    except (pa.ArrowException, OSError) as error:
        raise _corrupt(url, str(error)) from error


def _corrupt(url: str, cause: str) -> CorruptTableError:
    return CorruptTableError(
        f"the data file {url} cannot be read",
        cause=cause,
        remedy="restore the table to a version before it",
        file=url,
    )
