"""Masks as sets of row positions.

`brain/commit.py` compares what a change masks with what winners masked meanwhile. The layout is the
one `formats/format.py` and docs/architecture.md give for every format.
"""

from __future__ import annotations

import struct
import zlib

from pyroaring import BitMap64

from lakemend.errors import CorruptTableError
from lakemend.formats.format import Mask
from lakemend.storage import Store, open_store

_MAGIC = 1681511377


def masked_positions(mask: Mask | None, store: Store) -> BitMap64:
    """The rows a mask kills; none without a mask. `store` is the table's own."""
    if mask is None:
        return BitMap64()
    blob = mask.blob if mask.blob is not None else _stored(mask, store)
    if len(blob) < 12 or struct.unpack_from("<I", blob)[0] != _MAGIC:
        raise _corrupt(mask, "its magic number is wrong")
    positions = BitMap64.deserialize(blob[4:])
    if len(positions) != mask.cardinality:
        raise _corrupt(mask, f"it holds {len(positions)} rows, the log says {mask.cardinality}")
    return positions


def _stored(mask: Mask, store: Store) -> bytes:
    assert mask.url is not None
    assert mask.length is not None
    root = store.url.rstrip("/") + "/"
    if mask.url.startswith(root):
        place, name = store, mask.url[len(root) :]
    else:
        folder, _, name = mask.url.rpartition("/")
        place = open_store(folder)
    try:
        framed = place.get_range(name, mask.offset or 0, mask.length + 8)
    except FileNotFoundError as error:
        raise _corrupt(mask, "the file does not exist; it may have been vacuumed") from error
    blob = framed[4 : 4 + mask.length]
    if len(framed) < mask.length + 8 or zlib.crc32(blob) != struct.unpack_from(">I", framed, 4 + mask.length)[0]:
        raise _corrupt(mask, "its checksum does not match or the file is truncated")
    return blob


def _corrupt(mask: Mask, cause: str) -> CorruptTableError:
    where = mask.url or "inline in the log"
    return CorruptTableError(
        f"the deletion vector {where} cannot be read",
        cause=cause,
        remedy="restore the table to a version before it, or rewrite the data file",
        file=where,
    )
