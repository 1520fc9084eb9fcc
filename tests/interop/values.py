"""Rows as sorted texts of `(column, value)` pairs, which compare whatever engine they come from.

Imported by the processes of other engines too (`delta_spark/server.py`): nothing but PySpark is needed.
"""

from __future__ import annotations

import datetime as dt
import math
from typing import Any

from pyspark.sql import DataFrame, Row

Rows = list[str]


def of_spark(df: DataFrame) -> Rows:
    return sorted(repr([(k, plain(row[k])) for k in sorted(df.columns)]) for row in df.collect())


def plain(value: Any) -> Any:
    if isinstance(value, Row):
        return sorted((k, plain(v)) for k, v in value.asDict().items())
    if isinstance(value, dict):
        return sorted((k, plain(v)) for k, v in value.items())
    if isinstance(value, list | tuple):
        # Arrow's maps are lists of pairs, Spark's are dicts.
        pairs = bool(value) and all(isinstance(v, tuple) and len(v) == 2 for v in value)
        return sorted((plain(a), plain(b)) for a, b in value) if pairs else [plain(v) for v in value]
    if isinstance(value, bytearray | bytes):
        return bytes(value).hex()
    if isinstance(value, dt.datetime):
        return value.astimezone(dt.UTC).replace(tzinfo=None).isoformat() if value.tzinfo else value.isoformat()
    if isinstance(value, float) and math.isnan(value):
        return "NaN"
    return value
