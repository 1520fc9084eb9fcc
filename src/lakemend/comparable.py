"""Values that have no order, or cannot be compared, as ones that can: maps and variants, at any depth.

Where rows are ranked, grouped or held against each other, `one_row_each.py` and the strategies ask, as SQL text.
"""

from __future__ import annotations

from pyspark.sql import types as T

_LOCAL = "__lakemend_y"


def comparable(value: str, type: T.DataType, depth: int = 0) -> str:
    """Equals another one where `value` does, and has an order."""
    if has_order(type):
        return value
    inner = f"{_LOCAL}{depth}"
    if isinstance(type, T.MapType):
        pair = T.StructType([T.StructField("key", type.keyType), T.StructField("value", type.valueType)])
        return f"array_sort(transform(map_entries({value}), {inner} -> {comparable(inner, pair, depth + 1)}))"
    if isinstance(type, T.ArrayType):
        return f"transform({value}, {inner} -> {comparable(inner, type.elementType, depth + 1)})"
    if isinstance(type, T.StructType):
        parts = ", ".join(comparable(f"({value}).{quoted(f.name)}", f.dataType, depth) for f in type.fields)
        return f"CASE WHEN ({value}) IS NOT NULL THEN struct({parts}) END"
    if isinstance(type, T.VariantType):
        # 1 and 1.0 are shown alike, and so are a date and its text.
        return f"CASE WHEN ({value}) IS NOT NULL THEN struct(to_json({value}), schema_of_variant({value})) END"
    return f"CAST({value} AS STRING)"


def has_order(type: T.DataType) -> bool:
    if isinstance(type, T.MapType | T.VariantType | T.CalendarIntervalType):
        return False
    if isinstance(type, T.ArrayType):
        return has_order(type.elementType)
    return not isinstance(type, T.StructType) or all(has_order(field.dataType) for field in type.fields)


def quoted(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"
