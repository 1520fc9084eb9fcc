"""How large Spark takes rows to be, from their types alone; `join_sides` asks, to know what Spark would broadcast.

`LakeScan.estimateStatistics` says the same to Spark.
"""

from __future__ import annotations

from lakemend.schema import DataType, Struct, decimal_of

_ROW = 8  # for the row itself
_SIZES = {
    "boolean": 1,
    "byte": 1,
    "short": 2,
    "integer": 4,
    "long": 8,
    "float": 4,
    "double": 8,
    "date": 4,
    "timestamp": 8,
    "timestamp_ntz": 8,
    "binary": 100,
    "void": 1,
    "variant": 2048,
}
_TEXT = 20  # a string, whatever its collation
_LONG_DECIMAL = 18  # digits that a long has room for


def row_bytes(schema: Struct) -> int:
    return _ROW + _bytes(schema)


def _bytes(type: DataType) -> int:
    if isinstance(type, str):
        decimal = decimal_of(type)
        if decimal is not None:
            return 8 if decimal[0] <= _LONG_DECIMAL else 16
        return _SIZES.get(type, _TEXT)
    if type["type"] == "struct":
        return sum(_bytes(field["type"]) for field in type["fields"])
    if type["type"] == "array":
        return _bytes(type["elementType"])
    return _bytes(type["keyType"]) + _bytes(type["valueType"])
