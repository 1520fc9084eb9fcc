"""Values as the rows of a result have them."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

import orjson


def time_of(millis: int | None) -> str | None:
    """Milliseconds since the epoch as the connector reads times."""
    if millis is None:
        return None
    try:
        return datetime.fromtimestamp(millis / 1000, UTC).isoformat(timespec="milliseconds")
    except (OverflowError, ValueError, OSError):
        return None  # whatever the log says


def texts(values: Mapping[str, Any]) -> dict[str, str | None]:
    """What is not a text as its JSON."""
    return {name: value if value is None or isinstance(value, str) else _json(value) for name, value in values.items()}


def _json(value: Any) -> str:
    return orjson.dumps(value, default=str, option=orjson.OPT_NON_STR_KEYS).decode()
