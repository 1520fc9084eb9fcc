"""The rows that a statement masks.

`brain/leaving.py` reads here what a commit request says of them, and `brain/commit.py` compares it with what winners
masked meanwhile. `formats/masks.py` reads masks.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from pyroaring import BitMap64

from lakemend.errors import InvalidInputError
from lakemend.formats.format import Mask, Masked
from lakemend.formats.masks import masked_positions
from lakemend.locations import join
from lakemend.storage import Store


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
