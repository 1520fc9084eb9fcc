"""Masks as they are stored, read back as sets of row positions.

A mask's *blob* is the little-endian magic 1681511377 and a portable 64-bit Roaring bitmap. In a file stand, per mask,
a big-endian size, the blob and a big-endian CRC-32 of it (docs/architecture.md). The brain and the formats read masks
here and nowhere else: what a mask says is proven against its checksum, its cardinality and the file it belongs to.
"""

from __future__ import annotations

import struct
import zlib
from typing import NoReturn

from pyroaring import BitMap64

from lakemend.errors import CorruptTableError, StorageError
from lakemend.formats.format import Mask
from lakemend.storage import Store, open_store

MAGIC = 1681511377
_INLINE = "inline in the log"


def masked_positions(mask: Mask | None, store: Store) -> BitMap64:
    """The rows a mask kills; none without a mask. `store` is the table's own."""
    if mask is None:
        return BitMap64()
    where = mask.url or _INLINE
    positions = decode_blob(mask.blob if mask.blob is not None else _stored(mask, store), where)
    if len(positions) != mask.cardinality:
        corrupt_mask(where, f"it holds {len(positions)} rows, the log says {mask.cardinality}")
    if mask.rows is not None:
        require_inside(positions, mask.rows, mask.file or where)
    return positions


def require_inside(positions: BitMap64, rows: int, file: str) -> None:
    """CorruptTableError unless all positions are those of rows in a file that has `rows` of them."""
    if positions and positions.max() >= rows:
        raise CorruptTableError(
            f"the deletion vector of {file} does not fit the file",
            cause=f"it masks row {positions.max()} (counted from 0), and the file has {rows} rows",
            remedy="restore the table to a version before it, or repair it with the engine that wrote it",
            file=file,
            position=positions.max(),
            rows=rows,
        )


def encode_blob(positions: BitMap64) -> bytes:
    return struct.pack("<I", MAGIC) + bytes(positions.serialize())


def decode_blob(blob: bytes, where: str = _INLINE) -> BitMap64:
    """The positions in a blob; CorruptTableError if it is none."""
    if len(blob) < 12 or struct.unpack_from("<I", blob)[0] != MAGIC:
        corrupt_mask(where, "its magic number is wrong or it is truncated")
    # The native decoder trusts the outer structure.
    (count,) = struct.unpack_from("<Q", blob, 4)
    if count * 8 > len(blob) - 12:
        corrupt_mask(where, f"it announces {count} containers in {len(blob)} bytes")
    try:
        return BitMap64.deserialize(blob[4:])
    except Exception as error:
        corrupt_mask(where, f"its bitmap is damaged: {error}")


def decode_framed(framed: bytes, size: int, where: str) -> bytes:
    """The blob out of size + blob + CRC as they stand in a file."""
    if len(framed) < size + 8:
        corrupt_mask(where, f"the file ends after {len(framed)} of {size + 8} bytes")
    (written,) = struct.unpack_from(">I", framed)
    if written != size:
        corrupt_mask(where, f"the file says it has {written} bytes, the log says {size}")
    blob = framed[4 : 4 + size]
    (checksum,) = struct.unpack_from(">I", framed, 4 + size)
    if zlib.crc32(blob) != checksum:
        corrupt_mask(where, "its checksum does not match")
    return blob


def corrupt_mask(where: str, cause: str) -> NoReturn:
    raise CorruptTableError(
        f"the deletion vector {where} cannot be read",
        cause=cause,
        remedy="read the latest version, restore the file from a backup, or restore the table to a version without it",
        file=where,
    )


def _stored(mask: Mask, store: Store) -> bytes:
    assert mask.url is not None
    assert mask.length is not None
    root = store.url.rstrip("/") + "/"
    path = mask.url.removeprefix(root)
    if path == mask.url:
        folder, _, path = mask.url.rpartition("/")
        store = open_store(folder)
    start, length = mask.offset or 0, mask.length + 8
    try:
        framed = store.get_range(path, start, length)
    except FileNotFoundError:
        corrupt_mask(mask.url, "the file does not exist; it may have been vacuumed")
    except StorageError:
        # Stores refuse a range past the end, each in its own words.
        entry = store.head(path)
        if entry is None or entry.size >= start + length:
            raise
        corrupt_mask(mask.url, f"the file ends after {entry.size} of {start + length} bytes")
    return decode_framed(framed, mask.length, mask.url)
