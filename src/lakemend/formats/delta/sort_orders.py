"""By what the rows of a data file are sorted, as a tag of its add action.

`draft.py` writes the tag for files that were written in an order, `snapshot.py` reads it. It names columns as the file
does, so that it outlives a rename. It belongs to one file: engines that write others do not copy tags they do not know.
"""

from __future__ import annotations

from itertools import takewhile

import orjson
import pyarrow as pa
import pyarrow.compute as pc

from lakemend.formats.format import Metadata, NewFile

TAG = "lakemend.sortedBy"


def tags_of(file: NewFile) -> dict[str, str | None] | None:
    return {TAG: orjson.dumps(file.sorted_by).decode()} if file.sorted_by else None


def sort_orders(tags: pa.ChunkedArray, rows: pa.Array | None, metadata: Metadata) -> list[list[str] | None] | None:
    """See `format.Snapshot.sort_orders`."""
    if tags.null_count == len(tags):
        return None
    texts = pc.map_lookup(tags if rows is None else tags.take(rows), pa.scalar(TAG), "first")
    if texts.null_count == len(texts):
        return None
    fields = zip(metadata.schema["fields"], metadata.physical["fields"], strict=True)
    # Structs compare field by field, and their fields may have come, gone and moved since the file was written.
    logical = {physical["name"]: field["name"] for field, physical in fields if isinstance(field["type"], str)}
    known = {text: _named(text, logical) for text in texts.drop_null().unique().to_pylist()}
    return [known.get(text) for text in texts.to_pylist()] if any(known.values()) else None


def _named(text: str, logical: dict[str, str]) -> list[str] | None:
    """The tag's columns, up to one that tells nothing of the order any more; None if there are none."""
    try:
        names = orjson.loads(text)
    except orjson.JSONDecodeError:
        return None
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        return None
    return [logical[name] for name in takewhile(logical.__contains__, names)] or None
