"""Masks as sets of row positions.

`brain/changes.py` reads here what a statement masks, and `brain/commit.py` compares it with what winners masked
meanwhile. The layout is the one `formats/format.py` and docs/architecture.md give for every format.
"""

from __future__ import annotations

import base64
import binascii
import struct
import zlib
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from pyroaring import BitMap64

from lakemend.errors import CorruptTableError, InvalidInputError
from lakemend.formats.format import Mask, Masked
from lakemend.storage import Store, join, open_store

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


def newly_dead(entry: Masked, before: Mask | None, store: Store) -> BitMap64:
    """The rows that a change masks in a file; `before` is the mask in the change's base."""
    if entry.positions is not None:
        return BitMap64.deserialize(entry.positions)
    return masked_positions(entry.mask, store) - masked_positions(before, store)


def told_mask(
    entry: Masked, told: str | Mapping[str, Any], rows: int | None, before: Mask | None, store: Store
) -> tuple[Masked, int]:
    """The file's entry with the mask of a commit request (`masked` in docs/architecture.md), and its newly dead rows.

    A mask that tasks have stored is not read: they have united it with `before`, and counted.
    """
    known = before.cardinality if before is not None else 0
    if isinstance(told, str):
        positions = _decoded(entry.path, told)
        overlap = positions & masked_positions(before, store) if known and positions else None
        _require_fit(entry.path, not overlap, positions.max() if positions else -1, rows, known)
        return replace(entry, positions=positions.serialize()), len(positions)
    count, cardinality = int(told["rows"]), int(told["cardinality"])
    _require_fit(entry.path, 0 < count == cardinality - known, int(told["last"]), rows, known)
    url = join(store.url, told["path"])
    mask = Mask(cardinality, url=url, offset=int(told["offset"]), length=int(told["length"]))
    return replace(entry, mask=mask), count


def _decoded(path: str, encoded: str) -> BitMap64:
    try:
        return BitMap64.deserialize(base64.b64decode(encoded, validate=True))
    except (binascii.Error, ValueError) as error:
        raise InvalidInputError(
            f"the dead rows of {path} cannot be read",
            cause=str(error),
            remedy="this is a defect of the caller; report it",
        ) from error


def _require_fit(path: str, disjoint: bool, last: int, rows: int | None, known: int) -> None:
    if not disjoint or (rows is not None and last >= rows):
        raise InvalidInputError(
            f"the dead rows of {path} do not fit the file",
            cause=f"it has {rows} rows, {known} of them dead already",
            remedy="this is a defect of the caller; report it with the statement",
            file=path,
        )


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
