"""By what the rows of a data file are sorted, as a tag of its add action.

`draft.py` writes the tag for files that were written in an order, `snapshot.py` reads it. It names columns as the file
does, so that it outlives a rename. It belongs to one file: engines that write others do not copy tags they do not know.
"""

from __future__ import annotations

from typing import Any

import orjson
import pyarrow as pa

from lakemend.formats.format import Metadata, NewFile

TAG = "lakemend.sortedBy"


def tags_of(file: NewFile) -> dict[str, str | None] | None:
    return {TAG: orjson.dumps(file.sorted_by).decode()} if file.sorted_by else None


def sort_orders(tags: pa.ChunkedArray, rows: pa.Array | None, metadata: Metadata) -> list[list[str] | None] | None:
    """See `format.Snapshot.sort_orders`."""
    if tags.null_count == len(tags):
        return None
    fields = zip(metadata.schema["fields"], metadata.physical["fields"], strict=True)
    logical = {physical["name"]: field["name"] for field, physical in fields}
    known: dict[Any, list[str] | None] = {None: None}
    orders = []
    for entry in (tags if rows is None else tags.take(rows)).to_pylist():
        text = None if entry is None else dict(entry).get(TAG)
        if text is not None and text not in known:
            known[text] = _named(text, logical)
        orders.append(known[text])
    return orders if any(orders) else None


def _named(text: str, logical: dict[str, str]) -> list[str] | None:
    """The tag's columns; None if it is not one of ours, or names what the table no longer has."""
    try:
        names = orjson.loads(text)
    except orjson.JSONDecodeError:
        return None
    if not isinstance(names, list) or not names or not all(isinstance(n, str) and n in logical for n in names):
        return None
    return [logical[name] for name in names]
