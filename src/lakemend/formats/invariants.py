"""What tables from before there were CHECKs ask of a column: JSON in the metadata of the field."""

from __future__ import annotations

from typing import Any

import orjson


def expression(text: Any) -> str:
    """The SQL of an invariant, or whatever stands in its place: Spark refuses to write by what is no expression."""
    try:
        return str(orjson.loads(text)["expression"]["expression"])
    except (ValueError, KeyError, TypeError):
        return str(text or "")
