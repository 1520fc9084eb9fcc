"""Which side of `left = right` Spark casts when the types differ.

`join_advice` asks: rows that are grouped by a column are not grouped by a cast of it, so that side is shuffled.
"""

from __future__ import annotations

from lakemend.schema import DataType, decimal_of

_INTEGRAL = ("byte", "short", "integer", "long")
_DIGITS = {"byte": 3, "short": 5, "integer": 10, "long": 20}
_FRACTIONAL = ("float", "double")
_TIMES = ("date", "timestamp_ntz", "timestamp")
_MAX_PRECISION = 38


def casts(left: DataType, right: DataType, ansi: bool) -> tuple[bool, bool]:
    """Whether the left and the right side are cast; both where it is not known how Spark compares the types."""
    common = left if left == right else _common(left, right, ansi)
    return (True, True) if common is None else (left != common, right != common)


def _common(left: DataType, right: DataType, ansi: bool) -> DataType | None:
    for ladder in (_INTEGRAL, _TIMES):
        if left in ladder and right in ladder:
            return max(left, right, key=lambda type: ladder.index(str(type)))
    one, other = _as_decimal(left), _as_decimal(right)
    if one and other:
        scale = max(one[1], other[1])
        digits = max(one[0] - one[1], other[0] - other[1])
        return f"decimal({digits + scale},{scale})" if digits + scale <= _MAX_PRECISION else None
    for text, type in ((left, right), (right, left)):
        if text == "string":
            return _beside_text(type, ansi)
    numbers = [type in _FRACTIONAL or _as_decimal(type) is not None for type in (left, right)]
    return "double" if all(numbers) else None


def _beside_text(type: DataType, ansi: bool) -> DataType | None:
    """What a string and a value of the type become."""
    if type in _INTEGRAL:
        return "long" if ansi else type
    if type in _TIMES or type == "boolean":
        return type
    return "double" if type in _FRACTIONAL or decimal_of(type) else None


def _as_decimal(type: DataType) -> tuple[int, int] | None:
    """Precision and scale that hold every value of an integral or decimal type."""
    if isinstance(type, str) and type in _DIGITS:
        return _DIGITS[type], 0
    return decimal_of(type)
